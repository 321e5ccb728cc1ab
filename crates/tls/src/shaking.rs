//! The library's connection while it shakes hands, in either role.
//!
//! It is given one whole record at a time, so that when the handshake is complete it has seen no byte
//! that belongs to the records after it. Those are ours: see the `session` module.

use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, UnbufferedStatus};
use rustls::{CommonState, Error, ExtractedSecrets, PeerMisbehaved, SupportedCipherSuite};

use crate::failure::Side;
use crate::records::{HEADER_BYTES, sealed_bytes};
use crate::updates::{LibraryUpdates, TrafficSecrets, Updates};

/// Room that any record may take after its header (RFC 5246, section 6.2.3).
const LONGEST_BODY_BYTES: usize = 16 * 1024 + 2048;

/// A connection on its way to be established.
pub(crate) struct Shaking {
    library: Library,
    /// Bytes at the front of the input that the library has seen and wants to see again: the beginning
    /// of a message that spans records.
    seen: usize,
    /// A client's first flight, which early data may follow, is not finished yet.
    early: bool,
}

enum Library {
    Server(Box<UnbufferedServerConnection>),
    Client(Box<UnbufferedClientConnection>),
}

/// What a handshake leaves behind for the records after it.
pub(crate) struct Established {
    pub(crate) side: Side,
    pub(crate) suite: SupportedCipherSuite,
    pub(crate) secrets: ExtractedSecrets,
    pub(crate) updates: Updates,
}

/// Why the handshake has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Output was added; go on.
    Encoded,
    /// A flight is complete; go on.
    Flight,
    /// More input is needed.
    Blocked,
    /// Established, and all output taken. Input that was not consumed is not the library's.
    Open,
}

impl Shaking {
    pub(crate) fn server(connection: UnbufferedServerConnection) -> Self {
        Self {
            library: Library::Server(Box::new(connection)),
            seen: 0,
            early: false,
        }
    }

    /// With `early`, the first flight stays open behind its end until there is input.
    pub(crate) fn client(connection: UnbufferedClientConnection, early: bool) -> Self {
        Self {
            library: Library::Client(Box::new(connection)),
            seen: 0,
            early,
        }
    }

    pub(crate) fn common(&self) -> &CommonState {
        match &self.library {
            Library::Server(connection) => connection,
            Library::Client(connection) => connection,
        }
    }

    /// Goes on until something must be done, and does it if it is about output. Returns how many bytes
    /// of the input are consumed.
    pub(crate) fn turn(
        &mut self,
        input: &mut [u8],
        output: &mut Vec<u8>,
    ) -> (usize, Result<Turn, Error>) {
        let mut consumed = 0;
        loop {
            let (discard, turn) = self.once(&mut input[consumed..consumed + self.seen], output);
            consumed += discard;
            self.seen -= discard.min(self.seen);
            match turn {
                Ok(Turn::Blocked) => {}
                // A message that has begun behind the last one of the handshake, in the same record.
                Ok(Turn::Open) if self.seen > 0 => {
                    let error = Error::PeerMisbehaved(PeerMisbehaved::KeyEpochWithPendingFragment);
                    return (consumed, Err(error));
                }
                turn => return (consumed, turn),
            }
            let more = next_record(&input[consumed + self.seen..]);
            if more == 0 {
                return (consumed, Ok(Turn::Blocked));
            }
            self.seen += more;
        }
    }

    fn once(&mut self, input: &mut [u8], output: &mut Vec<u8>) -> (usize, Result<Turn, Error>) {
        match &mut self.library {
            Library::Server(connection) => take_turn(connection.process_tls_records(input), output),
            Library::Client(connection) => {
                let status = connection.process_tls_records(input);
                // Not to say that the flight is done is what keeps it open.
                if let (true, Ok(ConnectionState::TransmitTlsData(_))) = (self.early, &status.state)
                {
                    return (status.discard, Ok(Turn::Blocked));
                }
                take_turn(status, output)
            }
        }
    }

    /// No early data is to follow any more.
    pub(crate) fn end_early(&mut self) {
        self.early = false;
    }

    /// Encrypts `plain` as early data behind the first flight, if that is still open and the ticket
    /// allows so much; else nothing is written and the answer is false.
    pub(crate) fn seal_early(&mut self, plain: &[u8], output: &mut Vec<u8>) -> Result<bool, Error> {
        let Library::Client(connection) = &mut self.library else {
            return Ok(false);
        };
        let ConnectionState::TransmitTlsData(mut flight) =
            connection.process_tls_records(&mut []).state?
        else {
            return Ok(false);
        };
        let Some(mut early) = flight.may_encrypt_early_data() else {
            return Ok(false);
        };
        let start = output.len();
        output.resize(start + sealed_bytes(plain.len()), 0);
        let written = early.encrypt(plain, &mut output[start..]);
        output.truncate(start + written.as_ref().map_or(0, |written| *written));
        written.map(|_| true).map_err(|_| Error::EncryptError)
    }

    /// After an error: takes out what is still to be sent, the alert last. Looks at no more input, which
    /// would only fail again.
    pub(crate) fn take_alert(&mut self, output: &mut Vec<u8>) {
        while self.common().wants_write() {
            let (_, Ok(Turn::Encoded)) = self.once(&mut [], output) else {
                return;
            };
        }
    }

    /// The keys, after `Open`; `logged` are the secrets of a server in TLS 1.3.
    ///
    /// # Errors
    /// When the handshake is not complete, output was not taken, or the secrets are missing.
    pub(crate) fn establish(
        self,
        logged: Option<Box<TrafficSecrets>>,
    ) -> Result<Established, Error> {
        let (side, secrets, suite, updates) = match self.library {
            Library::Server(connection) => {
                let (secrets, kernel) = connection.dangerous_into_kernel_connection()?;
                let suite = kernel.negotiated_cipher_suite();
                (Side::Server, secrets, suite, logged.map(Updates::Own))
            }
            Library::Client(connection) => {
                let (secrets, kernel) = connection.dangerous_into_kernel_connection()?;
                let suite = kernel.negotiated_cipher_suite();
                let updates = Some(Updates::Library(Box::new(LibraryUpdates::new(kernel))));
                (Side::Client, secrets, suite, updates)
            }
        };
        // TLS 1.2 has neither key updates nor tickets after its handshake, so nothing need be kept.
        let updates = match suite {
            SupportedCipherSuite::Tls12(_) => Updates::Never,
            SupportedCipherSuite::Tls13(_) => updates.ok_or(Error::HandshakeNotComplete)?,
        };
        Ok(Established {
            side,
            suite,
            secrets,
            updates,
        })
    }
}

/// The length of the record at the front of `input`: 0 when it is not complete, and everything when it
/// is no record, which the library then refuses.
fn next_record(input: &[u8]) -> usize {
    let Some(header) = input.first_chunk::<HEADER_BYTES>() else {
        return 0;
    };
    let body = usize::from(u16::from_be_bytes([header[3], header[4]]));
    if !(20..=23).contains(&header[0]) || header[1] != 3 || body > LONGEST_BODY_BYTES {
        return input.len();
    }
    let length = HEADER_BYTES + body;
    if length <= input.len() { length } else { 0 }
}

fn take_turn<D>(
    status: UnbufferedStatus<'_, '_, D>,
    output: &mut Vec<u8>,
) -> (usize, Result<Turn, Error>) {
    let turn = status.state.and_then(|state| match state {
        ConnectionState::EncodeTlsData(mut data) => {
            encode(&mut data, output);
            Ok(Turn::Encoded)
        }
        ConnectionState::TransmitTlsData(data) => {
            data.done();
            Ok(Turn::Flight)
        }
        ConnectionState::BlockedHandshake => Ok(Turn::Blocked),
        ConnectionState::WriteTraffic(_) => Ok(Turn::Open),
        // Data and ends come in records after the handshake, which the library does not see, and early
        // data is never accepted.
        _ => Err(Error::HandshakeNotComplete),
    });
    (status.discard, turn)
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
