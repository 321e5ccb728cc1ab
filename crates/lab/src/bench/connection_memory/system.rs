//! What the system says about memory: of a process, of sockets, and of the objects that they are made of.

use std::fs;
use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::bench::BenchError;

/// Objects of the kernel that one TCP socket in an event loop takes, as `/proc/slabinfo` calls them:
/// socket, inode, its name, open file, and two for being waited for.
const SOCKET_OBJECTS: [&str; 6] = [
    "TCP",
    "sock_inode_cache",
    "dentry",
    "filp",
    "eventpoll_epi",
    "eventpoll_pwq",
];

/// Descriptors that this process needs besides those of a measurement.
const SPARE_DESCRIPTORS: u64 = 64;

/// Memory of a process, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    /// Everything that is resident, also what other processes share.
    pub(crate) resident: u64,
    /// What no file is behind (heap and stacks), shared pages divided by how many share them.
    pub(crate) anonymous: u64,
}

impl Memory {
    /// Memory of the process of this id, from `/proc/PID/smaps_rollup`.
    ///
    /// # Errors
    /// When the process is gone or may not be looked at.
    pub(crate) fn of(pid: u32) -> Result<Self, BenchError> {
        let path = format!("/proc/{pid}/smaps_rollup");
        let text = fs::read_to_string(&path).map_err(|source| unreadable(&path, source))?;
        parse_rollup(&text).ok_or_else(|| {
            let odd = io::Error::new(io::ErrorKind::InvalidData, "it has neither Rss nor Pss");
            unreadable(&path, odd)
        })
    }
}

fn parse_rollup(text: &str) -> Option<Memory> {
    let resident = kilobytes(text, "Rss:")?;
    // Kernels before 5.0 do not split it; the text of a program hardly changes once it is warm.
    let anonymous = kilobytes(text, "Pss_Anon:").or_else(|| kilobytes(text, "Pss:"))?;
    Some(Memory {
        resident,
        anonymous,
    })
}

/// The value of a line such as `Rss:   100 kB`, in bytes.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024)
}

/// Sockets that the process of this id has open.
///
/// # Errors
/// When the process is gone or may not be looked at.
pub(crate) fn sockets(pid: u32) -> Result<u64, BenchError> {
    let path = format!("/proc/{pid}/fd");
    let entries = fs::read_dir(&path).map_err(|source| unreadable(&path, source))?;
    let is_socket = |entry: &fs::DirEntry| {
        fs::read_link(entry.path()).is_ok_and(|to| to.to_string_lossy().starts_with("socket:"))
    };
    Ok(entries.flatten().filter(is_socket).count() as u64)
}

/// Bytes that wait in TCP sockets of the whole system, by `/proc/net/sockstat`; `None` when it does not
/// say.
pub(crate) fn buffered_bytes() -> Option<u64> {
    let pages = parse_sockstat(&fs::read_to_string("/proc/net/sockstat").ok()?)?;
    let page = kilobytes(
        &fs::read_to_string("/proc/self/smaps").ok()?,
        "KernelPageSize:",
    )?;
    Some(pages * page)
}

/// Pages, from the line `TCP: inuse 2 orphan 0 tw 16 alloc 2 mem 182`.
fn parse_sockstat(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("TCP:"))?;
    let mut words = line.split_whitespace();
    words.find(|word| *word == "mem")?;
    words.next()?.parse().ok()
}

/// What the kernel keeps for one socket while no byte is on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SocketObjects {
    /// Bytes of all of them.
    pub(crate) bytes: u64,
    /// Their names and sizes, such as `TCP 2368 + dentry 192`.
    pub(crate) names: String,
}

impl SocketObjects {
    /// From `/proc/slabinfo`; `None` when this user may not read it.
    pub(crate) fn read() -> Option<Self> {
        parse_slabinfo(&fs::read_to_string("/proc/slabinfo").ok()?)
    }
}

/// Name and size of an object are the first and the fourth column.
fn parse_slabinfo(text: &str) -> Option<SocketObjects> {
    let size = |name: &str| {
        let mut lines = text.lines().map(str::split_whitespace);
        let mut line = lines.find(|line| line.clone().next() == Some(name))?;
        line.nth(3)?.parse::<u64>().ok()
    };
    // Without the socket itself the sum would be of no meaning; a kernel may merge the others.
    size(SOCKET_OBJECTS[0])?;
    let mut bytes = 0;
    let mut names = Vec::new();
    for name in SOCKET_OBJECTS {
        if let Some(size) = size(name) {
            bytes += size;
            names.push(format!("{name} {size}"));
        }
    }
    Some(SocketObjects {
        bytes,
        names: names.join(" + "),
    })
}

/// Makes room for this many descriptors of one process, here and in children started from now on.
///
/// # Errors
/// When the system allows fewer; the error says how many.
pub(crate) fn make_room(descriptors: u64) -> Result<(), BenchError> {
    let wanted = descriptors + SPARE_DESCRIPTORS;
    let now = getrlimit(Resource::Nofile);
    if now.current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    if now.maximum.is_some_and(|most| most < wanted) {
        return Err(BenchError::System {
            what: format!("{wanted} open files, one for each connection"),
            source: io::Error::other(format!(
                "this process may have {}",
                now.maximum.unwrap_or_default()
            )),
            hint: format!("ask for fewer connections, or begin with `ulimit -Hn {wanted}` as root"),
        });
    }
    let raised = Rlimit {
        current: Some(wanted),
        maximum: now.maximum,
    };
    setrlimit(Resource::Nofile, raised).map_err(|error| BenchError::System {
        what: format!("{wanted} open files, one for each connection"),
        source: error.into(),
        hint: format!("begin with `ulimit -n {wanted}`"),
    })
}

fn unreadable(path: &str, source: io::Error) -> BenchError {
    BenchError::System {
        what: format!("cannot read {path}"),
        source,
        hint: "the process must be alive and belong to the same user".into(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at once")]
    use super::*;

    #[test]
    fn anonymous_memory_is_what_no_file_is_behind() {
        let text = "55d0-7ffc ---p 00000000 00:00 0 [rollup]\nRss:   100 kB\nPss:    90 kB\nPss_Anon:  24 kB\nPss_File: 66 kB\n";
        let read = parse_rollup(text).unwrap();
        assert_eq!((read.resident, read.anonymous), (100 * 1024, 24 * 1024));
        let old = "Rss: 100 kB\nPss: 90 kB\n";
        assert_eq!(parse_rollup(old).unwrap().anonymous, 90 * 1024);
        assert!(parse_rollup("Pss: 3 kB\n").is_none());
    }

    #[test]
    fn pages_in_sockets_are_the_last_word_of_the_tcp_line() {
        let text =
            "sockets: used 35\nTCP: inuse 2 orphan 0 tw 16 alloc 2 mem 182\nUDP: inuse 0 mem 7\n";
        assert_eq!(parse_sockstat(text), Some(182));
        assert_eq!(parse_sockstat("UDP: inuse 0 mem 7\n"), None);
        assert_eq!(parse_sockstat("TCP: inuse 0 mem\n"), None);
    }

    const SLABS: &str = "slabinfo - version: 2.1\n\
        # name            <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab>\n\
        TCPv6                 26     26   2496   13    8 : tunables 0 0 0\n\
        tw_sock_TCP           96    176    256   16    1 : tunables 0 0 0\n\
        TCP                  117    117   2368   13    8 : tunables 0 0 0\n\
        sock_inode_cache     285    285    832   19    4 : tunables 0 0 0\n\
        filp                1063   1113    192   21    1 : tunables 0 0 0\n";

    #[test]
    fn the_objects_of_a_socket_are_summed_up_by_their_whole_names() {
        let objects = parse_slabinfo(SLABS).unwrap();
        assert_eq!(objects.bytes, 2368 + 832 + 192);
        assert_eq!(objects.names, "TCP 2368 + sock_inode_cache 832 + filp 192");
    }

    #[test]
    fn without_the_socket_itself_there_is_no_sum() {
        assert!(parse_slabinfo("filp 1 1 192 21 1\n").is_none());
        assert!(parse_slabinfo("").is_none());
    }

    #[test]
    fn this_process_can_be_looked_at_and_a_dead_one_cannot() {
        let own = Memory::of(std::process::id()).unwrap();
        assert!(own.resident > 100_000 && own.anonymous > 10_000);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(sockets(std::process::id()).unwrap() >= 1);
        drop(listener);
        let dead = Memory::of(u32::MAX).unwrap_err().to_string();
        assert!(dead.contains("smaps_rollup"), "{dead}");
    }

    #[test]
    fn more_descriptors_than_the_system_has_are_refused_with_the_number() {
        if getrlimit(Resource::Nofile).maximum.is_none() {
            return;
        }
        let told = make_room(1 << 40).unwrap_err().to_string();
        assert!(
            told.contains("open files") && told.contains("ulimit"),
            "{told}"
        );
    }
}
