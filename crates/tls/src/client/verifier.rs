//! How a server's certificate and signature are judged, and which scheme it signed with.

use std::cell::Cell;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};

thread_local! {
    /// Scheme of the last server signature seen on this thread. A handshake step is synchronous, so
    /// whoever takes it right after the step knows whose it is.
    static LAST_SCHEME: Cell<Option<SignatureScheme>> = const { Cell::new(None) };
    /// Stapled response of the last server certificate seen on this thread, in the same way.
    static LAST_STAPLE: Cell<Option<Box<[u8]>>> = const { Cell::new(None) };
}

/// The scheme that a server has signed with on this thread since the last call.
pub(super) fn take_scheme() -> Option<SignatureScheme> {
    LAST_SCHEME.take()
}

/// The response that a server has stapled on this thread since the last call.
pub(super) fn take_staple() -> Option<Box<[u8]>> {
    LAST_STAPLE.take()
}

/// Checks chain, name and signature with `inner`, or accepts every certificate when there is none.
///
/// Without a trusted chain a signature proves nothing, so it is not checked either: whoever sits in
/// between would sign with a key of his own.
#[derive(Debug)]
pub(super) struct Verifier {
    /// The real check; `None` accepts everything.
    pub(super) inner: Option<Arc<dyn ServerCertVerifier>>,
    /// Signature schemes that the client says it can verify, in order of preference.
    pub(super) schemes: Vec<SignatureScheme>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        LAST_STAPLE.set((!ocsp_response.is_empty()).then(|| ocsp_response.into()));
        match &self.inner {
            None => Ok(ServerCertVerified::assertion()),
            Some(inner) => {
                inner.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
            }
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        LAST_SCHEME.set(Some(signature.scheme));
        match &self.inner {
            None => Ok(HandshakeSignatureValid::assertion()),
            Some(inner) => inner.verify_tls12_signature(message, certificate, signature),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        LAST_SCHEME.set(Some(signature.scheme));
        match &self.inner {
            None => Ok(HandshakeSignatureValid::assertion()),
            Some(inner) => inner.verify_tls13_signature(message, certificate, signature),
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes.clone()
    }
}
