//! The sizes of the batches in which a query reads and sorts. They change no answer, but what is
//! read ahead counts against the allowance (`Allowance`).

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueryOptions {
    /// Hits of the search index, or emails of a listing, in the first batches; fewer if fewer
    /// results are wanted. Later batches are larger (`walk::search`).
    pub search_batch: usize,
    /// Bytes of messages that a search reads ahead for one batch of hits.
    pub prefetch_bytes: u64,
    /// The number of results beyond the wanted ones that are collected before sorting and
    /// truncating; or the number of wanted results, if that is greater.
    pub sort_slack: usize,
}

impl Default for QueryOptions {
    fn default() -> Self {
        Self { search_batch: 64, prefetch_bytes: 1 << 20, sort_slack: 1024 }
    }
}

impl QueryOptions {
    /// Returns sizes so small that a few emails need several batches.
    #[must_use]
    #[cfg(any(test, feature = "internals"))]
    pub fn small() -> Self {
        Self { search_batch: 2, prefetch_bytes: 256, sort_slack: 2 }
    }
}
