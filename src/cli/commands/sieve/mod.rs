//! The command `sieve`: the Sieve scripts of accounts, what they do, and scripts in files.

mod activate;
mod check;
mod fmt;
mod get;
mod list;
mod put;
mod remove;
mod stats;
mod stored;
mod stored_report;
mod test;

use clap::{Args, Subcommand};

use crate::cli::control::CommandContext;
use crate::cli::exit::Failure;
use crate::wire::jmap::admin::sieve::CheckFacts;
use crate::wire::jmap::admin::sieve_stored::{SieveApply, SieveDryRun};

#[derive(Debug, Subcommand)]
pub enum SieveCommand {
    /// Store a script. A script of the same name is replaced.
    ///
    /// The service checks the script first. A script with errors is not stored, and all errors are
    /// printed; one with warnings is stored. A new script does nothing until it is activated.
    Put(put::PutArgs),
    /// Print a script, byte for byte as it was stored.
    Get(get::SieveGetArgs),
    /// List the scripts of an account, each with the last of its runs that failed.
    List(list::ListArgs),
    /// Make a script the active one, which runs for each message that arrives.
    ///
    /// An account has one active script, or none.
    Activate(activate::ActivateArgs),
    /// Remove a script. The active script cannot be removed.
    Remove(remove::RemoveArgs),
    /// Check scripts in files, and print all errors and warnings with their lines.
    ///
    /// Needs neither a service nor a store. What scripts may do is read from the configuration.
    /// Exits with 65 if a script has errors, and with 0 if it has only warnings.
    Check(check::SieveCheckArgs),
    /// Run a script over a message without delivering it, and print what it would do.
    ///
    /// Prints the actions, and a trace of the tests and commands by line. Only this script runs,
    /// and not those of the site. With --account the service runs it with the mailboxes, the
    /// included scripts and the time zone of that account. Without --account no service is needed,
    /// and each mailbox that the script names counts as one that exists. What the run needed and
    /// this command cannot know is listed. Exits with 65 if the script has errors or its run fails.
    Test(Box<test::TestArgs>),
    /// Format scripts in files. Comments, strings and numbers stay as they are.
    ///
    /// A file that is formatted already is not written. A script with errors of grammar cannot be
    /// formatted. Exits with 65 if there is one, or with --check also if a script is not formatted.
    Fmt(fmt::FmtArgs),
    /// Show how often each rule of the scripts fired for delivered mail, and when last.
    ///
    /// A rule is a block of `if`, `elsif` or `else`, or a command outside of such blocks that acts
    /// on the message. It is named by its line, and by the comment `# rule:[name]` that clients
    /// write before it. The counts begin anew when the script is replaced.
    Stats(stats::StatsArgs),
    /// Say what a script would have done with stored mail, message by message; change nothing.
    ///
    /// Runs only this script, and not those of the site. The time of a run is that at which the
    /// message was received. Sender and recipient are those in the record of its delivery, or else
    /// in its header. The client and its DSN parameters are not known. The `duplicate` test is
    /// false.
    DryRun(stored::StoredArgs),
    /// Do with stored mail what a script says: move, copy and flag; discard into Trash.
    ///
    /// Nothing is sent: messages that the script would only redirect or reject stay, and nobody is
    /// answered or notified. Headers are not edited. The command can be interrupted and run again:
    /// what is done is not done twice. `sieve dry-run` says beforehand what will happen.
    Apply(stored::StoredArgs),
}

/// The arguments that name a script of an account.
#[derive(Debug, Args)]
pub struct ScriptArgs {
    /// The account: its name or any of its addresses; "" is the account of your Unix user.
    pub account: String,
    /// The name of the script.
    pub name: String,
}

pub(in crate::cli) async fn run(
    command: SieveCommand,
    context: &CommandContext,
) -> Result<(), Failure> {
    match command {
        SieveCommand::Put(args) => put::run(args, context).await,
        SieveCommand::Get(args) => get::run(args, context).await,
        SieveCommand::List(args) => list::run(args, context).await,
        SieveCommand::Activate(args) => activate::run(args, context).await,
        SieveCommand::Remove(args) => remove::run(args, context).await,
        SieveCommand::Check(args) => check::run(&args, context),
        SieveCommand::Test(args) => test::run(*args, context).await,
        SieveCommand::Fmt(args) => fmt::run(&args, context),
        SieveCommand::Stats(args) => stats::run(args, context).await,
        SieveCommand::DryRun(args) => stored::run::<SieveDryRun>(args, context).await,
        SieveCommand::Apply(args) => stored::run::<SieveApply>(args, context).await,
    }
}

/// Returns the number of errors and of warnings, as `2 errors, 1 warning`. A number that is 0 is
/// left out, so without both the text is empty.
fn counts(check: &CheckFacts) -> String {
    let count =
        |severity: &str| check.diagnostics.iter().filter(|one| one.severity == severity).count();
    let plural = |count: usize, word: &str| match count {
        0 => None,
        1 => Some(format!("1 {word}")),
        count => Some(format!("{count} {word}s")),
    };
    let texts = [plural(count("error"), "error"), plural(count("warning"), "warning")];
    texts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::args::{Cli, Command};

    fn parse(words: &[&str]) -> Result<SieveCommand, clap::Error> {
        let all = ["restante", "sieve"].into_iter().chain(words.iter().copied());
        Cli::try_parse_from(all).map(|cli| match cli.command {
            Command::Sieve(command) => command,
            other => unreachable!("{other:?}"),
        })
    }

    #[test]
    fn put_reads_standard_input_if_no_file_is_named() {
        let Ok(SieveCommand::Put(args)) = parse(&["put", "ann", "main"]) else { unreachable!() };
        assert_eq!((args.file.to_str(), args.activate), (Some("-"), false));
        assert!(parse(&["put", "ann"]).is_err());
    }

    #[test]
    fn activate_takes_a_name_or_none() {
        assert!(parse(&["activate", "ann", "main"]).is_ok());
        assert!(parse(&["activate", "ann", "--none"]).is_ok());
        assert!(parse(&["activate", "ann"]).is_err());
        assert!(parse(&["activate", "ann", "main", "--none"]).is_err());
    }

    #[test]
    fn commands_for_files_need_a_file() {
        for command in ["check", "fmt"] {
            assert!(parse(&[command]).is_err());
            assert!(parse(&[command, "a.sieve", "b.sieve"]).is_ok());
        }
        assert!(parse(&["test", "a.sieve"]).is_err());
        assert!(parse(&["test", "a.sieve", "--message", "m.eml", "--from", ""]).is_ok());
    }

    #[test]
    fn counts_are_of_errors_and_warnings() {
        let check = |source: &[u8]| {
            let check = crate::filter::Settings::default().check_script(source);
            counts(&CheckFacts::read(check.text("a"), &check.json()).unwrap())
        };
        let errors = check(b"require \"copy\";\nkeeep;\nkeeep;\n");
        assert!(errors.starts_with("2 errors"), "{errors}");
        assert_eq!(check(b"require \"copy\";\nkeep;\n"), "1 warning");
        assert_eq!(counts(&CheckFacts::default()), "");
    }
}
