//! What the console answers to which path.

use tokio::sync::oneshot;
use tollgate_http::{Body, HeaderValue, Method, Request, Response, StatusCode, header};
use tollgate_meter::Snapshot;

use super::{Desk, Question};

/// Seconds of `/history.json` when none are asked for.
const HISTORY_SECONDS: f64 = 600.0;
/// Points of `/history.json` when none are asked for, and at most.
const HISTORY_POINTS: usize = 300;
const MOST_POINTS: usize = 2_000;
/// The past reaches back no further.
const MOST_SECONDS: f64 = 86_400.0;

/// What every answer says: nothing of this page is for another host, and nothing is to be guessed.
const GUARDS: [(&str, &str); 5] = [
    (
        "content-security-policy",
        "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
];

/// Adds the fields that every answer carries.
pub fn guard(response: &mut Response<Body>) {
    let fields = response.headers_mut();
    for (name, value) in GUARDS {
        fields.insert(name, HeaderValue::from_static(value));
    }
}

/// The answer to a request that may be answered.
pub async fn answer(request: &Request<Body>, desk: &Desk) -> Response<Body> {
    let path = request.uri().path();
    match path {
        "/live.json" => live(desk),
        "/history.json" => history(request, desk),
        "/events" => events(request, desk),
        "/metrics" | "/snapshot.json" => match snapshot(desk).await {
            Some(snapshot) => counts(request, desk, &snapshot),
            None => unavailable(),
        },
        "/healthz" => made("text/plain; charset=utf-8", "ok\n"),
        _ => asset(request, path),
    }
}

/// What is said when nothing was observed yet, or nothing is any more.
pub fn unavailable() -> Response<Body> {
    tollgate_http::plain(
        StatusCode::SERVICE_UNAVAILABLE,
        "the process is starting or ending; ask again\n",
    )
}

fn live(desk: &Desk) -> Response<Body> {
    let live = desk.observer.borrow().live();
    live.map_or_else(unavailable, |live| json(&live))
}

fn history(request: &Request<Body>, desk: &Desk) -> Response<Body> {
    let seconds = number(request, "seconds").unwrap_or(HISTORY_SECONDS);
    let points = number(request, "points").map_or(HISTORY_POINTS, |points| points as usize);
    let seconds = seconds.clamp(1.0, MOST_SECONDS);
    let past = desk
        .observer
        .borrow()
        .past(seconds, points.clamp(1, MOST_POINTS));
    past.map_or_else(unavailable, |past| json(&past))
}

fn events(request: &Request<Body>, desk: &Desk) -> Response<Body> {
    let body = match request.method() == Method::HEAD {
        true => Some(Body::empty()),
        false => desk.watchers.join(desk.live_event()),
    };
    let Some(body) = body else {
        return tollgate_http::plain(
            StatusCode::SERVICE_UNAVAILABLE,
            "enough pages watch already; close one, or read /live.json\n",
        );
    };
    let mut response = Response::new(body);
    let fields = response.headers_mut();
    fields.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/event-stream"),
    );
    fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Counts of this very moment, by way of the parent.
async fn snapshot(desk: &Desk) -> Option<Snapshot> {
    let (reply, answer) = oneshot::channel();
    desk.ask.send(Question { reply }).await.ok()?;
    answer.await.ok()
}

fn counts(request: &Request<Body>, desk: &Desk, snapshot: &Snapshot) -> Response<Body> {
    let accept = request
        .headers()
        .get(header::ACCEPT)
        .and_then(|value| value.to_str().ok())
        .unwrap_or("");
    let path = request.uri().path();
    let answer = desk.observer.borrow().counts(path, accept, snapshot);
    made(answer.content_type, answer.body)
}

/// A file of the page. It is asked for again only when it has changed.
fn asset(request: &Request<Body>, path: &str) -> Response<Body> {
    let Some(asset) = tollgate_console::asset(path) else {
        return tollgate_http::plain(
            StatusCode::NOT_FOUND,
            "nothing here; there are /, /live.json, /history.json, /events, /metrics, /snapshot.json and /healthz\n",
        );
    };
    let known = request
        .headers()
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|tag| matches!(tag.trim().trim_start_matches("W/"), tag if tag == asset.etag || tag == "*"));
    let mut response = match known {
        true => Response::new(Body::empty()),
        false => made(asset.content_type, asset.body),
    };
    if known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let fields = response.headers_mut();
    fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(tag) = HeaderValue::from_str(&asset.etag) {
        fields.insert(header::ETAG, tag);
    }
    response
}

fn number(request: &Request<Body>, name: &str) -> Option<f64> {
    let pairs = request.uri().query()?.split('&');
    let value = pairs
        .filter_map(|pair| pair.split_once('='))
        .find(|(key, _)| *key == name)?
        .1;
    value.parse::<f64>().ok().filter(|value| value.is_finite())
}

fn json(what: &impl serde::Serialize) -> Response<Body> {
    match serde_json::to_vec(what) {
        Ok(text) => made("application/json", text),
        Err(_) => tollgate_http::plain(
            StatusCode::INTERNAL_SERVER_ERROR,
            "what was observed cannot be written as JSON; please report this\n",
        ),
    }
}

/// Data, which no cache keeps.
fn made(content_type: &'static str, body: impl Into<tollgate_http::Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::full(body));
    let fields = response.headers_mut();
    fields.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
