//! What other processes cost: CPU time and memory, from `/proc`.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

/// Ticks per second in `/proc/PID/stat`; fixed at 100 for user space on every architecture that we
/// build for (`USER_HZ`).
const TICKS_PER_SECOND: u64 = 100;

/// CPU time taken so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cpu {
    /// In the program.
    pub user: Duration,
    /// In the kernel on its behalf.
    pub system: Duration,
}

impl Cpu {
    /// What was taken after `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
        }
    }

    /// Both together.
    pub fn total(self) -> Duration {
        self.user + self.system
    }
}

/// Processes that are watched, with whatever they have started: nginx and HAProxy work in children.
#[derive(Clone, Debug)]
pub struct Watched(Vec<u32>);

impl Watched {
    /// Watches these processes and their descendants.
    pub fn new(pids: &[u32]) -> Self {
        Self(pids.to_vec())
    }

    /// Whether anything is watched.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first watched process that is not running.
    pub fn missing(&self) -> Option<u32> {
        self.0.iter().copied().find(|pid| read_stat(*pid).is_none())
    }

    /// CPU time of all watched processes, threads included. Resolution 10 ms.
    pub fn cpu(&self) -> Cpu {
        sum(&self.family())
    }

    /// CPU time of the watched processes without those that they have started.
    pub fn cpu_alone(&self) -> Cpu {
        sum(&self.0)
    }

    /// Proportional set size of all watched processes, in bytes: what they hold of user memory, shared
    /// pages divided by how many share them.
    pub fn memory_bytes(&self) -> u64 {
        self.family().into_iter().filter_map(read_pss).sum()
    }

    fn family(&self) -> Vec<u32> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
        for pid in all_pids() {
            if let Some(stat) = read_stat(pid) {
                children.entry(stat.parent).or_default().push(pid);
            }
        }
        let mut found = Vec::new();
        let mut open = self.0.clone();
        while let Some(pid) = open.pop() {
            if found.contains(&pid) {
                continue;
            }
            found.push(pid);
            open.extend(children.get(&pid).into_iter().flatten());
        }
        found
    }
}

fn sum(pids: &[u32]) -> Cpu {
    let mut sum = Cpu::default();
    for stat in pids.iter().filter_map(|pid| read_stat(*pid)) {
        sum.user += stat.cpu.user;
        sum.system += stat.cpu.system;
    }
    sum
}

struct Stat {
    parent: u32,
    cpu: Cpu,
}

fn all_pids() -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect()
}

fn read_stat(pid: u32) -> Option<Stat> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Reads proc(5) `stat`: fields 4 (parent), 14 (user ticks) and 15 (system ticks). The second field is
/// a name in parentheses which may hold anything, so counting starts after the last parenthesis.
fn parse_stat(text: &str) -> Option<Stat> {
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    let parent = fields.nth(1)?.parse().ok()?;
    let user: u64 = fields.nth(9)?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    let ticks = |n: u64| Duration::from_millis(n * 1000 / TICKS_PER_SECOND);
    Some(Stat {
        parent,
        cpu: Cpu {
            user: ticks(user),
            system: ticks(system),
        },
    })
}

fn read_pss(pid: u32) -> Option<u64> {
    parse_pss(&fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?)
}

fn parse_pss(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at once")]
    use super::*;

    #[test]
    fn a_process_name_with_spaces_and_parentheses_does_not_shift_the_fields() {
        let stat =
            parse_stat("42 (a ) b (c)) S 7 42 42 0 -1 4194560 1 2 3 4 250 13 0 0 20").unwrap();
        assert_eq!(stat.parent, 7);
        assert_eq!(stat.cpu.user, Duration::from_millis(2500));
        assert_eq!(stat.cpu.system, Duration::from_millis(130));
    }

    #[test]
    fn a_cut_off_stat_line_is_no_answer() {
        assert!(parse_stat("42 (a) S 7 42").is_none());
        assert!(parse_stat("").is_none());
    }

    #[test]
    fn the_proportional_size_is_read_in_bytes() {
        let text = "55d0-7ffc ---p 00000000 00:00 0 [rollup]\nRss:  100 kB\nPss:   24 kB\nPss_Dirty: 9 kB\n";
        assert_eq!(parse_pss(text), Some(24 * 1024));
    }

    #[test]
    fn this_process_can_be_watched_and_a_dead_one_is_named() {
        let here = Watched::new(&[std::process::id()]);
        assert_eq!(here.missing(), None);
        assert!(here.memory_bytes() > 100_000);
        assert_eq!(Watched::new(&[u32::MAX]).missing(), Some(u32::MAX));
    }
}
