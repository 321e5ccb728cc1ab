//! Where keys, certificates and bundles come from: files, or memory for the demo.
//!
//! Reading them is the only file access of the data plane, and happens before anything is swapped in.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tollgate_config::{
    Backend, BackendAddress, BackendProtocol, BackendTls, CertificateFiles, ClientCertificates,
    ClientTrust as TrustFiles, Finding, Severity, Site, SiteName, Spanned,
};
use tollgate_terms::UnixTime;
use tollgate_tls::client::{BackendTlsPolicy, ClientSite};
use tollgate_tls::material::{
    Certificate, ClientTrust, MaterialError, MaterialFinding, Severity as MaterialSeverity,
};
use tollgate_tls::{ClientPolicy, Resumption};

mod console;

pub use console::ConsoleFiles;

/// The outcome of preparing something from several inputs.
#[derive(Debug)]
pub enum Loaded<T> {
    /// Prepared; the findings are warnings.
    Ready(T, Vec<Finding>),
    /// At least one finding is an error.
    Refused(Vec<Finding>),
}

/// Reader of everything that a configuration names.
#[derive(Debug)]
pub struct Sources {
    /// Certificates that are not files, by the path that stands for them.
    pub memory: HashMap<PathBuf, Arc<Certificate>>,
    /// Ticket keys and sessions that the sites share.
    pub resumption: Arc<Resumption>,
    /// The time at which validity is judged.
    pub now: UnixTime,
}

impl Sources {
    /// A reader of files alone.
    pub fn files(resumption: Arc<Resumption>, now: UnixTime) -> Self {
        Self {
            memory: HashMap::new(),
            resumption,
            now,
        }
    }

    /// The certificates of a site; `None` when one of them cannot be used, with the finding why.
    pub(crate) fn certificates(
        &self,
        site: &Site,
        findings: &mut Vec<Finding>,
    ) -> Option<Vec<Arc<Certificate>>> {
        let read: Vec<_> = site
            .certificates
            .iter()
            .map(|files| self.certificate(files, site, findings))
            .collect();
        read.into_iter().collect()
    }

    fn certificate(
        &self,
        files: &CertificateFiles,
        site: &Site,
        findings: &mut Vec<Finding>,
    ) -> Option<Arc<Certificate>> {
        if let Some(certificate) = self.memory.get(&files.chain.value) {
            return Some(Arc::clone(certificate));
        }
        let certificate = self.pair(files, findings)?;
        let before = findings
            .iter()
            .filter(|finding| finding.severity == Severity::Error)
            .count();
        findings.extend(
            certificate
                .findings(self.now)
                .into_iter()
                .map(|found| located(found, files)),
        );
        findings.extend(uncovered_names(&certificate, site, files));
        let after = findings
            .iter()
            .filter(|finding| finding.severity == Severity::Error)
            .count();
        (before == after).then(|| Arc::new(certificate))
    }

    fn pair(&self, files: &CertificateFiles, findings: &mut Vec<Finding>) -> Option<Certificate> {
        let chain = read(&files.chain, "certificate chain", findings);
        let key = if files.key.value == files.chain.value {
            chain.clone()
        } else {
            read(&files.key, "private key", findings)
        };
        findings.extend(exposed(&files.key, "private key"));
        match Certificate::from_pem(&chain?, &key?) {
            Ok(certificate) => Some(certificate),
            Err(error) => {
                let place = if is_about_key(&error) {
                    &files.key
                } else {
                    &files.chain
                };
                findings.push(Finding::error(
                    Some(place.span),
                    format!("{}: {error}", place.value.display()),
                ));
                None
            }
        }
    }

    /// What clients are asked for; `None` when the bundle or a list cannot be used.
    pub(crate) fn client_policy(
        &self,
        asked: &ClientCertificates,
        findings: &mut Vec<Finding>,
    ) -> Option<ClientPolicy> {
        Some(match asked {
            ClientCertificates::Off => ClientPolicy::Off,
            ClientCertificates::Optional(files) => {
                ClientPolicy::Optional(Arc::new(trust(files, findings)?))
            }
            ClientCertificates::Required(files) => {
                ClientPolicy::Required(Arc::new(trust(files, findings)?))
            }
        })
    }

    /// TLS towards a backend; `None` when a file of it cannot be used.
    pub(crate) fn backend_tls(
        &self,
        backend: &Backend,
        site: &Site,
        findings: &mut Vec<Finding>,
    ) -> Option<ClientSite> {
        let tls = backend.tls.as_ref()?;
        let ca = match &tls.ca {
            None => None,
            Some(path) => Some(read(path, "CA bundle", findings)?),
        };
        let certificate = match &tls.certificate {
            None => None,
            Some(files) => Some(self.certificate(files, &nameless(site), findings)?),
        };
        let policy = BackendTlsPolicy {
            verify: tls.verify,
            name: backend_name(backend, tls),
            ca,
            certificate,
            alpn: match backend.protocol {
                BackendProtocol::Bytes => Vec::new(),
                BackendProtocol::Http1 => vec!["http/1.1".to_owned()],
                BackendProtocol::Http2 => vec!["h2".to_owned()],
            },
        };
        match ClientSite::new(policy) {
            Ok(client) => Some(client),
            Err(error) => {
                let span = tls.ca.as_ref().map_or(backend.address.span, |ca| ca.span);
                findings.push(Finding::error(Some(span), error.to_string()));
                None
            }
        }
    }

    /// The files that a backend's TLS is made from; changes when one of them does.
    pub(crate) fn generation(&self, tls: &BackendTls) -> String {
        let certificate = tls
            .certificate
            .iter()
            .flat_map(|files| [&files.chain, &files.key]);
        tls.ca
            .iter()
            .chain(certificate)
            .map(|path| format!("{} {:?};", path.value.display(), stamp(&path.value)))
            .collect()
    }
}

/// Whether a finding is to point at the key rather than at the chain.
fn is_about_key(error: &MaterialError) -> bool {
    matches!(
        error,
        MaterialError::NoKey { .. }
            | MaterialError::SeveralKeys { .. }
            | MaterialError::EncryptedKey
            | MaterialError::BrokenKey
            | MaterialError::UnsupportedKey { .. }
            | MaterialError::WeakKey { .. }
            | MaterialError::KeyMismatch { .. }
    )
}

/// Length and time of last change; enough to tell that a file was replaced.
fn stamp(path: &Path) -> Option<(u64, i64, i64, u64)> {
    let metadata = fs::metadata(path).ok()?;
    Some((
        metadata.len(),
        metadata.mtime(),
        metadata.mtime_nsec(),
        metadata.ino(),
    ))
}

/// A client certificate need not carry the names of the site that it is used for.
fn nameless(site: &Site) -> Site {
    Site {
        names: Vec::new(),
        ..site.clone()
    }
}

fn backend_name(backend: &Backend, tls: &BackendTls) -> String {
    match (&tls.name, &backend.address.value) {
        (Some(name), _) => name.to_string(),
        (None, BackendAddress::Host(host, _)) => host.clone(),
        (None, BackendAddress::Ip(address)) => address.ip().to_string(),
        (None, BackendAddress::UnixPath(_) | BackendAddress::UnixAbstract(_)) => {
            "localhost".to_owned()
        }
    }
}

fn trust(files: &TrustFiles, findings: &mut Vec<Finding>) -> Option<ClientTrust> {
    let ca = read(&files.ca, "CA bundle", findings);
    let lists: Vec<_> = files
        .crls
        .iter()
        .map(|path| read(path, "revocation list", findings))
        .collect();
    let lists: Option<Vec<Vec<u8>>> = lists.into_iter().collect();
    match ClientTrust::from_pem(&ca?, &lists?) {
        Ok(trust) => Some(trust),
        Err(error) => {
            findings.push(Finding::error(
                Some(files.ca.span),
                format!("{}: {error}", files.ca.value.display()),
            ));
            None
        }
    }
}

fn read(path: &Spanned<PathBuf>, what: &str, findings: &mut Vec<Finding>) -> Option<Vec<u8>> {
    let error = match fs::read(&path.value) {
        Ok(bytes) => return Some(bytes),
        Err(error) => error,
    };
    let file = path.value.display();
    let finding = match error.kind() {
        io::ErrorKind::NotFound => {
            Finding::error(Some(path.span), format!("{what} {file} does not exist"))
                .help("paths are relative to the folder of the configuration file")
        }
        io::ErrorKind::PermissionDenied => Finding::error(
            Some(path.span),
            format!("{what} {file} may not be read by this user"),
        )
        .help("let the user that runs Tollgate read it: chown, or chmod 0640 with its group"),
        io::ErrorKind::IsADirectory => Finding::error(
            Some(path.span),
            format!("{what} {file} is a folder, not a file"),
        ),
        _ => Finding::error(
            Some(path.span),
            format!("{what} {file} cannot be read: {error}"),
        ),
    };
    findings.push(finding);
    None
}

/// A secret that everybody on the machine can read is worth a warning.
fn exposed(path: &Spanned<PathBuf>, what: &str) -> Option<Finding> {
    let mode = fs::metadata(&path.value).ok()?.permissions().mode();
    (mode & 0o004 != 0).then(|| {
        let file = path.value.display();
        Finding::warning(
            Some(path.span),
            format!(
                "{what} {file} can be read by every user (mode {:04o})",
                mode & 0o7777
            ),
        )
        .help(format!("chmod 0600 {file}"))
    })
}

fn located(found: MaterialFinding, files: &CertificateFiles) -> Finding {
    let title = format!("{}: {}", files.chain.value.display(), found.message);
    match found.severity {
        MaterialSeverity::Error => Finding::error(Some(files.chain.span), title),
        MaterialSeverity::Warning => Finding::warning(Some(files.chain.span), title),
    }
}

fn uncovered_names(
    certificate: &Certificate,
    site: &Site,
    files: &CertificateFiles,
) -> Vec<Finding> {
    site.names
        .iter()
        .filter_map(|name| {
            let text = match &name.value {
                SiteName::Exact(name) => name.to_string(),
                SiteName::Wildcard(parent) => format!("*.{parent}"),
            };
            (!certificate.covers(&text)).then(|| {
                let file = files.chain.value.display();
                Finding::warning(
                    Some(name.span),
                    format!("{file} does not cover the name {text}"),
                )
                .help(match certificate.names() {
                    [] => "it has no subject alternative name, and clients look at nothing else"
                        .to_owned(),
                    names => format!("it covers {}", names.join(", ")),
                })
            })
        })
        .collect()
}
