//! Writes a commit on the thread of its caller.
//!
//! - If nothing is queued or being written, and the last group was no more than one commit, no
//!   other commit is likely to come. To wake the committer's thread, and then the caller, would
//!   take nearly as long as the sync.
//! - Commits that come meanwhile are queued, and the committer's thread writes them afterwards.
//! - The caller's locks of accounts are free meanwhile.
//! - Before an asynchronous caller writes, the other tasks of its worker thread pass to another
//!   thread of the runtime, if the runtime is multi-threaded.

use std::panic::AssertUnwindSafe;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

use super::{CommitterState, QueuedCommit};

impl CommitterState {
    /// Writes a commit that `push` returned, and redeems its ticket.
    pub(super) fn write_alone(&self, commit: QueuedCommit) {
        let write = || {
            self.write(vec![commit]);
            self.end_write(1);
        };
        let is_multi_thread =
            |handle: Handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread;
        // `block_in_place` itself panics if the system refuses it a thread.
        let result = std::panic::catch_unwind(AssertUnwindSafe(|| {
            if Handle::try_current().is_ok_and(is_multi_thread) {
                block_in_place(write);
            } else {
                write();
            }
        }));
        if result.is_err() {
            self.give_up();
        }
    }
}
