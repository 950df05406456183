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
