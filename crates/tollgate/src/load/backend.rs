//! `tollgate load backend`: the plaintext server to measure against.

use std::os::linux::net::SocketAddrExt;
use std::process::ExitCode;

use tokio::task::LocalSet;
use tollgate_lab::backend::Listening;

use crate::say;

/// Serves until it is ended.
pub(super) fn backend(address: &str, pin: Option<usize>) -> ExitCode {
    if let Some(core) = pin {
        let mut cores = rustix::thread::CpuSet::new();
        cores.set(core);
        if let Err(error) = rustix::thread::sched_setaffinity(None, &cores) {
            return say::broke(&format!("core {core} cannot be had: {error}"));
        }
    }
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return say::broke(&format!("no runtime: {error}")),
    };
    let served = runtime.block_on(LocalSet::new().run_until(async {
        let (listening, bound) = listen(address).await?;
        say::note(&format!("listening on {bound}"));
        tollgate_lab::backend::serve(listening).await
    }));
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => say::broke(&format!("{address}: {error}")),
    }
}

/// Listens on `host:port`, `unix:/path` or `unix:@name`, and says where: port 0 is one that was free.
async fn listen(address: &str) -> std::io::Result<(Listening, String)> {
    let Some(path) = address.strip_prefix("unix:") else {
        let listener = tokio::net::TcpListener::bind(address).await?;
        let bound = listener.local_addr()?.to_string();
        return Ok((Listening::Tcp(listener), bound));
    };
    let listener = match path.strip_prefix('@') {
        None => tokio::net::UnixListener::bind(path)?,
        Some(name) => {
            let name = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
            let listener = std::os::unix::net::UnixListener::bind_addr(&name)?;
            listener.set_nonblocking(true)?;
            tokio::net::UnixListener::from_std(listener)?
        }
    };
    Ok((Listening::Unix(listener), address.to_owned()))
}
