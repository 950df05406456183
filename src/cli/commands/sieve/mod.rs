//! The command `sieve`.

mod stats;
mod stored;
mod stored_report;

use clap::Subcommand;

use crate::cli::control::CommandContext;
use crate::cli::exit::Failure;
use crate::wire::jmap::admin::sieve_stored::{SieveApply, SieveDryRun};

#[derive(Debug, Subcommand)]
pub enum SieveCommand {
    /// Show how often each rule of the scripts fired for delivered mail, and when last.
    ///
    /// A rule is a block of `if`, `elsif` or `else`, or a command outside of such blocks that acts
    /// on the message. It is named by its line, and by the comment `# rule:[name]` that clients
    /// write before it. The counts begin anew when the script is replaced.
    Stats(stats::StatsArgs),
    /// Say what a script would have done with stored mail, message by message; change nothing.
    ///
    /// Runs only this script, as if each message came when it was received, from the sender and
    /// for the recipient that the record of its delivery or its header says. Who the client
    /// was, and its DSN parameters, are not known. The `duplicate` test is false.
    DryRun(stored::StoredArgs),
    /// Do with stored mail what a script says: move, copy and flag; discard into Trash.
    ///
    /// Nothing is sent: messages that the script would redirect or reject stay, and nobody is
    /// answered or notified. Headers are not edited. The command can be interrupted and run again:
    /// what is done is not done twice. `sieve dry-run` says before what will happen.
    Apply(stored::StoredArgs),
}

pub(in crate::cli) async fn run(
    command: SieveCommand,
    context: &CommandContext,
) -> Result<(), Failure> {
    match command {
        SieveCommand::Stats(args) => stats::run(args, context).await,
        SieveCommand::DryRun(args) => stored::run::<SieveDryRun>(args, context).await,
        SieveCommand::Apply(args) => stored::run::<SieveApply>(args, context).await,
    }
}
