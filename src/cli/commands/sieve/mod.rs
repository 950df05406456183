//! The command `sieve`.

mod stats;

use clap::Subcommand;

use crate::cli::control::CommandContext;
use crate::cli::exit::Failure;

#[derive(Debug, Subcommand)]
pub enum SieveCommand {
    /// Show how often each rule of the scripts fired for delivered mail, and when last.
    ///
    /// A rule is a block of `if`, `elsif` or `else`, or a command outside of such blocks that acts
    /// on the message. It is named by its line, and by the comment `# rule:[name]` that clients
    /// write before it. The counts begin anew when the script is replaced.
    Stats(stats::StatsArgs),
}

pub(in crate::cli) async fn run(
    command: SieveCommand,
    context: &CommandContext,
) -> Result<(), Failure> {
    match command {
        SieveCommand::Stats(args) => stats::run(args, context).await,
    }
}
