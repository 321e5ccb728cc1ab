//! Any bytes, shown at once and in pieces: the same answer, never a panic, never more than the bounds.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_tls::hello::{MAX_ENTRIES, MAX_HELLO_BYTES, Reader, Reading, read};

fuzz_target!(|input: &[u8]| {
    // The last byte chooses how the bytes are cut, so that seeds stay raw hellos.
    let Some((cut, bytes)) = input.split_last() else {
        return;
    };
    let whole = read(bytes);
    let step = usize::from(*cut % 31) * usize::from(*cut) + 1;
    let mut reader = Reader::default();
    let mut shown = 0;
    let pieces = loop {
        shown = (shown + step).min(bytes.len());
        let reading = reader.read(&bytes[..shown]);
        if reading != Reading::Incomplete || shown == bytes.len() {
            break reading;
        }
    };
    assert_eq!(whole, pieces, "cut into {step}");
    match whole {
        Reading::Complete(hello) => {
            assert!(hello.raw_len <= bytes.len() && hello.raw_len <= MAX_HELLO_BYTES);
            assert!(hello.session_id.len() <= 32 && !hello.versions.contains(&0x0a0a));
            assert!(hello.alpn.len() <= MAX_ENTRIES && hello.psk_identities.len() <= MAX_ENTRIES);
            assert_eq!(
                read(&bytes[..hello.raw_len]),
                Reading::Complete(hello.clone())
            );
            assert_eq!(read(&bytes[..hello.raw_len - 1]), Reading::Incomplete);
        }
        Reading::Incomplete => assert!(bytes.len() <= MAX_HELLO_BYTES),
        Reading::PlainHttp => {}
        Reading::Refused(error) => assert!(!error.to_string().is_empty() && error.alert() > 0),
    }
});
