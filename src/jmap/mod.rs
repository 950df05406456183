//! L4: methods over the store.
