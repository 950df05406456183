//! The commits that wait, and whether a group of them may begin.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use super::{CommitterState, MAX_RUNNING, QueuedCommit};

#[derive(Default)]
pub(super) struct CommitQueue {
    pub(super) commits: VecDeque<QueuedCommit>,
    /// Whether a group is being made durable, by a thread of the committer or by a caller.
    pub(super) is_writing: bool,
    /// The number of groups that were begun and have not ended.
    pub(super) running: usize,
    /// Whether a group has failed. No other is begun until all that are running have ended.
    pub(super) is_failing: bool,
    /// The number of groups that were begun.
    pub(super) begun: u64,
    /// The number of commits in the last group.
    pub(super) last_len: usize,
    /// For how many commits the group that begins waits. Means nothing when it has begun.
    pub(super) awaited: usize,
    /// Whether no further commit is queued: the store is being closed, or a write panicked.
    pub(super) closed: bool,
}

/// Commits that are written together.
pub(super) struct CommitGroup {
    /// Its place in the order of all groups.
    pub(super) number: u64,
    pub(super) commits: Vec<QueuedCommit>,
}

impl CommitQueue {
    /// Whether another group may begin. Two may run at a time: an engine tells a group only of the
    /// one before it (`Engine::write_overlapping`).
    pub(super) fn may_begin(&self) -> bool {
        !self.is_writing && !self.is_failing && self.running < MAX_RUNNING
    }

    /// Begins a group, and returns its number.
    pub(super) fn begin(&mut self) -> u64 {
        self.is_writing = true;
        self.running += 1;
        self.begun += 1;
        self.begun - 1
    }

    /// Whether the next commit is likely to be alone.
    pub(super) fn is_quiet(&self) -> bool {
        self.running == 0 && self.commits.is_empty() && self.last_len <= 1
    }
}

impl CommitterState {
    /// Queues a commit, or returns it as a group for `write_alone`. If the store is closed, drops
    /// it: then its ticket fails.
    pub(super) fn push(&self, commit: QueuedCommit) -> Option<CommitGroup> {
        let mut queue = self.queue.lock();
        if queue.closed {
            return None;
        }
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        if self.writes_alone && queue.is_quiet() {
            let number = queue.begin();
            return Some(CommitGroup { number, commits: vec![commit] });
        }
        queue.commits.push_back(commit);
        // Whoever writes looks at the queue afterwards (`begin_next`, `end`).
        if queue.commits.len() == 1 && queue.may_begin() {
            self.wake.notify_one();
        }
        if queue.commits.len() == queue.awaited {
            self.filled.notify_one();
        }
        None
    }
}
