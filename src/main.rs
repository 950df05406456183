//! The program: arguments in, exit code out.

use std::process::ExitCode;

fn main() -> ExitCode {
    // One provider of cryptography for the whole process; a second call would only say that it is there.
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    restante::cli::main()
}
