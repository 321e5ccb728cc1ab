//! Any bytes as certificate chain, key, bundle and revocation list: used or refused, never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_tls::material::{Certificate, ClientTrust, client_identity, describe, inspect};

fuzz_target!(|bytes: &[u8]| {
    let _ = inspect(bytes);
    let _ = describe(bytes);
    if let Some(identity) = client_identity(bytes) {
        assert!(!identity.subject.contains(char::is_control));
        assert!(!identity.common_name.contains(char::is_control));
    }
    if let Ok(certificate) = Certificate::from_pem(bytes, bytes) {
        let _ = certificate.findings(Default::default());
        let _ = certificate.covers("shop.example");
    }
    let _ = ClientTrust::from_pem(bytes, &[bytes.to_vec()]);
});
