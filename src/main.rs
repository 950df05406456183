//! The program: calls the library and exits with its code.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // The cryptography for TLS. This fails only if one is installed already.
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    restante::main()
}
