//! The sheet itself.

use serde::{Deserialize, Serialize};

use crate::Figure;

/// The six things that TLS costs, by number from 1.
pub const PHASES: [&str; 6] = [
    "asymmetric",
    "derivation",
    "records",
    "handshake memory",
    "connection memory",
    "resumption",
];

/// Everything that one `bench` found on one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sheet {
    /// Version of this format; 1.
    pub sheet_version: u32,
    /// When it was made, RFC 3339, UTC.
    pub made: String,
    /// Version of the program that made it.
    pub tollgate: String,
    /// The cryptographic library, with its version.
    pub provider: String,
    /// Where it was made.
    pub machine: Machine,
    /// What reading the clock costs, in nanoseconds; it is subtracted from every time.
    pub clock_nanoseconds: f64,
    /// The tables, in order of phase; a run of one phase holds one.
    pub phases: Vec<PhaseTable>,
}

/// A machine, as far as it matters for figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Model of the CPU.
    pub cpu: String,
    /// CPU flags that change what TLS costs, such as `aes`, `vaes`, `avx512f`, `sha_ni`.
    pub cpu_flags: Vec<String>,
    /// Cores that this process may use.
    pub cores: u32,
    /// Memory, in bytes.
    pub memory_bytes: u64,
    /// Kernel release.
    pub kernel: String,
    /// `x86_64` or `aarch64`.
    pub architecture: String,
}

/// The figures of one phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseTable {
    /// 1 to 6.
    pub phase: u8,
    /// Its name, from [`PHASES`].
    pub name: String,
    /// How long measuring took.
    pub seconds: f64,
    /// The figures, in the order in which they are shown.
    pub figures: Vec<Figure>,
}

impl Sheet {
    /// The figure of this id.
    pub fn figure(&self, id: &str) -> Option<&Figure> {
        self.phases
            .iter()
            .flat_map(|table| &table.figures)
            .find(|figure| figure.id == id)
    }
}
