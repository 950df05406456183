//! The program: arguments in, exit code out.

use std::process::ExitCode;

/// A delivery makes hundreds of small values, on one thread, and drops them on another.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // One provider of cryptography for the whole process; a second call would only say that it is
    // there.
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    restante::main()
}
