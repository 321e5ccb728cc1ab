//! The webhook: somebody else is told when an alarm begins to fire or goes quiet.
//!
//! A POST of one JSON object per change, from a task of its own behind a bounded queue: a receiver that is slow,
//! silent or gone costs a message, never a tick of the parent. Messages name the receiver by host and port, as
//! the path of many receivers is their secret.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tollgate_config::{Finding, Webhook as WebhookConfig};
use tollgate_http::{Asker, Body, Method, Request};
use tollgate_meter::alarms::Change;
use tollgate_tls::{BackendTlsPolicy, Buffers, ClientSite};

use crate::say;

/// Changes that wait for the receiver; more are dropped, with a warning.
const QUEUE: usize = 64;
/// For one attempt, from the look-up of the name to the end of the answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between the first attempt and the second, which is the last.
const PAUSE: Duration = Duration::from_secs(1);
/// Most bytes of an answer; it is read only so that the receiver sees its connection end well.
const MOST_ANSWER: usize = 64 * 1_024;

/// Where changes go, with everything read that it takes.
pub struct Receiver {
    host: String,
    port: u16,
    path: String,
    tls: Option<ClientSite>,
}

impl std::fmt::Debug for Receiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Receiver")
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}

impl Receiver {
    /// Reads the authorities that an `https://` receiver is checked against.
    ///
    /// # Errors
    /// When the bundle cannot be read or holds no certificate.
    pub fn read(config: &WebhookConfig) -> Result<Self, Finding> {
        let tls = match &config.ca {
            None => None,
            Some(ca) => {
                let file = ca.value.display();
                let bytes = std::fs::read(&ca.value).map_err(|error| {
                    Finding::error(
                        Some(ca.span),
                        format!("CA bundle {file} cannot be read: {error}"),
                    )
                    .label("the webhook's receiver is checked against it".into())
                    .help("name the bundle with ca:, or install ca-certificates")
                })?;
                let site = ClientSite::new(BackendTlsPolicy {
                    verify: true,
                    name: config.host.clone(),
                    ca: Some(bytes),
                    certificate: None,
                    alpn: vec!["http/1.1".to_owned()],
                });
                Some(site.map_err(|error| Finding::error(Some(ca.span), error.to_string()))?)
            }
        };
        Ok(Self {
            host: config.host.clone(),
            port: config.port,
            path: config.path.clone(),
            tls,
        })
    }

    /// Host and port.
    fn name(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// One attempt.
    async fn deliver(&self, body: &str) -> Result<(), Undelivered> {
        match tokio::time::timeout(PATIENCE, self.post(body)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Undelivered::again(format!("no answer within {PATIENCE:?}"))),
        }
    }

    async fn post(&self, body: &str) -> Result<(), Undelivered> {
        let again = |error: &dyn std::fmt::Display| Undelivered::again(error.to_string());
        let stream = TcpStream::connect((self.host.as_str(), self.port))
            .await
            .map_err(|error| again(&error))?;
        let (mut asker, driver) = match &self.tls {
            None => Asker::over(stream).await,
            Some(site) => {
                let (stream, _) = tollgate_tls::connect(stream, site, &Buffers::new())
                    .await
                    .map_err(|error| again(&error))?;
                Asker::over(stream).await
            }
        }
        .map_err(|error| again(&error))?;
        // It ends with the connection.
        let driver = tokio::task::spawn_local(driver);
        let request = Request::builder()
            .method(Method::POST)
            .uri(&self.path)
            .header("host", self.name())
            .header("content-type", "application/json")
            .header(
                "user-agent",
                concat!("tollgate/", env!("CARGO_PKG_VERSION")),
            )
            .body(Body::full(body.to_owned()))
            .map_err(|error| Undelivered::for_good(error.to_string()))?;
        let answer = asker.ask(request, MOST_ANSWER).await;
        driver.abort();
        let status = answer.map_err(|error| again(&error))?.status();
        if status.is_success() {
            Ok(())
        } else if status.is_server_error() {
            Err(Undelivered::again(format!("it answers {status}")))
        } else {
            Err(Undelivered::for_good(format!("it answers {status}")))
        }
    }
}

/// Why a change did not arrive.
struct Undelivered {
    why: String,
    /// Whether the same again may help.
    again: bool,
}

impl Undelivered {
    fn again(why: String) -> Self {
        Self { why, again: true }
    }

    fn for_good(why: String) -> Self {
        Self { why, again: false }
    }
}

/// The task that tells a receiver of changes; ends when this is dropped, after what is queued.
#[derive(Debug)]
pub struct Webhook {
    name: String,
    host: Arc<str>,
    queue: mpsc::Sender<Queued>,
}

impl Webhook {
    /// Starts the task; to be called on a `LocalSet`. `host` is what this machine calls itself.
    pub fn start(receiver: Receiver, host: &str) -> Self {
        let (queue, changes) = mpsc::channel(QUEUE);
        let name = receiver.name();
        tokio::task::spawn_local(pass_on(receiver, changes));
        Self {
            name,
            host: host.into(),
            queue,
        }
    }

    /// Queues a change. Never waits: with a full queue the change is dropped and a warning written.
    pub fn tell(&self, change: &Change) {
        let body = match serde_json::to_string(&message(change, &self.host)) {
            Ok(body) => body,
            Err(error) => return say::warning(&format!("webhook: {error}")),
        };
        let queued = Queued {
            alarm: change.name,
            body,
        };
        match self.queue.try_send(queued) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => say::warning(&format!(
                "webhook {}: {QUEUE} messages wait already; it is not told of {}",
                self.name, change.name
            )),
            Err(TrySendError::Closed(_)) => say::warning(&format!(
                "webhook {}: ended; it is not told of {}",
                self.name, change.name
            )),
        }
    }
}

async fn pass_on(receiver: Receiver, mut changes: mpsc::Receiver<Queued>) {
    while let Some(Queued { alarm, body }) = changes.recv().await {
        let mut outcome = receiver.deliver(&body).await;
        if matches!(&outcome, Err(undelivered) if undelivered.again) {
            tokio::time::sleep(PAUSE).await;
            outcome = receiver.deliver(&body).await;
        }
        if let Err(Undelivered { why, .. }) = outcome {
            say::warning(&format!(
                "webhook {}: {why}; it is not told of {alarm}",
                receiver.name()
            ));
        }
    }
}

/// A change that waits.
struct Queued {
    alarm: &'static str,
    body: String,
}

/// What the receiver reads.
#[derive(Debug, Serialize)]
struct Message<'a> {
    name: &'a str,
    subject: &'a str,
    state: &'a str,
    severity: &'a str,
    at_seconds: f64,
    /// What was seen.
    sentence: &'a str,
    value: Option<f64>,
    threshold: f64,
    unit: &'a str,
    /// What the alarm means.
    meaning: &'a str,
    advice: &'a str,
    host: &'a str,
    version: &'a str,
}

fn message<'a>(change: &'a Change, host: &'a str) -> Message<'a> {
    let definition = change.definition();
    Message {
        name: change.name,
        subject: &change.subject,
        state: change.state.name(),
        severity: definition.severity.name(),
        at_seconds: change.at,
        sentence: &change.sentence,
        value: change.value,
        threshold: change.threshold,
        unit: change.unit,
        meaning: definition.sentence,
        advice: definition.advice,
        host,
        version: env!("CARGO_PKG_VERSION"),
    }
}
