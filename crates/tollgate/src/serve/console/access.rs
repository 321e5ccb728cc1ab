//! Who may see the console: its own machine without a word, everybody else with a token or a certificate.

use std::hint::black_box;
use std::net::{IpAddr, SocketAddr};

use tollgate_http::{Body, HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use zeroize::Zeroizing;

/// Name of the cookie that stands for the token in a browser.
const COOKIE: &str = "tollgate_console";

/// What stands in front of the token when the cookie is made of it.
const COOKIE_CONTEXT: &[u8] = b"tollgate console cookie\n";

/// A token that those who ask have to show. Wiped when dropped.
pub struct Token {
    secret: Zeroizing<Vec<u8>>,
    /// SHA-256 of the context and the token: what a browser keeps tells nobody the token.
    cookie: String,
}

impl Token {
    /// A token of these bytes, without the white space around them; `None` when nothing is left.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let secret = Zeroizing::new(bytes.trim_ascii().to_vec());
        if secret.is_empty() {
            return None;
        }
        let context = Zeroizing::new([COOKIE_CONTEXT, &secret].concat());
        Some(Self {
            cookie: tollgate_tls::material::fingerprint(&context),
            secret,
        })
    }

    /// Compares without telling by its time how much was right.
    fn is(&self, shown: &[u8]) -> bool {
        same(&self.secret, shown)
    }

    /// Whether the request shows the token, as `Authorization: Bearer`, or has the cookie that was set for it.
    fn is_shown(&self, fields: &HeaderMap) -> bool {
        let bearer = fields
            .get(header::AUTHORIZATION)
            .and_then(|value| bearer(value.as_bytes()));
        if let Some(shown) = bearer {
            return self.is(shown);
        }
        let cookies = fields.get_all(header::COOKIE);
        cookies
            .iter()
            .flat_map(|value| value.as_bytes().split(|byte| *byte == b';'))
            .filter_map(|pair| pair.trim_ascii().strip_prefix(COOKIE.as_bytes()))
            .filter_map(|rest| rest.strip_prefix(b"="))
            .any(|shown| same(self.cookie.as_bytes(), shown))
    }
}

/// RFC 6750, section 2.1; the scheme's case does not count (RFC 9110, section 11.1).
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = value.split_at_checked(7)?;
    scheme
        .eq_ignore_ascii_case(b"bearer ")
        .then(|| rest.trim_ascii())
}

/// Takes as long for a wrong first byte as for a wrong last one.
fn same(secret: &[u8], shown: &[u8]) -> bool {
    let mut difference = usize::from(secret.len() != shown.len());
    for (index, byte) in secret.iter().enumerate() {
        let other = shown.get(index).copied().unwrap_or(!byte);
        difference |= usize::from(black_box(byte ^ other));
    }
    black_box(difference) == 0
}

/// Who may ask, and under which names.
pub struct Access {
    /// Wanted of everybody, if there is one.
    pub token: Option<Token>,
    /// Whether the console speaks TLS.
    pub https: bool,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Access {
    /// Whether a plain console with this token would be guarded in the same way.
    pub fn is_plain_with(&self, token: Option<&[u8]>) -> bool {
        let known = self.token.as_ref().map(|token| token.secret.as_slice());
        !self.https && known == token
    }

    /// Lets the request pass, or says why not. The answer to a page address with `?token=` is a cookie and
    /// a way back without the token.
    pub fn judge(&self, request: &Request<Body>) -> Result<(), Box<Response<Body>>> {
        if !self.host_is_ours(request) {
            return Err(Box::new(tollgate_http::plain(
                StatusCode::MISDIRECTED_REQUEST,
                "this console answers on its own machine to localhost and to addresses of loopback only, so that no \
                 web page can reach it under a name of its own; use http://127.0.0.1 or http://localhost\n",
            )));
        }
        // An empty answer to "does it live?" helps a load balancer and tells nobody anything.
        if request.uri().path() == "/healthz" {
            return Ok(());
        }
        let Some(token) = &self.token else {
            return Ok(());
        };
        if token.is_shown(request.headers()) {
            return Ok(());
        }
        match shown_in_query(request) {
            Some(shown) if token.is(&shown) => Err(Box::new(self.welcome(token))),
            _ => Err(Box::new(refusal())),
        }
    }

    /// A page of a foreign name that resolves to loopback would be allowed to read answers (DNS rebinding);
    /// its browser tells us that name. Programs that send no `Host` are no browsers.
    fn host_is_ours(&self, request: &Request<Body>) -> bool {
        if !self.address.ip().to_canonical().is_loopback() || self.https {
            return true;
        }
        let named = match request.uri().authority() {
            Some(authority) => Some(authority.as_str().as_bytes()),
            None => request
                .headers()
                .get(header::HOST)
                .map(HeaderValue::as_bytes),
        };
        let Some(named) = named else {
            return true;
        };
        std::str::from_utf8(named).is_ok_and(|named| is_loopback_name(host_of(named)))
    }

    fn welcome(&self, token: &Token) -> Response<Body> {
        let mut response = tollgate_http::plain(StatusCode::SEE_OTHER, "welcome\n");
        let fields = response.headers_mut();
        fields.insert(header::LOCATION, HeaderValue::from_static("/"));
        let secure = if self.https { "; Secure" } else { "" };
        let cookie = format!(
            "{COOKIE}={}; Path=/; HttpOnly; SameSite=Strict{secure}",
            token.cookie
        );
        // Hexadecimal digits and constants: always a field value.
        if let Ok(value) = HeaderValue::try_from(cookie) {
            fields.insert(header::SET_COOKIE, value);
        }
        response
    }
}

fn refusal() -> Response<Body> {
    let mut response = tollgate_http::plain(
        StatusCode::UNAUTHORIZED,
        "this console wants its token: send it as `Authorization: Bearer TOKEN`, or open /?token=TOKEN once in a \
         browser; it is in the file that console: token_file: names\n",
    );
    let challenge = HeaderValue::from_static("Bearer realm=\"tollgate console\"");
    response
        .headers_mut()
        .insert(header::WWW_AUTHENTICATE, challenge);
    response
}

/// The token of `/?token=...`, its percent signs undone; of no other path.
fn shown_in_query(request: &Request<Body>) -> Option<Zeroizing<Vec<u8>>> {
    if request.uri().path() != "/" {
        return None;
    }
    let pairs = request.uri().query()?.split('&');
    let shown = pairs
        .filter_map(|pair| pair.strip_prefix("token="))
        .next()?;
    let mut plain = Zeroizing::new(Vec::with_capacity(shown.len()));
    let mut rest = shown.as_bytes();
    while let [first, others @ ..] = rest {
        let escaped = others
            .first_chunk::<2>()
            .filter(|_| *first == b'%')
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        match escaped {
            Some(byte) => {
                plain.push(byte);
                rest = &others[2..];
            }
            None => {
                plain.push(*first);
                rest = others;
            }
        }
    }
    Some(plain)
}

/// The host of `HOST[:PORT]`, without the brackets of an IPv6 address.
fn host_of(named: &str) -> &str {
    if let Some(rest) = named.strip_prefix('[') {
        return rest.split(']').next().unwrap_or_default();
    }
    match named.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => named,
    }
}

fn is_loopback_name(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host
            .parse::<IpAddr>()
            .is_ok_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(address: &str, token: Option<&str>) -> Access {
        Access {
            token: token.and_then(|token| Token::new(token.as_bytes())),
            https: false,
            address: address.parse().unwrap(),
        }
    }

    fn request(path: &str, fields: &[(&str, &str)]) -> Request<Body> {
        let mut request = tollgate_http::request::Builder::new().uri(path);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.body(Body::empty()).unwrap()
    }

    fn status(access: &Access, path: &str, fields: &[(&str, &str)]) -> u16 {
        match access.judge(&request(path, fields)) {
            Ok(()) => 200,
            Err(response) => response.status().as_u16(),
        }
    }

    #[test]
    fn a_console_on_loopback_answers_to_names_of_loopback_alone() {
        let access = access("127.0.0.1:9180", None);
        for (host, expected) in [
            ("localhost:9180", 200),
            ("LOCALHOST", 200),
            ("127.0.0.1:9180", 200),
            ("127.8.9.1", 200),
            ("[::1]:9180", 200),
            ("rebound.example:9180", 421),
            ("localhost.example", 421),
            ("192.0.2.1:9180", 421),
            ("", 421),
        ] {
            assert_eq!(status(&access, "/", &[("host", host)]), expected, "{host}");
        }
        assert_eq!(status(&access, "/", &[]), 200);
        assert_eq!(status(&access, "http://rebound.example/", &[]), 421);
    }

    #[test]
    fn a_console_elsewhere_answers_to_any_name() {
        let access = access("192.0.2.1:9180", Some("secret"));
        let bearer = ("authorization", "Bearer secret");
        assert_eq!(
            status(
                &access,
                "/live.json",
                &[("host", "edge.example:9180"), bearer]
            ),
            200
        );
    }

    #[test]
    fn a_token_is_wanted_whole_and_exact() {
        let access = access("192.0.2.1:9180", Some(" s3cret+token\n"));
        for (value, expected) in [
            ("Bearer s3cret+token", 200),
            ("bearer  s3cret+token", 200),
            ("Bearer s3cret+toke", 401),
            ("Bearer s3cret+token2", 401),
            ("Bearer ", 401),
            ("Basic s3cret+token", 401),
            ("s3cret+token", 401),
        ] {
            let fields = [("authorization", value)];
            assert_eq!(
                status(&access, "/live.json", &fields),
                expected,
                "{value:?}"
            );
        }
        assert_eq!(status(&access, "/live.json", &[]), 401);
        assert_eq!(status(&access, "/healthz", &[]), 200);
    }

    #[test]
    fn a_browser_trades_the_token_for_a_cookie_once() {
        let access = access("192.0.2.1:9180", Some("a b%c"));
        let welcome = access
            .judge(&request("/?token=a%20b%25c", &[]))
            .unwrap_err();
        assert_eq!(welcome.status(), 303);
        assert_eq!(welcome.headers()["location"], "/");
        let set = welcome.headers()["set-cookie"].to_str().unwrap();
        assert!(
            set.contains("HttpOnly") && set.contains("SameSite=Strict") && !set.contains("a b%c"),
            "{set}"
        );
        let cookie = format!("theme=dark; {}", set.split(';').next().unwrap());
        assert_eq!(
            status(&access, "/history.json", &[("cookie", &cookie)]),
            200
        );
        let wrong = format!("{cookie}0");
        assert_eq!(status(&access, "/history.json", &[("cookie", &wrong)]), 401);
        assert_eq!(status(&access, "/?token=wrong", &[]), 401);
        // Only the page takes it from its address: other addresses end up in logs of scripts.
        assert_eq!(status(&access, "/live.json?token=a%20b%25c", &[]), 401);
    }

    #[test]
    fn an_empty_token_is_none() {
        assert!(Token::new(b" \n").is_none());
    }
}
