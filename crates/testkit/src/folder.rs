//! Temporary folders and free ports.

use std::fs::Permissions;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

static NEXT_FOLDER: AtomicU32 = AtomicU32::new(0);
static NEXT_PORT: AtomicU32 = AtomicU32::new(0);

/// A temporary folder, removed when dropped.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// A new, empty folder below the system's temporary folder.
    pub fn new() -> Self {
        let number = NEXT_FOLDER.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("tollgate-test-{}-{number}", std::process::id()));
        // A folder of an earlier process with the same id may be left over.
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a temporary folder");
        Self { path }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Path of `name` inside the folder.
    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes a file and returns its path.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.join(name);
        std::fs::write(&path, content).expect("a file in a temporary folder");
        path
    }

    /// Writes a file that only its owner can read, and returns its path.
    pub fn write_secret(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.write(name, content);
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("permissions");
        path
    }

    /// Reads a file as text; empty when it is not there (yet).
    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.join(name)).unwrap_or_default()
    }
}

impl Default for Folder {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// A port on 127.0.0.1 that was free a moment ago and that this process hands out once only.
///
/// Taken from below the kernel's range for outgoing connections, so that no client socket of a
/// parallel test lands on it in between.
pub fn free_port() -> u16 {
    const FIRST: u32 = 15_000;
    const COUNT: u32 = 17_000;
    let start = std::process::id().wrapping_mul(131) % COUNT;
    for _ in 0..COUNT {
        let offset = NEXT_PORT.fetch_add(1, Ordering::Relaxed);
        let port = FIRST + (start + offset) % COUNT;
        let port = u16::try_from(port).expect("ports end below 65536");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no free port between {FIRST} and {}", FIRST + COUNT);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_gone_after_its_drop() {
        let folder = Folder::new();
        let file = folder.write("a", "text");
        assert_eq!(folder.read("a"), "text");
        drop(folder);
        assert!(!file.exists());
    }

    #[test]
    fn two_ports_differ() {
        assert_ne!(free_port(), free_port());
    }
}
