//! The command line.
//!
//! - `serve` and `demo` run the service.
//! - `config`, `dkim`, `completions`, `manual`, `restore`, `backup --list` and `backup --verify`
//!   need no service.
//! - `check`, `repair`, `rebuild`, `reindex` and `backup` ask the running service, or open the
//!   store themselves if none runs.
//! - `sieve check`, `sieve fmt` and `sieve test` without an account work on files and the
//!   configuration.
//! - Every other command is a client of the control socket, because only one process can have the
//!   store open.

mod args;
mod commands;
mod control;
mod exit;
mod manual;
mod service;
mod sink;
mod terminal;

#[cfg(test)]
mod tests;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};
use hyper::Method;
use hyper::body::Bytes;

#[cfg(any(test, feature = "internals"))]
pub use terminal::dates::{Edge, parse as parse_date};

use crate::store::repair::RepairScope;
use args::{Cli, Command};
use commands::deliver::DeliverCall;
use commands::{
    account, backup, check, config, deliver, demo, dkim, mail, mailbox, queue, repair, sieve,
    vacation,
};
use control::{CommandContext, single_threaded_runtime};
use exit::Failure;
use service::serve;
use terminal::{complain, output};

#[must_use]
pub fn main() -> ExitCode {
    // Files contain mail and keys, so they are created for this user alone. Files and sockets that
    // other users need get their permissions explicitly.
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    // The allocator uses a part of each huge page, and all of its 2 MiB count as resident. A kernel
    // that refuses this only costs memory.
    rustix::thread::disable_transparent_huge_pages(true).ok();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return ExitCode::from(explain(&error, DeliverCall::of(arguments()))),
    };
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            complain(&failure.message);
            ExitCode::from(failure.code)
        }
    }
}

/// Prints the help, the version or what is wrong with the arguments, and returns the exit code.
fn explain(error: &clap::Error, call: DeliverCall) -> u8 {
    // Help and version are errors to clap, but print to standard output.
    let is_wrong = error.use_stderr();
    let is_delivery = call == DeliverCall::Delivery;
    if is_delivery && !is_wrong {
        complain(
            "nothing was delivered: an argument asks for help or the version. If it is an address, \
             write `--` before the recipients",
        );
    } else {
        drop(error.print());
    }
    match (is_delivery, is_wrong) {
        // Whatever is wrong in master.cf, mail must wait: neither be lost nor bounce.
        (true, _) => exit::TEMPORARY,
        (false, true) => exit::USAGE,
        (false, false) => 0,
    }
}

fn arguments() -> impl Iterator<Item = String> {
    std::env::args_os().map(|argument| argument.to_string_lossy().into_owned())
}

fn run(cli: Cli) -> Result<(), Failure> {
    match cli.command {
        Command::Serve => serve::run(cli.config),
        Command::Demo(args) => demo::run(&args),
        Command::Config(command) => config::run(&command, cli.config.as_deref()),
        Command::Dkim(command) => dkim::run(&command, cli.config.as_deref(), cli.json),
        Command::Completions { shell } => {
            // `generate` panics if writing fails.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "restante", &mut script);
            output::bytes(&script)
        }
        Command::Manual => {
            output::raw(&manual::text());
            Ok(())
        }
        Command::Deliver(args) => deliver::run(&args, cli.config.as_deref(), cli.json),
        command => {
            let context = CommandContext::new(cli.config.as_deref(), cli.json)?;
            single_threaded_runtime()?.block_on(run_client(command, context))
        }
    }
}

/// Runs a command that takes a `CommandContext`. `run` handles the other commands itself.
async fn run_client(command: Command, context: CommandContext) -> Result<(), Failure> {
    match command {
        Command::Account(command) => account::run(command, &context).await,
        Command::Vacation(command) => vacation::run(command, &context).await,
        Command::Mail(command) => mail::run(command, &context).await,
        Command::Mailbox(command) => mailbox::run(command, &context).await,
        Command::Queue(command) => queue::run(command, &context).await,
        Command::Sieve(command) => sieve::run(command, &context).await,
        Command::Metrics => {
            let text = context
                .client
                .exchange(Method::GET, "/metrics", "text/plain", Bytes::new())
                .await?;
            output::bytes(&text)
        }
        Command::Check(args) => check::run(&args, &context).await,
        Command::Repair(args) => repair::run(RepairScope::Repair, &args, &context).await,
        Command::Rebuild(args) => repair::run(RepairScope::Rebuild, &args, &context).await,
        Command::Reindex(args) => repair::run(RepairScope::Reindex, &args, &context).await,
        Command::Backup(args) => backup::back_up(&args, &context).await,
        Command::Restore(args) => backup::restore(&args, &context),
        Command::Serve
        | Command::Demo(_)
        | Command::Config(_)
        | Command::Dkim(_)
        | Command::Deliver(_)
        | Command::Completions { .. }
        | Command::Manual => Ok(()),
    }
}
