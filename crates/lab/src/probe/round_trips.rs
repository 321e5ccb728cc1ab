//! The ladder of round trips: how often each kind of handshake crosses the line before a response is
//! there, measured over a line that is made longer and counted on it.

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use tollgate_terms::TlsVersion;
use tollgate_tls::client::Intent;

use super::delay::DelayProxy;
use super::paragraph::paragraph;
use super::reach::{reach, resolve};
use super::{
    Connection, EarlyData, EarlyDataOutcome, Endpoint, ProbeError, ProbeOptions, Prober, Request,
};

/// The ladder of one server.
#[derive(Clone, Debug, Serialize)]
pub struct Ladder {
    /// Host and port that were asked for.
    pub target: String,
    /// Where the proxy connected to.
    pub endpoint: String,
    /// Length that was added to the line, there and back.
    pub added_round_trip_seconds: f64,
    /// From the longest way to the shortest.
    pub rungs: Vec<Rung>,
}

/// One kind of connection.
#[derive(Clone, Debug, Serialize)]
pub struct Rung {
    /// Version and kind, such as `TLS 1.3, resumed`.
    pub rung: &'static str,
    /// Round trips that this kind takes when nothing goes wrong, TCP and the request included.
    pub least_round_trips: u32,
    /// What came of it.
    #[serde(flatten)]
    pub climb: Climb,
}

/// What came of one kind of connection.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Climb {
    /// The connection was of this kind.
    Measured {
        /// Round trips counted from the first SYN to the first line of the response.
        round_trips: u32,
        /// Time until TCP was connected.
        connect_seconds: f64,
        /// Time of the handshake.
        handshake_seconds: f64,
        /// Time until the first line of the response.
        request_seconds: f64,
        /// All of it.
        total_seconds: f64,
    },
    /// The server does not do this.
    NotOffered {
        /// What it does instead, and what to do about it.
        reason: String,
    },
    /// The connection failed.
    Failed {
        /// Why.
        reason: String,
    },
}

const FULL_12: &str = "TLS 1.2, full";
const RESUMED_12: &str = "TLS 1.2, resumed";
const FULL_13: &str = "TLS 1.3, full";
const RESUMED_13: &str = "TLS 1.3, resumed";
const EARLY_13: &str = "TLS 1.3, early data";

/// Climbs the ladder of the first endpoint that can be reached, with `rtt` added to the line.
///
/// Asks for `options.request`, or for `GET /` if there is none; profile and ALPN are as in `options`.
///
/// # Errors
/// When the question makes no sense or no endpoint can be reached. A rung that fails says so in its place.
pub async fn climb(options: &ProbeOptions, rtt: Duration) -> Result<Ladder, ProbeError> {
    let endpoint = reachable(options).await?;
    let proxy = DelayProxy::start(endpoint.clone(), rtt / 2)
        .await
        .map_err(|source| ProbeError::Io {
            phase: "the proxy that makes the line longer",
            source,
        })?;
    let climber = Climber {
        options,
        endpoint,
        proxy,
    };
    let mut rungs = Vec::new();
    for (version, full, resumed) in [
        (TlsVersion::Tls12, FULL_12, RESUMED_12),
        (TlsVersion::Tls13, FULL_13, RESUMED_13),
    ] {
        if options.version.is_none_or(|only| only == version) {
            rungs.extend(climber.version(version, full, resumed).await?);
        }
    }
    if options.version != Some(TlsVersion::Tls12) && options.early_data != EarlyData::Off {
        rungs.push(climber.early().await?);
    }
    Ok(Ladder {
        target: format!("{}:{}", options.target.host, options.port()),
        endpoint: climber.endpoint.to_string(),
        added_round_trip_seconds: rtt.as_secs_f64(),
        rungs,
    })
}

struct Climber<'o> {
    options: &'o ProbeOptions,
    endpoint: Endpoint,
    proxy: DelayProxy,
}

impl Climber<'_> {
    /// The full and the resumed rung of a version.
    async fn version(
        &self,
        version: TlsVersion,
        full: &'static str,
        resumed: &'static str,
    ) -> Result<[Rung; 2], ProbeError> {
        let extra = u32::from(version == TlsVersion::Tls12);
        let (full_least, resumed_least) = (3 + extra, 3);
        let prober = Prober::new(self.asking(version, EarlyData::Off)?)?;
        let first = self.measured(&prober, Intent::Full).await;
        let second = match &first {
            Ok(_) => self.measured(&prober, Intent::Resume).await,
            Err(reason) => Err(reason.clone()),
        };
        let full = rung(full, full_least, first.map(|(_, climb)| climb));
        let second = second.map(|(connection, climb)| match connection.kind.is_resumed() {
            true => climb,
            false => not_resumed(version),
        });
        Ok([full, rung(resumed, resumed_least, second)])
    }

    /// The rung of early data, with a ticket from a connection before it.
    async fn early(&self) -> Result<Rung, ProbeError> {
        let early_data = self.options.early_data.clone();
        let prober = Prober::new(self.asking(TlsVersion::Tls13, early_data)?)?;
        let climb = match self.measured(&prober, Intent::Full).await {
            Err(reason) => Err(reason),
            Ok(_) => self.measured(&prober, Intent::Resume).await,
        };
        let climb = climb.map(|(connection, climb)| match no_early_data(&connection) {
            None => climb,
            Some(reason) => Climb::NotOffered { reason },
        });
        Ok(rung(EARLY_13, 2, climb))
    }

    /// One connection through the proxy.
    async fn measured(
        &self,
        prober: &Prober,
        intent: Intent,
    ) -> Result<(Connection, Climb), String> {
        let through = Endpoint::Tcp(self.proxy.address());
        let connection = prober
            .connect(intent, &through)
            .await
            .map_err(|error| error.to_string())?;
        let total = Duration::from_secs_f64(connection.total_time_ms / 1e3);
        let climb = Climb::Measured {
            round_trips: self.proxy.round_trips(total).unwrap_or(0),
            connect_seconds: connection.connect_time_ms / 1e3,
            handshake_seconds: connection.handshake_time_ms / 1e3,
            request_seconds: connection.request_time_ms.unwrap_or(0.0) / 1e3,
            total_seconds: connection.total_time_ms / 1e3,
        };
        Ok((connection, climb))
    }

    fn asking(
        &self,
        version: TlsVersion,
        early_data: EarlyData,
    ) -> Result<ProbeOptions, ProbeError> {
        let mut options = self.options.clone();
        options.version = Some(version);
        options.early_data = early_data;
        options.connect_added = self.proxy.round_trip();
        options.ticket_wait += self.proxy.round_trip();
        if options.request.is_none() {
            options.request = Some(Request::new("GET", "/")?);
        }
        Ok(options)
    }
}

/// The first endpoint that can be connected to.
pub(super) async fn reachable(options: &ProbeOptions) -> Result<Endpoint, ProbeError> {
    let endpoints = match options.endpoints.is_empty() {
        true => resolve(&options.target.host, options.port()).await?,
        false => options.endpoints.clone(),
    };
    Ok(reach(&endpoints, options.timeout).await?.endpoint)
}

fn rung(name: &'static str, least_round_trips: u32, climb: Result<Climb, String>) -> Rung {
    Rung {
        rung: name,
        least_round_trips,
        climb: climb.unwrap_or_else(|reason| Climb::Failed { reason }),
    }
}

/// Why a connection that was to carry early data did not; `None` when the server took it.
pub(super) fn no_early_data(connection: &Connection) -> Option<String> {
    match connection.early_data {
        EarlyDataOutcome::Accepted => None,
        EarlyDataOutcome::NotAccepted => Some(
            "the server allowed it in its ticket and then did not take it: nodes that do not share their replay store, \
             or its limits"
                .into(),
        ),
        EarlyDataOutcome::NotAttempted if connection.kind.is_resumed() => Some(
            "the tickets do not allow it; it pays for requests that may safely be repeated (nginx: ssl_early_data on)"
                .into(),
        ),
        EarlyDataOutcome::NotAttempted => Some("the server does not resume, which early data needs".into()),
    }
}

fn not_resumed(version: TlsVersion) -> Climb {
    let advice = match version {
        TlsVersion::Tls12 => {
            "switch on session tickets or a session cache (nginx: ssl_session_cache shared:tls:10m)"
        }
        TlsVersion::Tls13 => "switch on session tickets (nginx: ssl_session_tickets on)",
    };
    Climb::NotOffered {
        reason: format!(
            "the server made a full handshake of it: {advice}; several nodes behind one address must share their keys"
        ),
    }
}

impl Ladder {
    /// Whether a rung that the server offers failed or took more round trips than it must.
    pub fn has_findings(&self) -> bool {
        self.rungs.iter().any(|rung| match rung.climb {
            Climb::Measured { round_trips, .. } => round_trips > rung.least_round_trips,
            Climb::NotOffered { .. } => false,
            Climb::Failed { .. } => true,
        })
    }
}

impl fmt::Display for Ladder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "Round trips to {} ({}), over a line made {} longer\n",
            self.target,
            self.endpoint,
            milliseconds(self.added_round_trip_seconds)
        )?;
        writeln!(
            f,
            "  {:<21}{:>11}{:>8}{:>12}{:>12}{:>12}{:>12}",
            "", "round trips", "least", "connect", "handshake", "request", "total"
        )?;
        for rung in &self.rungs {
            rung.write(f)?;
        }
        writeln!(
            f,
            "\n  Counted on the line, from the first SYN to the first line of the response. Connect: 1 round trip, added by\n  \
             waiting, because no proxy can delay a SYN; all others really cross the line."
        )
    }
}

impl Rung {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let label = format!("  {:<21}", self.rung);
        let (round_trips, times) = match &self.climb {
            Climb::NotOffered { reason } => {
                return f.write_str(&paragraph(&label, &format!("not offered: {reason}")));
            }
            Climb::Failed { reason } => {
                return f.write_str(&paragraph(&label, &format!("failed: {reason}")));
            }
            Climb::Measured {
                round_trips,
                connect_seconds,
                handshake_seconds,
                request_seconds,
                total_seconds,
            } => (
                *round_trips,
                [
                    connect_seconds,
                    handshake_seconds,
                    request_seconds,
                    total_seconds,
                ],
            ),
        };
        write!(f, "{label}{round_trips:>11}{:>8}", self.least_round_trips)?;
        for seconds in times {
            write!(f, "{:>12}", milliseconds(*seconds))?;
        }
        match round_trips > self.least_round_trips {
            true => writeln!(f, "   more than it must"),
            false => writeln!(f),
        }
    }
}

/// Milliseconds with a tenth, or with a hundredth where that matters.
pub(super) fn milliseconds(seconds: f64) -> String {
    match seconds < 0.01 {
        true => format!("{:.2} ms", seconds * 1e3),
        false => format!("{:.1} ms", seconds * 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(name: &'static str, least: u32, round_trips: u32) -> Rung {
        let climb = Climb::Measured {
            round_trips,
            connect_seconds: 0.1001,
            handshake_seconds: 0.1012,
            request_seconds: 0.1004,
            total_seconds: 0.3017,
        };
        rung(name, least, Ok(climb))
    }

    fn ladder(rungs: Vec<Rung>) -> Ladder {
        Ladder {
            target: "shop.test:443".into(),
            endpoint: "192.0.2.1:443".into(),
            added_round_trip_seconds: 0.1,
            rungs,
        }
    }

    #[test]
    fn a_ladder_shows_counts_and_times_and_what_is_not_offered() {
        let missing = Climb::NotOffered {
            reason: "not here".into(),
        };
        let ladder = ladder(vec![
            measured(FULL_13, 3, 3),
            rung(EARLY_13, 2, Ok(missing)),
        ]);
        let text = ladder.to_string();
        assert!(
            text.contains("  TLS 1.3, full                  3       3    100.1 ms    101.2 ms    100.4 ms    301.7 ms\n"),
            "{text}"
        );
        assert!(text.contains("early data  not offered: not here"), "{text}");
        assert!(!ladder.has_findings());
    }

    #[test]
    fn a_round_trip_too_many_is_a_finding() {
        let ladder = ladder(vec![measured(FULL_13, 3, 4)]);
        assert!(ladder.has_findings());
        assert!(ladder.to_string().contains("more than it must"));
        let json = serde_json::to_value(&ladder).unwrap();
        assert_eq!(json["rungs"][0]["outcome"], "measured");
        assert_eq!(json["rungs"][0]["round_trips"], 4);
    }
}
