use std::path::Path;

use clap::CommandFactory as _;

use super::control::client::ControlClient;
use super::*;

#[test]
fn the_words_are_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn the_manual() {
    insta::assert_snapshot!(manual::text());
}

#[test]
fn no_service_is_said() {
    let client = ControlClient::new(Path::new("/nonexistent/control"));
    let failure = one_thread()
        .unwrap()
        .block_on(client.call_by_name("Core/echo", serde_json::json!({})))
        .unwrap_err();
    assert_eq!(failure.code, exit::UNAVAILABLE);
    assert!(failure.message.contains("/nonexistent/control"), "{failure}");
}
