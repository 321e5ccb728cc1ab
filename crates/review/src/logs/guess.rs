//! Lines of a format that nobody named: `key=value` pairs, nginx's combined format with more behind it, and what
//! HAProxy's `option httplog` and `option httpslog` write.

use std::borrow::Cow;

use super::fields::{Field, Fields, suite, version};
use super::template::after_syslog;

/// A piece of a line.
enum Token<'a> {
    /// `"in quotes"`: what a client sent, and never trusted to name a field.
    Quoted,
    /// `[in brackets]`
    Bracketed(&'a str),
    /// `{in braces}`
    Braced(&'a str),
    /// `key=value`, the value without its quotes.
    Pair(&'a str, Cow<'a, str>),
    /// Anything else up to a space.
    Word(&'a str),
}

/// `key=value` pairs, quoted where needed.
pub fn logfmt(line: &str) -> Result<Fields<'_>, String> {
    let mut fields = Fields::default();
    let mut pairs = 0;
    for token in (Tokens { rest: line }) {
        if let Token::Pair(key, value) = token {
            pairs += 1;
            fields.set(Field::named(key), value);
        }
    }
    match pairs {
        0 => Err("no key=value in it".to_owned()),
        _ => Ok(fields),
    }
}

/// nginx's combined format, with anything behind it.
pub fn nginx(line: &str) -> Result<Fields<'_>, String> {
    let fields = words(line);
    match fields.time {
        Some(_) => Ok(fields),
        None => Err("no time in brackets or as time=".to_owned()),
    }
}

/// HAProxy's httplog, httpslog or tcplog, with or without a syslog header.
pub fn haproxy(line: &str) -> Result<Fields<'_>, String> {
    let start = haproxy_start(line).ok_or("no CLIENT:PORT [TIME] in it")?;
    let mut fields = words(start);
    let mut words = start.split(' ');
    if let Some((client, port)) = words.next().and_then(|word| word.rsplit_once(':')) {
        fields.set(Field::Client, Cow::Borrowed(client));
        fields.set(Field::ClientPort, Cow::Borrowed(port));
    }
    if let Some(frontend) = words.nth(1) {
        fields.set(
            Field::Frontend,
            Cow::Borrowed(frontend.trim_end_matches('~')),
        );
    }
    https(start, &mut fields);
    Ok(fields)
}

/// Where HAProxy's own text begins: `10.0.0.1:1234 [21/Nov/2026:...`.
pub fn haproxy_start(line: &str) -> Option<&str> {
    [Some(line), after_syslog(line)]
        .into_iter()
        .flatten()
        .find(|text| {
            let mut words = text.split(' ');
            let client = words.next().and_then(|word| word.rsplit_once(':'));
            let is_client = client.is_some_and(|(_, port)| port.parse::<u16>().is_ok());
            is_client && words.next().is_some_and(|word| word.starts_with('['))
        })
}

/// The end of httpslog: `0/0000000000000000/0/0/1 shop.example/TLSv1.3/TLS_AES_128_GCM_SHA256`.
fn https<'a>(line: &'a str, fields: &mut Fields<'a>) {
    let Some((_, tail)) = line.trim_end().rsplit_once("\" ") else {
        return;
    };
    let Some((errors, names)) = tail.split_once(' ') else {
        return;
    };
    let mut last = errors.split('/');
    if let (Some(flag), None) = (last.nth(4), last.next()) {
        fields.set(Field::Resumed, Cow::Borrowed(flag));
    }
    let mut names = names.split('/');
    for field in [Field::ServerName, Field::Version, Field::Suite] {
        if let Some(value) = names.next() {
            fields.set(field, Cow::Borrowed(value));
        }
    }
}

/// What words and pairs tell outside of quotes.
fn words(line: &str) -> Fields<'_> {
    let mut fields = Fields::default();
    let mut flag = None;
    for token in (Tokens { rest: line }) {
        match token {
            Token::Quoted => {}
            Token::Bracketed(text) => fields.set(Field::Time, Cow::Borrowed(text)),
            Token::Braced(text) => fields.captures(text),
            Token::Pair(key, value) => fields.set(Field::named(key), value),
            Token::Word("r") => flag = Some(true),
            Token::Word(".") => flag = Some(false),
            Token::Word(text) => {
                for part in text.split('/') {
                    if let Some(name) = version(Cow::Borrowed(part)) {
                        fields.set(Field::Version, name);
                    } else if part.starts_with("TLS_") || is_openssl_suite(part) {
                        fields.suite = fields.suite.take().or(suite(Cow::Borrowed(part)));
                    }
                }
            }
        }
    }
    // A lonely r or dot means something only beside a version or a suite.
    if fields.is_tls() && fields.resumed.is_none() {
        fields.resumed = flag;
    }
    fields
}

fn is_openssl_suite(text: &str) -> bool {
    let known = ["ECDHE-", "DHE-", "AES128-", "AES256-"];
    known.iter().any(|prefix| text.starts_with(prefix))
}

/// Splits a line at its spaces, brackets and quotes; any bytes will do.
struct Tokens<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        self.rest = self.rest.trim_start();
        let first = self.rest.bytes().next()?;
        match first {
            b'"' => {
                self.quoted();
                Some(Token::Quoted)
            }
            b'[' => Some(Token::Bracketed(self.closed(']'))),
            b'{' => Some(Token::Braced(self.closed('}'))),
            _ => Some(self.word()),
        }
    }
}

impl<'a> Tokens<'a> {
    /// What is between this sign and its partner; all of the rest without one.
    fn closed(&mut self, end: char) -> &'a str {
        let inside = &self.rest[1..];
        let (inside, rest) = inside.split_once(end).unwrap_or((inside, ""));
        self.rest = rest;
        inside
    }

    /// What is between quotes, in which a backslash guards the next character.
    fn quoted(&mut self) -> &'a str {
        let inside = &self.rest[1..];
        let mut guarded = false;
        for (at, byte) in inside.bytes().enumerate() {
            match byte {
                _ if guarded => guarded = false,
                b'\\' => guarded = true,
                b'"' => {
                    self.rest = &inside[at + 1..];
                    return &inside[..at];
                }
                _ => {}
            }
        }
        self.rest = "";
        inside
    }

    fn word(&mut self) -> Token<'a> {
        let end = self.rest.find([' ', '\t', '"']).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        match word.split_once('=') {
            Some((key, "")) if rest.starts_with('"') => {
                self.rest = rest;
                let text = self.quoted();
                let value = match text.contains('\\') {
                    // The values that matter here have no escapes; others are only shown.
                    true => Cow::Owned(text.replace('\\', "")),
                    false => Cow::Borrowed(text),
                };
                Token::Pair(key, value)
            }
            Some((key, value)) => {
                self.rest = rest;
                Token::Pair(key, Cow::Borrowed(value.trim_end_matches([',', ';'])))
            }
            None => {
                self.rest = rest;
                Token::Word(word.trim_end_matches([',', ';']))
            }
        }
    }
}
