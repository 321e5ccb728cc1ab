//! What the console needs of the files that its section names.

use tollgate_config::{Console, Finding, Severity, Spanned};
use tollgate_terms::TlsVersion;
use tollgate_tls::{ClientPolicy, ServerSite, SitePolicy};
use zeroize::Zeroizing;

use super::{Sources, TrustFiles, located, read, trust};
use std::path::PathBuf;
use std::sync::Arc;

/// Stands for the console in tickets; a site's number is made from its name.
const CONSOLE_ID: u64 = u64::from_be_bytes(*b"console\0");

/// A shorter token could be guessed.
const TOKEN_BYTES: usize = 16;

/// The console's files, read.
pub struct ConsoleFiles {
    /// The token that a visitor must show; not empty.
    pub token: Option<Zeroizing<Vec<u8>>>,
    /// TLS with the console's certificate, asking for a visitor's where an authority is named.
    pub tls: Option<ServerSite>,
}

impl Sources {
    /// Reads the files of `console:`; `None` when one of them cannot be used, with the finding why.
    pub fn console(&self, console: &Console, findings: &mut Vec<Finding>) -> Option<ConsoleFiles> {
        let token = match &console.token_file {
            None => None,
            Some(path) => Some(token(path, findings)?),
        };
        let Some(files) = &console.certificate else {
            return Some(ConsoleFiles { token, tls: None });
        };
        let certificate = self.pair(files, findings)?;
        let found: Vec<Finding> = certificate
            .findings(self.now)
            .into_iter()
            .map(|found| located(found, files))
            .collect();
        let unusable = found
            .iter()
            .any(|finding| finding.severity == Severity::Error);
        findings.extend(found);
        if unusable {
            return None;
        }
        let client = match &console.client_ca {
            None => ClientPolicy::Off,
            Some(ca) => {
                let files = TrustFiles {
                    ca: ca.clone(),
                    crls: Vec::new(),
                };
                ClientPolicy::Required(Arc::new(trust(&files, findings)?))
            }
        };
        let policy = SitePolicy {
            id: CONSOLE_ID,
            certificates: vec![Arc::new(certificate)],
            client,
            min_version: TlsVersion::Tls12,
            groups: Vec::new(),
            suites: Vec::new(),
            alpn: vec!["http/1.1".to_owned()],
        };
        match ServerSite::new(policy, Arc::clone(&self.resumption)) {
            Ok(tls) => Some(ConsoleFiles {
                token,
                tls: Some(tls),
            }),
            Err(error) => {
                findings.push(Finding::error(Some(files.chain.span), error.to_string()));
                None
            }
        }
    }
}

fn token(path: &Spanned<PathBuf>, findings: &mut Vec<Finding>) -> Option<Zeroizing<Vec<u8>>> {
    let bytes = Zeroizing::new(read(path, "token file", findings)?);
    let token = bytes.trim_ascii();
    let file = path.value.display();
    if token.len() < TOKEN_BYTES || token.contains(&b'\n') {
        let title = match token.contains(&b'\n') {
            true => format!("token file {file} has more than one line"),
            false => format!(
                "the token in {file} has {} characters, fewer than {TOKEN_BYTES}",
                token.len()
            ),
        };
        findings.push(
            Finding::error(Some(path.span), title)
                .help(format!("make one: openssl rand -hex 24 > {file}")),
        );
        return None;
    }
    findings.extend(super::exposed(path, "token file"));
    Some(Zeroizing::new(token.to_vec()))
}
