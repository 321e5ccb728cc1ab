//! The beginning of a connection over a socket: the ClientHello, then the handshake.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tollgate_terms::HandshakeFacts;

use crate::buffers::{Buffers, READ_BYTES};
use crate::failure::{Failure, Side};
use crate::hello::{ClientHello, HelloError, MAX_HELLO_BYTES, Reader, Reading};
use crate::ledger::{Account, Spent};
use crate::server::{Handshake, Progress, ServerSite};
use crate::stream::TlsStream;

/// Bytes that a client may send before its handshake is complete. A certificate chain of a client may
/// take some ten thousand.
const MAX_HANDSHAKE_BYTES: usize = 64 * 1024;

/// Why there is no ClientHello.
#[derive(Debug)]
pub enum HelloFailure {
    /// The client speaks HTTP without TLS.
    PlainHttp,
    /// What came is no ClientHello that a handshake can follow.
    Refused(HelloError),
    /// The client went away after this many bytes.
    Closed {
        /// Bytes received before.
        bytes: usize,
    },
    /// The socket failed.
    Io(io::Error),
}

/// A fatal alert in plaintext, as it is sent before any keys exist. `description` is that of RFC 8446,
/// section 6.
pub fn alert_bytes(description: u8) -> [u8; 7] {
    [21, 3, 3, 0, 2, 2, description]
}

/// Everything received so far: what a handshake begins with.
pub struct Heard {
    bytes: Vec<u8>,
    account: Account,
}

impl Heard {
    /// The bytes alone, for when it is somebody else who shakes hands.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// Waits for a whole ClientHello. Returns it with all that was received, which [`handshake`] needs.
///
/// Until the first byte has come this holds no memory of its own.
///
/// # Errors
/// When what comes is no ClientHello, or nothing comes any more. No alert has been sent then.
pub async fn read_hello<IO>(
    io: &mut IO,
    buffers: &Buffers,
) -> Result<(ClientHello, Heard), HelloFailure>
where
    IO: AsyncRead + Unpin,
{
    let mut reader = Reader::default();
    let mut heard = Heard {
        bytes: Vec::new(),
        account: Account::open(buffers),
    };
    loop {
        let came = poll_fn(|cx| poll_append(io, cx, buffers, &mut heard.bytes))
            .await
            .map_err(HelloFailure::Io)?;
        if came == 0 {
            return Err(HelloFailure::Closed {
                bytes: heard.bytes.len(),
            });
        }
        let Heard { bytes, account } = &mut heard;
        match account.timed(|| reader.read(bytes)) {
            Reading::Incomplete => {}
            Reading::Complete(hello) => return Ok((*hello, heard)),
            Reading::PlainHttp => return Err(HelloFailure::PlainHttp),
            Reading::Refused(error) => return Err(HelloFailure::Refused(error)),
        }
    }
}

/// Reads once, through the shared scratch space, to the end of `raw`.
fn poll_append<IO>(
    io: &mut IO,
    cx: &mut Context<'_>,
    buffers: &Buffers,
    raw: &mut Vec<u8>,
) -> Poll<io::Result<usize>>
where
    IO: AsyncRead + Unpin,
{
    let mut input = buffers.input().borrow_mut();
    // The reader refuses a hello that is longer, so there is always room for more.
    let window = (MAX_HELLO_BYTES + 1).saturating_sub(raw.len()).max(1);
    let mut read = ReadBuf::new(&mut input[..window.min(READ_BYTES)]);
    ready!(Pin::new(io).poll_read(cx, &mut read))?;
    raw.extend_from_slice(read.filled());
    Poll::Ready(Ok(read.filled().len()))
}

/// Shakes hands. `heard` is everything received so far and begins with `hello`. With the stream comes what
/// the handshake was, and what it took by the clock of [`Buffers::count_by`].
///
/// # Errors
/// When the handshake fails. The alert for the client has then been sent, as far as it could be
/// without waiting, and the socket is handed back.
pub async fn handshake<IO>(
    io: IO,
    heard: Heard,
    hello: &ClientHello,
    site: &ServerSite,
    buffers: &Buffers,
) -> Result<(TlsStream<IO>, HandshakeFacts, Spent), (IO, Failure)>
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    let Heard {
        bytes: input,
        mut account,
    } = heard;
    let handshake = match account.timed(|| Handshake::new(site, hello)) {
        Ok(handshake) => handshake,
        Err(failure) => return Err((io, failure)),
    };
    let mut driver = Driver {
        io,
        handshake,
        account,
        received: input.len(),
        input,
        unsent: Vec::new(),
        stepped: None,
    };
    match poll_fn(|cx| driver.poll(cx, buffers)).await {
        Ok(()) => {
            let Driver {
                io,
                handshake,
                mut account,
                input,
                ..
            } = driver;
            let unknown_key = handshake.unknown_key();
            let (session, facts) = account.timed(|| handshake.finish());
            let stream = TlsStream::established(io, session, facts.suite, input, buffers);
            let mut spent = account.close();
            spent.unknown_key = unknown_key;
            Ok((stream, facts, spent))
        }
        Err(failure) => Err((driver.io, failure)),
    }
}

struct Driver<IO> {
    io: IO,
    handshake: Handshake,
    account: Account,
    /// Bytes received in all.
    received: usize,
    /// Bytes not consumed yet.
    input: Vec<u8>,
    unsent: Vec<u8>,
    /// What the last step said; `None` before the first.
    stepped: Option<Progress>,
}

impl<IO: AsyncRead + AsyncWrite + Unpin> Driver<IO> {
    fn poll(&mut self, cx: &mut Context<'_>, buffers: &Buffers) -> Poll<Result<(), Failure>> {
        loop {
            let sent = self.poll_unsent(cx);
            match self.stepped.take() {
                // The alert goes out if there is room for it; nobody waits for that.
                Some(Progress::Failed(failure)) => return Poll::Ready(Err(failure)),
                progress => self.stepped = progress,
            }
            if let Err(error) = ready!(sent) {
                return Poll::Ready(Err(Failure::io(Side::Server, &error)));
            }
            if matches!(self.stepped, Some(Progress::Done)) {
                return Poll::Ready(Ok(()));
            }
            ready!(self.poll_step(cx, buffers))?;
        }
    }

    /// Reads, except before the first step, and takes one step.
    fn poll_step(&mut self, cx: &mut Context<'_>, buffers: &Buffers) -> Poll<Result<(), Failure>> {
        let mut input = buffers.input().borrow_mut();
        let kept = self.input.len();
        let mut filled = kept;
        if self.stepped.is_some() {
            let window = (kept + READ_BYTES).min(input.len());
            let mut read = ReadBuf::new(&mut input[kept..window]);
            if let Err(error) = ready!(Pin::new(&mut self.io).poll_read(cx, &mut read)) {
                return Poll::Ready(Err(Failure::io(Side::Server, &error)));
            }
            let came = read.filled().len();
            if came == 0 {
                return Poll::Ready(Err(Failure::closed(Side::Server)));
            }
            filled += came;
            self.received += came;
        }
        input[..kept].copy_from_slice(&self.input);

        let mut flight = buffers.flight().borrow_mut();
        flight.clear();
        let handshake = &mut self.handshake;
        let step = self
            .account
            .timed(|| handshake.step(&mut input[..filled], &mut flight));
        self.input.clear();
        self.input.extend_from_slice(&input[step.consumed..filled]);
        if self.input.is_empty() {
            self.input = Vec::new();
        }
        let mut sent = 0;
        if !flight.is_empty()
            && let Poll::Ready(Ok(written)) = Pin::new(&mut self.io).poll_write(cx, &flight)
        {
            sent = written;
        }
        self.unsent.extend_from_slice(&flight[sent..]);
        let progress = match step.progress {
            Progress::NeedsInput if self.received > MAX_HANDSHAKE_BYTES => {
                Progress::Failed(Failure::too_long(Side::Server, MAX_HANDSHAKE_BYTES))
            }
            progress => progress,
        };
        self.stepped = Some(progress);
        Poll::Ready(Ok(()))
    }

    fn poll_unsent(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.unsent.is_empty() {
            let written = ready!(Pin::new(&mut self.io).poll_write(cx, &self.unsent))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.unsent.drain(..written);
        }
        self.unsent = Vec::new();
        Pin::new(&mut self.io).poll_flush(cx)
    }
}
