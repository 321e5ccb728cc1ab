//! Certificates whose signatures cost more than those of the certificates that they replaced.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tollgate_terms::CertificateKind;
use tollgate_tls::Certificate;

use crate::live::{CertificateSummary, Live};

/// A site whose cheapest certificate costs more per full handshake than before.
#[derive(Clone, Debug, PartialEq)]
pub struct DearerCertificate {
    /// The site's label.
    pub site: Arc<str>,
    /// The cheapest kind before.
    pub before: CertificateKind,
    /// The cheapest kind now.
    pub after: CertificateKind,
    /// CPU microseconds of one signature before, measured here; `None` when signing failed.
    pub before_micros: Option<f64>,
    /// CPU microseconds of one signature now.
    pub after_micros: Option<f64>,
}

/// One sentence for the operator, with what a signature took before and takes now.
impl fmt::Display for DearerCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "site {}: its cheapest certificate was {} and is now {}; ",
            self.site, self.before, self.after
        )?;
        if let (Some(before), Some(after)) = (self.before_micros, self.after_micros) {
            write!(
                f,
                "one signature took {before:.0} µs and now takes {after:.0} µs (measured here just now); "
            )?;
        }
        f.write_str(
            "every full handshake costs that much more CPU from now on (certbot: --key-type ecdsa)",
        )
    }
}

/// Sites whose best certificate costs more per handshake than before: ECDSA to RSA, or a longer RSA key.
///
/// Signs a few times to find out how much more; that takes a few milliseconds.
pub fn dearer_certificates(old: &Live, new: &Live) -> Vec<DearerCertificate> {
    new.sites
        .iter()
        .filter_map(|site| {
            let (before, after) = (cheapest(old, &site.label)?, cheapest(new, &site.label)?);
            (rank(after.kind) > rank(before.kind)).then(|| DearerCertificate {
                site: Arc::clone(&site.label),
                before: before.kind,
                after: after.kind,
                before_micros: signature_micros(&before.certificate),
                after_micros: signature_micros(&after.certificate),
            })
        })
        .collect()
}

/// Whether the site of `found` still has no certificate as cheap as the one that it had.
pub fn still_dearer(found: &DearerCertificate, live: &Live) -> bool {
    cheapest(live, &found.site).is_some_and(|now| rank(now.kind) > rank(found.before))
}

fn cheapest<'a>(live: &'a Live, label: &str) -> Option<&'a CertificateSummary> {
    let site = live.sites.iter().find(|site| *site.label == *label)?;
    site.certificates
        .iter()
        .min_by_key(|certificate| rank(certificate.kind))
}

/// The quickest of a few signatures: three at least, nine, or as many as fit into three milliseconds.
///
/// Each does the same work; what makes one slower than another is a neighbour on the core.
fn signature_micros(certificate: &Certificate) -> Option<f64> {
    const ENOUGH: Duration = Duration::from_millis(3);
    let began = Instant::now();
    let mut quickest: Option<Duration> = None;
    for number in 0..9 {
        if number >= 3 && began.elapsed() > ENOUGH {
            break;
        }
        let start = Instant::now();
        if !certificate.sign_for_nothing() {
            return None;
        }
        let took = start.elapsed();
        quickest = Some(quickest.map_or(took, |best| best.min(took)));
    }
    quickest.map(|took| took.as_secs_f64() * 1e6)
}

/// Order of cost of a signature; RSA grows with the cube of its length.
fn rank(kind: CertificateKind) -> u16 {
    match kind {
        CertificateKind::EcdsaP256 | CertificateKind::Ed25519 => 0,
        CertificateKind::EcdsaP384 => 1,
        CertificateKind::Rsa(bits) => bits.max(2),
    }
}
