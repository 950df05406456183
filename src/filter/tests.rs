//! Tests of runs over a store.
