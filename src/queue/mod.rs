//! L4: carries out due actions.
