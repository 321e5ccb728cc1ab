//! What the kernel alone takes of the client's core in a resumed TLS 1.2 handshake: the same connections with
//! the same numbers of bytes back and forth, and no TLS in them.
//!
//! `cargo run --release -p tollgate-lab --example tcp_floor [CONNECTIONS]`. The server has core 0, the client
//! core 1, and 32 connections are on their way at a time. No client on this machine makes more of such
//! handshakes per second from one core than this makes connections.

use std::collections::HashMap;
use std::error::Error;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::net::{SendFlags, send};
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use socket2::{Domain, Socket, Type};

/// ClientHello with a ticket, the server's flight, our Finished with `close_notify`, its `close_notify`.
const FLIGHTS: [usize; 4] = [339, 323, 82, 31];

/// Connections on their way at a time.
const AT_A_TIME: usize = 32;

/// Runs of each kind; the best one counts, since other work can only make it dearer.
const RUNS: usize = 3;

fn main() -> Result<(), Box<dyn Error>> {
    let connections = match std::env::args().nth(1) {
        Some(text) => text.parse()?,
        None => 20_000,
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    thread::spawn(move || pin(0).and_then(|()| answer(&listener)));
    pin(1)?;
    let mut out = io::stdout().lock();
    for (end, abort) in [("a close", false), ("a reset (--abort)", true)] {
        let mut best = f64::INFINITY;
        for _ in 0..RUNS {
            best = best.min(drive(address, connections, abort)?);
        }
        writeln!(
            out,
            "ended by {end:<18} {best:5.1} us of the client's core per connection, at most {:6.0}/s",
            1e6 / best
        )?;
    }
    Ok(())
}

fn pin(core: usize) -> io::Result<()> {
    let mut cores = CpuSet::new();
    cores.set(core);
    Ok(sched_setaffinity(None, &cores)?)
}

/// CPU time of this thread.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// Descriptors that something has come for.
struct Waiting {
    epoll: OwnedFd,
    events: Vec<Event>,
}

impl Waiting {
    fn new() -> io::Result<Self> {
        Ok(Self {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            events: Vec::with_capacity(256),
        })
    }

    fn add(&self, socket: &(impl AsFd + AsRawFd), flags: EventFlags) -> io::Result<()> {
        let data = EventData::new_u64(socket.as_raw_fd() as u64);
        Ok(epoll::add(&self.epoll, socket, data, flags)?)
    }

    fn wait(&mut self) -> io::Result<Vec<u64>> {
        self.events.clear();
        epoll::wait(&self.epoll, spare_capacity(&mut self.events), None)?;
        Ok(self.events.iter().map(|event| event.data.u64()).collect())
    }
}

/// The server: as many system calls as one needs.
fn answer(listener: &TcpListener) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let mut waiting = Waiting::new()?;
    waiting.add(listener, EventFlags::IN)?;
    let mut open: HashMap<u64, (TcpStream, bool)> = HashMap::new();
    let mut bytes = [0; 4096];
    loop {
        for from in waiting.wait()? {
            if from == listener.as_raw_fd() as u64 {
                while let Ok((socket, _)) = listener.accept() {
                    socket.set_nonblocking(true)?;
                    waiting.add(&socket, EventFlags::IN | EventFlags::ET)?;
                    open.insert(socket.as_raw_fd() as u64, (socket, false));
                }
                continue;
            }
            let Some((socket, greeted)) = open.get_mut(&from) else {
                continue;
            };
            let came = socket.read(&mut bytes);
            let last = std::mem::replace(greeted, true);
            let flight = if last { FLIGHTS[3] } else { FLIGHTS[1] };
            let over = !matches!(came, Ok(1..)) || socket.write(&bytes[..flight]).is_err() || last;
            if over {
                open.remove(&from);
            }
        }
    }
}

/// `EINPROGRESS`: the connection is being made.
const IN_PROGRESS: i32 = rustix::io::Errno::INPROGRESS.raw_os_error();

/// A connection of the client, and whether the first answer has come.
struct Ours {
    socket: Socket,
    answered: bool,
}

/// Makes `connections` and gives the CPU time of each, in microseconds.
fn drive(address: SocketAddr, connections: usize, abort: bool) -> io::Result<f64> {
    let mut waiting = Waiting::new()?;
    let mut open = HashMap::new();
    let mut bytes = vec![0; 4096];
    let mut done = 0;
    let before = (cpu(), Instant::now());
    for _ in 0..AT_A_TIME.min(connections) {
        begin(&waiting, &mut open, address, abort, &bytes)?;
    }
    while done < connections {
        for from in waiting.wait()? {
            let Some(ours) = open.get_mut(&from) else {
                continue;
            };
            let came = match ours.socket.read(&mut bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                came => came?,
            };
            if came > 0 && !ours.answered {
                ours.answered = true;
                send(&ours.socket, &bytes[..FLIGHTS[2]], SendFlags::NOSIGNAL)?;
                continue;
            }
            open.remove(&from);
            done += 1;
            if done + open.len() < connections {
                begin(&waiting, &mut open, address, abort, &bytes)?;
            }
        }
        if before.1.elapsed() > Duration::from_secs(60) {
            return Err(io::Error::other("the connections do not come to an end"));
        }
    }
    Ok((cpu() - before.0).as_secs_f64() * 1e6 / connections as f64)
}

fn begin(
    waiting: &Waiting,
    open: &mut HashMap<u64, Ours>,
    address: SocketAddr,
    abort: bool,
    bytes: &[u8],
) -> io::Result<()> {
    let kind = Type::STREAM.nonblocking().cloexec();
    let socket = Socket::new(Domain::IPV4, kind, None)?;
    if abort {
        socket.set_linger(Some(Duration::ZERO))?;
    }
    match socket.connect(&address.into()) {
        Err(error) if error.raw_os_error() != Some(IN_PROGRESS) => return Err(error),
        Ok(()) | Err(_) => {}
    }
    // On the machine itself the connection is nearly always there already.
    while let Err(error) = send(&socket, &bytes[..FLIGHTS[0]], SendFlags::NOSIGNAL) {
        if error != rustix::io::Errno::AGAIN {
            return Err(error.into());
        }
        thread::yield_now();
    }
    waiting.add(&socket, EventFlags::IN | EventFlags::ET)?;
    open.insert(
        socket.as_raw_fd() as u64,
        Ours {
            socket,
            answered: false,
        },
    );
    Ok(())
}
