//! How much a query handles at once; its answer is the same with any of these numbers.

/// Sizes of the batches in which a query reads and sorts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueryOptions {
    /// Hits of the search index that are looked at together where as many results are wanted; fewer
    /// where fewer are.
    pub search_batch: usize,
    /// Bytes of messages that a search reads ahead for one batch of hits.
    pub prefetch_bytes: u64,
    /// Results beyond those wanted that are collected before they are sorted and cut.
    pub sort_slack: usize,
}

impl Default for QueryOptions {
    fn default() -> Self {
        Self { search_batch: 64, prefetch_bytes: 1 << 20, sort_slack: 1024 }
    }
}

impl QueryOptions {
    /// Batches so small that the few emails of a test take several of them.
    #[must_use]
    #[cfg(any(test, feature = "internals"))]
    pub fn small() -> Self {
        Self { search_batch: 2, prefetch_bytes: 256, sort_slack: 2 }
    }
}
