//! A loopback proxy that makes the way to a server longer: `--rtt` without touching the kernel.
//!
//! Every piece of data leaves half a round trip after it came, in order, whatever the rate. A proxy in
//! user space cannot delay a SYN: the kernel has accepted the client before the proxy knows of it. So the
//! client waits one round trip by itself before it counts as connected, and nothing of the client reaches
//! the server earlier than the ACK of a TCP handshake over such a line would.
//!
//! Round trips are counted on the wire, not assumed: see [`Rounds`]. Loss, slow start and a narrow
//! line are not imitated.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep_until;

use super::Endpoint;
use super::reach::connect_unix;

/// Bytes that may be on their way in one direction; at 50 ms that is 160 MB/s.
const MAX_ON_THE_WAY: usize = 8 * 1024 * 1024;

/// Read at a time.
const PIECE_BYTES: usize = 64 * 1024;

/// Round trips of one connection that are kept apart; a dialogue has fewer.
const MAX_ROUNDS: usize = 256;

/// Connections that are remembered for their round trips.
const MAX_REMEMBERED: usize = 64;

/// A running proxy; it ends, with all its connections, when dropped.
#[derive(Debug)]
pub struct DelayProxy {
    address: SocketAddr,
    one_way: Duration,
    wires: Arc<Mutex<VecDeque<Arc<Wire>>>>,
    accepting: JoinHandle<()>,
}

impl DelayProxy {
    /// Listens on a free port of 127.0.0.1 in front of `to`. To be called inside a runtime.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start(to: Endpoint, one_way: Duration) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let wires = Arc::new(Mutex::new(VecDeque::new()));
        let accepting = tokio::spawn(accept(listener, to, one_way, Arc::clone(&wires)));
        Ok(Self {
            address,
            one_way,
            wires,
            accepting,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The time that the TCP handshake would take, which the client has to add.
    pub fn round_trip(&self) -> Duration {
        self.one_way * 2
    }

    /// Round trips of the connection that was accepted last, from its start until `within` later: one
    /// for the TCP handshake and those counted on the wire. `None` when there was no connection.
    pub fn round_trips(&self, within: Duration) -> Option<u32> {
        let wire = Arc::clone(locked(&self.wires).back()?);
        // What is asked for ended at the client some microseconds after it was delivered; the next
        // answer cannot come for another round trip.
        let until = wire.accepted + within + self.one_way / 2;
        Some(1 + locked(&wire.rounds).until(until))
    }
}

impl Drop for DelayProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// One connection: when it began and how often its ends have waited for each other.
#[derive(Debug)]
struct Wire {
    accepted: Instant,
    rounds: Mutex<Rounds>,
}

/// Counts round trips by what each end can know.
///
/// What the client sends carries one more than the number that it has seen come back; what the server
/// sends carries the greatest number that has reached it. So bytes that cross on their way, such as an
/// end of early data and the answer to that early data, do not count as a round trip.
#[derive(Debug, Default)]
struct Rounds {
    /// The greatest number that has reached the server; the ACK that ends the TCP handshake carries the first.
    server: u32,
    /// When the client came to know each number.
    answered: Vec<Instant>,
}

impl Rounds {
    fn new() -> Self {
        Self {
            server: 1,
            answered: Vec::new(),
        }
    }

    /// The number that bytes carry which leave this end now.
    fn leaving(&self, from: End) -> u32 {
        match from {
            End::Client => self.answered.len() as u32 + 1,
            End::Server => self.server,
        }
    }

    /// Bytes with this number have come from the other end.
    fn arrived(&mut self, from: End, number: u32, now: Instant) {
        match from {
            End::Client => self.server = self.server.max(number),
            End::Server => {
                while self.answered.len() < (number as usize).min(MAX_ROUNDS) {
                    self.answered.push(now);
                }
            }
        }
    }

    fn until(&self, until: Instant) -> u32 {
        self.answered.iter().filter(|at| **at <= until).count() as u32
    }
}

/// An end of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Client,
    Server,
}

/// Bytes on their way, or the end of the direction when there are none.
#[derive(Debug)]
struct Parcel {
    bytes: Vec<u8>,
    number: u32,
}

/// One direction: what comes in leaves later, in the same order.
#[derive(Debug)]
struct DelayLine {
    one_way: Duration,
    /// Nothing leaves before this.
    opens: Instant,
    parcels: VecDeque<(Instant, Parcel)>,
    bytes: usize,
}

impl DelayLine {
    fn new(one_way: Duration, opens: Instant) -> Self {
        Self {
            one_way,
            opens,
            parcels: VecDeque::new(),
            bytes: 0,
        }
    }

    fn push(&mut self, parcel: Parcel, now: Instant) {
        self.bytes += parcel.bytes.len();
        let due = (now + self.one_way).max(self.opens);
        self.parcels.push_back((due, parcel));
    }

    /// When the next parcel leaves.
    fn due(&self) -> Option<Instant> {
        self.parcels.front().map(|(due, _)| *due)
    }

    fn pop(&mut self, now: Instant) -> Option<Parcel> {
        if self.due()? > now {
            return None;
        }
        let (_, parcel) = self.parcels.pop_front()?;
        self.bytes -= parcel.bytes.len();
        Some(parcel)
    }

    fn has_room(&self) -> bool {
        self.bytes < MAX_ON_THE_WAY
    }
}

async fn accept(
    listener: TcpListener,
    to: Endpoint,
    one_way: Duration,
    wires: Arc<Mutex<VecDeque<Arc<Wire>>>>,
) {
    let mut connections = JoinSet::new();
    loop {
        let accepted = listener.accept().await;
        while connections.try_join_next().is_some() {}
        let Ok((client, _)) = accepted else {
            // Out of descriptors: the client times out and says so.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let wire = Arc::new(Wire {
            accepted: Instant::now(),
            rounds: Mutex::new(Rounds::new()),
        });
        let mut remembered = locked(&wires);
        if remembered.len() == MAX_REMEMBERED {
            remembered.pop_front();
        }
        remembered.push_back(Arc::clone(&wire));
        drop(remembered);
        let to = to.clone();
        connections.spawn(async move {
            // How a connection ends shows at its ends.
            let _ = carry(client, &to, one_way, &wire).await;
        });
    }
}

async fn carry(client: TcpStream, to: &Endpoint, one_way: Duration, wire: &Wire) -> io::Result<()> {
    client.set_nodelay(true)?;
    match to {
        Endpoint::Tcp(address) => {
            let server = TcpStream::connect(address).await?;
            server.set_nodelay(true)?;
            join(client, server, one_way, wire).await
        }
        Endpoint::Unix(path) => join(client, connect_unix(path).await?, one_way, wire).await,
    }
}

async fn join(
    client: TcpStream,
    server: impl AsyncRead + AsyncWrite,
    one_way: Duration,
    wire: &Wire,
) -> io::Result<()> {
    let (from_client, to_client) = tokio::io::split(client);
    let (from_server, to_server) = tokio::io::split(server);
    // SYN, SYN-ACK and ACK take three ways; what a server says first takes one more.
    let there = DelayLine::new(one_way, wire.accepted + one_way * 3);
    let back = DelayLine::new(one_way, wire.accepted + one_way * 4);
    tokio::try_join!(
        pump(from_client, to_server, there, End::Client, wire),
        pump(from_server, to_client, back, End::Server, wire),
    )
    .map(|_| ())
}

/// Moves bytes that come from `end` until it has ended its direction.
async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut line: DelayLine,
    end: End,
    wire: &Wire,
) -> io::Result<()> {
    let mut piece = vec![0; PIECE_BYTES];
    let mut reading = true;
    loop {
        let due = line.due();
        let waiting = async {
            match due {
                Some(due) => sleep_until(due.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = waiting => {
                let now = Instant::now();
                let Some(parcel) = line.pop(now) else { continue };
                if parcel.bytes.is_empty() {
                    return to.shutdown().await;
                }
                // Counted first: the other end may answer before this task runs again.
                locked(&wire.rounds).arrived(end, parcel.number, now);
                to.write_all(&parcel.bytes).await?;
            }
            came = from.read(&mut piece), if reading && line.has_room() => {
                let came = came?;
                reading = came > 0;
                let number = locked(&wire.rounds).leaving(end);
                line.push(Parcel { bytes: piece[..came].to_vec(), number }, Instant::now());
            }
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF: Duration = Duration::from_millis(10);

    fn parcel(text: &str) -> Parcel {
        Parcel {
            bytes: text.into(),
            number: 1,
        }
    }

    #[test]
    fn a_line_keeps_order_and_delay() {
        let start = Instant::now();
        let mut line = DelayLine::new(HALF, start);
        line.push(parcel("first"), start);
        line.push(parcel("second"), start + HALF / 2);
        assert_eq!(line.due(), Some(start + HALF));
        assert!(line.pop(start + HALF / 2).is_none());
        assert_eq!(line.pop(start + HALF).unwrap().bytes, b"first");
        assert!(line.pop(start + HALF).is_none());
        assert_eq!(line.pop(start + HALF * 2).unwrap().bytes, b"second");
        assert_eq!((line.due(), line.bytes), (None, 0));
    }

    #[test]
    fn nothing_leaves_before_the_line_opens() {
        let start = Instant::now();
        let mut line = DelayLine::new(HALF, start + HALF * 3);
        line.push(parcel("early"), start);
        assert_eq!(line.due(), Some(start + HALF * 3));
    }

    #[test]
    fn a_full_line_takes_no_more_until_something_left() {
        let start = Instant::now();
        let mut line = DelayLine::new(HALF, start);
        let bytes = vec![0; MAX_ON_THE_WAY];
        line.push(Parcel { bytes, number: 1 }, start);
        assert!(!line.has_room());
        line.pop(start + HALF).unwrap();
        assert!(line.has_room());
    }

    /// Bytes from one end to the other, at once.
    fn pass(rounds: &mut Rounds, from: End, now: Instant) {
        let number = rounds.leaving(from);
        rounds.arrived(from, number, now);
    }

    #[test]
    fn an_answer_ends_a_round_trip_and_a_second_piece_of_it_does_not() {
        let now = Instant::now();
        let mut rounds = Rounds::new();
        for expected in 1..=3 {
            pass(&mut rounds, End::Client, now);
            pass(&mut rounds, End::Client, now);
            pass(&mut rounds, End::Server, now);
            pass(&mut rounds, End::Server, now);
            assert_eq!(rounds.until(now), expected);
        }
    }

    #[test]
    fn bytes_that_cross_on_their_way_are_no_round_trip() {
        let now = Instant::now();
        let mut rounds = Rounds::new();
        // ClientHello and early data; the server's flight and, right behind it, its answer.
        pass(&mut rounds, End::Client, now);
        let flight = rounds.leaving(End::Server);
        let answer = rounds.leaving(End::Server);
        rounds.arrived(End::Server, flight, now);
        // The client ends the handshake before the answer is there.
        let finished = rounds.leaving(End::Client);
        rounds.arrived(End::Server, answer, now);
        rounds.arrived(End::Client, finished, now);
        assert_eq!(rounds.until(now), 1);
    }

    #[test]
    fn a_server_that_speaks_first_answers_the_tcp_handshake() {
        let now = Instant::now();
        let mut rounds = Rounds::new();
        pass(&mut rounds, End::Server, now);
        assert_eq!(rounds.until(now), 1);
        pass(&mut rounds, End::Client, now);
        pass(&mut rounds, End::Server, now);
        assert_eq!(rounds.until(now), 2);
    }

    #[test]
    fn what_comes_after_the_moment_asked_for_does_not_count() {
        let now = Instant::now();
        let mut rounds = Rounds::new();
        pass(&mut rounds, End::Client, now);
        pass(&mut rounds, End::Server, now);
        pass(&mut rounds, End::Client, now);
        pass(&mut rounds, End::Server, now + HALF);
        assert_eq!(rounds.until(now), 1);
        assert_eq!(rounds.until(now + HALF), 2);
    }

    /// Answers every piece with itself, and ends when the client does.
    async fn echo(listener: TcpListener) {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut piece = [0; 4096];
        loop {
            match stream.read(&mut piece).await.unwrap() {
                0 => return,
                came => stream.write_all(&piece[..came]).await.unwrap(),
            }
        }
    }

    #[tokio::test]
    async fn a_dialogue_through_the_proxy_takes_and_counts_its_round_trips() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let endpoint = Endpoint::Tcp(listener.local_addr().unwrap());
        let echoing = tokio::spawn(echo(listener));
        let proxy = DelayProxy::start(endpoint, HALF).await.unwrap();
        let start = Instant::now();
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        tokio::time::sleep(proxy.round_trip()).await;
        for _ in 0..3 {
            stream.write_all(b"there and back").await.unwrap();
            stream.read_exact(&mut [0; 14]).await.unwrap();
        }
        let took = start.elapsed();
        assert!(took >= proxy.round_trip() * 4, "{took:?}");
        assert_eq!(proxy.round_trips(took), Some(4));
        drop(stream);
        echoing.await.unwrap();
    }

    #[tokio::test]
    async fn a_megabyte_arrives_whole() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let endpoint = Endpoint::Tcp(listener.local_addr().unwrap());
        let echoing = tokio::spawn(echo(listener));
        let proxy = DelayProxy::start(endpoint, HALF).await.unwrap();
        let stream = TcpStream::connect(proxy.address()).await.unwrap();
        let (mut reading, mut writing) = stream.into_split();
        let sent: Vec<u8> = (0..1_000_000_u32).map(|n| (n % 251) as u8).collect();
        let expected = sent.clone();
        let writer = tokio::spawn(async move {
            writing.write_all(&sent).await.unwrap();
            writing.shutdown().await.unwrap();
        });
        let mut came = Vec::new();
        reading.read_to_end(&mut came).await.unwrap();
        assert!(came == expected, "{} bytes came", came.len());
        writer.await.unwrap();
        echoing.await.unwrap();
    }
}
