//! L1: protocols without sockets: bytes in, steps out.
