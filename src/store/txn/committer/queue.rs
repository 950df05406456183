//! The commits that wait for the committer.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use super::{CommitterState, QueuedCommit};

#[derive(Default)]
pub(super) struct CommitQueue {
    pub(super) commits: VecDeque<QueuedCommit>,
    /// Whether a group is being written, by the committer's thread or by a caller.
    pub(super) is_writing: bool,
    /// The number of commits in the last group.
    pub(super) last_len: usize,
    /// For how many commits the group that begins waits. Means nothing when it has begun.
    pub(super) awaited: usize,
    /// Whether no further commit is queued: the store is being closed, or a write panicked.
    pub(super) closed: bool,
}

impl CommitQueue {
    /// Whether the next commit is likely to be alone.
    pub(super) fn is_quiet(&self) -> bool {
        !self.is_writing && self.commits.is_empty() && self.last_len <= 1
    }
}

impl CommitterState {
    /// Queues a commit, or returns it for `write_alone`. If the store is closed, drops it: then its
    /// ticket fails.
    pub(super) fn push(&self, commit: QueuedCommit) -> Option<QueuedCommit> {
        let mut queue = self.queue.lock();
        if queue.closed {
            return None;
        }
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        if self.writes_alone && queue.is_quiet() {
            queue.is_writing = true;
            return Some(commit);
        }
        queue.commits.push_back(commit);
        // A writer looks at the queue when it has written (`end_write`).
        if queue.commits.len() == 1 && !queue.is_writing {
            self.wake.notify_one();
        }
        if queue.commits.len() == queue.awaited {
            self.filled.notify_one();
        }
        None
    }
}
