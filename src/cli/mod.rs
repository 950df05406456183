//! L7: the command line.
//!
//! `serve` and `demo` run the service; `config` and `check` look at files; everything else is a client of the control
//! socket, so that one process alone has the store open. Exit codes are those of sysexits.h.

mod account;
pub mod args;
pub mod backup;
pub mod check;
mod client;
mod config;
mod dates;
mod deliver;
mod demo;
pub mod dkim;
pub mod exit;
mod input;
mod job;
mod life;
mod mail;
mod mailbox;
mod manual;
mod meter;
mod methods;
mod output;
mod pool;
mod progress;
mod query;
mod queue;
pub mod repair;
mod serve;
mod service;
#[cfg(test)]
mod service_tests;
mod sink;
#[cfg(test)]
mod tests;
mod token;
pub mod transfer;
mod vacation;
mod whose;

use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};
use hyper::Method;
use hyper::body::Bytes;

pub use args::Cli;
pub use client::ControlClient;
#[cfg(any(test, feature = "internals"))]
pub use dates::{Edge, parse as parse_date};
pub use exit::Failure;
pub use service::Service;
pub use sink::Sink;

use crate::config::{Config, load};
use crate::store::repair::RepairScope;
use args::Command;

/// Runs the command that the arguments name.
#[must_use]
pub fn main() -> ExitCode {
    // What is written here is mail, and keys: nobody else reads it, whatever the umask was. A file or socket that others
    // may use has its permissions set on purpose.
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // A word too many in master.cf must not bounce mail.
            let wrong = if deliver::is_meant(words()) { exit::TEMPORARY } else { exit::USAGE };
            let code = if error.use_stderr() { wrong } else { 0 };
            // With standard output gone there is nobody to tell.
            drop(error.print());
            return ExitCode::from(code);
        }
    };
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            complain(&failure.message);
            ExitCode::from(failure.code)
        }
    }
}

fn words() -> impl Iterator<Item = String> {
    std::env::args_os().map(|word| word.to_string_lossy().into_owned())
}

/// Says something on standard error.
pub(crate) fn complain(message: &str) {
    use std::io::Write as _;
    let mut out = std::io::stderr().lock();
    for (at, line) in message.lines().enumerate() {
        // With standard error gone there is nobody to tell.
        drop(writeln!(out, "{}{}", if at == 0 { "restante: " } else { "" }, output::clean(line)));
    }
}

fn run(cli: Cli) -> Result<(), Failure> {
    match cli.command {
        Command::Serve => serve::run(cli.config),
        Command::Demo(args) => demo::run(&args),
        Command::Config(command) => config::run(&command, cli.config.as_deref()),
        Command::Dkim(command) => dkim::run(&command, cli.config.as_deref(), cli.json),
        Command::Completions { shell } => {
            // It panics where it cannot write.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "restante", &mut script);
            output::octets(&script)
        }
        Command::Manual => {
            output::raw(&manual::text());
            Ok(())
        }
        Command::Deliver(args) => deliver::run(&args, cli.config.as_deref(), cli.json),
        command => {
            let context = CommandContext::new(cli.config.as_deref(), cli.json)?;
            one_thread()?.block_on(ask(command, context))
        }
    }
}

async fn ask(command: Command, context: CommandContext) -> Result<(), Failure> {
    match command {
        Command::Account(command) => account::run(command, &context).await,
        Command::Vacation(command) => vacation::run(command, &context).await,
        Command::Mail(command) => mail::run(command, &context).await,
        Command::Mailbox(command) => mailbox::run(command, &context).await,
        Command::Queue(command) => queue::run(command, &context).await,
        Command::Metrics => {
            let text = context.client.exchange(Method::GET, "/metrics", "text/plain", Bytes::new()).await?;
            output::octets(&text)
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

/// What every client command needs.
#[derive(Debug)]
struct CommandContext {
    config: Config,
    client: ControlClient,
    json: bool,
}

impl CommandContext {
    fn new(path: Option<&Path>, json: bool) -> Result<Self, Failure> {
        let config = load(path).map_err(|faults| Failure::new(exit::CONFIG, faults.to_string()))?;
        let client = ControlClient::new(&config.control.socket);
        Ok(Self { config, client, json })
    }
}

fn one_thread() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(exit::SOFTWARE, format!("no runtime: {error}")))
}
