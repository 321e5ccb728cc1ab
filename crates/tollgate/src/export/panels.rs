//! What the dashboard shows: each panel with its queries.

use tollgate_meter::alarms::{Alarm, AlarmSettings};

/// The instances that were chosen.
const CHOSEN: &str = "instance=~\"$instance\"";

/// Marks on every graph: configurations by the time at which they took effect, and alarms that changed.
pub const ANNOTATIONS: [&str; 2] = [
    "tollgate_config_since_timestamp_seconds{instance=~\"$instance\"} * 1000\n\
     * on (instance, job) group_left (hash) tollgate_config_info{instance=~\"$instance\"}",
    "tollgate_alarm{instance=~\"$instance\"} > 0",
];

/// How a panel is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Draw {
    /// Curves.
    Lines,
    /// Curves on top of each other.
    Stack,
    /// The last value, large.
    Number,
    /// One line per series.
    Table,
}

/// A query with what its curves are called.
#[derive(Clone, Debug)]
pub struct Query {
    /// PromQL.
    pub expression: String,
    /// With labels in double braces.
    pub legend: &'static str,
}

/// A panel.
#[derive(Clone, Debug)]
pub struct Panel {
    /// Above it.
    pub title: &'static str,
    /// What it shows and how to read it.
    pub about: &'static str,
    /// How it is drawn.
    pub draw: Draw,
    /// Grafana's name of the unit.
    pub unit: &'static str,
    /// Width and height in the grid, which is 24 wide.
    pub size: (u32, u32),
    /// Whether the axis begins at zero.
    pub from_zero: bool,
    /// From where on an alarm fires.
    pub threshold: Option<f64>,
    /// What is asked.
    pub queries: Vec<Query>,
}

impl Panel {
    fn new(title: &'static str, draw: Draw, unit: &'static str, about: &'static str) -> Self {
        Self {
            title,
            about,
            draw,
            unit,
            size: match draw {
                Draw::Lines | Draw::Stack => (12, 8),
                Draw::Number => (4, 4),
                Draw::Table => (12, 7),
            },
            from_zero: true,
            threshold: None,
            queries: Vec::new(),
        }
    }

    /// `@` in the expression stands for the chosen instances, `~` for the interval of a rate.
    fn ask(mut self, expression: &str, legend: &'static str) -> Self {
        self.queries.push(Query {
            expression: expression
                .replace('@', CHOSEN)
                .replace("=~", "\u{1}")
                .replace('~', "$__rate_interval")
                .replace('\u{1}', "=~"),
            legend,
        });
        self
    }

    fn sized(mut self, width: u32, height: u32) -> Self {
        self.size = (width, height);
        self
    }

    fn mark(mut self, threshold: Option<f64>) -> Self {
        self.threshold = threshold;
        self
    }
}

/// Every row with its panels.
pub fn rows(settings: &AlarmSettings) -> Vec<(&'static str, Vec<Panel>)> {
    vec![
        ("The four to look at first", four(settings)),
        ("The six phases", [phases(), over_time()].concat()),
        ("The price of a miss", price()),
        ("Clients and resumption", clients()),
        ("Sites and workers", sites()),
        ("Certificates and alarms", certificates()),
    ]
}

fn four(settings: &AlarmSettings) -> Vec<Panel> {
    vec![
        Panel::new(
            "Full handshakes",
            Draw::Lines,
            "ops",
            "Full and resumed handshakes per second. Cost follows the full ones.",
        )
        .mark(settings.threshold(Alarm::FreshRateHigh))
        .ask("sum by (instance) (rate(tollgate_handshakes_total{@,kind!=\"resumed\"}[~]))", "full {{instance}}")
        .ask("sum by (instance) (rate(tollgate_handshakes_total{@,kind=\"resumed\"}[~]))", "resumed {{instance}}"),
        Panel::new(
            "Hit rate, and misses by reason",
            Draw::Lines,
            "percentunit",
            "Resumed over all handshakes; below it, the share of handshakes that missed, by reason.",
        )
        .mark(settings.threshold(Alarm::HitRateLow))
        .ask(
            "sum(rate(tollgate_handshakes_total{@,kind=\"resumed\"}[~])) / sum(rate(tollgate_handshakes_total{@}[~]))",
            "hit rate",
        )
        .ask(
            "sum by (reason) (rate(tollgate_resumption_misses_total{@}[~])) / on () group_left () sum(rate(tollgate_handshakes_total{@}[~]))",
            "missed: {{reason}}",
        ),
        Panel::new(
            "CPU by phase",
            Draw::Stack,
            "none",
            "Cores, by what they were used for; not_tls is kernel, HTTP and relaying.",
        )
        .ask("sum by (phase) (rate(tollgate_cpu_seconds_total{@}[~]))", "{{phase}}"),
        Panel::new(
            "Cipher suites",
            Draw::Stack,
            "ops",
            "Handshakes per second by suite.",
        )
        .ask("sum by (suite) (rate(tollgate_handshakes_total{@}[~]))", "{{suite}}"),
        Panel::new("Versions", Draw::Stack, "ops", "Handshakes per second by version.")
            .sized(8, 6)
            .ask("sum by (version) (rate(tollgate_handshakes_total{@}[~]))", "{{version}}"),
        Panel::new("Groups", Draw::Stack, "ops", "Handshakes per second by named group.")
            .sized(8, 6)
            .ask("sum by (group) (rate(tollgate_handshakes_total{@}[~]))", "{{group}}"),
        Panel::new(
            "Certificates",
            Draw::Stack,
            "ops",
            "Full handshakes per second by kind of certificate.",
        )
        .sized(8, 6)
        .ask(
            "sum by (certificate) (rate(tollgate_handshakes_total{@,kind!=\"resumed\"}[~]))",
            "{{certificate}}",
        ),
    ]
}

fn phases() -> Vec<Panel> {
    let number = |title, unit, about| Panel::new(title, Draw::Number, unit, about);
    vec![
        number(
            "1 asymmetric, per full handshake",
            "s",
            "CPU of key exchange and signature of a full handshake.",
        )
        .ask(
            "sum(rate(tollgate_handshake_cpu_seconds_total{@,phase=\"asymmetric\",kind!=\"resumed\"}[~])) / sum(rate(tollgate_handshakes_total{@,kind!=\"resumed\"}[~]))",
            "per full handshake",
        ),
        number(
            "2 derivation, per handshake",
            "s",
            "CPU of all else in a handshake: key schedule, transcript, parsing, tickets.",
        )
        .ask(
            "sum(rate(tollgate_handshake_cpu_seconds_total{@,phase=\"derivation\"}[~])) / sum(rate(tollgate_handshakes_total{@}[~]))",
            "per handshake",
        ),
        number(
            "3 records, per byte",
            "ns",
            "CPU of opening and sealing, in nanoseconds per byte.",
        )
        .ask(
            "1e9 * sum(rate(tollgate_record_cpu_seconds_total{@}[~])) / sum(rate(tollgate_record_bytes_total{@}[~]))",
            "per byte",
        ),
        number(
            "4 handshake memory",
            "bytes",
            "Held by handshakes in flight.",
        )
        .ask("sum(tollgate_connection_memory_bytes{@,mode=\"handshake\"})", "in flight"),
        number(
            "5 connection memory, each",
            "bytes",
            "Held by an established connection, on average.",
        )
        .ask(
            "sum(tollgate_connection_memory_bytes{@,mode=~\"http|tcp\"}) / sum(tollgate_connections{@,mode=~\"http|tcp\"})",
            "per connection",
        ),
        number(
            "6 resumption, per look-up",
            "s",
            "CPU of opening a ticket or finding a session.",
        )
        .ask(
            "sum(rate(tollgate_resumption_look_up_seconds_total{@}[~])) / sum(rate(tollgate_resumption_look_ups_total{@}[~]))",
            "per look-up",
        ),
    ]
}

/// The phases over time.
fn over_time() -> Vec<Panel> {
    vec![
        Panel::new(
            "Memory of connections",
            Draw::Stack,
            "bytes",
            "Phases 4 and 5, by what connections are used for, and the session cache of phase 6.",
        )
        .sized(12, 6)
        .ask("sum by (mode) (tollgate_connection_memory_bytes{@})", "{{mode}}")
        .ask("sum(tollgate_session_memory_bytes{@})", "session cache"),
        Panel::new(
            "CPU of a handshake by kind of certificate",
            Draw::Lines,
            "s",
            "Both phases; resumed handshakes are the series none.",
        )
        .sized(12, 6)
        .ask(
            "sum by (version, certificate) (rate(tollgate_handshake_cpu_seconds_total{@}[~])) / sum by (version, certificate) (rate(tollgate_handshakes_total{@}[~]))",
            "{{version}} {{certificate}}",
        ),
    ]
}

fn price() -> Vec<Panel> {
    let number = |title, about| Panel::new(title, Draw::Number, "none", about).sized(8, 4);
    vec![
        Panel::new(
            "Cores needed",
            Draw::Lines,
            "none",
            "Cores now, at 50 % and at 0 % hits, beside those that there are. When the line of 0 % crosses that of the cores there are, a cold start would not do.",
        )
        .sized(24, 8)
        .ask("sum(rate(tollgate_worker_cpu_seconds_total{@}[~]))", "now")
        .ask("sum(tollgate_cores_at_half_hits{@})", "at 50 % hits")
        .ask("sum(tollgate_cores_at_zero_hits{@})", "at 0 % hits")
        .ask("sum(tollgate_cores{@})", "there are"),
        number("Saved by resumption", "Cores that would be needed on top if nothing resumed.")
            .ask("sum(tollgate_saved_cores{@})", "cores"),
        number("Headroom", "Cores that are not used. Scale by this, not by CPU: it is about capacity.")
            .ask("sum(tollgate_headroom_cores{@})", "cores"),
        Panel::new(
            "Ledger against the kernel",
            Draw::Number,
            "percentunit",
            "CPU that the ledger explains over what the kernel counted.",
        )
        .sized(8, 4)
        .ask("avg(tollgate_ledger_agreement_ratio{@})", "explained"),
    ]
}

fn clients() -> Vec<Panel> {
    let quantiles = |panel: Panel, metric: &str| {
        panel
            .ask(
                &format!("histogram_quantile(0.5, sum by (le) (rate({metric}_bucket{{@}}[~])))"),
                "median",
            )
            .ask(
                &format!("histogram_quantile(0.95, sum by (le) (rate({metric}_bucket{{@}}[~])))"),
                "95 %",
            )
    };
    vec![
        Panel::new(
            "Requests per handshake",
            Draw::Lines,
            "none",
            "When it falls, the same requests cost more handshakes.",
        )
        .sized(8, 7)
        .ask("tollgate_requests_per_handshake{@}", "{{instance}}"),
        quantiles(
            Panel::new("Lifetime of connections", Draw::Lines, "s", "Of those that closed.").sized(8, 7),
            "tollgate_connection_lifetime_seconds",
        ),
        quantiles(
            Panel::new("Age of tickets", Draw::Lines, "s", "Of those that were taken up; the lifetime of tickets must be above it.")
                .sized(8, 7),
            "tollgate_ticket_age_seconds",
        ),
        Panel::new(
            "Tickets of unknown keys",
            Draw::Stack,
            "ops",
            "By the name of the key. One name that stands out is another instance, or this one before a restart.",
        )
        .sized(8, 7)
        .ask("sum by (key) (rate(tollgate_unknown_ticket_keys_total{@}[~]))", "{{key}}"),
        Panel::new("Connections", Draw::Stack, "none", "Open now, by what they are used for.")
            .sized(8, 7)
            .ask("sum by (mode) (tollgate_connections{@})", "{{mode}}"),
        Panel::new("Failed handshakes", Draw::Stack, "ops", "By reason, and by who can act.")
            .sized(8, 7)
            .ask(
                "sum by (reason, culprit) (rate(tollgate_handshake_failures_total{@}[~]))",
                "{{culprit}}: {{reason}}",
            ),
    ]
}

fn sites() -> Vec<Panel> {
    vec![
        Panel::new(
            "Handshake CPU by site",
            Draw::Stack,
            "none",
            "Phases 1 and 2, in cores.",
        )
        .sized(8, 7)
        .ask(
            "sum by (site) (rate(tollgate_handshake_cpu_seconds_total{@}[~]))",
            "{{site}}",
        ),
        Panel::new(
            "Requests by site",
            Draw::Stack,
            "reqps",
            "Answered per second.",
        )
        .sized(8, 7)
        .ask(
            "sum by (site) (rate(tollgate_requests_total{@}[~]))",
            "{{site}}",
        ),
        Panel::new(
            "CPU by worker",
            Draw::Lines,
            "none",
            "In cores; they should be close together.",
        )
        .sized(8, 7)
        .ask(
            "rate(tollgate_worker_cpu_seconds_total{@}[~])",
            "{{instance}} {{worker}}",
        ),
    ]
}

fn certificates() -> Vec<Panel> {
    vec![
        Panel::new(
            "Certificates by days left",
            Draw::Table,
            "d",
            "The one that ends first on top.",
        )
        .ask(
            "sort((tollgate_certificate_expiry_timestamp_seconds{@} - time()) / 86400)",
            "",
        ),
        Panel::new(
            "Alarms",
            Draw::Table,
            "none",
            "1 fires, 0 is quiet; those that fire on top.",
        )
        .ask("sort_desc(tollgate_alarm{@})", ""),
    ]
}
