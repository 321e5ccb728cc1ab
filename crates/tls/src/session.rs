//! An established connection, either role: bytes in and bytes out, no socket.

use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus,
};
use rustls::{CommonState, Error};
use tollgate_terms::Culprit;

use crate::failure::{Failure, FailureReason, Side};

/// How the peer's direction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// With a `close_notify` alert: nothing was cut off.
    CloseNotify,
    /// The transport ended without one: what came before may be cut short.
    Eof,
}

/// What one receiving call has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Bytes taken from the front of the input; they must not be passed again.
    pub consumed: usize,
    /// Plaintext bytes handed to the sink.
    pub plain: usize,
    /// Whether and how the peer's direction has ended; nothing follows.
    pub closed: Option<Closed>,
}

/// The library's connection in either role.
pub(crate) enum Connection {
    Server(Box<UnbufferedServerConnection>),
    Client(Box<UnbufferedClientConnection>),
}

impl Connection {
    pub(crate) fn side(&self) -> Side {
        match self {
            Self::Server(_) => Side::Server,
            Self::Client(_) => Side::Client,
        }
    }

    pub(crate) fn common(&self) -> &CommonState {
        match self {
            Self::Server(connection) => connection,
            Self::Client(connection) => connection,
        }
    }

    /// After an error: takes out what is still to be sent, the alert last. Looks at no more input, which
    /// would only fail again.
    pub(crate) fn take_alert(&mut self, output: &mut Vec<u8>) {
        while self.common().wants_write() {
            match self.turn(&mut [], output, Task::Receive(&mut |_| {})) {
                (_, Ok(Turn::Encoded | Turn::Plain(_))) => {}
                _ => return,
            }
        }
    }

    /// Goes on until something must be done, and does it if it is about output.
    pub(crate) fn turn(
        &mut self,
        input: &mut [u8],
        output: &mut Vec<u8>,
        task: Task<'_>,
    ) -> (usize, Result<Turn, Error>) {
        match self {
            Self::Server(connection) => {
                take_turn(connection.process_tls_records(input), output, task)
            }
            Self::Client(connection) => {
                take_turn(connection.process_tls_records(input), output, task)
            }
        }
    }
}

/// What to do when the connection comes to a stop.
pub(crate) enum Task<'a> {
    /// Leave plaintext where it is.
    Shake,
    /// Hand plaintext over.
    Receive(&'a mut dyn FnMut(&[u8])),
    /// Encrypt `plain` to the front of `output`, which has room for it.
    Seal {
        plain: &'a [u8],
        output: &'a mut [u8],
    },
    /// Encrypt a `close_notify` alert to the front of `output`.
    Close { output: &'a mut [u8] },
}

/// Why the connection has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Output was added; go on.
    Encoded,
    /// A flight is complete; go on.
    Flight,
    /// This much plaintext was handed over; go on.
    Plain(usize),
    /// Plaintext waits; nothing can be sealed before it is taken.
    PlainWaits,
    /// The peer has sent `close_notify`; go on.
    PeerClosed,
    /// More input is needed to go on with the handshake.
    Blocked,
    /// Established, all input taken that is complete.
    Open,
    /// This many bytes were sealed.
    Sealed(usize),
    /// Ended both ways.
    Ended,
}

fn take_turn<D>(
    status: UnbufferedStatus<'_, '_, D>,
    output: &mut Vec<u8>,
    task: Task<'_>,
) -> (usize, Result<Turn, Error>) {
    let discard = status.discard;
    let state = match status.state {
        Ok(state) => state,
        Err(error) => return (discard, Err(error)),
    };
    let turn = match state {
        ConnectionState::EncodeTlsData(mut data) => {
            encode(&mut data, output);
            Ok(Turn::Encoded)
        }
        ConnectionState::TransmitTlsData(data) => {
            data.done();
            Ok(Turn::Flight)
        }
        ConnectionState::ReadTraffic(mut traffic) => match task {
            Task::Receive(sink) => {
                let mut handed = 0;
                let mut failed = None;
                while let Some(record) = traffic.next_record() {
                    match record {
                        Ok(record) => {
                            handed += record.payload.len();
                            sink(record.payload);
                        }
                        Err(error) => failed = Some(error),
                    }
                }
                failed.map_or(Ok(Turn::Plain(handed)), Err)
            }
            Task::Shake | Task::Seal { .. } | Task::Close { .. } => Ok(Turn::PlainWaits),
        },
        ConnectionState::PeerClosed => Ok(Turn::PeerClosed),
        ConnectionState::Closed => Ok(Turn::Ended),
        ConnectionState::BlockedHandshake => Ok(Turn::Blocked),
        ConnectionState::WriteTraffic(mut traffic) => match task {
            Task::Seal { plain, output } => traffic
                .encrypt(plain, output)
                .map(Turn::Sealed)
                .map_err(sealing_error),
            Task::Close { output } => traffic
                .queue_close_notify(output)
                .map(Turn::Sealed)
                .map_err(sealing_error),
            Task::Shake | Task::Receive(_) => Ok(Turn::Open),
        },
        // Early data is never accepted, and the library has no other state.
        _ => Err(Error::General("a state that is never entered".into())),
    };
    (discard, turn)
}

fn sealing_error(error: EncryptError) -> Error {
    match error {
        EncryptError::EncryptExhausted => Error::EncryptError,
        EncryptError::InsufficientSize(_) => Error::General(error.to_string()),
    }
}

fn encode<D>(data: &mut EncodeTlsData<'_, D>, output: &mut Vec<u8>) {
    let start = output.len();
    // The library tells the size only when asked with too little room.
    let Err(EncodeError::InsufficientSize(size)) = data.encode(&mut []) else {
        return;
    };
    output.resize(start + size.required_size, 0);
    let written = data.encode(&mut output[start..]).unwrap_or(0);
    output.truncate(start + written);
}

/// An established connection: decrypts what arrives, encrypts what leaves.
pub struct Session {
    connection: Connection,
    /// Handshake bytes that wait for the first write: a ticket, an answer to a key update.
    held: Vec<u8>,
    /// What is held should leave soon, being no ticket.
    urgent: bool,
    /// Plaintext that had to be taken out of the way of a write.
    early: Vec<u8>,
    /// The end of the handshake came with data behind it, perhaps: the library holds it until asked.
    unasked: bool,
    peer_closed: bool,
}

impl Session {
    pub(crate) fn new(connection: Connection, held: Vec<u8>, peer_closed: bool) -> Self {
        Self {
            connection,
            held,
            urgent: false,
            early: Vec::new(),
            unasked: true,
            peer_closed,
        }
    }

    /// Which end we are.
    pub fn side(&self) -> Side {
        self.connection.side()
    }

    /// Handshake bytes that wait to be sent in front of the next records.
    pub fn held(&self) -> &[u8] {
        &self.held
    }

    /// Whether what is held should not wait for a write.
    pub(crate) fn is_urgent(&self) -> bool {
        self.urgent
    }

    /// Forgets what was held, because it has been sent, and gives its memory back.
    pub(crate) fn forget_held(&mut self) {
        self.held = Vec::new();
        self.urgent = false;
    }

    /// Whether plaintext waits inside, or may wait because nobody has asked yet.
    pub(crate) fn has_early(&self) -> bool {
        self.unasked || !self.early.is_empty()
    }

    /// Decrypts the complete records at the front of `input`, in place, and hands each one's
    /// plaintext to `sink`. What is not consumed must be passed again, as it then is, with more behind it.
    ///
    /// # Errors
    /// When the peer breaks the protocol or sends a fatal alert. An alert of ours is then held.
    pub fn receive(
        &mut self,
        input: &mut [u8],
        sink: &mut dyn FnMut(&[u8]),
    ) -> Result<Received, Failure> {
        let mut received = Received::default();
        self.unasked = false;
        if !self.early.is_empty() {
            received.plain = self.early.len();
            sink(&self.early);
            self.early = Vec::new();
        }
        loop {
            let (discard, turn) = self.connection.turn(
                &mut input[received.consumed..],
                &mut self.held,
                Task::Receive(sink),
            );
            received.consumed += discard;
            match turn {
                Ok(Turn::Plain(handed)) => received.plain += handed,
                Ok(Turn::Encoded) => self.urgent = true,
                Ok(Turn::Flight) => {}
                Ok(Turn::PeerClosed) => self.peer_closed = true,
                Ok(_) => break,
                Err(error) => {
                    self.connection.take_alert(&mut self.held);
                    self.urgent = true;
                    return Err(Failure::of(self.side(), &error));
                }
            }
        }
        received.closed = self.peer_closed.then_some(Closed::CloseNotify);
        Ok(received)
    }

    /// Encrypts `plain` to the front of `output` and returns the length of the records. `partial` is
    /// what `receive` has not consumed; the second number says how much of it must now go.
    pub(crate) fn seal_into(
        &mut self,
        partial: &mut [u8],
        plain: &[u8],
        output: &mut [u8],
    ) -> Result<(usize, usize), Failure> {
        self.sealing(partial, |output| Task::Seal { plain, output }, output)
    }

    /// The same for a `close_notify` alert.
    pub(crate) fn close_into(
        &mut self,
        partial: &mut [u8],
        output: &mut [u8],
    ) -> Result<(usize, usize), Failure> {
        self.sealing(partial, |output| Task::Close { output }, output)
    }

    fn sealing<'o>(
        &mut self,
        partial: &mut [u8],
        task: impl Fn(&'o mut [u8]) -> Task<'o>,
        output: &'o mut [u8],
    ) -> Result<(usize, usize), Failure> {
        let side = self.side();
        let mut consumed = 0;
        self.unasked = false;
        // Clear the way: afterwards the connection stands where it can seal.
        loop {
            let mut keep = |plain: &[u8]| self.early.extend_from_slice(plain);
            let (discard, turn) = self.connection.turn(
                &mut partial[consumed..],
                &mut self.held,
                Task::Receive(&mut keep),
            );
            consumed += discard;
            match turn.map_err(|error| Failure::of(side, &error))? {
                Turn::Open => break,
                Turn::Encoded => self.urgent = true,
                Turn::PeerClosed => self.peer_closed = true,
                Turn::Plain(_) | Turn::Flight => {}
                Turn::Ended | Turn::Blocked | Turn::PlainWaits | Turn::Sealed(_) => {
                    return Err(Failure::closed(side));
                }
            }
        }
        let (discard, turn) =
            self.connection
                .turn(&mut partial[consumed..], &mut self.held, task(output));
        consumed += discard;
        match turn {
            Ok(Turn::Sealed(written)) => Ok((written, consumed)),
            Err(Error::EncryptError) => Err(Failure::new(
                FailureReason::Exhausted,
                Culprit::Us,
                "the keys of this connection are used up",
            )),
            Err(error) => Err(Failure::of(side, &error)),
            Ok(_) => Err(Failure::new(
                FailureReason::Internal,
                Culprit::Us,
                "an open connection could not encrypt",
            )),
        }
    }
}
