//! The program: calls the library and exits with its code.

use std::process::ExitCode;

/// A delivery allocates hundreds of small values on one thread and frees them on another, which
/// mimalloc does fast.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Fails only if a provider is installed already.
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    restante::main()
}
