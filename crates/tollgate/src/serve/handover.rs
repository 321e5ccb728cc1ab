//! Binary upgrade: a new process takes over the listening sockets and the ticket keys of this one.
//!
//! The old process starts the new one with one end of a unix socket pair as its standard input and
//! sends, in this order: a line of JSON (which addresses, how many sockets of each), the sockets
//! themselves, the exported ring of ticket keys. The new one serves, answers `ready`, and the old
//! one drains. If the new one fails, the old one has lost nothing and goes on.

use std::io::{self, BufRead, BufReader, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use tollgate_edge::{Listening, Sockets};
use tollgate_keys::Ring;

/// Tells the new process that its standard input is a hand-over.
const VARIABLE: &str = "TOLLGATE_HANDOVER";

/// How long the new process may take to serve.
const PATIENCE: Duration = Duration::from_secs(30);

/// Sockets per message; the kernel allows 253.
const AT_A_TIME: usize = 64;

/// What an old process leaves to a new one.
#[derive(Debug)]
pub struct Inheritance {
    /// Listening sockets by address, those of the sites.
    pub sockets: Sockets,
    /// The console's listening socket.
    pub console: Option<std::net::TcpListener>,
    /// Ticket keys.
    pub ring: Option<Ring>,
    peer: UnixStream,
}

impl Inheritance {
    /// Takes the hand-over from standard input; `None` when this process was started in the ordinary way.
    ///
    /// # Errors
    /// When the old process ended before it had sent everything.
    pub fn receive() -> io::Result<Option<Self>> {
        if std::env::var_os(VARIABLE).is_none() {
            return Ok(None);
        }
        let peer = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        peer.set_read_timeout(Some(PATIENCE))?;
        let counts: Counts = read_line(&peer)?.parse()?;
        let mut sockets = Sockets::new();
        for socket in receive_sockets(&peer, counts.sites)? {
            let (address, listening) = Listening::adopt(socket)?;
            sockets.entry(address).or_default().push(listening);
        }
        let console = receive_sockets(&peer, counts.console)?
            .into_iter()
            .next()
            .map(std::net::TcpListener::from);
        let mut ring = vec![0; counts.ring];
        (&peer).read_exact(&mut ring)?;
        let ring = Ring::import(&ring).ok();
        Ok(Some(Self {
            sockets,
            console,
            ring,
            peer,
        }))
    }

    /// Tells the old process that this one serves now.
    pub fn ready(self) {
        // An old process that is gone need not be told.
        let _ = (&self.peer).write_all(b"ready\n");
    }
}

/// How much of each is to come.
struct Counts {
    sites: usize,
    console: usize,
    ring: usize,
}

impl std::str::FromStr for Counts {
    type Err = io::Error;

    fn from_str(line: &str) -> io::Result<Self> {
        let numbers: Vec<usize> = line
            .split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect();
        match numbers[..] {
            [sites @ 0..=65_536, console @ 0..=1, ring @ 0..=65_536] => Ok(Self {
                sites,
                console,
                ring,
            }),
            _ => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "hand-over of another kind of process",
            )),
        }
    }
}

/// One line, byte by byte: what follows it travels with descriptors and must not be read ahead.
fn read_line(mut peer: &UnixStream) -> io::Result<String> {
    let mut line = Vec::new();
    let mut byte = [0u8; 1];
    while line.len() < 128 {
        peer.read_exact(&mut byte)?;
        if byte[0] == b'\n' {
            break;
        }
        line.push(byte[0]);
    }
    Ok(String::from_utf8_lossy(&line).into_owned())
}

fn receive_sockets(peer: &UnixStream, count: usize) -> io::Result<Vec<OwnedFd>> {
    let mut received = Vec::with_capacity(count);
    while received.len() < count {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(AT_A_TIME))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0u8; 1];
        let got = recvmsg(
            peer,
            &mut [IoSliceMut::new(&mut byte)],
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        )?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(sockets) = message {
                received.extend(sockets);
            }
        }
        if got.bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(received)
}

fn send_sockets(peer: &UnixStream, sockets: &[impl AsFd]) -> io::Result<()> {
    for chunk in sockets.chunks(AT_A_TIME) {
        let borrowed: Vec<_> = chunk.iter().map(AsFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(AT_A_TIME))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&borrowed));
        sendmsg(
            peer,
            &[IoSlice::new(b".")],
            &mut control,
            SendFlags::empty(),
        )?;
    }
    Ok(())
}

/// How this program was started, kept from the first moment: the file at that path may be a newer one by now.
#[derive(Clone, Debug)]
pub struct Program {
    path: PathBuf,
}

impl Program {
    /// The path that this process was started from, made absolute.
    pub fn this() -> Self {
        let path = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("tollgate"));
        Self { path }
    }
}

/// A new process that has been given everything and is about to serve.
#[derive(Debug)]
pub struct Successor {
    child: Child,
    peer: UnixStream,
}

impl Successor {
    /// Starts the program anew, with the same arguments, and hands it everything.
    ///
    /// # Errors
    /// When it cannot be started or goes away at once.
    pub fn start(
        program: &Program,
        sockets: &Sockets,
        console: Option<&std::net::TcpListener>,
        ring: &Ring,
    ) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        let child = Command::new(&program.path)
            .args(std::env::args_os().skip(1))
            .env(VARIABLE, "1")
            .env_remove("LISTEN_FDS")
            .env_remove("LISTEN_PID")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .spawn()?;
        let successor = Self { child, peer: ours };
        let listening: Vec<&Listening> = sockets.values().flatten().collect();
        let ring = ring.export();
        let mut peer = &successor.peer;
        writeln!(
            peer,
            "{} {} {}",
            listening.len(),
            usize::from(console.is_some()),
            ring.len()
        )?;
        send_sockets(peer, &listening)?;
        send_sockets(peer, &console.into_iter().collect::<Vec<_>>())?;
        peer.write_all(&ring)?;
        Ok(successor)
    }

    /// The new process's number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits, on a thread that may wait, until it serves.
    ///
    /// # Errors
    /// A sentence about why it does not; it has been ended then.
    pub fn wait_until_ready(mut self) -> Result<u32, String> {
        let mut answer = String::new();
        let read = self
            .peer
            .set_read_timeout(Some(PATIENCE))
            .and_then(|()| BufReader::new(&self.peer).read_line(&mut answer));
        if read.is_ok() && answer == "ready\n" {
            return Ok(self.child.id());
        }
        // It may have ended by itself; then there is nothing left to kill.
        let _ = self.child.kill();
        let status = self.child.wait();
        Err(match (read, status) {
            (Err(error), _) if error.kind() == io::ErrorKind::WouldBlock => {
                format!("the new process did not serve within {PATIENCE:?}")
            }
            (_, Ok(status)) => format!("the new process ended ({status}); its messages are above"),
            (_, Err(error)) => format!("the new process cannot be waited for: {error}"),
        })
    }
}
