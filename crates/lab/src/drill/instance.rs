//! The instance under drill: one of our own, or a named one that is left as it was found.

use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tollgate_terms::CertificateKind;
use tollgate_tls::material::make_self_signed;

use super::live::ConsoleAt;
use super::{Change, DrillError};
use crate::bench::driving::Places;
use crate::bench::folder::Folder;
use crate::bench::serving::{
    Offspring, ServingOptions, after, console_in, start_backend, tollgate,
};

/// Longer than any reload takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A `tollgate serve` of our own with a configuration that can be rewritten.
#[derive(Debug)]
pub(super) struct Own {
    // Dropped in this order: the server before the backend that it has connections to.
    server: Option<Offspring>,
    _backend: Option<Offspring>,
    folder: Folder,
    backend_address: String,
    places: Places,
    certificate: CertificateKind,
    resumption: bool,
    alarms: String,
    /// How many processes there were.
    runs: u32,
    address: SocketAddr,
    console: SocketAddr,
}

impl Own {
    /// Starts backend and server. `alarms` is what stands under `alarms:`, in braces.
    pub(super) fn start(certificate: CertificateKind, alarms: String) -> Result<Self, DrillError> {
        let places = Places::here();
        let folder = Folder::new()?;
        let serving = ServingOptions {
            backend_pin: Some(places.load),
            ..ServingOptions::default()
        };
        let (backend, backend_address) = start_backend(&serving, &folder)?;
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut own = Self {
            server: None,
            _backend: backend,
            folder,
            backend_address,
            places,
            certificate,
            resumption: true,
            alarms,
            runs: 0,
            address: nowhere,
            console: nowhere,
        };
        own.make(certificate)?;
        own.serve()?;
        Ok(own)
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn console(&self) -> ConsoleAt {
        ConsoleAt::at(self.console)
    }

    pub(super) fn pid(&self) -> Option<u32> {
        self.server.as_ref().map(Offspring::pid)
    }

    pub(super) fn places(&self) -> Places {
        self.places
    }

    /// Turns tickets and session cache on or off by a reload; gives what the instance said.
    pub(super) fn set_resumption(&mut self, on: bool) -> Result<String, DrillError> {
        self.resumption = on;
        self.write()?;
        reload(&self.control())
    }

    /// Puts another certificate in the place of the one before, by a reload; gives what the instance said.
    pub(super) fn set_certificate(&mut self, kind: CertificateKind) -> Result<String, DrillError> {
        self.make(kind)?;
        self.certificate = kind;
        self.write()?;
        reload(&self.control())
    }

    /// Ends the process and starts another at the same address. Ticket keys live in memory alone, so the new one
    /// knows none of the tickets that its clients hold. Gives how long nobody listened, at most.
    pub(super) fn restart(&mut self) -> Result<Duration, DrillError> {
        let began = Instant::now();
        // Asks it to end and waits until it has.
        self.server = None;
        self.serve()?;
        Ok(began.elapsed())
    }

    fn serve(&mut self) -> Result<(), DrillError> {
        self.runs += 1;
        let file = self.write()?;
        let mut command = tollgate(None);
        command.arg("serve").arg(&file);
        let (server, said) = Offspring::start("tollgate serve", command, &[self.places.server])?;
        let (mut bound, mut console) = (None, None);
        server.wait_for(&said, |line| {
            bound = bound.or_else(|| after(line, "listening on "));
            console = console.or_else(|| console_in(line));
            line.contains("ready, ")
        })?;
        let silent = || server.fault("says that it is ready, but not where it listens");
        self.address = bound.ok_or_else(silent)?;
        self.console = console.ok_or_else(silent)?;
        self.server = Some(server);
        Ok(())
    }

    fn make(&self, kind: CertificateKind) -> Result<(), DrillError> {
        let made = make_self_signed(kind, &["localhost", "127.0.0.1"]).map_err(|error| {
            DrillError::Input(format!(
                "no certificate of kind {kind} can be made: {error}"
            ))
        })?;
        let (chain, key) = files(kind);
        replace(&self.folder.path.join(chain), &made.chain_pem)?;
        replace(&self.folder.path.join(key), &made.key_pem)
    }

    fn control(&self) -> PathBuf {
        self.folder.path.join(format!("control-{}.sock", self.runs))
    }

    fn write(&self) -> Result<PathBuf, DrillError> {
        let (chain, key) = files(self.certificate);
        let mut text = format!(
            "listeners: [{{ address: \"127.0.0.1:{}\", mode: http }}]\n\
             sites:\n\
             \x20 - names: [localhost]\n\
             \x20   default: true\n\
             \x20   certificates: [{{ chain: {chain}, key: {key} }}]\n\
             \x20   backends: [\"{}\"]\n\
             workers: {{ count: 1 }}\n\
             console: \"127.0.0.1:0\"\n\
             control: \"{}\"\n\
             timeouts: {{ idle: 10m, drain: 1s }}\n\
             alarms: {}\n",
            // The first process takes any port, the next ones the same again.
            if self.runs > 1 {
                self.address.port()
            } else {
                0
            },
            self.backend_address,
            self.control().display(),
            self.alarms,
        );
        if !self.resumption {
            // Writing to a text cannot fail.
            let _ = writeln!(
                text,
                "resumption: {{ tickets: false, session_cache: {{ entries: 0 }} }}"
            );
        }
        let file = self.folder.path.join(format!("tls-{}.yaml", self.runs));
        replace(&file, &text)?;
        Ok(file)
    }
}

fn files(kind: CertificateKind) -> (String, String) {
    (format!("{kind}.pem"), format!("{kind}.key"))
}

/// A named instance whose file is changed and put back.
#[derive(Debug)]
pub(super) struct Borrowed {
    change: Change,
    changed: bool,
}

impl Borrowed {
    pub(super) fn new(change: Change) -> Self {
        Self {
            change,
            changed: false,
        }
    }

    /// Writes the text of the drill, or puts back what was there, and reloads; gives what the instance said.
    pub(super) fn set_changed(&mut self, changed: bool) -> Result<String, DrillError> {
        if changed {
            // For whoever finds the machine after this process was killed.
            replace(&self.copy(), &self.change.original)?;
            self.changed = true;
            replace(&self.change.config, &self.change.changed)?;
            return reload(&self.change.control);
        }
        let back = replace(&self.change.config, &self.change.original)
            .and_then(|()| reload(&self.change.control));
        match back {
            Ok(said) => {
                self.changed = false;
                // It has done its work; left behind it does no harm.
                let _ = std::fs::remove_file(self.copy());
                Ok(said)
            }
            Err(error) => Err(DrillError::NotPutBack {
                config: self.change.config.display().to_string(),
                reason: error.to_string(),
                copy: self.copy().display().to_string(),
            }),
        }
    }

    /// Puts back what was there, if it was changed.
    pub(super) fn put_back(&mut self) -> Result<(), DrillError> {
        match self.changed {
            true => self.set_changed(false).map(|_| ()),
            false => Ok(()),
        }
    }

    fn copy(&self) -> PathBuf {
        let mut name = self.change.config.clone().into_os_string();
        name.push(".before-drill");
        name.into()
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        // Only after a panic there is something left to put back; the copy stays where this fails.
        let _ = self.put_back();
    }
}

/// Writes `text` in one step, with the permissions that the file had, or for this user alone.
fn replace(path: &Path, text: &str) -> Result<(), DrillError> {
    let failed = |source| DrillError::System {
        what: format!("{} cannot be written", path.display()),
        source,
    };
    let mode = std::fs::metadata(path).map_or(0o600, |found| found.permissions().mode() & 0o777);
    let mut next = path.as_os_str().to_owned();
    next.push(".next");
    let next = PathBuf::from(next);
    std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(mode)
        .open(&next)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| std::fs::rename(&next, path))
        .map_err(failed)
}

/// Asks the instance at this control socket to read its file again.
fn reload(control: &Path) -> Result<String, DrillError> {
    let answer = ask(control).map_err(|source| DrillError::System {
        what: format!(
            "nobody answers on the control socket {} (is the instance running, and as this user?)",
            control.display()
        ),
        source,
    })?;
    match answer.split_once('\n') {
        Some(("ok", said)) => Ok(said.to_owned()),
        Some((_, said)) => Err(DrillError::Refused(said.trim_end().to_owned())),
        None => Err(DrillError::Refused("it gave no answer".into())),
    }
}

fn ask(control: &Path) -> std::io::Result<String> {
    let mut stream = UnixStream::connect(control)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"reload\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at once")]
    use super::*;

    #[test]
    fn a_borrowed_file_is_put_back_even_when_nobody_takes_the_reload() {
        let folder = Folder::new().unwrap();
        let config = folder.write("tls.yaml", "before").unwrap();
        let mut borrowed = Borrowed::new(Change {
            config: config.clone(),
            control: folder.path.join("nobody.sock"),
            original: "before".into(),
            changed: "during".into(),
        });
        assert!(borrowed.set_changed(true).is_err());
        assert_eq!(std::fs::read_to_string(&config).unwrap(), "during");
        drop(borrowed);
        assert_eq!(std::fs::read_to_string(&config).unwrap(), "before");
        let mode = std::fs::metadata(&config).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
