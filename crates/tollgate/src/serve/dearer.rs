//! Certificates that a reload made dearer, until the operator takes that back or says that it is meant.
//!
//! Known since this process started; a restart or an upgrade takes the certificates that it finds as they are.

use std::collections::BTreeMap;
use std::sync::Arc;

use tollgate_edge::{DearerCertificate, Live, dearer_certificates, still_dearer};
use tollgate_meter::alarms::SeenDearer;

/// Sites with a dearer certificate than they had, neither taken back nor allowed.
#[derive(Debug, Default)]
pub struct Dearer {
    sites: BTreeMap<Arc<str>, DearerCertificate>,
}

impl Dearer {
    /// Takes in a reload, and answers with lines for the operator. `allowed` says that dearer ones are meant.
    pub fn reloaded(&mut self, old: &Live, new: &Live, allowed: bool) -> String {
        let mut text = String::new();
        let found = dearer_certificates(old, new);
        for dearer in &found {
            text.push_str(&format!("tollgate: warning: {dearer}\n"));
        }
        if allowed {
            self.sites.clear();
            return text;
        }
        self.sites.retain(|_, known| still_dearer(known, new));
        if !found.is_empty() {
            text.push_str(
                "tollgate: warning: the alarm certificate_dearer fires until a reload finds the former kind again; \
                 if it is meant: tollgate reload --allow-dearer-certificate\n",
            );
        }
        for dearer in found {
            let site = Arc::clone(&dearer.site);
            // What it was at first is what it is held against.
            let first = match self.sites.remove(&site) {
                None => dearer,
                Some(known) => DearerCertificate {
                    before: known.before,
                    before_micros: known.before_micros,
                    ..dearer
                },
            };
            self.sites.insert(site, first);
        }
        text
    }

    /// The same for the alarms.
    pub fn seen(&self) -> Vec<SeenDearer> {
        self.sites
            .values()
            .map(|dearer| SeenDearer {
                subject: dearer.site.to_string(),
                sentence: dearer.to_string(),
                before_micros: dearer.before_micros,
                after_micros: dearer.after_micros,
            })
            .collect()
    }
}
