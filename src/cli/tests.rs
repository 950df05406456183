//! Tests of the command line as a whole.

use std::path::Path;

use clap::CommandFactory as _;

use super::control::client::ControlClient;
use super::*;

#[test]
fn commands_and_options_are_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn the_manual() {
    insta::assert_snapshot!(manual::text());
}

/// 0 would tell Postfix that the message is delivered, and 64 would bounce it.
#[test]
fn arguments_that_end_early_look_like_no_delivery() {
    for (line, code) in [
        ("deliver --help", 0),
        ("deliver -h", 0),
        ("help deliver", 0),
        ("--version", 0),
        ("mail list --help", 0),
        ("mail lst", 64),
        ("deliver -f zoe@example.net --help", 75),
        ("deliver -f zoe@example.net -hans@example.org", 75),
        ("deliver --help -f zoe@example.net ann@example.org", 75),
        ("--help deliver -f zoe@example.net -- ann@example.org", 75),
        ("--version deliver -f zoe@example.net -- ann@example.org", 75),
        ("deliver -f zoe@example.net --version", 75),
        ("deliver -f zoe@example.net -V", 75),
        ("deliver -f zoe@example.net --json", 75),
        ("deliver -f zoe@example.net", 75),
        ("deliver --sender", 75),
        ("deliver", 75),
    ] {
        let words: Vec<String> =
            ["restante"].into_iter().chain(line.split(' ')).map(str::to_owned).collect();
        let error = Cli::try_parse_from(&words).unwrap_err();
        assert_eq!(explain(&error, DeliverCall::of(words.into_iter())), code, "{line}");
    }
}

#[test]
fn without_a_service_the_failure_names_the_socket() {
    let client = ControlClient::new(Path::new("/nonexistent/control"));
    let failure = single_threaded_runtime()
        .unwrap()
        .block_on(client.call_by_name("Core/echo", serde_json::json!({})))
        .unwrap_err();
    assert_eq!(failure.code, exit::UNAVAILABLE);
    assert!(failure.message.contains("/nonexistent/control"), "{failure}");
}
