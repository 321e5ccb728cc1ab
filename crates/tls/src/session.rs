//! An established connection, either role: bytes in and bytes out, no socket.
//!
//! The library shakes hands; the records after that are ours. A connection keeps two keys and what
//! their updates need, nothing else; records are opened where they were read and sealed where they
//! are sent from, so none of them costs an allocation.

use rustls::{
    AlertDescription, ConnectionTrafficSecrets, ContentType, Error, HandshakeType, InvalidMessage,
    PeerMisbehaved, SupportedCipherSuite,
};
use tollgate_terms::Culprit;

use crate::client::TicketSeen;
use crate::failure::{Failure, FailureReason, Side};
use crate::records::{
    Form, HEADER_BYTES, PLAIN_BYTES, RecordError, RecordKey, content, sealed_bytes,
};
use crate::shaking::Established;
use crate::updates::Updates;

/// Records in a row that carry no data: key updates, warnings, empty ones.
const MOST_IDLE: u8 = 32;

/// Records that are left for alerts and a key update when data must stop.
const SPARE_RECORDS: u64 = 4;

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
    /// Records opened, whatever was in them.
    pub records: usize,
    /// Whether and how the peer's direction has ended; nothing follows.
    pub closed: Option<Closed>,
}

/// An established connection: decrypts what arrives, encrypts what leaves.
pub struct Session(State);

enum State {
    Open(Box<Open>),
    /// The library did not give its keys away, which it always does after a complete handshake.
    Lost(Side, Failure),
}

/// How a direction stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Open,
    Closed,
    Failed,
}

struct Open {
    reading: RecordKey,
    writing: RecordKey,
    updates: Updates,
    /// Records that one key may protect.
    limit: u64,
    /// Bytes that wait for the first write: a ticket, an answer to a key update, an alert.
    held: Vec<u8>,
    /// The beginning of a handshake message that is not complete.
    joined: Vec<u8>,
    side: Side,
    form: Form,
    receiving: Way,
    sending: Way,
    /// What is held should leave soon, being no ticket.
    urgent: bool,
    /// The answer to a key update, or to a renegotiation, is held. One answers any number of them
    /// (RFC 8446, section 4.6.3), so a peer that does not read cannot make it grow.
    answered: bool,
    idle: u8,
}

/// What a peer did wrong, and the alert that tells it so.
struct Fault {
    alert: Option<AlertDescription>,
    error: Error,
}

fn fault(alert: AlertDescription, error: impl Into<Error>) -> Fault {
    Fault {
        alert: Some(alert),
        error: error.into(),
    }
}

impl Session {
    pub(crate) fn new(side: Side, established: Result<Established, Error>, held: Vec<u8>) -> Self {
        Self(
            match established.and_then(|established| Open::new(established, held)) {
                Ok(open) => State::Open(Box::new(open)),
                Err(error) => State::Lost(side, Failure::of(side, &error)),
            },
        )
    }

    /// Which end we are.
    pub fn side(&self) -> Side {
        match &self.0 {
            State::Open(open) => open.side,
            State::Lost(side, _) => *side,
        }
    }

    /// TLS 1.3 tickets that a client has received in this connection, the first sixteen.
    pub fn tickets(&self) -> &[TicketSeen] {
        match &self.0 {
            State::Open(open) => match &open.updates {
                Updates::Library(library) => library.tickets(),
                Updates::Never | Updates::Own(_) => &[],
            },
            State::Lost(..) => &[],
        }
    }

    /// Bytes that wait to be sent in front of the next records.
    pub fn held(&self) -> &[u8] {
        match &self.0 {
            State::Open(open) => &open.held,
            State::Lost(..) => &[],
        }
    }

    /// Whether what is held should not wait for a write.
    pub(crate) fn is_urgent(&self) -> bool {
        match &self.0 {
            State::Open(open) => open.urgent,
            State::Lost(..) => false,
        }
    }

    /// Forgets what was held, because it has been sent, and gives its memory back.
    pub(crate) fn forget_held(&mut self) {
        if let State::Open(open) = &mut self.0 {
            open.held = Vec::new();
            open.urgent = false;
            open.answered = false;
        }
    }

    /// Decrypts the complete records at the front of `input`, in place, and hands each one's
    /// plaintext to `sink`. What is not consumed must be passed again with more behind it.
    ///
    /// # Errors
    /// When the peer breaks the protocol or sends a fatal alert, and ever after. An alert of ours is
    /// then held.
    pub fn receive(
        &mut self,
        input: &mut [u8],
        sink: &mut dyn FnMut(&[u8]),
    ) -> Result<Received, Failure> {
        let open = self.open()?;
        if open.receiving == Way::Failed {
            return Err(Failure::closed(open.side));
        }
        let mut received = Received::default();
        while open.receiving == Way::Open {
            match open.record(&mut input[received.consumed..], sink) {
                Ok((0, _)) => return Ok(received),
                Ok((consumed, plain)) => {
                    received.consumed += consumed;
                    received.plain += plain;
                    received.records += 1;
                }
                Err(fault) => return Err(open.fail(fault)),
            }
        }
        // Whatever follows the end is of no meaning (RFC 8446, section 6.1).
        received.consumed = input.len();
        received.closed = Some(Closed::CloseNotify);
        Ok(received)
    }

    /// Encrypts `plain` to the front of `output`, which has room for [`sealed_bytes`], and returns the
    /// length of the records. What is held must be sent before them.
    pub(crate) fn seal_into(&mut self, plain: &[u8], output: &mut [u8]) -> Result<usize, Failure> {
        let open = self.open_to_send(plain, output)?;
        let mut filled = 0;
        for piece in plain.chunks(PLAIN_BYTES) {
            if open.writing.sequence() + SPARE_RECORDS >= open.limit {
                filled += open.update_writing(&mut output[filled..])?;
            }
            filled += open.seal(content::DATA, piece, &mut output[filled..])?;
        }
        Ok(filled)
    }

    /// The same for a `close_notify` alert, after which nothing can be sealed.
    pub(crate) fn close_into(&mut self, output: &mut [u8]) -> Result<usize, Failure> {
        let open = self.open_to_send(&[], output)?;
        open.sending = Way::Closed;
        open.seal(content::ALERT, &[WARNING, 0], output)
    }

    fn open(&mut self) -> Result<&mut Open, Failure> {
        match &mut self.0 {
            State::Open(open) => Ok(open),
            State::Lost(_, failure) => Err(failure.clone()),
        }
    }

    fn open_to_send(&mut self, plain: &[u8], output: &[u8]) -> Result<&mut Open, Failure> {
        let open = self.open()?;
        if open.sending != Way::Open {
            return Err(Failure::closed(open.side));
        }
        if output.len() < sealed_bytes(plain.len()) {
            return Err(no_room());
        }
        Ok(open)
    }
}

const WARNING: u8 = 1;
const FATAL: u8 = 2;

impl Open {
    fn new(established: Established, held: Vec<u8>) -> Result<Self, Error> {
        let Established {
            side,
            suite,
            secrets,
            updates,
        } = established;
        let (form, limit) = match (suite, &secrets.tx.1) {
            (SupportedCipherSuite::Tls13(suite), _) => {
                (Form::Tls13, suite.common.confidentiality_limit)
            }
            (
                SupportedCipherSuite::Tls12(suite),
                ConnectionTrafficSecrets::Chacha20Poly1305 { .. },
            ) => (Form::Tls12Implicit, suite.common.confidentiality_limit),
            (SupportedCipherSuite::Tls12(suite), _) => {
                (Form::Tls12Explicit, suite.common.confidentiality_limit)
            }
        };
        Ok(Self {
            reading: RecordKey::of(&secrets.rx)?,
            writing: RecordKey::of(&secrets.tx)?,
            updates,
            limit,
            held,
            joined: Vec::new(),
            side,
            form,
            receiving: Way::Open,
            sending: Way::Open,
            urgent: false,
            answered: false,
            idle: 0,
        })
    }

    /// Takes in one record. Returns its length, which is 0 when it is not complete, and how much
    /// plaintext was handed over.
    fn record(
        &mut self,
        input: &mut [u8],
        sink: &mut dyn FnMut(&[u8]),
    ) -> Result<(usize, usize), Fault> {
        let Some(header) = input.first_chunk::<HEADER_BYTES>().copied() else {
            return Ok((0, 0));
        };
        let length = self.body_length(header)?;
        let Some(body) = input.get_mut(HEADER_BYTES..HEADER_BYTES + length) else {
            return Ok((0, 0));
        };
        let opened = self.reading.open(self.form, header, body);
        let (kind, plain) = opened.map_err(unreadable)?;
        let plain = &body[plain];
        let mut handed = 0;
        match kind {
            content::DATA if !self.joined.is_empty() => {
                return Err(unexpected(kind));
            }
            content::DATA if plain.is_empty() => {
                self.note_idle(PeerMisbehaved::TooManyEmptyFragments)?;
            }
            content::DATA => {
                self.idle = 0;
                handed = plain.len();
                sink(plain);
            }
            content::ALERT => self.alert(plain)?,
            content::HANDSHAKE => self.handshake(plain)?,
            _ => return Err(unexpected(kind)),
        }
        Ok((HEADER_BYTES + length, handed))
    }

    fn body_length(&self, header: [u8; HEADER_BYTES]) -> Result<usize, Fault> {
        let [kind, major, _, high, low] = header;
        if !(content::CHANGE_CIPHER_SPEC..=content::DATA).contains(&kind) {
            return Err(fault(
                AlertDescription::UnexpectedMessage,
                InvalidMessage::InvalidContentType,
            ));
        }
        if major != 3 {
            return Err(fault(
                AlertDescription::ProtocolVersion,
                InvalidMessage::UnknownProtocolVersion,
            ));
        }
        // In TLS 1.3 everything is encrypted now, and looks like data (RFC 8446, section 5).
        match (self.form, kind) {
            (_, content::CHANGE_CIPHER_SPEC) => {
                return Err(fault(
                    AlertDescription::UnexpectedMessage,
                    PeerMisbehaved::IllegalMiddleboxChangeCipherSpec,
                ));
            }
            (Form::Tls13, content::ALERT | content::HANDSHAKE) => return Err(unexpected(kind)),
            (Form::Tls13 | Form::Tls12Explicit | Form::Tls12Implicit, _) => {}
        }
        let length = usize::from(u16::from_be_bytes([high, low]));
        match length > self.form.longest() {
            true => Err(unreadable(RecordError::TooLong)),
            false => Ok(length),
        }
    }

    fn note_idle(&mut self, flood: PeerMisbehaved) -> Result<(), Fault> {
        self.idle += 1;
        match self.idle > MOST_IDLE {
            true => Err(fault(AlertDescription::UnexpectedMessage, flood)),
            false => Ok(()),
        }
    }

    fn alert(&mut self, plain: &[u8]) -> Result<(), Fault> {
        let &[level, description] = plain else {
            return Err(fault(
                AlertDescription::DecodeError,
                InvalidMessage::TrailingData("alert"),
            ));
        };
        let description = AlertDescription::from(description);
        let received = Error::AlertReceived(description);
        match (level, description) {
            (WARNING | FATAL, AlertDescription::CloseNotify) => {
                self.receiving = Way::Closed;
                self.joined = Vec::new();
                Ok(())
            }
            // A warning means nothing in TLS 1.2, and in TLS 1.3 there is only this one.
            (WARNING, AlertDescription::UserCanceled) => {
                self.note_idle(PeerMisbehaved::TooManyWarningAlertsReceived)
            }
            (WARNING, _) if self.form != Form::Tls13 => {
                self.note_idle(PeerMisbehaved::TooManyWarningAlertsReceived)
            }
            (WARNING, _) => Err(fault(AlertDescription::DecodeError, received)),
            (FATAL, _) => Err(Fault {
                alert: None,
                error: received,
            }),
            _ => Err(fault(AlertDescription::IllegalParameter, received)),
        }
    }

    /// Takes in a piece of the stream of handshake messages.
    fn handshake(&mut self, plain: &[u8]) -> Result<(), Fault> {
        if plain.is_empty() {
            return Err(unexpected(content::HANDSHAKE));
        }
        if self.joined.is_empty() {
            let taken = self.messages(plain)?;
            self.joined.extend_from_slice(&plain[taken..]);
            return Ok(());
        }
        let mut joined = std::mem::take(&mut self.joined);
        joined.extend_from_slice(plain);
        let taken = self.messages(&joined)?;
        if taken < joined.len() {
            joined.drain(..taken);
            self.joined = joined;
        }
        Ok(())
    }

    /// Acts on the complete messages at the front of `bytes` and returns their length.
    fn messages(&mut self, bytes: &[u8]) -> Result<usize, Fault> {
        let mut taken = 0;
        while let Some(&[kind, high, middle, low]) = bytes[taken..].first_chunk() {
            let kind = HandshakeType::from(kind);
            let length = u32::from_be_bytes([0, high, middle, low]) as usize;
            let longest = self.longest(kind)?;
            if length > longest {
                return Err(fault(
                    AlertDescription::DecodeError,
                    InvalidMessage::HandshakePayloadTooLarge,
                ));
            }
            let start = taken + 4;
            let Some(message) = bytes.get(start..start + length) else {
                break;
            };
            taken = start + length;
            self.message(kind, message, bytes.len() - taken)?;
        }
        Ok(taken)
    }

    /// The longest message of this kind, if it may come at all.
    fn longest(&self, kind: HandshakeType) -> Result<usize, Fault> {
        match (self.form, self.side, kind) {
            (Form::Tls13, _, HandshakeType::KeyUpdate) => Ok(1),
            (Form::Tls13, Side::Client, HandshakeType::NewSessionTicket) => Ok(0xffff),
            (
                Form::Tls12Explicit | Form::Tls12Implicit,
                Side::Server,
                HandshakeType::ClientHello,
            ) => Ok(PLAIN_BYTES),
            (
                Form::Tls12Explicit | Form::Tls12Implicit,
                Side::Client,
                HandshakeType::HelloRequest,
            ) => Ok(0),
            _ => Err(fault(
                AlertDescription::UnexpectedMessage,
                Error::InappropriateHandshakeMessage {
                    expect_types: vec![HandshakeType::KeyUpdate],
                    got_type: kind,
                },
            )),
        }
    }

    /// `behind` is how many bytes follow the message in its record.
    fn message(&mut self, kind: HandshakeType, message: &[u8], behind: usize) -> Result<(), Fault> {
        match kind {
            HandshakeType::KeyUpdate if behind > 0 => Err(fault(
                AlertDescription::UnexpectedMessage,
                PeerMisbehaved::KeyEpochWithPendingFragment,
            )),
            HandshakeType::KeyUpdate => self.key_update(message),
            HandshakeType::NewSessionTicket => match &mut self.updates {
                Updates::Library(library) => library
                    .ticket(message)
                    .map_err(|error| fault(AlertDescription::DecodeError, error)),
                Updates::Never | Updates::Own(_) => Err(unexpected(content::HANDSHAKE)),
            },
            // What else is let through begins a renegotiation, to which the answer is no.
            _ => {
                self.note_idle(PeerMisbehaved::TooManyRenegotiationRequests)?;
                if self.answered || self.sending != Way::Open {
                    return Ok(());
                }
                self.answered = true;
                let no = u8::from(AlertDescription::NoRenegotiation);
                self.hold(content::ALERT, &[WARNING, no])
            }
        }
    }

    fn key_update(&mut self, message: &[u8]) -> Result<(), Fault> {
        let requested = match message {
            [0] => false,
            [1] => true,
            _ => {
                return Err(fault(
                    AlertDescription::IllegalParameter,
                    InvalidMessage::InvalidKeyUpdate,
                ));
            }
        };
        self.note_idle(PeerMisbehaved::TooManyKeyUpdateRequests)?;
        let internal = |error| fault(AlertDescription::InternalError, error);
        self.reading = self.updates.reading(&self.reading).map_err(internal)?;
        if requested && !self.answered && self.sending == Way::Open {
            self.hold(content::HANDSHAKE, &KEY_UPDATE)?;
            self.answered = true;
            self.writing = self.updates.writing(&self.writing).map_err(internal)?;
        }
        Ok(())
    }

    /// Seals a short message and holds it, for it to leave soon.
    fn hold(&mut self, kind: u8, plain: &[u8]) -> Result<(), Fault> {
        let mut record = [0; 64];
        let sealed = self.writing.seal(self.form, kind, plain, &mut record);
        let length =
            sealed.map_err(|_| fault(AlertDescription::InternalError, Error::EncryptError))?;
        self.held.extend_from_slice(&record[..length]);
        self.urgent = true;
        Ok(())
    }

    /// Ends both directions, and holds the alert.
    fn fail(&mut self, fault: Fault) -> Failure {
        if self.sending == Way::Open
            && let Some(alert) = fault.alert
        {
            // Without a key to say it with, nothing is said.
            let _ = self.hold(content::ALERT, &[FATAL, u8::from(alert)]);
        }
        self.receiving = Way::Failed;
        self.sending = Way::Failed;
        self.joined = Vec::new();
        Failure::of(self.side, &fault.error)
    }

    fn seal(&mut self, kind: u8, plain: &[u8], output: &mut [u8]) -> Result<usize, Failure> {
        let sealed = self.writing.seal(self.form, kind, plain, output);
        sealed.map_err(|error| match error {
            RecordError::Exhausted => exhausted(),
            _ => no_room(),
        })
    }

    /// Changes to new keys before the old ones have protected too much (RFC 8446, section 5.5); TLS 1.2
    /// has no such thing, and the connection must end.
    fn update_writing(&mut self, output: &mut [u8]) -> Result<usize, Failure> {
        if matches!(self.updates, Updates::Never) {
            return Err(exhausted());
        }
        let written = self.seal(content::HANDSHAKE, &KEY_UPDATE, output)?;
        let next = self.updates.writing(&self.writing);
        self.writing = next.map_err(|error| Failure::of(self.side, &error))?;
        Ok(written)
    }
}

/// A KeyUpdate that asks for none in return (RFC 8446, section 4.6.3).
const KEY_UPDATE: [u8; 5] = [24, 0, 0, 1, 0];

fn unreadable(error: RecordError) -> Fault {
    match error {
        RecordError::Changed | RecordError::Refused => {
            fault(AlertDescription::BadRecordMac, Error::DecryptError)
        }
        RecordError::TooLong => fault(
            AlertDescription::RecordOverflow,
            Error::PeerSentOversizedRecord,
        ),
        RecordError::NoType => fault(
            AlertDescription::UnexpectedMessage,
            PeerMisbehaved::IllegalTlsInnerPlaintext,
        ),
        RecordError::Exhausted => fault(AlertDescription::InternalError, Error::DecryptError),
    }
}

fn unexpected(kind: u8) -> Fault {
    fault(
        AlertDescription::UnexpectedMessage,
        Error::InappropriateMessage {
            expect_types: vec![ContentType::ApplicationData],
            got_type: ContentType::from(kind),
        },
    )
}

fn exhausted() -> Failure {
    Failure::new(
        FailureReason::Exhausted,
        Culprit::Us,
        "the keys of this connection are used up",
    )
}

fn no_room() -> Failure {
    Failure::new(
        FailureReason::Internal,
        Culprit::Us,
        "an open connection could not encrypt",
    )
}

#[cfg(test)]
mod unruly;
