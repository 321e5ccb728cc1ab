//! One connection over HTTP/1.1: TCP, handshake, requests. All connections of a thread share one buffer.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tollgate_terms::HandshakeFacts;
use tollgate_tls::client::{ClientHandshake, Intent};
use tollgate_tls::{ClientSite, Progress, Session};

use super::dial::Dialer;
use super::request::Request;
use super::response::Response;
use super::trouble::Trouble;

/// Room for what one read brings: many records of a download, in one system call.
const INPUT_BYTES: usize = 256 * 1024;

/// Bytes on their way in, shared: between two polls nothing is kept here.
pub(crate) type Scratch = Rc<RefCell<Vec<u8>>>;

/// The buffer for all connections of a thread.
pub(crate) fn scratch() -> Scratch {
    Rc::new(RefCell::new(vec![0; INPUT_BYTES]))
}

/// Whether a connection can carry another request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    Open,
    Closing,
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
    sent: usize,
    response: Response,
    /// What is in `partial` has not been looked at since the handshake, and may be whole records.
    unread: bool,
    /// The request has left as early data already.
    asked: bool,
    /// The first request has left as early data.
    asked_early: bool,
    closed: bool,
}

/// A connection and what its handshake was.
pub(crate) struct Opened {
    pub(crate) connection: Connection,
    pub(crate) facts: HandshakeFacts,
    /// Whether a request that was sent as early data was accepted; `None` when none was sent.
    pub(crate) early_accepted: Option<bool>,
    /// From the first TLS byte to the end of the handshake.
    pub(crate) took: Duration,
}

impl Connection {
    /// Connects and shakes hands. `early` is sent along with the first flight, if the ticket allows
    /// so much.
    pub(crate) async fn open(
        dialer: &Dialer,
        site: &ClientSite,
        intent: Intent,
        early: Option<&Request>,
        scratch: &Scratch,
    ) -> Result<Opened, Trouble> {
        let mut handshake = ClientHandshake::new(site, intent).map_err(Trouble::Tls)?;
        let mut outgoing = Vec::with_capacity(2048);
        let mut partial = Vec::new();
        let mut progress = handshake.step(&mut [], &mut outgoing).progress;
        let sent_early = match early {
            Some(request) => seal_early(&mut handshake, request, &mut outgoing)?,
            None => false,
        };
        let dialed = dialer.dial(&outgoing).await.map_err(Trouble::Connect)?;
        let (mut io, mut sent) = (dialed.io, dialed.sent);
        while let Progress::NeedsInput = progress {
            if sent < outgoing.len() {
                let rest = &outgoing[sent..];
                io.write_all(rest).await.map_err(Trouble::Io)?;
            }
            sent = 0;
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
        let early_accepted = sent_early.then(|| handshake.early_data_accepted());
        let (session, facts) = handshake.finish(site);
        let connection = Self {
            io,
            session,
            scratch: Rc::clone(scratch),
            unread: !partial.is_empty(),
            partial,
            outgoing,
            sent: 0,
            response: Response::new(),
            asked: early_accepted == Some(true),
            asked_early: early_accepted == Some(true),
            closed: false,
        };
        Ok(Opened {
            connection,
            facts,
            early_accepted,
            took: dialed.at.elapsed(),
        })
    }

    /// Sends a request and takes in its response, telling `on_body` of body bytes as they come.
    pub(crate) async fn exchange(
        &mut self,
        request: &Request,
        mut on_body: impl FnMut(u64),
    ) -> Result<After, Trouble> {
        self.response.begin(request.is_head());
        if !std::mem::take(&mut self.asked) {
            self.session
                .seal(request.start(), &mut self.outgoing)
                .map_err(Trouble::Tls)?;
        }
        self.send(&mut on_body).await?;
        for piece in request.pieces() {
            if self.response.outcome().is_some() {
                break;
            }
            self.session
                .seal(piece, &mut self.outgoing)
                .map_err(Trouble::Tls)?;
            self.send(&mut on_body).await?;
        }
        self.take_response(on_body).await
    }

    async fn take_response(&mut self, mut on_body: impl FnMut(u64)) -> Result<After, Trouble> {
        loop {
            if let Some(outcome) = self.response.outcome() {
                outcome?;
                return Ok(match self.response.keeps() && !self.closed {
                    true => After::Open,
                    false => After::Closing,
                });
            }
            if self.closed {
                return Err(Trouble::Closed);
            }
            let body = poll_fn(|cx| self.poll_receive(cx)).await?;
            on_body(body);
        }
    }

    /// Whether the first request left as early data, and was accepted.
    pub(crate) fn asked_early(&self) -> bool {
        self.asked_early
    }

    /// Says goodbye and closes.
    pub(crate) async fn close(mut self: Box<Self>) {
        // The operation is over; a server that is already gone changes nothing.
        let _ = self.session.close_notify(&mut self.outgoing);
        let _ = self.io.write_all(&self.outgoing).await;
    }

    /// Says goodbye and waits until the server has done so too: only then it has seen the end of the
    /// handshake for sure, and whatever ticket it had to give has come.
    pub(crate) async fn part(mut self: Box<Self>) -> Result<(), Trouble> {
        self.session
            .close_notify(&mut self.outgoing)
            .map_err(Trouble::Tls)?;
        self.io
            .write_all(&self.outgoing)
            .await
            .map_err(Trouble::Io)?;
        while !self.closed {
            poll_fn(|cx| self.poll_receive(cx)).await?;
        }
        Ok(())
    }

    /// Whether the server has neither ended the connection nor broken it; for connections that are held.
    pub(crate) fn is_open(&mut self) -> bool {
        let poll = self.poll_receive(&mut Context::from_waker(std::task::Waker::noop()));
        !self.closed && !matches!(poll, Poll::Ready(Err(_)))
    }

    /// Sends what is sealed. A server may answer before it has taken everything, and then take no
    /// more: the answer ends the sending.
    async fn send(&mut self, on_body: &mut impl FnMut(u64)) -> Result<(), Trouble> {
        let sent = poll_fn(|cx| self.poll_send(cx, on_body)).await;
        self.outgoing.clear();
        self.sent = 0;
        sent
    }

    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        on_body: &mut impl FnMut(u64),
    ) -> Poll<Result<(), Trouble>> {
        while self.sent < self.outgoing.len() {
            let rest = &self.outgoing[self.sent..];
            match Pin::new(&mut self.io).poll_write(cx, rest) {
                Poll::Ready(Ok(written)) => {
                    self.sent += written;
                    continue;
                }
                Poll::Ready(Err(error)) => {
                    // An answer that came before the end says more than the end.
                    if let Poll::Ready(Ok(body)) = self.poll_receive(cx) {
                        on_body(body);
                    }
                    return Poll::Ready(match self.response.outcome() {
                        Some(_) => Ok(()),
                        None => Err(Trouble::Io(error)),
                    });
                }
                Poll::Pending => {}
            }
            on_body(ready!(self.poll_receive(cx))?);
            if self.response.outcome().is_some() || self.closed {
                return Poll::Ready(Ok(()));
            }
        }
        Poll::Ready(Ok(()))
    }

    /// One read and all whole records in it; gives the number of body bytes.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<u64, Trouble>> {
        let mut scratch = self.scratch.borrow_mut();
        let input = match std::mem::take(&mut self.unread) {
            true => Some(again(&self.partial, &mut scratch)),
            false => ready!(poll_fill(cx, &mut self.io, &self.partial, &mut scratch))
                .map_err(Trouble::Io)?,
        };
        let Some(input) = input else {
            self.closed = true;
            self.response.end();
            return Poll::Ready(Ok(0));
        };
        let mut body = 0;
        let response = &mut self.response;
        let received = self
            .session
            .receive(input, &mut |plain| body += response.take(plain))
            .map_err(Trouble::Tls)?;
        if received.closed.is_some() {
            self.closed = true;
            self.response.end();
        }
        keep(&mut self.partial, &input[received.consumed..]);
        Poll::Ready(Ok(body))
    }
}

/// Seals the request as early data; false when the ticket does not allow so much.
fn seal_early(
    handshake: &mut ClientHandshake,
    request: &Request,
    outgoing: &mut Vec<u8>,
) -> Result<bool, Trouble> {
    let start = request.start();
    if handshake.early_data_room() < start.len() {
        return Ok(false);
    }
    let sealed = handshake.seal_early_data(start, outgoing);
    Ok(sealed.map_err(Trouble::Tls)? == start.len())
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

/// What is left of last time, to be looked at without a read.
fn again<'s>(partial: &[u8], scratch: &'s mut [u8]) -> &'s mut [u8] {
    let kept = &mut scratch[..partial.len()];
    kept.copy_from_slice(partial);
    kept
}

fn keep(partial: &mut Vec<u8>, rest: &[u8]) {
    if rest.is_empty() && partial.capacity() > 0 {
        *partial = Vec::new();
    } else {
        partial.clear();
        partial.extend_from_slice(rest);
    }
}
