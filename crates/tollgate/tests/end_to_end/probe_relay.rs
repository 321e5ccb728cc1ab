//! A relay in front of a server: it keeps what passes, and may hold a plaintext dialogue first.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A step of a dialogue.
#[derive(Clone, Copy, Debug)]
pub enum Line {
    /// The relay says this.
    Says(&'static [u8]),
    /// The client must say exactly this.
    Awaits(&'static [u8]),
}

/// Bytes of a connection: from the client, from the server.
pub type Passed = [Vec<u8>; 2];

/// Ends with the test: its threads wait for connections that no longer come.
pub struct Relay {
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<Passed>>>,
}

impl Relay {
    /// Passes connections on to `to`, each after this dialogue.
    pub fn start(to: SocketAddr, dialogue: &'static [Line]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&seen);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.unwrap();
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || connection(client, to, dialogue, &shared));
            }
        });
        Self { address, seen }
    }

    /// What passed so far on each connection on which something did in both directions.
    pub fn passed(&self) -> Vec<Passed> {
        let seen = self.seen.lock().unwrap();
        let both = |passed: &&Passed| passed.iter().all(|bytes| !bytes.is_empty());
        seen.iter().filter(both).cloned().collect()
    }
}

fn connection(
    mut client: TcpStream,
    to: SocketAddr,
    dialogue: &[Line],
    seen: &Arc<Mutex<Vec<Passed>>>,
) {
    for line in dialogue {
        match line {
            Line::Says(text) => client.write_all(text).unwrap(),
            Line::Awaits(text) => {
                let mut came = vec![0; text.len()];
                // A client that leaves in the middle is none of ours to judge.
                if client.read_exact(&mut came).is_err() {
                    return;
                }
                assert_eq!(&came, text);
            }
        }
    }
    let server = TcpStream::connect(to).unwrap();
    let number = {
        let mut seen = seen.lock().unwrap();
        seen.push(Passed::default());
        seen.len() - 1
    };
    let (from_client, to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let shared = Arc::clone(seen);
    std::thread::spawn(move || copy(from_client, to_server, &shared, number, 0));
    copy(server, client, seen, number, 1);
}

fn copy(
    mut from: TcpStream,
    mut to: TcpStream,
    seen: &Mutex<Vec<Passed>>,
    number: usize,
    side: usize,
) {
    let mut piece = [0; 16_384];
    while let Ok(came) = from.read(&mut piece)
        && came > 0
    {
        seen.lock().unwrap()[number][side].extend_from_slice(&piece[..came]);
        if to.write_all(&piece[..came]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}
