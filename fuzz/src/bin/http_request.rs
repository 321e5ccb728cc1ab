//! Requests as a client may send them, through the whole HTTP/1.1 server: no input panics, and a head
//! that is forwarded has one host and one length.
#![no_main]

use std::rc::Rc;

use libfuzzer_sys::fuzz_target;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::LocalSet;
use tollgate_http::{
    Body, ClientFacts, ConnectionWatch, ForwardContext, ForwardedHeaders, Identity, Protocol,
    Request, ServerLimits, StatusCode, forward_request, plain, serve,
};

fuzz_target!(|bytes: &[u8]| {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime needs no privilege");
    runtime.block_on(LocalSet::new().run_until(async {
        let (mut client, server) = tokio::io::duplex(64 * 1024);
        let watch = ConnectionWatch::new();
        let served = serve(
            server,
            Protocol::Http1,
            &ServerLimits::default(),
            &watch,
            std::future::pending(),
            answer,
        );
        let spoken = async {
            // The server may refuse and close before it has read everything.
            let _ = client.write_all(bytes).await;
            let _ = client.shutdown().await;
            let mut answers = Vec::new();
            let _ = client.read_to_end(&mut answers).await;
            answers
        };
        let (_, answers) = tokio::join!(served, spoken);
        assert!(
            answers.is_empty() || answers.starts_with(b"HTTP/1."),
            "an answer that is none"
        );
    }));
});

async fn answer(request: Request<Body>) -> tollgate_http::Response<Body> {
    let client = Rc::new(ClientFacts::new(
        None,
        443,
        ForwardedHeaders::Both,
        false,
        Identity::NotAsked,
    ));
    let context = ForwardContext {
        client: &client,
        backend: Protocol::Http1,
        default_host: None,
    };
    let (mut head, body) = request.into_parts();
    match forward_request(&mut head, &context) {
        Err(refusal) => refusal.response(),
        Ok(_) => {
            let fields = &head.headers;
            assert!(
                fields.get_all("host").iter().count() <= 1,
                "two hosts went on"
            );
            let lengths = fields.get_all("content-length").iter().count();
            let codings = fields.get_all("transfer-encoding").iter().count();
            assert!(lengths + codings <= 1, "two lengths went on");
            match body.collect(1 << 20).await {
                Ok(_) => plain(StatusCode::OK, "read\n"),
                Err(_) => plain(StatusCode::BAD_REQUEST, "broken off\n"),
            }
        }
    }
}
