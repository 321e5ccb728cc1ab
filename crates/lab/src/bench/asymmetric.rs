//! Phase 1: signatures and key exchange, server and client side apart.
//!
//! RSA key exchange is not among them: it has no forward secrecy, TLS 1.3 does not have it, and no
//! suite with it is spoken here. An RSA certificate signs, and the key comes from one of the groups.

use tollgate_cost::Figure;
use tollgate_terms::{CertificateKind, NamedGroup};
use tollgate_tls::primitives::{KeyExchange, PrimitiveError, SignatureKey, SignatureKind};

use super::steps::Steps;
use super::{Bench, BenchError};

const SIGN: &str = "one signature of the 130 bytes that TLS 1.3 signs, hashing included";
const VERIFY: &str = "one check of such a signature, reading the public key included, as a client does \
                      with every new server";
const SERVER: &str = "the server's key share and the secret, from the client's share";
const CLIENT: &str = "the client's key share, and the secret from the server's share";

/// Measures phase 1.
pub(crate) fn measure(bench: &Bench<'_>) -> Result<Vec<Figure>, BenchError> {
    let all = 3 * SignatureKind::ALL.len() + 2 * KeyExchange::GROUPS.len();
    let mut steps = Steps::new(bench, all);
    let (mut signing, mut verifying) = (Vec::new(), Vec::new());
    for kind in SignatureKind::ALL {
        steps.next(&format!("make a key, {}", label(kind)));
        let key = SignatureKey::generate(kind).map_err(broken)?;
        let [sign, verify] = signatures(bench, &mut steps, &key)?;
        signing.push(sign);
        verifying.push(verify);
    }
    let mut figures = signing;
    figures.append(&mut verifying);
    for group in KeyExchange::GROUPS {
        figures.extend(exchanges(bench, &mut steps, group)?);
    }
    Ok(figures)
}

fn signatures(
    bench: &Bench<'_>,
    steps: &mut Steps<'_>,
    key: &SignatureKey,
) -> Result<[Figure; 2], BenchError> {
    let content = [0x20; SignatureKind::CONTENT_BYTES];
    let signature = key.sign(&content).map_err(broken)?;
    key.verify(&content, &signature).map_err(broken)?;
    let (name, people) = (key.kind().name(), label(key.kind()));
    let scheme = key.kind().scheme();
    steps.next(&format!("sign, {people}"));
    let sign = bench.time(
        format!("sign/{name}"),
        format!("sign, {people}"),
        format!("{SIGN}; {scheme}"),
        || key.sign(&content).map(drop).map_err(broken),
    )?;
    steps.next(&format!("verify, {people}"));
    let verify = bench.time(
        format!("verify/{name}"),
        format!("verify, {people}"),
        format!("{VERIFY}; {scheme}"),
        || key.verify(&content, &signature).map_err(broken),
    )?;
    Ok([sign, verify])
}

fn exchanges(
    bench: &Bench<'_>,
    steps: &mut Steps<'_>,
    group: NamedGroup,
) -> Result<[Figure; 2], BenchError> {
    let exchange = KeyExchange::new(group).map_err(broken)?;
    let client = exchange.start().map_err(broken)?;
    let (share, secret) = exchange.answer(client.share()).map_err(broken)?;
    let hello = client.share().to_vec();
    if exchange.complete(client, &share).map_err(broken)? != secret {
        return Err(BenchError::Broken {
            what: format!("key exchange with {group}"),
            reason: "both ends have different secrets".into(),
        });
    }
    let (name, people) = (group.name().to_ascii_lowercase(), group_label(group));
    steps.next(&format!("key exchange, {people}, server"));
    let server = bench.time(
        format!("key-exchange/{name}/server"),
        format!("key exchange, {people}, server"),
        SERVER,
        || exchange.answer(&hello).map(drop).map_err(broken),
    )?;
    steps.next(&format!("key exchange, {people}, client"));
    let client = bench.time(
        format!("key-exchange/{name}/client"),
        format!("key exchange, {people}, client"),
        CLIENT,
        || {
            let own = exchange.start().map_err(broken)?;
            exchange.complete(own, &share).map(drop).map_err(broken)
        },
    )?;
    Ok([server, client])
}

/// A kind as people write it.
fn label(kind: SignatureKind) -> String {
    match kind {
        SignatureKind::Certificate(kind) => certificate_label(kind),
        SignatureKind::MlDsa44 => "ML-DSA-44".into(),
        SignatureKind::MlDsa65 => "ML-DSA-65".into(),
    }
}

/// A kind of certificate as people write it: `RSA-2048`, `ECDSA P-256`, `Ed25519`.
pub(crate) fn certificate_label(kind: CertificateKind) -> String {
    match kind {
        CertificateKind::EcdsaP256 => "ECDSA P-256".into(),
        CertificateKind::EcdsaP384 => "ECDSA P-384".into(),
        CertificateKind::Ed25519 => "Ed25519".into(),
        CertificateKind::Rsa(bits) => format!("RSA-{bits}"),
    }
}

/// A group as people write it: `X25519`, `P-256`.
pub(crate) fn group_label(group: NamedGroup) -> &'static str {
    match group {
        NamedGroup::X25519 => "X25519",
        NamedGroup::SECP256R1 => "P-256",
        NamedGroup::SECP384R1 => "P-384",
        other => other.name(),
    }
}

/// A primitive that did not do its work.
pub(crate) fn broken(error: PrimitiveError) -> BenchError {
    BenchError::Broken {
        what: error.what,
        reason: error.reason,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at once")]
    use std::cell::RefCell;
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_operation_has_a_figure_of_its_own() {
        let told = RefCell::new(Vec::new());
        let progress = |label: &str, share: f64| told.borrow_mut().push((label.to_owned(), share));
        let bench = Bench::new(Duration::from_millis(1), &progress);
        let figures = measure(&bench).unwrap();
        super::super::steps::assert_sound(&figures);
        let find = |id: &str| {
            let figure = figures.iter().find(|figure| figure.id == id);
            figure.unwrap_or_else(|| panic!("no {id}")).measured.median
        };
        for id in [
            "sign/ml-dsa-44",
            "verify/ed25519",
            "key-exchange/x25519mlkem768/client",
        ] {
            find(id);
        }
        // An order of magnitude that holds on every machine.
        assert!(find("sign/rsa-2048") > 3.0 * find("verify/rsa-2048"));
        assert!(find("sign/rsa-4096") > 2.0 * find("sign/rsa-2048"));
        let told = told.borrow();
        assert!(told.iter().all(|(_, share)| (0.0..=1.0).contains(share)));
        assert!(told.len() > figures.len());
    }
}
