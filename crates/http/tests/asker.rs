//! The small client that asks a console, and bodies that are made while they are read.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::{LocalSet, spawn_local};
use tollgate_http::{
    AskError, Asker, Body, Bytes, Method, Request, Response, StatusCode, request, serve_simple,
    serve_simple_over,
};

fn on_one_thread(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    LocalSet::new().block_on(&runtime, test);
}

async fn asker(listener: &std::net::SocketAddr) -> Asker {
    let stream = TcpStream::connect(listener).await.unwrap();
    let (asker, driver) = Asker::over(stream).await.unwrap();
    spawn_local(driver);
    asker
}

fn question(method: Method, path: &str) -> Request<Body> {
    request::Builder::new()
        .method(method)
        .uri(path)
        .header("host", "localhost")
        .body(Body::empty())
        .unwrap()
}

async fn listener() -> (TcpListener, std::net::SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

#[test]
fn a_kept_connection_carries_one_question_after_another() {
    on_one_thread(async {
        let (listener, address) = listener().await;
        spawn_local(serve_simple(listener, async |request: Request<Body>| {
            Response::new(Body::full(request.uri().path().to_owned()))
        }));
        let mut asker = asker(&address).await;
        for path in ["/one", "/two"] {
            let answer = asker.ask(question(Method::GET, path), 100).await.unwrap();
            assert_eq!(answer.body(), path.as_bytes());
            assert!(asker.is_open());
        }
        let refused = asker.ask(question(Method::POST, "/"), 100).await.unwrap();
        assert_eq!(refused.status(), StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(refused.headers()["allow"], "GET, HEAD");
        let long = asker.ask(question(Method::GET, "/longer"), 3).await;
        assert!(matches!(long, Err(AskError::Body(_))), "{long:?}");
    });
}

#[test]
fn a_streamed_body_arrives_piece_by_piece_and_ends_with_its_sender() {
    on_one_thread(async {
        let (listener, address) = listener().await;
        let (pieces, body) = mpsc::channel(4);
        let body = std::cell::RefCell::new(Some(body));
        spawn_local(serve_simple(listener, move |_| {
            let body = body.borrow_mut().take().unwrap();
            async { Response::new(Body::streamed(body)) }
        }));
        spawn_local(async move {
            for piece in ["one ", "two ", "three"] {
                pieces
                    .send(Bytes::from_static(piece.as_bytes()))
                    .await
                    .unwrap();
                tokio::task::yield_now().await;
            }
        });
        let mut asker = asker(&address).await;
        let answer = asker.ask(question(Method::GET, "/"), 100).await.unwrap();
        assert_eq!(&answer.body()[..], b"one two three");
    });
}

#[test]
fn a_connection_that_is_not_opened_is_closed() {
    on_one_thread(async {
        let (listener, address) = listener().await;
        let refuse = async |_: TcpStream| None::<TcpStream>;
        spawn_local(serve_simple_over(listener, refuse, async |_| {
            Response::new(Body::empty())
        }));
        let mut asker = asker(&address).await;
        let answer = asker.ask(question(Method::GET, "/"), 100).await;
        assert!(matches!(answer, Err(AskError::Send(_))), "{answer:?}");
    });
}
