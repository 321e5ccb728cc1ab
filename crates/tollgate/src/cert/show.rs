//! `tollgate cert show FILE...`

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;
use tollgate_lab::probe::{CertificateReport, Chain, INITIAL_WINDOW_BYTES};
use tollgate_terms::{CertificateKind, UnixTime};
use tollgate_tls::material::{
    Certificate, Description, MaterialError, Severity, chain_der, chain_findings, date, describe,
};
use zeroize::Zeroizing;

use crate::say;
use crate::serve::setup;

/// What a first flight under TLS 1.3 holds beside the chain and the signature, in bytes: ServerHello with the
/// 1,120-byte share of X25519MLKEM768, EncryptedExtensions with ALPN, the frames of Certificate and
/// CertificateVerify, Finished, record headers and tags. With x25519 alone it is 1,088 bytes less.
const FRAME_BYTES: usize = 1_430;

/// What `cert show` takes.
#[derive(Debug, clap::Args)]
pub struct ShowArguments {
    /// PEM chains, combined files with a key, or DER certificates.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// JSON instead of text.
    #[arg(long)]
    json: bool,
}

/// One file.
#[derive(Debug, Serialize)]
struct Shown {
    file: String,
    certificates: Vec<CertificateReport>,
    chain_bytes: usize,
    /// `none`, or `fits`; one that does not fit is a finding.
    key: &'static str,
    first_flight_bytes: usize,
    first_flight_limit_bytes: usize,
    findings: Vec<Found>,
}

#[derive(Debug, Serialize)]
struct Found {
    severity: &'static str,
    code: &'static str,
    message: String,
}

/// Runs the command: 0 when nothing is to be said against the files, 1 with findings, 2 when one cannot be read.
pub fn run(arguments: &ShowArguments) -> ExitCode {
    let now = setup::now();
    let mut shown = Vec::new();
    let mut unreadable = false;
    for file in &arguments.files {
        match examine(file, now) {
            Ok(one) => shown.push(one),
            Err(error) => {
                say::error(&format!("{}: {error}", file.display()));
                unreadable = true;
            }
        }
    }
    match arguments.json {
        true => match serde_json::to_string_pretty(&shown) {
            Ok(text) => say::result(&format!("{text}\n")),
            Err(error) => return say::broke(&error.to_string()),
        },
        false => {
            let texts: Vec<String> = shown.iter().map(|one| one.text(now)).collect();
            say::result(&texts.join("\n"));
        }
    }
    ExitCode::from(match unreadable {
        true => say::WRONG_INPUT,
        false if shown.iter().any(|one| !one.findings.is_empty()) => say::FINDINGS,
        false => 0,
    })
}

fn examine(file: &Path, now: UnixTime) -> Result<Shown, String> {
    let bytes = std::fs::read(file).map(Zeroizing::new);
    let bytes = bytes.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => "does not exist".to_owned(),
        _ => format!("cannot be read: {error}"),
    })?;
    let der = chain_der(&bytes).map_err(|error| error.to_string())?;
    let chain = Chain::of(&der);
    let described: Vec<Description> = der.iter().filter_map(|one| describe(one).ok()).collect();
    let mut findings: Vec<Found> = chain_findings(&described, now)
        .into_iter()
        .map(|finding| Found {
            severity: match finding.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
            },
            code: finding.code,
            message: finding.message,
        })
        .collect();
    let key = key(&bytes, &mut findings);
    let signature = described
        .first()
        .and_then(|leaf| leaf.kind)
        .map_or(0, signature_bytes);
    let flight = chain.bytes + 5 * der.len() + signature + FRAME_BYTES;
    if let Some(advice) = chain.advice(flight) {
        findings.push(Found {
            severity: "warning",
            code: "first_flight",
            message: advice,
        });
    }
    Ok(Shown {
        file: file.display().to_string(),
        chain_bytes: chain.bytes,
        certificates: chain.certificates,
        key,
        first_flight_bytes: flight,
        first_flight_limit_bytes: INITIAL_WINDOW_BYTES,
        findings,
    })
}

/// Whether a key is in the file as well, and is the one of the first certificate.
fn key(bytes: &[u8], findings: &mut Vec<Found>) -> &'static str {
    match Certificate::from_pem(bytes, bytes) {
        Ok(_) => "fits",
        Err(MaterialError::NoKey { .. } | MaterialError::NotPem { .. }) => "none",
        Err(error) => {
            findings.push(Found {
                severity: "error",
                code: "key",
                message: error.to_string(),
            });
            "unusable"
        }
    }
}

/// Bytes of a signature by a key of this kind; of ECDSA, whose length varies by a few, the most common.
fn signature_bytes(kind: CertificateKind) -> usize {
    match kind {
        CertificateKind::Rsa(bits) => usize::from(bits) / 8,
        CertificateKind::EcdsaP256 => 71,
        CertificateKind::EcdsaP384 => 103,
        CertificateKind::Ed25519 => 64,
    }
}

impl Shown {
    fn text(&self, now: UnixTime) -> String {
        let mut text = String::new();
        let key = match self.key {
            "none" => "no key in the file",
            "fits" => "with the key that fits",
            _ => "with a key that cannot be used",
        };
        let many = if self.certificates.len() == 1 {
            ""
        } else {
            "s"
        };
        let _ = writeln!(
            text,
            "{}: {} certificate{many}, {} bytes, {key}",
            self.file,
            self.certificates.len(),
            self.chain_bytes
        );
        for (certificate, position) in self.certificates.iter().zip(1..) {
            one(&mut text, position, certificate, now);
        }
        let fits = match self.first_flight_bytes <= self.first_flight_limit_bytes {
            true => "it fits",
            false => "it does not fit",
        };
        let _ = writeln!(
            text,
            "  first flight  about {} of {} bytes with a key share of X25519MLKEM768, {} with x25519: {fits}",
            self.first_flight_bytes,
            self.first_flight_limit_bytes,
            self.first_flight_bytes - 1_088
        );
        for finding in &self.findings {
            let _ = writeln!(text, "  {}: {}", finding.severity, finding.message);
        }
        text
    }
}

fn one(text: &mut String, position: usize, certificate: &CertificateReport, now: UnixTime) {
    let role = match (certificate.self_issued, certificate.authority) {
        (true, true) => "root",
        (true, false) => "self-signed",
        (false, true) => "authority",
        (false, false) => "end entity",
    };
    let days = (certificate.not_after_seconds as f64 - now.0 as f64) / 86_400.0;
    let rest = certificate
        .bytes
        .saturating_sub(certificate.key_bytes + certificate.signature_bytes);
    let _ = writeln!(
        text,
        "  {position}  {}  ({role}, {})",
        certificate.subject, certificate.key
    );
    if !certificate.names.is_empty() {
        let _ = writeln!(text, "     names   {}", certificate.names.join(", "));
    }
    if !certificate.self_issued {
        let _ = writeln!(text, "     issuer  {}", certificate.issuer);
    }
    let _ = writeln!(
        text,
        "     valid   {} to {} ({days:.0} days left)",
        date(UnixTime(certificate.not_before_seconds)),
        date(UnixTime(certificate.not_after_seconds)),
    );
    let _ = writeln!(
        text,
        "     bytes   {}: key {}, signature {}, names and the rest {rest}",
        certificate.bytes, certificate.key_bytes, certificate.signature_bytes
    );
}
