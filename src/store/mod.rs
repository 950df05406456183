//! L2: the truth on disk.
