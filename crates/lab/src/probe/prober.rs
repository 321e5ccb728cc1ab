//! One connection from its first packet to its last ticket.

use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use tollgate_preface as preface;
use tollgate_terms::{HandshakeFacts, TlsVersion, UnixTime};
use tollgate_tls::client::{ClientHandshake, ClientOffer, HandshakeDetails, Intent, ja4};
use tollgate_tls::{ClientSite, Progress, Session};

use super::chain::{Chain, INITIAL_WINDOW_BYTES, StapleReport, trim};
use super::exchange::{self, Answer};
use super::files::policy;
use super::link::{Link, Socket};
use super::reach::{Reached, reach, resolve};
use super::report::{Connection, EarlyDataOutcome, RoundTrips, Ticket};
use super::{EarlyData, Endpoint, ProbeError, ProbeOptions, ProxyHeader, StartTls, starttls};

/// A server's handshake is shorter than this, whatever its certificates.
const MOST_HANDSHAKE_BYTES: usize = 256 * 1024;

/// Tickets kept from one connection to the next.
const KEPT_TICKETS: usize = 32;

/// Probes one server, and keeps what is needed to resume. Its connections may go to several endpoints.
pub struct Prober {
    options: ProbeOptions,
    site: ClientSite,
    /// What goes as early data, and as request over HTTP/1.1.
    request: Option<Vec<u8>>,
    /// Why early data is never tried, if that is so.
    no_early_data: Option<&'static str>,
}

impl Prober {
    /// Reads the files that `options` name and prepares.
    ///
    /// # Errors
    /// When the options do not go together, or a file cannot be used.
    pub fn new(options: ProbeOptions) -> Result<Self, ProbeError> {
        options.check()?;
        let alpn = options.offered_alpn();
        let host = exchange::authority(options.name(), options.port());
        let request = match (&options.early_data, &options.request) {
            (EarlyData::Bytes(bytes), _) => Some(bytes.clone()),
            (_, Some(request)) => Some(exchange::http1(request, &host)),
            (_, None) => None,
        };
        let no_early_data = match (&options.early_data, &request) {
            (EarlyData::Off, _) => Some("it is switched off"),
            (_, None) => Some("there is no request"),
            _ if alpn.iter().any(|name| name == "h2") => {
                Some("HTTP/2 is offered, and early data has to know its protocol")
            }
            _ => None,
        };
        let profile = options.profile;
        let offer = ClientOffer {
            version: options
                .version
                .or(profile.and_then(|profile| profile.version)),
            suites: profile.map_or(Vec::new(), |profile| profile.suites.into()),
            groups: profile.map_or(Vec::new(), |profile| profile.groups.into()),
            schemes: profile.map_or(Vec::new(), |profile| profile.schemes.into()),
            early_data: no_early_data.is_none(),
            sessions: KEPT_TICKETS,
            ..ClientOffer::new(policy(&options, alpn)?)
        };
        let site = ClientSite::offering(offer)?;
        warm_up(&site);
        Ok(Self {
            site,
            options,
            request,
            no_early_data,
        })
    }

    /// What is asked.
    pub fn options(&self) -> &ProbeOptions {
        &self.options
    }

    /// How many connections could resume now.
    pub fn sessions(&self) -> usize {
        self.site.sessions()
    }

    /// Where to connect to: the endpoints of the options, or all addresses of the target.
    ///
    /// # Errors
    /// When the name has no address.
    pub async fn endpoints(&self) -> Result<Vec<Endpoint>, ProbeError> {
        if !self.options.endpoints.is_empty() {
            return Ok(self.options.endpoints.clone());
        }
        let resolving = resolve(&self.options.target.host, self.options.port());
        self.in_time("resolve", resolving).await?
    }

    /// Makes one connection to `endpoint`, says what it was, and closes it.
    ///
    /// # Errors
    /// When it could not be made, or the request failed.
    pub async fn connect(
        &self,
        intent: Intent,
        endpoint: &Endpoint,
    ) -> Result<Connection, ProbeError> {
        self.connect_any(intent, std::slice::from_ref(endpoint))
            .await
    }

    /// The same to the first of `endpoints` that answers, in their order.
    ///
    /// # Errors
    /// As [`Prober::connect`].
    pub async fn connect_any(
        &self,
        intent: Intent,
        endpoints: &[Endpoint],
    ) -> Result<Connection, ProbeError> {
        let timestamp = now();
        let start = Instant::now();
        let reached = reach(endpoints, self.options.timeout).await?;
        if !self.options.connect_added.is_zero() {
            tokio::time::sleep(self.options.connect_added).await;
        }
        let mut trip = Trip {
            start,
            timestamp,
            connect: reached.took + self.options.connect_added,
            ..Trip::new(reached)
        };
        self.preface(&mut trip).await?;
        let shaken = self
            .in_time("handshake", self.shake(&mut trip, intent))
            .await??;
        self.finish(trip, shaken, intent).await
    }

    /// The PROXY header and the dialogue in front of TLS.
    async fn preface(&self, trip: &mut Trip) -> Result<(), ProbeError> {
        let header = self.proxy_header(trip);
        if !header.is_empty() {
            let sent = trip.socket.write_all(&header).await;
            sent.map_err(|source| ProbeError::Io {
                phase: "PROXY header",
                source,
            })?;
        }
        if let Some(kind) = self.options.start_tls {
            let start = Instant::now();
            let dialogue = starttls::begin(&mut trip.socket, kind);
            self.in_time("STARTTLS", dialogue).await??;
            trip.start_tls = Some(start.elapsed());
            trip.round_trips.start_tls = dialogue_round_trips(kind);
        }
        Ok(())
    }

    fn proxy_header(&self, trip: &Trip) -> Vec<u8> {
        let mut header = Vec::new();
        match (self.options.proxy_header, trip.addresses) {
            (None, _) => {}
            (Some(ProxyHeader::V1), Some((ours, theirs))) => {
                preface::write_v1(ours, theirs, &mut header);
            }
            (Some(ProxyHeader::V1), None) => preface::write_unknown_v1(&mut header),
            (Some(ProxyHeader::V2), Some((ours, theirs))) => {
                preface::write_v2(&preface::Outgoing::new(ours, theirs), &mut header);
            }
            (Some(ProxyHeader::V2), None) => preface::write_local_v2(&mut header),
        }
        header
    }

    async fn shake(&self, trip: &mut Trip, intent: Intent) -> Result<Shaken, ProbeError> {
        let failed = |failure| ProbeError::Handshake { failure };
        let start = Instant::now();
        let mut handshake = ClientHandshake::new(&self.site, intent).map_err(failed)?;
        let mut output = Vec::with_capacity(2048);
        let mut received: Vec<u8> = Vec::new();
        let mut total = 0;
        let mut early = EarlyWay::default();
        let mut progress = handshake.step(&mut [], &mut output).progress;
        let hello = ja4(&output);
        self.send_early(&mut handshake, &mut output, &mut early)?;
        loop {
            match progress {
                Progress::Done => break,
                Progress::Failed(failure) => {
                    // The alert is a courtesy; the failure is what counts.
                    let _ = trip.socket.write_all(&output).await;
                    return Err(failed(failure));
                }
                Progress::NeedsInput => {}
            }
            let io = |error: std::io::Error| ProbeError::Io {
                phase: "handshake",
                source: error,
            };
            if !output.is_empty() {
                trip.socket.write_all(&output).await.map_err(io)?;
                output.clear();
                trip.round_trips.handshake += 1;
            }
            received.reserve(16 * 1024);
            let came = trip.socket.read_buf(&mut received).await.map_err(io)?;
            total += came;
            if came == 0 {
                return Err(ProbeError::Closed);
            }
            if total > MOST_HANDSHAKE_BYTES {
                return Err(ProbeError::Request("the handshake does not end".into()));
            }
            let step = handshake.step(&mut received, &mut output);
            received.drain(..step.consumed);
            progress = step.progress;
        }
        let took = start.elapsed();
        early.accepted = early.sent && handshake.early_data_accepted();
        let details = handshake.details();
        let (session, facts) = handshake.finish(&self.site);
        Ok(Shaken {
            session,
            facts,
            details,
            early,
            hello,
            took,
            received,
            output,
        })
    }

    /// Puts the request behind the first flight when the ticket has room for all of it.
    fn send_early(
        &self,
        handshake: &mut ClientHandshake,
        output: &mut Vec<u8>,
        early: &mut EarlyWay,
    ) -> Result<(), ProbeError> {
        let (Some(request), None) = (&self.request, self.no_early_data) else {
            return Ok(());
        };
        early.room = handshake.early_data_room();
        if early.room < request.len() {
            return Ok(());
        }
        let sealed = handshake.seal_early_data(request, output);
        early.sent = sealed.map_err(|failure| ProbeError::Handshake { failure })? == request.len();
        Ok(())
    }

    /// The request, the wait for a ticket, the end, and the report of all of it.
    async fn finish(
        &self,
        trip: Trip,
        shaken: Shaken,
        intent: Intent,
    ) -> Result<Connection, ProbeError> {
        let Trip {
            socket,
            mut round_trips,
            ..
        } = trip;
        let Shaken {
            session,
            facts,
            details,
            early,
            hello,
            took,
            received,
            output,
        } = shaken;
        let mut link = Link::new(socket, session, received, output);
        let start = Instant::now();
        // The end of the handshake leaves now, or with the request.
        let request = self.request.as_deref().filter(|_| !early.accepted);
        let http2 = facts.alpn.as_deref() == Some("h2");
        let plain = request.filter(|_| !http2).unwrap_or_default();
        link.send(plain).await.map_err(exchange::broken)?;
        let (mut link, answer) = match self.request.is_some() {
            true => self.in_time("request", self.ask(link, http2)).await??,
            false => (link, None),
        };
        round_trips.request = u32::from(request.is_some());
        let request_time = answer.is_some().then(|| start.elapsed());
        let total = trip.start.elapsed();
        if facts.version == TlsVersion::Tls13 {
            self.await_ticket(&mut link).await;
        }
        let tickets: Vec<Ticket> = details
            .tls12_ticket
            .iter()
            .chain(link.tickets())
            .map(|seen| Ticket::from(*seen))
            .collect();
        let _ = timeout(Duration::from_millis(200), link.close()).await;
        let measured = Measured {
            connect: trip.connect,
            start_tls: trip.start_tls,
            handshake: took,
            request: request_time,
            total,
            timestamp: trip.timestamp,
            endpoint: trip.endpoint,
            refused: trip.refused,
            round_trips,
            tickets,
            hello,
        };
        Ok(self.report(intent, &facts, &details, &early, measured, answer))
    }

    /// Waits for the answer, over HTTP/2 for one to a request that is sent only now.
    async fn ask(&self, mut link: Link, http2: bool) -> Result<(Link, Option<Answer>), ProbeError> {
        let contents = self.options.contents;
        let Some(request) = self.options.request.as_ref().filter(|_| http2) else {
            let answer = exchange::answer(&mut link, contents).await?;
            return Ok((link, Some(answer)));
        };
        let authority = exchange::authority(self.options.name(), self.options.port());
        let link = Rc::new(RefCell::new(link));
        let answer = exchange::http2(&link, request, &authority, contents).await?;
        match Rc::try_unwrap(link) {
            Ok(link) => Ok((link.into_inner(), Some(answer))),
            Err(_) => Err(ProbeError::Request(
                "the HTTP/2 connection was not given back".into(),
            )),
        }
    }

    /// Waits for a ticket if none has come: without one the next connection cannot resume.
    async fn await_ticket(&self, link: &mut Link) {
        let waiting = async {
            while link.tickets().is_empty() && !link.has_ended() {
                if link.read_once().await.is_err() {
                    return;
                }
                link.forget_plain();
            }
        };
        // That none came shows in the report.
        let _ = timeout(self.options.ticket_wait, waiting).await;
    }

    fn report(
        &self,
        intent: Intent,
        facts: &HandshakeFacts,
        details: &HandshakeDetails,
        early: &EarlyWay,
        measured: Measured,
        answer: Option<Answer>,
    ) -> Connection {
        let resumed = facts.kind.is_resumed();
        let chain = (!resumed).then(|| Chain::of(&details.chain));
        let staple_bytes = details.staple.as_ref().map_or(0, Vec::len);
        let staple = details.staple.as_ref().zip(chain.as_ref());
        let staple = staple.map(|(der, chain)| StapleReport::of(der, chain, now_unix()));
        let flight = details.longest_flight_bytes;
        let (first_line, contents) = answer.map_or((None, None), |answer| {
            (Some(answer.first_line), answer.contents)
        });
        Connection {
            timestamp_us: measured.timestamp,
            name: match intent {
                Intent::Full => "initial".into(),
                Intent::Resume => "resume".into(),
            },
            target: self.options.target.host.clone(),
            endpoint: measured.endpoint.to_string(),
            refused_endpoints: measured.refused,
            server_name: self.options.name().to_owned(),
            verified: !self.options.insecure,
            sent_early_data: early.sent,
            early_data_accepted: early.accepted,
            early_data: early.outcome(),
            early_data_reason: self.why_no_early_data(intent, facts, early),
            connect_time_ms: millis(measured.connect),
            start_tls_time_ms: measured.start_tls.map(millis),
            handshake_time_ms: millis(measured.handshake),
            kind: facts.kind,
            hello_retry_request: details.retried,
            resumption_miss: match intent {
                Intent::Full => None,
                Intent::Resume => facts.miss.map(|miss| miss.name()),
            },
            version: facts.version,
            suite: facts.suite,
            alpn: facts.alpn.as_deref().map(Into::into),
            named_group: facts.group,
            signature_scheme: facts.signature,
            certificate_kind: facts.certificate,
            server_flight_bytes: flight,
            initial_window_bytes: INITIAL_WINDOW_BYTES,
            initial_window_advice: chain
                .as_ref()
                .and_then(|chain| trim(flight, chain, staple_bytes)),
            chain,
            staple,
            tickets: measured.tickets,
            ja4: measured.hello,
            round_trips: measured.round_trips,
            round_trips_total: measured.round_trips.total(),
            request_time_ms: measured.request.map(millis),
            first_line,
            contents,
            total_time_ms: millis(measured.total),
        }
    }

    fn why_no_early_data(
        &self,
        intent: Intent,
        facts: &HandshakeFacts,
        early: &EarlyWay,
    ) -> Option<String> {
        let length = self.request.as_ref().map_or(0, Vec::len);
        let why = match (self.no_early_data, intent) {
            _ if early.sent => return None,
            (Some(reason), _) => reason,
            (None, Intent::Full) => "an initial connection has no ticket",
            (None, Intent::Resume) if early.room > 0 => {
                return Some(format!(
                    "the request takes {length} bytes, the ticket allows {}",
                    early.room
                ));
            }
            (None, Intent::Resume) if !facts.kind.is_resumed() => {
                "there was no ticket that allows it"
            }
            (None, Intent::Resume) if facts.version == TlsVersion::Tls12 => {
                "TLS 1.2 has no early data"
            }
            (None, Intent::Resume) => "the ticket does not allow it",
        };
        Some(why.into())
    }

    /// Waits for `work`, but not longer than the options say.
    async fn in_time<T>(
        &self,
        phase: &'static str,
        work: impl Future<Output = T>,
    ) -> Result<T, ProbeError> {
        let after = self.options.timeout;
        let waited = timeout(after, work).await;
        waited.map_err(|_| ProbeError::Timeout { phase, after })
    }
}

/// A connection on its way.
struct Trip {
    socket: Box<dyn Socket>,
    endpoint: Endpoint,
    addresses: Option<(std::net::SocketAddr, std::net::SocketAddr)>,
    refused: Vec<String>,
    start: Instant,
    timestamp: u64,
    connect: Duration,
    start_tls: Option<Duration>,
    round_trips: RoundTrips,
}

impl Trip {
    fn new(reached: Reached) -> Self {
        Self {
            round_trips: RoundTrips {
                tcp: u32::from(reached.addresses.is_some()),
                ..RoundTrips::default()
            },
            socket: reached.socket,
            endpoint: reached.endpoint,
            addresses: reached.addresses,
            refused: reached.refused,
            start: Instant::now(),
            timestamp: 0,
            connect: reached.took,
            start_tls: None,
        }
    }
}

/// A complete handshake, and what is left in the buffers.
struct Shaken {
    session: Session,
    facts: HandshakeFacts,
    details: HandshakeDetails,
    early: EarlyWay,
    /// The fingerprint of the hello.
    hello: Option<String>,
    took: Duration,
    received: Vec<u8>,
    output: Vec<u8>,
}

/// How early data went.
#[derive(Default)]
struct EarlyWay {
    room: usize,
    sent: bool,
    accepted: bool,
}

impl EarlyWay {
    fn outcome(&self) -> EarlyDataOutcome {
        match (self.sent, self.accepted) {
            (false, _) => EarlyDataOutcome::NotAttempted,
            (true, true) => EarlyDataOutcome::Accepted,
            (true, false) => EarlyDataOutcome::NotAccepted,
        }
    }
}

/// What was measured and counted on the way.
struct Measured {
    connect: Duration,
    start_tls: Option<Duration>,
    handshake: Duration,
    request: Option<Duration>,
    total: Duration,
    timestamp: u64,
    endpoint: Endpoint,
    refused: Vec<String>,
    round_trips: RoundTrips,
    tickets: Vec<Ticket>,
    hello: Option<String>,
}

/// The first key share of a process waits up to 100 ms for the random generator to gather itself; that
/// is our own time and not the server's, so it is spent on a hello that nobody gets.
fn warm_up(site: &ClientSite) {
    if let Ok(mut handshake) = ClientHandshake::new(site, Intent::Full) {
        handshake.step(&mut [], &mut Vec::new());
    }
}

/// What a client waits for: the greeting, and the answer to each thing that it says.
fn dialogue_round_trips(kind: StartTls) -> u32 {
    match kind {
        StartTls::Smtp => 3,
        StartTls::Imap | StartTls::Pop3 => 2,
        StartTls::Postgres => 1,
    }
}

fn millis(duration: Duration) -> f64 {
    duration.as_nanos() as f64 / 1e6
}

/// Microseconds of Unix time.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as u64)
}

fn now_unix() -> UnixTime {
    UnixTime(now() / 1_000_000)
}
