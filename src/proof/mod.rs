//! L2: who really sent it, and who we are.
