//! L7: the command line.
