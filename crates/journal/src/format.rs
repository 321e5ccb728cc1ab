//! Entries as lines. A line is one line whatever clients send: every control character is escaped.

use std::io::Write;

use jiff::Timestamp;
use tollgate_terms::HandshakeFacts;

use crate::{Entry, LONGEST_TEXT_BYTES, Peer};

/// Shape of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// One JSON object a line.
    Json,
    /// `key=value` pairs, quoted where needed.
    Logfmt,
}

impl Format {
    /// Appends the line for `entry`, with its final newline.
    pub fn write(self, entry: &Entry, out: &mut Vec<u8>) {
        let mut line = Line {
            format: self,
            is_first: true,
            out,
        };
        line.begin();
        line.time(entry.time_millis);
        line.word("event", entry.event.name());
        line.text("listener", entry.listener.as_deref());
        line.text("site", entry.site.as_deref());
        line.number("worker", entry.worker.map(|worker| worker as u64));
        line.peer(entry.client);
        let facts = entry.handshake.as_deref();
        let handshake_name = facts.and_then(|facts| facts.server_name.as_ref());
        line.text(
            "server_name",
            handshake_name
                .map(|name| name.as_str())
                .or(entry.server_name.as_deref()),
        );
        if let Some(facts) = facts {
            line.handshake(facts);
        }
        line.flag("tls_early_data", entry.early_data);
        line.text("alpn", facts.and_then(|facts| facts.alpn.as_deref()));
        let client = facts.and_then(|facts| facts.client.as_ref());
        line.text(
            "client_subject",
            client.map(|client| client.subject.as_str()),
        );
        line.exchange(entry);
        line.end();
    }
}

/// A line being written.
struct Line<'a> {
    format: Format,
    is_first: bool,
    out: &'a mut Vec<u8>,
}

impl Line<'_> {
    fn begin(&mut self) {
        if self.format == Format::Json {
            self.out.push(b'{');
        }
    }

    fn end(&mut self) {
        if self.format == Format::Json {
            self.out.push(b'}');
        }
        self.out.push(b'\n');
    }

    fn handshake(&mut self, facts: &HandshakeFacts) {
        self.word("tls_version", facts.version.name());
        self.word("tls_suite", facts.suite.name());
        self.text("tls_group", facts.group.map(|group| group.name()));
        self.text("tls_certificate", facts.certificate.map(|kind| kind.name()));
        self.word("tls_kind", facts.kind.name());
        self.flag("tls_resumed", Some(facts.kind.is_resumed()));
        self.text("tls_miss", facts.miss.map(|miss| miss.name()));
    }

    fn exchange(&mut self, entry: &Entry) {
        self.text("protocol", entry.protocol);
        self.bytes("method", entry.method.as_deref().map(str::as_bytes));
        self.bytes("host", entry.host.as_deref());
        self.bytes("path", entry.path.as_deref());
        self.number("status", entry.status.map(u64::from));
        self.number("request_bytes", entry.request_bytes);
        self.number("response_bytes", entry.response_bytes);
        self.text("backend", entry.backend.as_deref());
        self.number("retries", entry.retries.map(u64::from));
        self.number("handshake_us", entry.handshake_us);
        self.number("backend_us", entry.backend_us);
        self.number("total_us", entry.total_us);
        self.text("end", entry.end.map(|end| end.name()));
        self.bytes("error", entry.error.as_deref().map(str::as_bytes));
    }

    fn key(&mut self, key: &str) {
        match (self.format, self.is_first) {
            (_, true) => self.is_first = false,
            (Format::Json, false) => self.out.push(b','),
            (Format::Logfmt, false) => self.out.push(b' '),
        }
        match self.format {
            Format::Json => {
                self.out.push(b'"');
                self.out.extend_from_slice(key.as_bytes());
                self.out.extend_from_slice(b"\":");
            }
            Format::Logfmt => {
                self.out.extend_from_slice(key.as_bytes());
                self.out.push(b'=');
            }
        }
    }

    fn time(&mut self, millis: u64) {
        let millis = i64::try_from(millis).unwrap_or(i64::MAX);
        let time = Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX);
        self.key("time");
        self.shown(format_args!("{time:.3}"));
    }

    fn peer(&mut self, peer: Option<Peer>) {
        match peer {
            None => {}
            Some(Peer::Unix) => self.word("client", "unix"),
            Some(Peer::Ip(address)) => {
                self.key("client");
                self.shown(format_args!("{address}"));
            }
        }
    }

    /// A value that is known to hold nothing that needs an escape.
    fn shown(&mut self, value: std::fmt::Arguments<'_>) {
        let quote: &[u8] = match self.format {
            Format::Json => b"\"",
            Format::Logfmt => b"",
        };
        self.out.extend_from_slice(quote);
        // Writing to a vector does not fail.
        let _ = self.out.write_fmt(value);
        self.out.extend_from_slice(quote);
    }

    fn word(&mut self, key: &str, word: &str) {
        self.text(key, Some(word));
    }

    fn number(&mut self, key: &str, number: Option<u64>) {
        if let Some(number) = number {
            self.key(key);
            let _ = write!(self.out, "{number}");
        }
    }

    fn flag(&mut self, key: &str, flag: Option<bool>) {
        if let Some(flag) = flag {
            self.key(key);
            let _ = write!(self.out, "{flag}");
        }
    }

    fn text(&mut self, key: &str, text: Option<&str>) {
        if let Some(text) = text {
            self.key(key);
            match self.format {
                Format::Json => quote(text, self.out),
                Format::Logfmt if is_bare(text) => self.out.extend_from_slice(text.as_bytes()),
                Format::Logfmt => quote(text, self.out),
            }
        }
    }

    /// What a client sent: cut when too long, and read as UTF-8 with U+FFFD for what is not.
    fn bytes(&mut self, key: &str, bytes: Option<&[u8]>) {
        let Some(bytes) = bytes else { return };
        if bytes.len() <= LONGEST_TEXT_BYTES {
            self.text(key, Some(&String::from_utf8_lossy(bytes)));
        } else {
            let cut = String::from_utf8_lossy(&bytes[..LONGEST_TEXT_BYTES]);
            self.text(key, Some(&format!("{cut}…")));
        }
    }
}

/// Whether logfmt needs no quotes for it.
fn is_bare(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'=' | b'\\'))
}

/// A JSON string (RFC 8259, section 7), with every control character and Unicode line end escaped.
fn quote(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for character in text.chars() {
        match character {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            '\n' => out.extend_from_slice(b"\\n"),
            '\r' => out.extend_from_slice(b"\\r"),
            '\t' => out.extend_from_slice(b"\\t"),
            _ if character.is_control() || matches!(character, '\u{2028}' | '\u{2029}') => {
                let _ = write!(out, "\\u{:04x}", character as u32);
            }
            _ => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    out.push(b'"');
}
