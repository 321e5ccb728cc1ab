//! Why a run could not be made.

use tollgate_tls::MaterialError;

/// Why a run could not be made. What goes wrong during a run is in its result.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The target is not `HOST:PORT`.
    #[error("{0:?} is not HOST:PORT; write shop.example:443 or [::1]:8443")]
    Target(String),
    /// The host has no address.
    #[error("no address for {host} ({reason}); check the name")]
    Resolve {
        /// The host.
        host: String,
        /// The resolver's words.
        reason: String,
    },
    /// A share outside 0 to 1.
    #[error("a hit rate of {0} is not possible; give a share from 0 to 1, such as 0.9")]
    HitRate(f64),
    /// Another share outside 0 to 1.
    #[error("a share of early data of {0} is not possible; give a share from 0 to 1, such as 0.5")]
    EarlyDataRate(f64),
    /// Early data with a request that must not be repeated.
    #[error(
        "early data may be replayed by whoever sees it, so it is sent only with a request that is safe to repeat; \
         {0}: use GET, HEAD or OPTIONS without a body"
    )]
    EarlyDataUnsafe(String),
    /// Early data where there can be none.
    #[error("there is no early data {0}")]
    EarlyDataWithout(&'static str),
    /// A protocol that a load run does not speak.
    #[error("a load run speaks http/1.1 and h2; leave {0:?} out of the application protocols")]
    Alpn(String),
    /// Nothing is allowed where something is needed.
    #[error("{0} must be more than zero")]
    Zero(&'static str),
    /// Two settings that do not go together.
    #[error("{0}")]
    Together(&'static str),
    /// A method that is no word.
    #[error("{0:?} is no method; an example is POST")]
    Method(String),
    /// A path that cannot be asked for.
    #[error(
        "{0:?} cannot be asked for; a path begins with / and has no spaces, such as /bytes/1000"
    )]
    Path(String),
    /// A field that cannot be sent.
    #[error("{0:?} cannot be sent as a field; write 'Name: value'")]
    Header(String),
    /// A field that belongs to the load run.
    #[error(
        "the field {0} is set by the load run itself; use --server-name for the host and --body-size for a body"
    )]
    OwnHeader(String),
    /// A body that does not fit in memory.
    #[error(
        "a body of {bytes} bytes is too long for HTTP/2, where at most {most} are held; ask for less or use http/1.1"
    )]
    BodyTooLong {
        /// What was asked for.
        bytes: u64,
        /// What is held.
        most: u64,
    },
    /// A mix without parts.
    #[error(
        "a mix has no part; give at least one of --tps, --requests, --download, --upload and --hold"
    )]
    NoParts,
    /// An address of the other family.
    #[error(
        "connections to {target} cannot come from {source_address}; give source addresses of the same family"
    )]
    Source {
        /// What is connected to.
        target: String,
        /// What was asked for.
        source_address: String,
    },
    /// More connections than files may be open.
    #[error(
        "{wanted} open files are needed and {allowed} are allowed; ask for fewer connections or raise the limit (ulimit -n)"
    )]
    Files {
        /// Files needed.
        wanted: u64,
        /// The hard limit.
        allowed: u64,
    },
    /// A watched process is not there.
    #[error(
        "no process {0} to watch; give the id of one that runs, such as --watch $(pidof -s nginx)"
    )]
    Watch(u32),
    /// The console does not answer, or not as a Tollgate.
    #[error(
        "the console {console} gives no counts ({reason}); give HOST:PORT of `console:` in tls.yaml"
    )]
    Console {
        /// What was asked.
        console: String,
        /// What happened.
        reason: String,
    },
    /// The file of roots cannot be read.
    #[error(
        "cannot read trusted roots from {path} ({reason}); name a PEM file with --ca, or check nothing with --insecure"
    )]
    Roots {
        /// The file.
        path: String,
        /// The system's words.
        reason: String,
    },
    /// What the client shall offer makes no sense.
    #[error(transparent)]
    Offer(#[from] MaterialError),
    /// The core cannot be had.
    #[error(
        "cannot keep to core {core} ({reason}); `nproc` says how many there are, counted from 0"
    )]
    Pin {
        /// The core.
        core: usize,
        /// The system's words.
        reason: String,
    },
    /// A thread cannot be had.
    #[error("no thread for the load run ({0})")]
    Thread(std::io::Error),
    /// The very first operation failed.
    #[error("{target} does not answer: {reason}")]
    Unreachable {
        /// `HOST:PORT`.
        target: String,
        /// What happened.
        reason: String,
    },
}

impl LoadError {
    /// Whether what was asked for is wrong, whatever the state of the world.
    pub fn is_input(&self) -> bool {
        match self {
            Self::Target(_)
            | Self::HitRate(_)
            | Self::EarlyDataRate(_)
            | Self::EarlyDataUnsafe(_)
            | Self::EarlyDataWithout(_)
            | Self::Alpn(_)
            | Self::Zero(_)
            | Self::Together(_)
            | Self::Method(_)
            | Self::Path(_)
            | Self::Header(_)
            | Self::OwnHeader(_)
            | Self::BodyTooLong { .. }
            | Self::NoParts
            | Self::Source { .. }
            | Self::Files { .. }
            | Self::Watch(_)
            | Self::Roots { .. }
            | Self::Offer(_)
            | Self::Pin { .. } => true,
            Self::Resolve { .. }
            | Self::Console { .. }
            | Self::Thread(_)
            | Self::Unreachable { .. } => false,
        }
    }
}
