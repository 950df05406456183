//! L2: the life of an action, pure.
