//! Counts in tests how often code walks over a header.

use std::cell::RefCell;

thread_local! {
    /// The beginning of the header whose walks are counted, and their number.
    static COUNTED: RefCell<Option<(Vec<u8>, usize)>> = const { RefCell::new(None) };
}

/// Returns the result of `work` on this thread, and how often it walked over a header that begins
/// with `beginning`.
pub(crate) fn count<T>(beginning: &[u8], work: impl FnOnce() -> T) -> (T, usize) {
    COUNTED.with_borrow_mut(|counted| *counted = Some((beginning.to_vec(), 0)));
    let done = work();
    let (_, walks) = COUNTED.take().unwrap_or_default();
    (done, walks)
}

/// Counts a walk over a header, if it is the one that `count` was asked about.
pub(super) fn note(header: &[u8]) {
    COUNTED.with_borrow_mut(|counted| {
        if let Some((beginning, walks)) = counted
            && header.starts_with(beginning)
        {
            *walks = walks.saturating_add(1);
        }
    });
}
