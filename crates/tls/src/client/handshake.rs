//! One handshake as a client: bytes in, bytes out, then the facts.

use std::sync::Arc;

use rustls::client::UnbufferedClientConnection;
use rustls::{Error, HandshakeKind as Kind};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tollgate_terms::{
    CipherSuite, HandshakeFacts, HandshakeKind, NamedGroup, ResumptionMethod, ResumptionMiss,
    ServerName, SignatureScheme, TlsVersion,
};

use super::{ClientSite, Intent, sessions, verifier};
use crate::buffers::Buffers;
use crate::failure::{Failure, Side};
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
}

impl ClientHandshake {
    /// Begins; the first step, with no input, gives the ClientHello.
    ///
    /// # Errors
    /// When the random generator or the key exchange fails.
    pub fn new(site: &ClientSite, intent: Intent) -> Result<Self, Failure> {
        sessions::take_offered();
        let connection = UnbufferedClientConnection::new(site.config(intent), site.name.clone())
            .map_err(|error| Failure::of(Side::Client, &error))?;
        Ok(Self {
            connection: Shaking::client(connection),
            offered: sessions::take_offered(),
            scheme: None,
        })
    }

    /// Takes in what has come and appends what must be sent to `output`; after a failure that is
    /// the alert. `Done` may leave bytes of `input` unconsumed: they belong to the session.
    pub fn step(&mut self, input: &mut [u8], output: &mut Vec<u8>) -> Step {
        verifier::take_scheme();
        let (consumed, end) = self.advance(input, output);
        self.scheme = self.scheme.or(verifier::take_scheme());
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
        }
    }
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
    let mut handshake = ClientHandshake::new(site, intent)?;
    let mut received = Vec::new();
    let mut output = Vec::new();
    let mut total = 0;
    loop {
        let step = handshake.step(&mut received, &mut output);
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
    let (session, facts) = handshake.finish(site);
    Ok((
        TlsStream::established(io, session, received, buffers),
        facts,
    ))
}

async fn send(io: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> std::io::Result<()> {
    io.write_all(bytes).await?;
    io.flush().await
}
