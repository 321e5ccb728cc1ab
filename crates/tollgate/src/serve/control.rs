//! The control socket: where `tollgate reload` asks a running instance.
//!
//! One line in (`reload`, or `reload allow-dearer-certificate`), an answer out (`ok` or `no`, then text for people), one exchange a connection.
//! The socket belongs to the user that serves and nobody else may open it.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};

/// A request that waits for its answer.
#[derive(Debug)]
pub struct Request {
    /// Whether certificates that cost more than before are meant, and no alarm.
    pub allow_dearer: bool,
    /// Where the answer goes: text for people, right or wrong.
    pub answer: oneshot::Sender<Result<String, String>>,
}

/// The listening control socket; its file is removed when this is dropped, unless it was handed on.
#[derive(Debug)]
pub struct Control {
    path: PathBuf,
    listener: Option<UnixListener>,
    /// Set when a new process has put its own socket at the same path.
    pub handed_on: bool,
}

impl Control {
    /// Listens at `path`, making its folder if need be; `replace` takes the place of a process that hands over.
    ///
    /// # Errors
    /// When another instance listens there, or the folder may not be written.
    pub fn listen(path: &Path, replace: bool) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(folder)?;
        }
        if !replace && std::os::unix::net::UnixStream::connect(path).is_ok() {
            return Err(io::Error::new(
                io::ErrorKind::AddrInUse,
                "another instance listens there",
            ));
        }
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(path)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        Ok(Self {
            path: path.to_owned(),
            listener: Some(listener),
            handed_on: false,
        })
    }

    /// Answers until dropped; requests go to `requests` and are answered in their turn.
    pub fn answer(&mut self, requests: mpsc::UnboundedSender<Request>) {
        let Some(listener) = self.listener.take() else {
            return;
        };
        tokio::task::spawn_local(async move {
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => {
                        drop(tokio::task::spawn_local(exchange(stream, requests.clone())))
                    }
                    Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                }
            }
        });
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        if !self.handed_on {
            // Already gone is as good as removed.
            let _ = fs::remove_file(&self.path);
        }
    }
}

async fn exchange(mut stream: UnixStream, requests: mpsc::UnboundedSender<Request>) {
    let mut line = [0u8; 64];
    let read = tokio::time::timeout(Duration::from_secs(5), stream.read(&mut line)).await;
    let Ok(Ok(length)) = read else { return };
    let answer = match line[..length].trim_ascii() {
        b"reload" => ask(&requests, false).await,
        b"reload allow-dearer-certificate" => ask(&requests, true).await,
        _ => Err("tollgate: error: the control socket knows one word: reload\n".to_owned()),
    };
    let text = match answer {
        Ok(text) => format!("ok\n{text}"),
        Err(text) => format!("no\n{text}"),
    };
    // A client that left does not want the answer.
    let _ = stream.write_all(text.as_bytes()).await;
}

async fn ask(
    requests: &mpsc::UnboundedSender<Request>,
    allow_dearer: bool,
) -> Result<String, String> {
    let (answer, answered) = oneshot::channel();
    let ending = || "tollgate: error: the instance is ending\n".to_owned();
    requests
        .send(Request {
            allow_dearer,
            answer,
        })
        .map_err(|_| ending())?;
    answered.await.map_err(|_| ending())?
}
