//! Where lines go: a file, a pipe or standard output, any of which may fail at any time.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::Target;

/// An open target, or one that shall be opened again.
#[derive(Debug)]
pub(crate) struct Sink {
    target: Target,
    /// `None` while nobody reads the pipe.
    file: Option<File>,
    /// The last write stopped within a line: the next one begins on a new line.
    is_torn: bool,
}

/// What became of a batch.
#[derive(Debug)]
pub(crate) enum Written {
    /// All of it is written.
    All,
    /// This many bytes are written and the rest has to wait for a reader.
    Waits(usize),
    /// This many bytes are written and the rest is lost.
    Lost(usize, io::Error),
}

impl Sink {
    /// Opens the target. A pipe that nobody reads is no error: it is opened as soon as somebody does.
    pub(crate) fn open(target: Target) -> io::Result<Self> {
        Ok(Self {
            file: open(&target)?,
            target,
            is_torn: false,
        })
    }

    /// Opens the target anew, as after a rotation. When that fails, lines go on to where they went.
    pub(crate) fn reopen(&mut self) -> io::Result<()> {
        self.file = open(&self.target)?;
        self.is_torn = false;
        Ok(())
    }

    /// Writes whole lines, as much as goes.
    pub(crate) fn write(&mut self, batch: &[u8]) -> Written {
        if self.file.is_none()
            && let Err(error) = self.reopen()
        {
            return Written::Lost(0, error);
        }
        let Some(file) = &mut self.file else {
            let nobody = io::Error::new(ErrorKind::NotConnected, "nobody reads the pipe");
            return Written::Lost(0, nobody);
        };
        if self.is_torn {
            match file.write_all(b"\n") {
                Ok(()) => self.is_torn = false,
                Err(error) => return self.stop(0, error),
            }
        }
        let mut written = 0;
        while written < batch.len() {
            match file.write(&batch[written..]) {
                Ok(0) => return self.stop(written, ErrorKind::WriteZero.into()),
                Ok(more) => written += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return Written::Waits(written);
                }
                Err(error) => {
                    self.is_torn = written > 0 && batch[written - 1] != b'\n';
                    return self.stop(written, error);
                }
            }
        }
        Written::All
    }

    fn stop(&mut self, written: usize, error: io::Error) -> Written {
        match error.kind() {
            ErrorKind::WouldBlock => return Written::Waits(written),
            // The reader of the pipe has gone; another one may come.
            ErrorKind::BrokenPipe if matches!(self.target, Target::File(_)) => self.file = None,
            _ => {}
        }
        Written::Lost(written, error)
    }
}

fn open(target: &Target) -> io::Result<Option<File>> {
    match target {
        // A file of its own: standard output as the library has it is locked and buffered by line.
        Target::Stdout => Ok(Some(File::from(io::stdout().as_fd().try_clone_to_owned()?))),
        Target::File(path) => open_file(path),
    }
}

fn open_file(path: &Path) -> io::Result<Option<File>> {
    // Not blocking matters for pipes only: neither opening nor writing then waits for a reader.
    let not_blocking = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let opened = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o640)
        .custom_flags(not_blocking)
        .open(path);
    match opened {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => Ok(None),
        Err(error) => Err(error),
    }
}
