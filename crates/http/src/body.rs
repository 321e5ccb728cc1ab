//! Message bodies: streamed, counted, and told how they ended.

use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use hyper::body::{Body as HttpBody, Bytes, Frame, Incoming, SizeHint};
use tokio::sync::mpsc;

use crate::pool::Lease;
use crate::trailers;
use crate::upgrade::Tunnel;
use crate::watch::Upload;

/// How a body ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// Read to its end.
    Complete,
    /// Whoever sent it broke off: of a request the client, of a response the backend.
    SourceFailed,
    /// Longer than `limits: body_bytes`.
    TooLarge,
    /// Whoever read it lost interest before the end: of a request the backend, of a response the client.
    Abandoned,
}

/// Hears of a body as it passes. Called on the data path: count, and nothing else.
pub trait BodyObserver: fmt::Debug {
    /// `bytes` more of the body have passed.
    fn passed(&self, bytes: usize);
    /// The body is over; called once.
    fn ended(&self, end: End);
}

/// Why a body could not be read on.
#[derive(Debug)]
pub enum BodyError {
    /// Longer than `limits: body_bytes`, which is this many bytes.
    TooLarge(u64),
    /// Whoever sent it broke off, or sent what cannot be read.
    Source(hyper::Error),
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge(limit) => {
                write!(
                    f,
                    "the request body is longer than {limit} bytes; raise limits: body_bytes to allow it"
                )
            }
            Self::Source(error) => write!(f, "the body ended early: {error}"),
        }
    }
}

impl std::error::Error for BodyError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::TooLarge(_) => None,
            Self::Source(error) => Some(error),
        }
    }
}

#[derive(Debug)]
enum Kind {
    Empty,
    Full(Bytes),
    Incoming(Incoming),
    Streamed(mpsc::Receiver<Bytes>),
    Tunnel(Box<Tunnel>),
}

/// What is tied to the life of a body.
#[derive(Debug)]
enum Tie {
    None,
    /// A request body: the client connection wants to know whether it is awaited.
    Upload(Upload),
    /// A response body: the backend connection goes back to the pool after it.
    Lease(Box<Lease>),
}

/// A request or response body: empty, in memory, or streamed from the other side.
#[derive(Debug)]
pub struct Body {
    kind: Kind,
    tie: Tie,
    observer: Option<Rc<dyn BodyObserver>>,
    /// Bytes that may still pass.
    allowance: u64,
    limit: u64,
    over: bool,
}

impl Body {
    fn of(kind: Kind, tie: Tie) -> Self {
        Self {
            kind,
            tie,
            observer: None,
            allowance: u64::MAX,
            limit: u64::MAX,
            over: false,
        }
    }

    /// No bytes.
    pub fn empty() -> Self {
        Self::of(Kind::Empty, Tie::None)
    }

    /// These bytes.
    pub fn full(bytes: impl Into<Bytes>) -> Self {
        Self::of(Kind::Full(bytes.into()), Tie::None)
    }

    /// Whatever comes through `pieces`, until its last sender is gone. How far a reader may fall behind is
    /// the channel's bound.
    pub fn streamed(pieces: mpsc::Receiver<Bytes>) -> Self {
        Self::of(Kind::Streamed(pieces), Tie::None)
    }

    /// The backend's side of a protocol that a `101 Switching Protocols` agrees on; only
    /// [`serve`](crate::serve) can do anything with it.
    pub(crate) fn tunnel(tunnel: Tunnel) -> Self {
        Self::of(Kind::Tunnel(Box::new(tunnel)), Tie::None)
    }

    pub(crate) fn from_client(incoming: Incoming, upload: Option<Upload>, limit: u64) -> Self {
        let limit = if limit == 0 { u64::MAX } else { limit };
        let tie = upload.map_or(Tie::None, Tie::Upload);
        let mut body = Self::of(Kind::Incoming(incoming), tie);
        body.allowance = limit;
        body.limit = limit;
        body
    }

    pub(crate) fn from_backend(incoming: Incoming, lease: Box<Lease>) -> Self {
        let mut body = Self::of(Kind::Incoming(incoming), Tie::Lease(lease));
        if body.is_end_stream() {
            body.release(true);
        }
        body
    }

    /// Lets `observer` hear of this body; one at a time, the last one stays.
    pub fn observe(&mut self, observer: Rc<dyn BodyObserver>) {
        self.observer = Some(observer);
    }

    /// Whether there is nothing (more) to read.
    pub fn is_empty(&self) -> bool {
        self.is_end_stream()
    }

    /// Number of bytes to come, when it is known beforehand.
    pub fn exact_length(&self) -> Option<u64> {
        self.size_hint().exact()
    }

    pub(crate) fn take_tunnel(&mut self) -> Option<Tunnel> {
        match std::mem::replace(&mut self.kind, Kind::Empty) {
            Kind::Tunnel(tunnel) => Some(*tunnel),
            kind => {
                self.kind = kind;
                None
            }
        }
    }

    /// Tells the observer that a tunnel carried this much and is over.
    pub(crate) fn tunnelled(&mut self, bytes: u64) {
        if let Some(observer) = &self.observer {
            observer.passed(usize::try_from(bytes).unwrap_or(usize::MAX));
        }
        self.end(End::Complete);
    }

    /// Tells the observer that a tunnel broke off.
    pub(crate) fn broke_off(&mut self) {
        self.end(End::SourceFailed);
    }

    /// Reads all of it into memory.
    ///
    /// # Errors
    /// When it breaks off, or is longer than `most` bytes.
    pub async fn collect(mut self, most: usize) -> Result<Bytes, BodyError> {
        let mut whole = Vec::new();
        while let Some(frame) = std::future::poll_fn(|cx| Pin::new(&mut self).poll_frame(cx)).await
        {
            let Ok(data) = frame?.into_data() else {
                continue;
            };
            if data.len() > most - whole.len() {
                return Err(BodyError::TooLarge(most as u64));
            }
            whole.extend_from_slice(&data);
        }
        Ok(whole.into())
    }

    fn release(&mut self, whole: bool) {
        match std::mem::replace(&mut self.tie, Tie::None) {
            Tie::Lease(lease) if whole => lease.give_back(),
            Tie::Lease(_) | Tie::Upload(_) | Tie::None => {}
        }
    }

    fn end(&mut self, end: End) {
        if self.over {
            return;
        }
        self.over = true;
        if let (Tie::Upload(upload), true) = (&self.tie, end != End::Complete) {
            upload.cut_off();
        }
        self.release(end == End::Complete);
        if let Some(observer) = self.observer.take() {
            observer.ended(end);
        }
    }

    fn pass(&mut self, bytes: usize) -> Result<(), BodyError> {
        match self.allowance.checked_sub(bytes as u64) {
            Some(rest) => self.allowance = rest,
            None => {
                self.end(End::TooLarge);
                return Err(BodyError::TooLarge(self.limit));
            }
        }
        if let Some(observer) = &self.observer {
            observer.passed(bytes);
        }
        Ok(())
    }

    fn arrived(
        &mut self,
        frame: Result<Frame<Bytes>, hyper::Error>,
    ) -> Result<Frame<Bytes>, BodyError> {
        let mut frame = match frame {
            Ok(frame) => frame,
            Err(error) => {
                self.end(End::SourceFailed);
                return Err(BodyError::Source(error));
            }
        };
        if let Some(data) = frame.data_ref() {
            let bytes = data.len();
            self.pass(bytes)?;
        } else if let Some(fields) = frame.trailers_mut() {
            trailers::clean(fields);
        }
        Ok(frame)
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        if this.over {
            return Poll::Ready(None);
        }
        let frame = match &mut this.kind {
            Kind::Empty | Kind::Tunnel(_) => None,
            Kind::Full(bytes) if bytes.is_empty() => None,
            Kind::Full(bytes) => Some(Ok(Frame::data(std::mem::take(bytes)))),
            Kind::Streamed(pieces) => match pieces.poll_recv(cx) {
                Poll::Ready(piece) => piece.map(|piece| Ok(Frame::data(piece))),
                Poll::Pending => return Poll::Pending,
            },
            Kind::Incoming(incoming) => match Pin::new(incoming).poll_frame(cx) {
                Poll::Ready(frame) => frame,
                Poll::Pending => {
                    if let Tie::Upload(upload) = &this.tie {
                        upload.awaits_client(true);
                    }
                    return Poll::Pending;
                }
            },
        };
        if let Tie::Upload(upload) = &this.tie {
            upload.awaits_client(false);
        }
        match frame {
            None => {
                this.end(End::Complete);
                this.tie = Tie::None;
                Poll::Ready(None)
            }
            Some(frame) => Poll::Ready(Some(this.arrived(frame))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.over
            || match &self.kind {
                Kind::Empty | Kind::Tunnel(_) => true,
                Kind::Full(bytes) => bytes.is_empty(),
                Kind::Incoming(incoming) => incoming.is_end_stream(),
                Kind::Streamed(_) => false,
            }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Empty | Kind::Tunnel(_) => SizeHint::with_exact(0),
            Kind::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Kind::Incoming(incoming) => incoming.size_hint(),
            Kind::Streamed(_) => SizeHint::default(),
        }
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        let end = if self.is_end_stream() {
            End::Complete
        } else {
            End::Abandoned
        };
        self.end(end);
    }
}
