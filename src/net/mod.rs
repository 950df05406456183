//! L5: sockets, tasks, time-outs.
