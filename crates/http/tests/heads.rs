//! Heads that two servers could read differently: `heads/NAME.request` is sent as it stands, and
//! `heads/NAME.answer` says whether it is refused, or what the backend gets instead.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed expectation is a failed test"
)]

mod support;

use std::path::{Path, PathBuf};

use support::{Setup, answer_all, locally};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tollgate_http::ForwardedHeaders;

#[tokio::test]
async fn every_ambiguous_head_is_refused_or_made_unambiguous() {
    let mut names: Vec<PathBuf> = std::fs::read_dir(folder())
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    names.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == "request")
    });
    names.sort();
    assert!(names.len() > 80, "{} fixtures", names.len());
    let mut wrong = Vec::new();
    for path in names {
        let expected = std::fs::read_to_string(path.with_extension("answer")).unwrap();
        let found = answer_to(&std::fs::read(&path).unwrap()).await;
        if found != expected {
            wrong.push(format!(
                "{}\n expected {expected:?}\n found    {found:?}",
                path.display()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/heads")
}

async fn answer_to(bytes: &[u8]) -> String {
    locally(async {
        let mut proxy = Setup {
            headers: ForwardedHeaders::None,
            ..Setup::default()
        }
        .start();
        let seen = answer_all(std::mem::replace(
            &mut proxy.backends,
            tokio::sync::mpsc::unbounded_channel().1,
        ));
        // A refusal may end the connection before all of it is taken.
        let _ = proxy.client.write_all(bytes).await;
        let _ = proxy.client.shutdown().await;
        let mut answer = Vec::new();
        let _ = proxy.client.read_to_end(&mut answer).await;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer
            .strip_prefix("HTTP/1.1 ")
            .or(answer.strip_prefix("HTTP/1.0 "));
        let status = status.and_then(|rest| rest.get(..3)).unwrap_or("nothing");
        if status != "200" {
            return format!("refused {status}\n");
        }
        let mut found = "passed\n".to_owned();
        for message in seen.borrow().iter() {
            found.push_str(&message.replace("\r\n", "\n"));
            found.push_str("----\n");
        }
        found
    })
    .await
}
