//! One connection of a load run: TCP, handshake, requests. All connections share one pair of buffers.

use std::cell::RefCell;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tollgate_terms::HandshakeFacts;
use tollgate_tls::client::{ClientHandshake, Intent};
use tollgate_tls::{ClientSite, Failure, Progress, Session};

use crate::response::{Refusal, Response};

/// Room for what one read brings: many records of a download, in one system call.
const INPUT_BYTES: usize = 256 * 1024;

/// Bytes on their way in, shared: between two polls nothing is kept here.
pub(crate) type Scratch = Rc<RefCell<Vec<u8>>>;

/// The buffer for all connections of a run.
pub(crate) fn scratch() -> Scratch {
    Rc::new(RefCell::new(vec![0; INPUT_BYTES]))
}

/// Why an operation failed.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The connection could not be made.
    Connect(io::Error),
    /// The socket failed later.
    Io(io::Error),
    /// TLS failed.
    Tls(Failure),
    /// The server ended the connection before the response was whole.
    Closed,
    /// The response is of no use.
    Response(Refusal),
    /// It took too long.
    Timeout,
}

/// A name with few values, fit to be counted by.
impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(error) => write!(f, "connect: {}", error.kind()),
            Self::Io(error) => write!(f, "socket: {}", error.kind()),
            Self::Tls(failure) => write!(f, "tls: {}", failure.reason().name()),
            Self::Closed => f.write_str("closed_by_server"),
            Self::Response(refusal) => write!(f, "{refusal}"),
            Self::Timeout => f.write_str("timeout"),
        }
    }
}

/// An established connection.
pub(crate) struct Connection {
    io: TcpStream,
    session: Session,
    scratch: Scratch,
    /// Ciphertext of a record that is not whole yet.
    partial: Vec<u8>,
    /// Ciphertext to send; the end of the handshake waits here for the first request.
    outgoing: Vec<u8>,
    response: Response,
    closed: bool,
}

impl Connection {
    /// Connects and shakes hands.
    pub(crate) async fn open(
        address: SocketAddr,
        site: &ClientSite,
        intent: Intent,
        scratch: &Scratch,
    ) -> Result<(Self, HandshakeFacts), Trouble> {
        let mut io = TcpStream::connect(address)
            .await
            .map_err(Trouble::Connect)?;
        io.set_nodelay(true).map_err(Trouble::Connect)?;
        let mut handshake = ClientHandshake::new(site, intent).map_err(Trouble::Tls)?;
        let mut outgoing = Vec::with_capacity(2048);
        let mut partial = Vec::new();
        let mut progress = handshake.step(&mut [], &mut outgoing).progress;
        while let Progress::NeedsInput = progress {
            io.write_all(&outgoing).await.map_err(Trouble::Io)?;
            outgoing.clear();
            progress = poll_fn(|cx| {
                poll_handshake(
                    cx,
                    &mut io,
                    scratch,
                    &mut handshake,
                    &mut partial,
                    &mut outgoing,
                )
            })
            .await?;
        }
        if let Progress::Failed(failure) = progress {
            // The alert is a courtesy; the failure is what counts.
            let _ = io.write_all(&outgoing).await;
            return Err(Trouble::Tls(failure));
        }
        let (session, facts) = handshake.finish(site);
        let connection = Self {
            io,
            session,
            scratch: Rc::clone(scratch),
            partial,
            outgoing,
            response: Response::new(),
            closed: false,
        };
        Ok((connection, facts))
    }

    /// Sends a request and takes in its response, telling `on_body` of body bytes as they come.
    pub(crate) async fn exchange(
        &mut self,
        request: &[u8],
        mut on_body: impl FnMut(u64),
    ) -> Result<(), Trouble> {
        self.session
            .seal(request, &mut self.outgoing)
            .map_err(Trouble::Tls)?;
        self.send().await?;
        self.response.begin();
        loop {
            match self.response.outcome() {
                Some(outcome) => return outcome.map_err(Trouble::Response),
                None if self.closed => return Err(Trouble::Closed),
                None => {}
            }
            let body = poll_fn(|cx| self.poll_receive(cx)).await?;
            on_body(body);
        }
    }

    /// Says goodbye and closes.
    pub(crate) async fn close(mut self) {
        // The operation is over; a server that is already gone changes nothing.
        let _ = self.session.close_notify(&mut self.outgoing);
        let _ = self.send().await;
    }

    /// Whether the server has neither ended the connection nor broken it; for connections that are held.
    pub(crate) fn is_open(&mut self) -> bool {
        let poll = self.poll_receive(&mut Context::from_waker(std::task::Waker::noop()));
        !self.closed && !matches!(poll, Poll::Ready(Err(_)))
    }

    async fn send(&mut self) -> Result<(), Trouble> {
        let sent = self.io.write_all(&self.outgoing).await;
        self.outgoing.clear();
        sent.map_err(Trouble::Io)
    }

    /// One read and all whole records in it; gives the number of body bytes.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<u64, Trouble>> {
        let mut scratch = self.scratch.borrow_mut();
        let input = ready!(poll_fill(cx, &mut self.io, &self.partial, &mut scratch))
            .map_err(Trouble::Io)?;
        let Some(input) = input else {
            self.closed = true;
            return Poll::Ready(Ok(0));
        };
        let mut body = 0;
        let response = &mut self.response;
        let received = self
            .session
            .receive(input, &mut |plain| body += response.take(plain))
            .map_err(Trouble::Tls)?;
        self.closed |= received.closed.is_some();
        keep(&mut self.partial, &input[received.consumed..]);
        Poll::Ready(Ok(body))
    }
}

fn poll_handshake(
    cx: &mut Context<'_>,
    io: &mut TcpStream,
    scratch: &Scratch,
    handshake: &mut ClientHandshake,
    partial: &mut Vec<u8>,
    outgoing: &mut Vec<u8>,
) -> Poll<Result<Progress, Trouble>> {
    let mut scratch = scratch.borrow_mut();
    let input = ready!(poll_fill(cx, io, partial, &mut scratch)).map_err(Trouble::Io)?;
    let Some(input) = input else {
        return Poll::Ready(Err(Trouble::Closed));
    };
    let step = handshake.step(input, outgoing);
    keep(partial, &input[step.consumed..]);
    Poll::Ready(Ok(step.progress))
}

/// Reads once behind what is left of last time; `None` at the end of the stream.
fn poll_fill<'s>(
    cx: &mut Context<'_>,
    io: &mut TcpStream,
    partial: &[u8],
    scratch: &'s mut [u8],
) -> Poll<io::Result<Option<&'s mut [u8]>>> {
    let kept = partial.len();
    let mut buffer = ReadBuf::new(&mut scratch[kept..]);
    ready!(Pin::new(io).poll_read(cx, &mut buffer))?;
    let came = buffer.filled().len();
    if came == 0 {
        return Poll::Ready(Ok(None));
    }
    scratch[..kept].copy_from_slice(partial);
    Poll::Ready(Ok(Some(&mut scratch[..kept + came])))
}

fn keep(partial: &mut Vec<u8>, rest: &[u8]) {
    if rest.is_empty() && partial.capacity() > 0 {
        *partial = Vec::new();
    } else {
        partial.clear();
        partial.extend_from_slice(rest);
    }
}
