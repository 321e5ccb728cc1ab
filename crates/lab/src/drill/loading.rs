//! A load that runs beside the drill until the drill is over.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::DrillError;
use crate::load::{LoadOptions, Moment, Seen, run_watched};
use crate::{LoadError, LoadResult};

/// Length of a piece that is counted for itself.
pub(super) const PIECE: Duration = Duration::from_millis(100);
/// No drill takes so long.
const FOR_EVER: Duration = Duration::from_secs(7 * 86_400);
/// Longest wait for the first connection.
const BEGINS_WITHIN: Duration = Duration::from_secs(60);

/// A piece of the load, with the moment when it ended.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub(super) at: Instant,
    pub(super) moment: Moment,
}

type Pieces = Arc<Mutex<Vec<Piece>>>;

/// A load on a thread of its own; ends when dropped.
#[derive(Debug)]
pub(super) struct Loading {
    pieces: Pieces,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<LoadResult, DrillError>>>,
}

impl Loading {
    /// Starts it; returns once the first connection has been made.
    pub(super) fn start(mut options: LoadOptions) -> Result<Self, DrillError> {
        options.duration = FOR_EVER;
        options.warm_up = Duration::ZERO;
        options.every = PIECE;
        let pieces = Pieces::default();
        let (stop, stopped) = oneshot::channel();
        let (began, begins) = mpsc::channel();
        let thread = {
            let pieces = Arc::clone(&pieces);
            std::thread::Builder::new()
                .name("drill-load".into())
                .spawn(move || conduct(options, stopped, &began, &pieces))
                .map_err(LoadError::Thread)?
        };
        let mut loading = Self {
            pieces,
            stop: Some(stop),
            thread: Some(thread),
        };
        match begins.recv_timeout(BEGINS_WITHIN) {
            Ok(()) => Ok(loading),
            // It ended, and its result says why.
            Err(_) => loading.end().and(Err(DrillError::LoadEnded)),
        }
    }

    /// The pieces that ended in `from..=to`.
    pub(super) fn between(&self, from: Instant, to: Instant) -> Vec<Piece> {
        let pieces = lock(&self.pieces);
        let begin = pieces.partition_point(|piece| piece.at < from);
        let end = pieces.partition_point(|piece| piece.at <= to);
        pieces[begin..end.max(begin)].to_vec()
    }

    /// Whether it is still running.
    pub(super) fn is_running(&self) -> bool {
        self.thread
            .as_ref()
            .is_some_and(|thread| !thread.is_finished())
    }

    /// Ends it and gives what came of the whole.
    pub(super) fn end(&mut self) -> Result<LoadResult, DrillError> {
        if let Some(stop) = self.stop.take() {
            // It may have ended by itself.
            let _ = stop.send(());
        }
        let thread = self.thread.take().ok_or(DrillError::LoadEnded)?;
        thread.join().map_err(|_| DrillError::LoadEnded)?
    }
}

impl Drop for Loading {
    fn drop(&mut self) {
        // The drill has failed already, or wants no result.
        let _ = self.end();
    }
}

fn lock(pieces: &Mutex<Vec<Piece>>) -> MutexGuard<'_, Vec<Piece>> {
    pieces.lock().unwrap_or_else(PoisonError::into_inner)
}

fn conduct(
    options: LoadOptions,
    stopped: oneshot::Receiver<()>,
    began: &mpsc::Sender<()>,
    pieces: &Mutex<Vec<Piece>>,
) -> Result<LoadResult, DrillError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(LoadError::Thread)?;
    let stop = async {
        // A drill that is gone wants an end as well.
        let _ = stopped.await;
    };
    let mut seen = |seen| match seen {
        Seen::Begins => {
            // The drill may be gone already.
            let _ = began.send(());
        }
        Seen::Piece(moment) => lock(pieces).push(Piece {
            at: Instant::now(),
            moment,
        }),
        Seen::WarmUp(_) | Seen::Alone(_) | Seen::Holds(_) | Seen::Ends => {}
    };
    runtime
        .block_on(run_watched(options, stop, &mut seen))
        .map_err(DrillError::from)
}
