//! One handshake as a client: bytes in, bytes out, then the facts.

use std::sync::Arc;

use rustls::client::UnbufferedClientConnection;
use rustls::{Error, HandshakeKind as Kind};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tollgate_terms::{
    CipherSuite, HandshakeFacts, HandshakeKind, NamedGroup, ResumptionMethod, ResumptionMiss,
    ServerName, SignatureScheme, TlsVersion,
};

use super::details::HandshakeDetails;
use super::wire::Wire;
use super::{ClientSite, Intent, sessions, verifier};
use crate::buffers::Buffers;
use crate::failure::{Failure, Side};
use crate::ledger::Account;
use crate::records::{HEADER_BYTES, content};
use crate::server::{Progress, Step};
use crate::session::Session;
use crate::shaking::{Shaking, Turn};
use crate::stream::TlsStream;

/// A server's handshake is shorter than this, whatever its certificates.
const MAX_HANDSHAKE_BYTES: usize = 128 * 1024;

/// A handshake on its way. Step it with what the server sent, send what it gives back.
pub struct ClientHandshake {
    connection: Shaking,
    offered: bool,
    scheme: Option<rustls::SignatureScheme>,
    staple: Option<Box<[u8]>>,
    early: Early,
    /// Early data that may still be sealed.
    early_room: usize,
    wire: Wire,
    /// Bytes at the front of the input that the wire has shown.
    shown: usize,
    /// Bytes of the server's present flight, and of its longest one.
    flight: usize,
    longest_flight: usize,
}

/// How early data stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Early {
    /// Not offered.
    Never,
    /// The hello has not been made.
    Possible,
    /// The hello offers it, and the server has not answered.
    Offered,
    /// The server has answered with yes.
    Accepted,
    /// The server has answered with no.
    Rejected,
}

impl ClientHandshake {
    /// Begins; the first step, with no input, gives the ClientHello.
    ///
    /// # Errors
    /// When the random generator or the key exchange fails.
    pub fn new(site: &ClientSite, intent: Intent) -> Result<Self, Failure> {
        sessions::take_offered();
        sessions::take_early_bytes();
        let connection = UnbufferedClientConnection::new(site.config(intent), site.name.clone())
            .map_err(|error| Failure::of(Side::Client, &error))?;
        let early_room = match site.offers_early_data() {
            true => sessions::take_early_bytes() as usize,
            false => 0,
        };
        Ok(Self {
            connection: Shaking::client(connection, early_room > 0),
            offered: sessions::take_offered(),
            scheme: None,
            staple: None,
            early: match early_room {
                0 => Early::Never,
                _ => Early::Possible,
            },
            early_room,
            wire: Wire::default(),
            shown: 0,
            flight: 0,
            longest_flight: 0,
        })
    }

    /// Takes in what has come and appends what must be sent to `output`; after a failure that is
    /// the alert. `Done` may leave bytes of `input` unconsumed: they belong to the session.
    pub fn step(&mut self, input: &mut [u8], output: &mut Vec<u8>) -> Step {
        verifier::take_scheme();
        verifier::take_staple();
        self.answered(input);
        let start = output.len();
        let (consumed, end) = self.advance(input, output);
        self.scheme = self.scheme.or(verifier::take_scheme());
        self.staple = verifier::take_staple().or(self.staple.take());
        self.shown -= consumed.min(self.shown);
        self.note_flight(consumed, &output[start..]);
        self.settle_early(&output[start..]);
        let progress = match end {
            Ok(progress) => progress,
            Err(error) => Progress::Failed(Failure::of(Side::Client, &error)),
        };
        Step { consumed, progress }
    }

    fn advance(
        &mut self,
        input: &mut [u8],
        output: &mut Vec<u8>,
    ) -> (usize, Result<Progress, Error>) {
        let mut consumed = 0;
        loop {
            let (discard, turn) = self.connection.turn(&mut input[consumed..], output);
            consumed += discard;
            let end = match turn {
                Ok(Turn::Encoded | Turn::Flight) => continue,
                Ok(Turn::Open) => Ok(Progress::Done),
                Ok(Turn::Blocked) => Ok(Progress::NeedsInput),
                Err(error) => {
                    self.connection.take_alert(output);
                    Err(error)
                }
            };
            return (consumed, end);
        }
    }

    /// Looks at what has come before the library does, which may write over it.
    fn answered(&mut self, input: &[u8]) {
        if input.is_empty() {
            return;
        }
        self.wire.read(&input[self.shown..]);
        self.shown = input.len();
        self.connection.end_early();
        self.early_room = 0;
    }

    /// A flight ends where we answer, or where the handshake does.
    fn note_flight(&mut self, consumed: usize, answer: &[u8]) {
        self.flight += consumed;
        self.longest_flight = self.longest_flight.max(self.flight);
        if !answer.is_empty() {
            self.flight = 0;
        }
    }

    /// The library does not say whether early data was accepted, but then it ends it: with an
    /// EndOfEarlyData message, which is the only one without a body, in front of its Finished.
    fn settle_early(&mut self, answer: &[u8]) {
        let complete = !self.connection.common().is_handshaking();
        self.early = match self.early {
            Early::Possible if !answer.is_empty() => Early::Offered,
            Early::Offered if complete && ends_early_data(answer) => Early::Accepted,
            Early::Offered if complete => Early::Rejected,
            early => early,
        };
    }

    /// How many bytes of early data may be sealed now: after the first step, before there is input.
    /// 0 when none were offered or the ticket allows no more.
    pub fn early_data_room(&mut self) -> usize {
        match self.early {
            Early::Offered => self.early_room,
            Early::Never | Early::Possible | Early::Accepted | Early::Rejected => 0,
        }
    }

    /// Encrypts as much of `plain` as there is room for, appends the records to `output`, to be sent
    /// right behind the first flight, and returns how much of `plain` that was.
    ///
    /// # Errors
    /// When the library cannot encrypt.
    pub fn seal_early_data(
        &mut self,
        plain: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<usize, Failure> {
        let plain = &plain[..plain.len().min(self.early_data_room())];
        if plain.is_empty() {
            return Ok(0);
        }
        let sealed = self.connection.seal_early(plain, output);
        match sealed.map_err(|error| Failure::of(Side::Client, &error))? {
            true => {
                self.early_room -= plain.len();
                Ok(plain.len())
            }
            false => Ok(0),
        }
    }

    /// Whether early data was offered: a server that accepts it takes what was sealed, however little.
    pub fn early_data_offered(&self) -> bool {
        !matches!(self.early, Early::Never | Early::Possible)
    }

    /// Whether the server has taken the early data; to be called after `Done`. If not, it is lost and
    /// has to be sent again.
    pub fn early_data_accepted(&self) -> bool {
        self.early == Early::Accepted
    }

    /// What the handshake has shown; to be called after `Done`.
    pub fn details(&self) -> HandshakeDetails {
        let chain = self.connection.common().peer_certificates();
        let retried = self.connection.common().handshake_kind()
            == Some(Kind::FullWithHelloRetryRequest)
            || self.wire.retried();
        HandshakeDetails {
            chain: chain
                .unwrap_or_default()
                .iter()
                .map(|certificate| certificate.to_vec())
                .collect(),
            staple: self.staple.as_deref().map(<[u8]>::to_vec),
            retried,
            tls12_ticket: self.wire.ticket(),
            longest_flight_bytes: self.longest_flight,
        }
    }

    /// The established session and what the handshake was. To be called after `Done`.
    pub fn finish(self, site: &ClientSite) -> (Session, HandshakeFacts) {
        let facts = self.facts(site);
        let session = Session::new(Side::Client, self.connection.establish(None), Vec::new());
        (session, facts)
    }

    fn facts(&self, site: &ClientSite) -> HandshakeFacts {
        let connection = self.connection.common();
        let kind = match connection.handshake_kind() {
            Some(Kind::Resumed) => HandshakeKind::Resumed(ResumptionMethod::Ticket),
            Some(Kind::FullWithHelloRetryRequest) => HandshakeKind::FullWithRetry,
            Some(Kind::Full) | None => HandshakeKind::Full,
        };
        let miss = match (kind.is_resumed(), self.offered) {
            (true, _) => None,
            (false, true) => Some(ResumptionMiss::NotUsable),
            (false, false) => Some(ResumptionMiss::NothingOffered),
        };
        let certificate = match kind.is_resumed() {
            true => None,
            false => connection
                .peer_certificates()
                .and_then(|chain| chain.first())
                .and_then(|end_entity| site.kind_of(end_entity)),
        };
        let version = match connection.protocol_version() {
            Some(rustls::ProtocolVersion::TLSv1_2) => TlsVersion::Tls12,
            _ => TlsVersion::Tls13,
        };
        HandshakeFacts {
            version,
            suite: CipherSuite(
                connection
                    .negotiated_cipher_suite()
                    .map_or(0, |suite| u16::from(suite.suite())),
            ),
            group: connection
                .negotiated_key_exchange_group()
                .map(|group| NamedGroup(u16::from(group.name()))),
            kind,
            miss,
            certificate,
            signature: self.scheme.map(|scheme| SignatureScheme(u16::from(scheme))),
            server_name: ServerName::new(&site.name.to_str()).ok(),
            alpn: connection
                .alpn_protocol()
                .and_then(|protocol| std::str::from_utf8(protocol).ok())
                .map(Arc::from),
            client: None,
            ticket_age: None,
            early_data_offered: self.early_data_offered(),
        }
    }
}

/// Whether the first protected record of a client's last flight is an EndOfEarlyData message: four
/// bytes of header, the content type and the tag (RFC 8446, sections 4.5 and 5.2).
fn ends_early_data(mut flight: &[u8]) -> bool {
    while let Some(&[kind, _, _, high, low]) = flight.first_chunk::<HEADER_BYTES>() {
        let length = usize::from(u16::from_be_bytes([high, low]));
        if kind == content::DATA {
            return length == 4 + 1 + 16;
        }
        flight = flight.get(HEADER_BYTES + length..).unwrap_or_default();
    }
    false
}

/// Makes a TLS connection over `io`, resuming when a session is kept.
///
/// # Errors
/// When the handshake fails; an alert has been sent to a backend that is still there.
pub async fn connect<IO>(
    io: IO,
    site: &ClientSite,
    buffers: &Buffers,
) -> Result<(TlsStream<IO>, HandshakeFacts), Failure>
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    connect_as(io, site, Intent::Resume, buffers).await
}

/// As [`connect`], with the choice of whether to resume.
///
/// # Errors
/// As [`connect`].
pub async fn connect_as<IO>(
    mut io: IO,
    site: &ClientSite,
    intent: Intent,
    buffers: &Buffers,
) -> Result<(TlsStream<IO>, HandshakeFacts), Failure>
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    // Booked when this is over, however it ends.
    let mut account = Account::open(buffers);
    let mut handshake = account.timed(|| ClientHandshake::new(site, intent))?;
    let mut received = Vec::new();
    let mut output = Vec::new();
    let mut total = 0;
    loop {
        let step = account.timed(|| handshake.step(&mut received, &mut output));
        received.drain(..step.consumed);
        if !output.is_empty() {
            let sent = send(&mut io, &output).await;
            output.clear();
            if let (Err(error), Progress::NeedsInput | Progress::Done) = (sent, &step.progress) {
                return Err(Failure::io(Side::Client, &error));
            }
        }
        match step.progress {
            Progress::Done => break,
            Progress::Failed(failure) => return Err(failure),
            Progress::NeedsInput => {}
        }
        if total > MAX_HANDSHAKE_BYTES {
            return Err(Failure::too_long(Side::Client, MAX_HANDSHAKE_BYTES));
        }
        received.reserve(4096);
        match io.read_buf(&mut received).await {
            Ok(0) => return Err(Failure::closed(Side::Client)),
            Ok(came) => total += came,
            Err(error) => return Err(Failure::io(Side::Client, &error)),
        }
    }
    let (session, facts) = account.timed(|| handshake.finish(site));
    let stream = TlsStream::established(io, session, facts.suite, received, buffers);
    Ok((stream, facts))
}

async fn send(io: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> std::io::Result<()> {
    io.write_all(bytes).await?;
    io.flush().await
}
