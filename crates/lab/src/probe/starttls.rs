//! The plaintext dialogues that come before TLS: SMTP, IMAP, POP3, PostgreSQL.
//!
//! Each reads whole replies of bounded length and refuses a server that speaks out of turn: bytes
//! that arrive behind the go-ahead were not protected by TLS, and a client that took them for
//! protected could be fed commands by whoever sits in between (as in CVE-2011-0411 and CVE-2021-23222).

use std::fmt;
use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// RFC 5321 allows 512 bytes per reply line; real servers write longer ones.
const MAX_LINE_BYTES: usize = 2048;

/// Lines of one reply: an EHLO answer has about twenty.
const MAX_LINES: usize = 100;

/// So much of what a server said is repeated in an error.
const QUOTED_CHARACTERS: usize = 160;

/// SSLRequest: length 8, code 1234.5679 (PostgreSQL, "Message Formats").
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

/// A protocol that begins in plaintext and turns to TLS when asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartTls {
    /// RFC 3207.
    Smtp,
    /// RFC 9051, section 6.2.1.
    Imap,
    /// RFC 2595, section 4.
    Pop3,
    /// The SSLRequest message.
    Postgres,
}

/// Why a server did not come to speak TLS.
#[derive(Debug, thiserror::Error)]
pub enum StartTlsError {
    /// The connection broke.
    #[error("{protocol}: the connection broke while waiting for {awaited}: {source}")]
    Io {
        /// Name of the protocol.
        protocol: StartTls,
        /// What was to come.
        awaited: &'static str,
        /// The system's words.
        source: io::Error,
    },
    /// The server ended the connection.
    #[error(
        "{protocol}: the server closed the connection instead of sending {awaited}; is this port really {protocol}?"
    )]
    Closed {
        /// Name of the protocol.
        protocol: StartTls,
        /// What was to come.
        awaited: &'static str,
    },
    /// The server said something else than what the protocol has here.
    #[error(
        "{protocol}: the server said {said:?} where {awaited} belongs; is this port really {protocol}, and not TLS from the first byte?"
    )]
    Unexpected {
        /// Name of the protocol.
        protocol: StartTls,
        /// What was to come.
        awaited: &'static str,
        /// What came, cut short.
        said: String,
    },
    /// The server speaks the protocol and does not offer TLS, or not now.
    #[error("{protocol}: the server refuses TLS: it said {said:?}; {advice}")]
    Refused {
        /// Name of the protocol.
        protocol: StartTls,
        /// What it said, cut short.
        said: String,
        /// What to do about it.
        advice: &'static str,
    },
    /// A reply without end.
    #[error(
        "{protocol}: {awaited} is over {MAX_LINES} lines or has a line over {MAX_LINE_BYTES} bytes"
    )]
    TooLong {
        /// Name of the protocol.
        protocol: StartTls,
        /// What was to come.
        awaited: &'static str,
    },
    /// Plaintext behind the go-ahead.
    #[error(
        "{protocol}: {count} plaintext bytes came behind {awaited}, beginning with {said:?}; a server that does that, or \
         somebody in between, could pass plaintext off as protected"
    )]
    Behind {
        /// Name of the protocol.
        protocol: StartTls,
        /// Behind what they came.
        awaited: &'static str,
        /// How many bytes were there.
        count: usize,
        /// The first of them, cut short.
        said: String,
    },
}

impl StartTls {
    /// All of them, as help lists them.
    pub const ALL: [Self; 4] = [Self::Smtp, Self::Imap, Self::Pop3, Self::Postgres];

    /// `smtp`, `imap`, `pop3` or `postgres`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Smtp => "smtp",
            Self::Imap => "imap",
            Self::Pop3 => "pop3",
            Self::Postgres => "postgres",
        }
    }

    /// The protocol with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The port that is meant when none is given: 25, 143, 110 or 5432.
    pub fn port(self) -> u16 {
        match self {
            Self::Smtp => 25,
            Self::Imap => 143,
            Self::Pop3 => 110,
            Self::Postgres => 5432,
        }
    }
}

impl fmt::Display for StartTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Speaks `kind` until the server is ready for a ClientHello. Waits as long as the server does: the
/// caller bounds the time.
///
/// # Errors
/// When the server does not speak the protocol, refuses TLS, or sends plaintext behind its go-ahead.
pub(crate) async fn begin<IO>(io: &mut IO, kind: StartTls) -> Result<(), StartTlsError>
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    let mut dialogue = Dialogue {
        io,
        kind,
        received: Vec::new(),
    };
    match kind {
        StartTls::Smtp => dialogue.smtp().await,
        StartTls::Imap => dialogue.imap().await,
        StartTls::Pop3 => dialogue.pop3().await,
        StartTls::Postgres => dialogue.postgres().await,
    }
}

/// One side of a dialogue in lines.
struct Dialogue<'io, IO> {
    io: &'io mut IO,
    kind: StartTls,
    /// What came and was not read yet.
    received: Vec<u8>,
}

impl<IO: AsyncRead + AsyncWrite + Unpin> Dialogue<'_, IO> {
    async fn smtp(&mut self) -> Result<(), StartTlsError> {
        let greeting = self.smtp_reply("the greeting").await?;
        self.expect(&greeting, "220", "the greeting")?;
        // An address literal says that we have no name (RFC 5321, section 4.1.4).
        self.say("EHLO [127.0.0.1]\r\n", "the answer to EHLO")
            .await?;
        let offered = self.smtp_reply("the answer to EHLO").await?;
        self.expect(&offered, "250", "the answer to EHLO")?;
        let offers = |line: &String| {
            line.get(4..)
                .is_some_and(|word| word.trim().eq_ignore_ascii_case("STARTTLS"))
        };
        if !offered.iter().any(offers) {
            return Err(self.refused(
                &offered.join(" / "),
                "STARTTLS is not among its extensions: enable it in the mail server, or ask another port (587, 465)",
            ));
        }
        self.say("STARTTLS\r\n", "the answer to STARTTLS").await?;
        let answer = self.smtp_reply("the answer to STARTTLS").await?;
        if !answer.iter().all(|line| line.starts_with("220")) {
            return Err(self.refused(
                &answer.join(" / "),
                "its log says why; a certificate that it cannot load is the usual reason",
            ));
        }
        Ok(())
    }

    async fn imap(&mut self) -> Result<(), StartTlsError> {
        let awaited = "the greeting";
        let greeting = self.line(awaited).await?;
        self.nothing_behind(awaited)?;
        if starts_with(&greeting, "* PREAUTH") {
            return Err(self.refused(
                &greeting,
                "a connection that is already logged in cannot turn to TLS (RFC 9051, section 11.1)",
            ));
        }
        if !starts_with(&greeting, "* OK") {
            return Err(self.unexpected(&greeting, awaited));
        }
        let awaited = "the answer to STARTTLS";
        self.say("a1 STARTTLS\r\n", awaited).await?;
        for _ in 0..MAX_LINES {
            let line = self.line(awaited).await?;
            if line.starts_with("* ") {
                continue;
            }
            if starts_with(&line, "a1 OK") {
                return self.nothing_behind(awaited);
            }
            return Err(match line.starts_with("a1 ") {
                true => self.refused(&line, "enable TLS in the mail server"),
                false => self.unexpected(&line, awaited),
            });
        }
        Err(self.too_long(awaited))
    }

    async fn pop3(&mut self) -> Result<(), StartTlsError> {
        let greeting = self.line("the greeting").await?;
        self.nothing_behind("the greeting")?;
        if !starts_with(&greeting, "+OK") {
            return Err(self.unexpected(&greeting, "the greeting"));
        }
        self.say("STLS\r\n", "the answer to STLS").await?;
        let answer = self.line("the answer to STLS").await?;
        self.nothing_behind("the answer to STLS")?;
        if starts_with(&answer, "+OK") {
            return Ok(());
        }
        Err(match starts_with(&answer, "-ERR") {
            true => self.refused(&answer, "enable TLS in the mail server"),
            false => self.unexpected(&answer, "the answer to STLS"),
        })
    }

    async fn postgres(&mut self) -> Result<(), StartTlsError> {
        let awaited = "the answer to SSLRequest";
        self.send(&SSL_REQUEST, awaited).await?;
        self.fill(awaited).await?;
        match self.received[0] {
            b'S' => {
                self.received.drain(..1);
                self.nothing_behind(awaited)
            }
            b'N' => Err(self.refused(
                "N",
                "set ssl = on, ssl_cert_file and ssl_key_file in postgresql.conf",
            )),
            // An ErrorResponse: what is here of it is readable enough.
            b'E' => Err(self.refused(
                &String::from_utf8_lossy(&self.received),
                "the server's log says more",
            )),
            _ => Err(self.unexpected(&String::from_utf8_lossy(&self.received), awaited)),
        }
    }

    /// All lines of an SMTP reply: each begins with three digits, and the last has no hyphen behind them.
    async fn smtp_reply(&mut self, awaited: &'static str) -> Result<Vec<String>, StartTlsError> {
        let mut lines = Vec::new();
        while lines.len() < MAX_LINES {
            let line = self.line(awaited).await?;
            let code = line.as_bytes().get(..3);
            if !code.is_some_and(|code| code.iter().all(u8::is_ascii_digit)) {
                return Err(self.unexpected(&line, awaited));
            }
            let last = line.as_bytes().get(3) != Some(&b'-');
            lines.push(line);
            if last {
                self.nothing_behind(awaited)?;
                return Ok(lines);
            }
        }
        Err(self.too_long(awaited))
    }

    /// One line, without its end.
    async fn line(&mut self, awaited: &'static str) -> Result<String, StartTlsError> {
        loop {
            if let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.received.drain(..=end).collect();
                return Ok(String::from_utf8_lossy(line.trim_ascii_end()).into_owned());
            }
            if self.received.len() > MAX_LINE_BYTES {
                return Err(self.too_long(awaited));
            }
            // A TLS alert has no line end to wait for.
            if let [0x15, 0x03, ..] = self.received[..] {
                let said = String::from_utf8_lossy(&self.received).into_owned();
                return Err(self.unexpected(&said, awaited));
            }
            self.fill(awaited).await?;
        }
    }

    /// Reads once; afterwards at least one byte is there.
    async fn fill(&mut self, awaited: &'static str) -> Result<(), StartTlsError> {
        let mut piece = [0; 1024];
        let came = self
            .io
            .read(&mut piece)
            .await
            .map_err(|source| self.broken(awaited, source))?;
        if came == 0 {
            return Err(StartTlsError::Closed {
                protocol: self.kind,
                awaited,
            });
        }
        self.received.extend_from_slice(&piece[..came]);
        Ok(())
    }

    async fn say(&mut self, line: &str, awaited: &'static str) -> Result<(), StartTlsError> {
        self.send(line.as_bytes(), awaited).await
    }

    async fn send(&mut self, bytes: &[u8], awaited: &'static str) -> Result<(), StartTlsError> {
        let sent = match self.io.write_all(bytes).await {
            Ok(()) => self.io.flush().await,
            Err(error) => Err(error),
        };
        sent.map_err(|source| self.broken(awaited, source))
    }

    /// Whatever came behind a whole reply was not asked for.
    fn nothing_behind(&self, awaited: &'static str) -> Result<(), StartTlsError> {
        if self.received.is_empty() {
            return Ok(());
        }
        Err(StartTlsError::Behind {
            protocol: self.kind,
            awaited,
            count: self.received.len(),
            said: quoted(&String::from_utf8_lossy(&self.received)),
        })
    }

    fn expect(
        &self,
        reply: &[String],
        code: &str,
        awaited: &'static str,
    ) -> Result<(), StartTlsError> {
        match reply.iter().find(|line| !line.starts_with(code)) {
            None => Ok(()),
            Some(line) => Err(self.unexpected(line, awaited)),
        }
    }

    fn unexpected(&self, said: &str, awaited: &'static str) -> StartTlsError {
        StartTlsError::Unexpected {
            protocol: self.kind,
            awaited,
            said: quoted(said),
        }
    }

    fn refused(&self, said: &str, advice: &'static str) -> StartTlsError {
        StartTlsError::Refused {
            protocol: self.kind,
            said: quoted(said),
            advice,
        }
    }

    fn too_long(&self, awaited: &'static str) -> StartTlsError {
        StartTlsError::TooLong {
            protocol: self.kind,
            awaited,
        }
    }

    fn broken(&self, awaited: &'static str, source: io::Error) -> StartTlsError {
        StartTlsError::Io {
            protocol: self.kind,
            awaited,
            source,
        }
    }
}

fn starts_with(line: &str, prefix: &str) -> bool {
    line.get(..prefix.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

/// What a stranger said, cut short; the caller prints it with its control characters escaped.
fn quoted(said: &str) -> String {
    let mut short: String = said.chars().take(QUOTED_CHARACTERS).collect();
    if short.len() < said.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who speaks, and what.
    type Script = &'static [(char, &'static [u8])];

    /// Plays the server's part of `script` ("S:" lines are sent, "C:" lines are awaited) and gives what `begin` said.
    async fn against(kind: StartTls, script: &[(char, &[u8])]) -> Result<(), StartTlsError> {
        let (mut client, mut server) = tokio::io::duplex(64 * 1024);
        let playing = async move {
            for (who, text) in script {
                if *who == 'S' {
                    server.write_all(text).await.unwrap();
                    continue;
                }
                let mut came = vec![0; text.len()];
                server.read_exact(&mut came).await.unwrap();
                assert_eq!(
                    String::from_utf8_lossy(&came),
                    String::from_utf8_lossy(text)
                );
            }
        };
        tokio::join!(begin(&mut client, kind), playing).0
    }

    const EHLO: &[u8] = b"EHLO [127.0.0.1]\r\n";

    #[tokio::test]
    async fn each_protocol_comes_to_the_go_ahead() {
        let smtp: &[(char, &[u8])] = &[
            ('S', b"220-mail.test\r\n220 ESMTP\r\n"),
            ('C', EHLO),
            ('S', b"250-mail.test\r\n250-PIPELINING\r\n250 starttls\r\n"),
            ('C', b"STARTTLS\r\n"),
            ('S', b"220 go ahead\r\n"),
        ];
        against(StartTls::Smtp, smtp).await.unwrap();
        let imap: &[(char, &[u8])] = &[
            ('S', b"* OK [CAPABILITY IMAP4rev1 STARTTLS] ready\r\n"),
            ('C', b"a1 STARTTLS\r\n"),
            ('S', b"* CAPABILITY IMAP4rev1\r\na1 OK begin\r\n"),
        ];
        against(StartTls::Imap, imap).await.unwrap();
        let pop3: &[(char, &[u8])] = &[
            ('S', b"+OK POP3\r\n"),
            ('C', b"STLS\r\n"),
            ('S', b"+OK\r\n"),
        ];
        against(StartTls::Pop3, pop3).await.unwrap();
        let postgres: &[(char, &[u8])] = &[('C', &SSL_REQUEST), ('S', b"S")];
        against(StartTls::Postgres, postgres).await.unwrap();
    }

    #[tokio::test]
    async fn a_refusal_says_what_the_server_said() {
        let cases: &[(StartTls, Script, &str)] = &[
            (
                StartTls::Smtp,
                &[
                    ('S', b"220 x\r\n"),
                    ('C', EHLO),
                    ('S', b"250-x\r\n250 SIZE\r\n"),
                ],
                "250-x / 250 SIZE",
            ),
            (
                StartTls::Smtp,
                &[
                    ('S', b"220 x\r\n"),
                    ('C', EHLO),
                    ('S', b"250 STARTTLS\r\n"),
                    ('C', b"STARTTLS\r\n"),
                    ('S', b"454 TLS not available\r\n"),
                ],
                "454 TLS not available",
            ),
            (
                StartTls::Imap,
                &[
                    ('S', b"* OK x\r\n"),
                    ('C', b"a1 STARTTLS\r\n"),
                    ('S', b"a1 BAD unknown\r\n"),
                ],
                "a1 BAD unknown",
            ),
            (StartTls::Imap, &[('S', b"* PREAUTH x\r\n")], "PREAUTH"),
            (
                StartTls::Pop3,
                &[('S', b"+OK\r\n"), ('C', b"STLS\r\n"), ('S', b"-ERR no\r\n")],
                "-ERR no",
            ),
            (
                StartTls::Postgres,
                &[('C', &SSL_REQUEST), ('S', b"N")],
                "postgresql.conf",
            ),
        ];
        for (kind, script, expected) in cases {
            let error = against(*kind, script).await.unwrap_err();
            assert!(matches!(error, StartTlsError::Refused { .. }), "{error}");
            assert!(error.to_string().contains(expected), "{error}");
        }
    }

    #[tokio::test]
    async fn plaintext_behind_the_go_ahead_is_refused() {
        let cases: &[(StartTls, Script)] = &[
            (
                StartTls::Smtp,
                &[
                    ('S', b"220 x\r\n"),
                    ('C', EHLO),
                    ('S', b"250 STARTTLS\r\n"),
                    ('C', b"STARTTLS\r\n"),
                    ('S', b"220 go\r\n250 injected\r\n"),
                ],
            ),
            (
                StartTls::Imap,
                &[
                    ('S', b"* OK x\r\n"),
                    ('C', b"a1 STARTTLS\r\n"),
                    ('S', b"a1 OK\r\n* injected"),
                ],
            ),
            (
                StartTls::Pop3,
                &[
                    ('S', b"+OK\r\n"),
                    ('C', b"STLS\r\n"),
                    ('S', b"+OK\r\n+OK injected\r\n"),
                ],
            ),
            (
                StartTls::Postgres,
                &[('C', &SSL_REQUEST), ('S', b"Sinjected")],
            ),
        ];
        for (kind, script) in cases {
            let error = against(*kind, script).await.unwrap_err();
            assert!(matches!(error, StartTlsError::Behind { .. }), "{error}");
            assert!(error.to_string().contains("injected"), "{error}");
        }
    }

    #[tokio::test]
    async fn what_is_no_such_protocol_is_told_apart() {
        let alert: &[(char, &[u8])] = &[('S', b"\x15\x03\x03\x00\x02\x02\x28")];
        for kind in [StartTls::Smtp, StartTls::Imap, StartTls::Pop3] {
            let error = against(kind, alert).await.unwrap_err();
            assert!(matches!(error, StartTlsError::Unexpected { .. }), "{error}");
            let error = against(kind, &[]).await.unwrap_err();
            assert!(matches!(error, StartTlsError::Closed { .. }), "{error}");
            let endless = vec![b'2'; 3 * MAX_LINE_BYTES];
            let error = against(kind, &[('S', &endless)]).await.unwrap_err();
            assert!(matches!(error, StartTlsError::TooLong { .. }), "{error}");
        }
        let many = b"220-x\r\n".repeat(2 * MAX_LINES);
        let error = against(StartTls::Smtp, &[('S', &many)]).await.unwrap_err();
        assert!(matches!(error, StartTlsError::TooLong { .. }), "{error}");
    }

    #[test]
    fn names_read_back() {
        for kind in StartTls::ALL {
            assert_eq!(StartTls::from_name(kind.name()), Some(kind));
        }
        assert_eq!(StartTls::from_name("ldap"), None);
    }
}
