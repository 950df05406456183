//! The manual: the help of every command that is not hidden, as one Markdown text.

use clap::{Command, CommandFactory as _};

use crate::cli::args::Cli;

pub(super) fn text() -> String {
    let mut out = String::new();
    let mut root = Cli::command().term_width(100).disable_help_subcommand(true);
    root.build();
    write(&mut out, &mut root, 1);
    out
}

/// Writes the help of a command under a heading of level `depth`, then that of its subcommands.
fn write(out: &mut String, command: &mut Command, depth: usize) {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name()).to_owned();
    out.push_str(&format!("{} {name}\n\n```text\n", "#".repeat(depth)));
    for line in command.render_long_help().to_string().lines() {
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out.push_str("```\n\n");
    for sub in command.get_subcommands_mut().filter(|sub| !sub.is_hide_set()) {
        write(out, sub, depth + 1);
    }
}
