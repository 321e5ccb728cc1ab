//! Any bytes as a PROXY header: never a panic, one answer for every prefix, and what was read can be
//! written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_preface::{Outgoing, Reading, read, write_v1, write_v2};

fuzz_target!(|bytes: &[u8]| {
    let Reading::Complete { header, length } = read(bytes) else {
        return;
    };
    assert!(length <= bytes.len());
    for end in 0..length {
        assert_eq!(
            read(&bytes[..end]),
            Reading::Incomplete,
            "first {end} bytes"
        );
    }
    let _ = (header.tls(), header.alpn());
    let (Some(source), Some(destination)) = (header.source, header.destination) else {
        return;
    };
    let outgoing = Outgoing {
        authority: header.authority(),
        checksum: true,
        ..Outgoing::new(source, destination)
    };
    let (mut first, mut second) = (Vec::new(), Vec::new());
    write_v1(source, destination, &mut first);
    write_v2(&outgoing, &mut second);
    for written in [first, second] {
        let Reading::Complete {
            header: again,
            length,
        } = read(&written)
        else {
            panic!("our own header was not read: {written:?}");
        };
        assert_eq!(length, written.len());
        let canonical =
            |address: std::net::SocketAddr| (address.ip().to_canonical(), address.port());
        assert_eq!(again.source.map(canonical), Some(canonical(source)));
        assert_eq!(
            again.destination.map(canonical),
            Some(canonical(destination))
        );
    }
});
