//! Has no tests of its own: runs over a store are tested in `deliver/tests/scripts.rs`.
