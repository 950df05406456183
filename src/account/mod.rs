//! L3: who exists here.
