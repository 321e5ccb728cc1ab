//! The files that a question names: roots, a client certificate.

use std::fs;
use std::sync::Arc;

use tollgate_tls::{BackendTlsPolicy, Certificate};

use super::{ProbeError, ProbeOptions};

/// The roots that are trusted unless others are named.
const SYSTEM_ROOTS: &str = "/etc/ssl/certs/ca-certificates.crt";

/// A certificate chain, a key or a bundle of roots is smaller than this.
const MOST_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// Whom to trust and what to show.
///
/// # Errors
/// When a file cannot be read or used.
pub(super) fn policy(
    options: &ProbeOptions,
    alpn: Vec<String>,
) -> Result<BackendTlsPolicy, ProbeError> {
    let ca = match (options.insecure, &options.ca) {
        (true, _) => None,
        (false, Some(path)) => Some(file(path)?),
        (false, None) => Some(file(SYSTEM_ROOTS.as_ref())?),
    };
    let certificate = match &options.client_certificate {
        None => None,
        Some((chain, key)) => Some(Arc::new(Certificate::from_pem(&file(chain)?, &file(key)?)?)),
    };
    Ok(BackendTlsPolicy {
        verify: !options.insecure,
        name: options.name().to_owned(),
        ca,
        certificate,
        alpn,
    })
}

fn file(path: &std::path::Path) -> Result<Vec<u8>, ProbeError> {
    let read = fs::metadata(path).and_then(|metadata| match metadata.len() > MOST_FILE_BYTES {
        true => Err(std::io::ErrorKind::FileTooLarge.into()),
        false => fs::read(path),
    });
    read.map_err(|source| ProbeError::File {
        path: path.display().to_string(),
        source,
    })
}
