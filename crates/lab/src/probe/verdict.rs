//! What to do about what was found: cheapest fix first, and "not worth it" where it is not.
//!
//! Pure: findings come in, an ordered list and a sentence go out.

use serde::Serialize;

/// A change that saves less than this share of a visitor's waiting time is not worth its trouble.
pub const WORTH_IT: f64 = 0.15;

/// What a fix takes, from cheap to dear.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// A line in the server's configuration.
    ConfigurationLine,
    /// Another certificate file.
    CertificateFile,
    /// Something that all nodes must agree on.
    Fleet,
    /// A newer server or library.
    Upgrade,
    /// The application must know of it.
    Application,
}

impl Effort {
    /// A few words for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::ConfigurationLine => "a line in the configuration",
            Self::CertificateFile => "another certificate file",
            Self::Fleet => "all nodes must agree",
            Self::Upgrade => "a newer server or library",
            Self::Application => "the application must take part",
        }
    }
}

/// What a finding is worth.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "worth")]
pub enum Worth {
    /// Something is wrong, whatever it costs: clients fail, will fail, or are less safe than meant.
    Fault,
    /// A visitor waits less.
    Saving {
        /// Waiting time saved.
        saving_seconds: f64,
        /// Share of what this visitor waits for now, from the first SYN to the end of the response; 0 to 1.
        saving_share: f64,
    },
    /// Good to know; its price shows on the server, not here.
    Note,
}

/// One thing that was found, and the way out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// Stable name, such as `no_tls13`.
    pub id: &'static str,
    /// What is so.
    pub what: String,
    /// What to do.
    pub fix: String,
    /// What that takes.
    pub effort: Effort,
    /// What it is worth.
    #[serde(flatten)]
    pub worth: Worth,
}

impl Finding {
    /// Whether somebody should act: a fault, or a saving of [`WORTH_IT`] and more.
    pub fn is_worth_it(&self) -> bool {
        match self.worth {
            Worth::Fault => true,
            Worth::Saving { saving_share, .. } => saving_share >= WORTH_IT,
            Worth::Note => false,
        }
    }
}

/// Findings in the order in which to act: faults, then what is worth it, cheapest first, then the rest.
pub fn ordered(mut findings: Vec<Finding>) -> Vec<Finding> {
    findings.sort_by(|one, other| rank(one).cmp(&rank(other)).then(dearest(one, other)));
    findings
}

fn rank(finding: &Finding) -> (u8, Effort) {
    let class = match (finding.worth, finding.is_worth_it()) {
        (Worth::Fault, _) => 0,
        (_, true) => 1,
        (Worth::Saving { .. }, false) => 2,
        (Worth::Note, _) => 3,
    };
    (class, finding.effort)
}

/// Among equals, what saves most goes first.
fn dearest(one: &Finding, other: &Finding) -> std::cmp::Ordering {
    share(other).total_cmp(&share(one))
}

fn share(finding: &Finding) -> f64 {
    match finding.worth {
        Worth::Saving { saving_share, .. } => saving_share,
        Worth::Fault | Worth::Note => 0.0,
    }
}

/// The verdict in plain words; `findings` must be [`ordered`].
pub fn sentence(findings: &[Finding]) -> String {
    let faults = count(findings, |finding| finding.worth == Worth::Fault);
    let savings = count(findings, |finding| {
        finding.worth != Worth::Fault && finding.is_worth_it()
    });
    let first = findings.first().map_or("", |finding| finding.fix.as_str());
    match (faults, savings) {
        (0, 0) => not_worth_it(findings),
        (0, savings) => format!(
            "Worth it: {} a visitor {:.0} % or more of the waiting time. Begin with: {first}.",
            plural(savings, "change saves", "changes save each"),
            WORTH_IT * 100.0,
        ),
        (faults, 0) => format!(
            "{} to be put right. Begin with: {first}.",
            plural(faults, "fault is", "faults are")
        ),
        (faults, savings) => format!(
            "{} to be put right, and {} a visitor {:.0} % or more of the waiting time. Begin with: {first}.",
            plural(faults, "fault is", "faults are"),
            plural(savings, "change saves", "changes save each"),
            WORTH_IT * 100.0,
        ),
    }
}

fn not_worth_it(findings: &[Finding]) -> String {
    let most = findings.iter().map(share).fold(0.0, f64::max);
    if most > 0.0 {
        return format!(
            "Not worth it: the best of these changes saves a visitor {:.0} % of the waiting time; leave TLS as it is and look elsewhere.",
            most * 100.0
        );
    }
    "Nothing to do: TLS here costs a visitor no more round trips than it must.".into()
}

fn count(findings: &[Finding], mut which: impl FnMut(&Finding) -> bool) -> usize {
    findings.iter().filter(|finding| which(finding)).count()
}

fn plural(count: usize, one: &str, many: &str) -> String {
    match count {
        1 => format!("1 {one}"),
        count => format!("{count} {many}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(id: &'static str, effort: Effort, worth: Worth) -> Finding {
        Finding {
            id,
            what: "something".into(),
            fix: format!("fix {id}"),
            effort,
            worth,
        }
    }

    fn saving(share: f64) -> Worth {
        Worth::Saving {
            saving_seconds: share / 10.0,
            saving_share: share,
        }
    }

    #[test]
    fn faults_go_first_then_what_is_worth_it_cheapest_first() {
        use Effort::{Application, ConfigurationLine, Fleet};
        let findings = ordered(vec![
            finding("note", ConfigurationLine, Worth::Note),
            finding("small", ConfigurationLine, saving(0.05)),
            finding("dear", Application, saving(0.40)),
            finding("fleet", Fleet, saving(0.20)),
            finding("line", ConfigurationLine, saving(0.16)),
            finding("better-line", ConfigurationLine, saving(0.30)),
            finding("fault", Application, Worth::Fault),
        ]);
        let order: Vec<&str> = findings.iter().map(|finding| finding.id).collect();
        assert_eq!(
            order,
            [
                "fault",
                "better-line",
                "line",
                "fleet",
                "dear",
                "small",
                "note"
            ]
        );
    }

    #[test]
    fn fifteen_per_cent_is_worth_it_and_less_is_not() {
        let line = Effort::ConfigurationLine;
        assert!(finding("a", line, saving(0.15)).is_worth_it());
        assert!(!finding("a", line, saving(0.149)).is_worth_it());
        assert!(!finding("a", line, Worth::Note).is_worth_it());
        assert!(finding("a", line, Worth::Fault).is_worth_it());
    }

    #[test]
    fn the_verdict_names_the_first_step_or_says_that_there_is_none() {
        let line = Effort::ConfigurationLine;
        for (findings, expected) in [
            (vec![], "Nothing to do"),
            (vec![finding("a", line, Worth::Note)], "Nothing to do"),
            (
                vec![finding("a", line, saving(0.08))],
                "Not worth it: the best of these changes saves a visitor 8 %",
            ),
            (
                vec![finding("a", line, saving(0.2))],
                "Worth it: 1 change saves a visitor 15 % or more of the waiting time. Begin with: fix a.",
            ),
            (
                vec![finding("a", line, Worth::Fault)],
                "1 fault is to be put right. Begin with: fix a.",
            ),
            (
                vec![
                    finding("a", line, Worth::Fault),
                    finding("b", line, saving(0.5)),
                ],
                "1 fault is to be put right, and 1 change saves",
            ),
        ] {
            let said = sentence(&ordered(findings));
            assert!(said.starts_with(expected), "{said}");
        }
    }

    #[test]
    fn json_carries_the_worth_beside_the_rest() {
        let json = serde_json::to_value(finding("a", Effort::Fleet, saving(0.5))).unwrap();
        assert_eq!(json["worth"], "saving");
        assert_eq!(json["saving_share"], 0.5);
        assert_eq!(json["effort"], "fleet");
    }
}
