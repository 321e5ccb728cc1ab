//! The queue between workers and the thread that writes.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError, sync_channel,
};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::sink::{Sink, Written};
use crate::{Entry, Format};

/// Entries that wait for the thread at most; one more is dropped. About 4 MB.
pub const QUEUE_ENTRIES: usize = 8_192;
/// A batch is written when it has grown to this, or when nothing more waits.
const BATCH_BYTES: usize = 64 * 1024;
/// How long the thread rests after it found the queue empty. While it rests, handing an entry over needs no
/// system call to wake it; 8,192 entries in 2 ms are four million lines a second.
const REST: Duration = Duration::from_millis(2);
/// How long the thread waits for a reader of a full pipe before it tries again.
const PATIENCE: Duration = Duration::from_millis(10);
/// How many times it waits for one once no handle is left: a second.
const LAST_WAITS: u32 = 100;

/// How long a shutdown waits for the log.
const LAST_PATIENCE: Duration = Duration::from_secs(1);

/// Where lines go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Standard output.
    Stdout,
    /// A file that is appended to, made with mode 0640 when it does not exist, or a named pipe.
    File(PathBuf),
}

/// A handle on the access log; clones write to the same one.
#[derive(Clone)]
pub struct Journal {
    queue: SyncSender<Message>,
    shared: Arc<Shared>,
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal").finish_non_exhaustive()
    }
}

/// An entry travels by value: its slot in the queue is there already, a box would be made per line.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly every message is an entry"
)]
enum Message {
    Entry(Entry),
    /// Look at the flags.
    Wake,
    /// Answer when everything before this is written or lost.
    Flush(SyncSender<()>),
}

#[derive(Debug, Default)]
struct Shared {
    dropped: AtomicU64,
    shall_reopen: AtomicBool,
    trouble: Mutex<Option<String>>,
}

impl Journal {
    /// Opens the target and starts the thread, which ends when the last handle is dropped.
    ///
    /// # Errors
    /// When the file cannot be opened or the thread not be started.
    pub fn open(target: Target, format: Format) -> io::Result<Self> {
        let (queue, entries) = sync_channel(QUEUE_ENTRIES);
        let shared = Arc::new(Shared::default());
        let writer = Writer {
            sink: Sink::open(target)?,
            format,
            entries,
            shared: Arc::clone(&shared),
            batch: Vec::with_capacity(BATCH_BYTES * 2),
            flushes: Vec::new(),
        };
        thread::Builder::new()
            .name("journal".into())
            .spawn(move || writer.run())?;
        Ok(Self { queue, shared })
    }

    /// Hands an entry over. Never waits: when the queue is full the entry is dropped and counted.
    pub fn write(&self, entry: Entry) {
        if self.queue.try_send(Message::Entry(entry)).is_err() {
            self.shared.drop_lines(1);
        }
    }

    /// Lines that were dropped since the start, because the queue was full or a write failed.
    pub fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    /// What is wrong with the target; `None` while lines are written.
    pub fn trouble(&self) -> Option<String> {
        self.shared.trouble().clone()
    }

    /// Has the file opened again by its name, as after a rotation. When that fails, lines go on to the old one
    /// and [`Journal::trouble`] says why.
    pub fn reopen(&self) {
        self.shared.shall_reopen.store(true, Ordering::Release);
        // A full queue wakes the thread as well.
        let _ = self.queue.try_send(Message::Wake);
    }

    /// Waits until everything handed over before is written or lost, at most a second. Blocks: for shutdown
    /// only. Returns whether it got done.
    pub fn flush(&self) -> bool {
        self.flush_within(LAST_PATIENCE)
    }

    /// As [`Journal::flush`], at most `patience`, in steps of a millisecond.
    pub fn flush_within(&self, patience: Duration) -> bool {
        let (done, answer) = sync_channel(1);
        let mut message = Message::Flush(done);
        let mut left = patience;
        let step = Duration::from_millis(1);
        loop {
            match self.queue.try_send(message) {
                Ok(()) => return answer.recv_timeout(left).is_ok(),
                Err(TrySendError::Disconnected(_)) => return false,
                Err(TrySendError::Full(_)) if left.is_zero() => return false,
                Err(TrySendError::Full(again)) => message = again,
            }
            thread::sleep(step);
            left = left.saturating_sub(step);
        }
    }
}

impl Shared {
    fn drop_lines(&self, lines: u64) {
        self.dropped.fetch_add(lines, Ordering::Relaxed);
    }

    fn trouble(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        // The text is whole whoever panicked.
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the thread holds.
struct Writer {
    sink: Sink,
    format: Format,
    entries: Receiver<Message>,
    shared: Arc<Shared>,
    /// Whole lines, but for the first one's beginning while a pipe is full.
    batch: Vec<u8>,
    flushes: Vec<SyncSender<()>>,
}

/// Whether anybody can still hand entries over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Queue {
    Empty,
    Full,
    Closed,
}

impl Writer {
    fn run(mut self) {
        loop {
            // Asleep until something comes: a quiet server does not wake up for its log.
            match self.entries.recv_timeout(Duration::from_secs(3_600)) {
                Ok(message) => self.take(message),
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if self.work() == Queue::Closed {
                return;
            }
        }
    }

    /// Writes batch after batch until a rest brought nothing new.
    fn work(&mut self) -> Queue {
        loop {
            let queue = self.collect();
            let is_idle = self.batch.is_empty() && self.flushes.is_empty();
            self.write();
            match queue {
                Queue::Closed => return Queue::Closed,
                Queue::Empty if is_idle => return Queue::Empty,
                Queue::Empty => thread::sleep(REST),
                Queue::Full => {}
            }
        }
    }

    fn collect(&mut self) -> Queue {
        while self.batch.len() < BATCH_BYTES {
            match self.entries.try_recv() {
                Ok(message) => self.take(message),
                Err(TryRecvError::Empty) => return Queue::Empty,
                Err(TryRecvError::Disconnected) => return Queue::Closed,
            }
        }
        Queue::Full
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Entry(entry) => self.format.write(&entry, &mut self.batch),
            Message::Wake => {}
            Message::Flush(done) => self.flushes.push(done),
        }
    }

    /// Writes the batch out, waiting for the reader of a full pipe; meanwhile the queue fills and drops.
    fn write(&mut self) {
        let mut from = 0;
        let mut waits = 0;
        loop {
            if self.reopens() {
                from = self.skip_torn_line(from);
            }
            match self.sink.write(&self.batch[from..]) {
                Written::All => {
                    if from < self.batch.len() {
                        self.shared.trouble().take();
                    }
                    break;
                }
                Written::Waits(bytes) => {
                    from += bytes;
                    waits += 1;
                    if self.is_forgotten() && waits > LAST_WAITS {
                        self.lose(from);
                        break;
                    }
                    self.shared
                        .trouble()
                        .get_or_insert_with(|| "the reader of the pipe does not keep up".into());
                    thread::sleep(PATIENCE);
                }
                Written::Lost(bytes, error) => {
                    self.lose(from + bytes);
                    *self.shared.trouble() = Some(error.to_string());
                    break;
                }
            }
        }
        self.batch.clear();
        for done in self.flushes.drain(..) {
            let _ = done.try_send(());
        }
    }

    /// Counts the lines of the batch from this byte on as dropped.
    fn lose(&self, from: usize) {
        let lines = self.batch[from..].iter().filter(|&&byte| byte == b'\n');
        self.shared.drop_lines(lines.count() as u64);
    }

    /// Whether the target is another file now.
    fn reopens(&mut self) -> bool {
        if !self.shared.shall_reopen.swap(false, Ordering::AcqRel) {
            return false;
        }
        match self.sink.reopen() {
            Ok(()) => true,
            Err(error) => {
                *self.shared.trouble() = Some(error.to_string());
                false
            }
        }
    }

    /// Where the next whole line begins: the new file is not to start with the rest of a line.
    fn skip_torn_line(&self, from: usize) -> usize {
        if from == 0 || self.batch[from - 1] == b'\n' {
            return from;
        }
        self.shared.drop_lines(1);
        let rest = &self.batch[from..];
        let newline = rest.iter().position(|&byte| byte == b'\n');
        newline.map_or(self.batch.len(), |at| from + at + 1)
    }

    /// Whether no handle is left.
    fn is_forgotten(&self) -> bool {
        Arc::strong_count(&self.shared) == 1
    }
}
