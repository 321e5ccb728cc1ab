//! What a Tollgate that is driven has counted itself, read from its console.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use super::error::LoadError;
use super::tally::Pair;

/// A console that takes longer is of no use to a run.
const PATIENCE: Duration = Duration::from_secs(5);

/// Metrics are longer than a response head and far shorter than this.
const MAX_METRICS_BYTES: u64 = 16 << 20;

/// How long the server may take to count what it has done.
const SETTLE: Duration = Duration::from_secs(3);

/// A console to ask.
#[derive(Clone, Debug)]
pub(crate) struct Console(String);

impl Console {
    /// From `HOST:PORT` or `http://HOST:PORT/`.
    pub(crate) fn new(text: &str) -> Self {
        let place = text.strip_prefix("http://").unwrap_or(text);
        Self(place.split('/').next().unwrap_or(place).to_owned())
    }

    /// Handshakes that the server has completed so far.
    ///
    /// # Errors
    /// When it does not answer, or not as a Tollgate would.
    pub(crate) async fn handshakes(&self) -> Result<Pair, LoadError> {
        let failed = |reason: String| LoadError::Console {
            console: self.0.clone(),
            reason,
        };
        let metrics = timeout(PATIENCE, self.fetch())
            .await
            .map_err(|_| failed("no answer within 5 s".into()))?
            .map_err(|error| failed(error.to_string()))?;
        if !metrics.contains("# TYPE tollgate_handshakes") {
            return Err(failed("it has no tollgate_handshakes_total".into()));
        }
        Ok(read(&metrics))
    }

    /// The same once they have come to `expected`, or what they are after a while.
    ///
    /// # Errors
    /// As [`Console::handshakes`].
    pub(crate) async fn settled(&self, expected: Pair) -> Result<Pair, LoadError> {
        let deadline = Instant::now() + SETTLE;
        loop {
            let counted = self.handshakes().await?;
            if counted == expected || Instant::now() > deadline {
                return Ok(counted);
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    async fn fetch(&self) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(&self.0).await?;
        let request = format!(
            "GET /metrics HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n",
            self.0
        );
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream
            .take(MAX_METRICS_BYTES)
            .read_to_end(&mut answer)
            .await?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }
}

/// Sums the handshakes in a metrics page over everything but whether they resumed.
fn read(metrics: &str) -> Pair {
    let mut pair = Pair::default();
    for line in metrics.lines() {
        let Some(series) = line.strip_prefix("tollgate_handshakes_total{") else {
            continue;
        };
        let Some((labels, value)) = series.rsplit_once("} ") else {
            continue;
        };
        let count = value
            .split(' ')
            .next()
            .and_then(|value| value.parse::<f64>().ok())
            .unwrap_or(0.0) as u64;
        match labels.contains("kind=\"resumed\"") {
            true => pair.resumed += count,
            false => pair.full += count,
        }
    }
    pair
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handshakes_are_summed_over_sites_and_suites() {
        let text = "# TYPE tollgate_handshakes counter\n\
            tollgate_handshakes_total{site=\"a\",kind=\"full\"} 3\n\
            tollgate_handshakes_total{site=\"a} \",kind=\"full_with_retry\"} 1\n\
            tollgate_handshakes_total{site=\"b\",kind=\"resumed\"} 40\n\
            tollgate_handshakes_total{site=\"c\",kind=\"resumed\"} 2 1700000000\n\
            tollgate_handshake_failures_total{reason=\"x\"} 7\n";
        assert_eq!(
            read(text),
            Pair {
                full: 4,
                resumed: 42
            }
        );
    }

    #[test]
    fn a_console_is_named_with_or_without_its_scheme() {
        for text in [
            "127.0.0.1:9180",
            "http://127.0.0.1:9180",
            "http://127.0.0.1:9180/metrics",
        ] {
            assert_eq!(Console::new(text).0, "127.0.0.1:9180");
        }
    }
}
