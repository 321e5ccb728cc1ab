//! A directory for what a measurement needs on disk.

use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::BenchError;

/// A directory that only this user may look into, removed when dropped.
#[derive(Debug)]
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
}

impl Folder {
    /// Makes it where temporary files go.
    pub(crate) fn new() -> Result<Self, BenchError> {
        let path = std::env::temp_dir().join(format!("tollgate-bench-{}", unique()));
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(|source| in_folder(&path, source))?;
        Ok(Self { path })
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> Result<PathBuf, BenchError> {
        let path = self.path.join(name);
        std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|source| in_folder(&path, source))?;
        Ok(path)
    }

    /// Removes these files, and the directory if nothing else is in it: a process that is killed later
    /// leaves nothing behind.
    pub(crate) fn empty_of(&self, names: &[&str]) {
        for name in names {
            // What cannot be removed now is tried again at the end.
            let _ = std::fs::remove_file(self.path.join(name));
        }
        // A socket may be in it.
        let _ = std::fs::remove_dir(&self.path);
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left lies in the directory for temporary files.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

fn in_folder(path: &Path, source: io::Error) -> BenchError {
    BenchError::System {
        what: format!("{} cannot be made", path.display()),
        source,
        hint: "the variable TMPDIR names another directory".into(),
    }
}

/// A name that no other process and no other server of this one has.
pub(crate) fn unique() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{}-{number}", std::process::id())
}
