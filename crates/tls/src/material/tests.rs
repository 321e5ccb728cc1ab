#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop at the first surprise"
)]

use super::*;

#[test]
fn every_kind_is_made_and_read_back() {
    for kind in [
        CertificateKind::EcdsaP256,
        CertificateKind::EcdsaP384,
        CertificateKind::Ed25519,
        CertificateKind::Rsa(2048),
    ] {
        let made = Certificate::self_signed(kind, &["localhost", "127.0.0.1"]).unwrap();
        assert_eq!(made.kind(), kind);
        assert_eq!(made.names(), ["localhost", "127.0.0.1"]);
        assert!(made.certified_key().keys_match().is_ok());
    }
}
