//! Types of TLVs, section 2.2 of the specification.

/// `PP2_TYPE_ALPN`.
pub const TLV_ALPN: u8 = 0x01;
/// `PP2_TYPE_AUTHORITY`: the `server_name` of the client.
pub const TLV_AUTHORITY: u8 = 0x02;
/// `PP2_TYPE_CRC32C`.
pub const TLV_CRC32C: u8 = 0x03;
/// `PP2_TYPE_NOOP`: padding.
pub const TLV_NOOP: u8 = 0x04;
/// `PP2_TYPE_UNIQUE_ID`: at most 128 bytes.
pub const TLV_UNIQUE_ID: u8 = 0x05;
/// `PP2_TYPE_SSL`: holds the subtypes below.
pub const TLV_TLS: u8 = 0x20;
/// `PP2_SUBTYPE_SSL_VERSION`.
pub const TLV_TLS_VERSION: u8 = 0x21;
/// `PP2_SUBTYPE_SSL_CN`.
pub const TLV_TLS_COMMON_NAME: u8 = 0x22;
/// `PP2_SUBTYPE_SSL_CIPHER`.
pub const TLV_TLS_SUITE: u8 = 0x23;
/// `PP2_SUBTYPE_SSL_SIG_ALG`: of the certificate that the client was shown.
pub const TLV_TLS_SIGNATURE: u8 = 0x24;
/// `PP2_SUBTYPE_SSL_KEY_ALG`: of the certificate that the client was shown.
pub const TLV_TLS_KEY: u8 = 0x25;

/// `PP2_CLIENT_SSL`: the client connected over TLS.
pub(crate) const CLIENT_TLS: u8 = 0x01;
/// `PP2_CLIENT_CERT_CONN`: it sent a certificate on this connection.
pub(crate) const CLIENT_CERTIFICATE_SENT: u8 = 0x02;
/// `PP2_CLIENT_CERT_SESS`: it sent a certificate at least once in this session.
pub(crate) const CLIENT_CERTIFICATE_IN_SESSION: u8 = 0x04;
