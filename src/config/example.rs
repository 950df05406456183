//! The example configuration: the TOML block of `docs/config.md`.
//!
//! The documentation, `restante config example` and a test use this one text.

const PAGE: &str = include_str!("../../docs/config.md");

/// Returns every key with its default and its meaning, as TOML.
#[must_use]
pub fn example() -> &'static str {
    PAGE.split_once("```toml\n")
        .and_then(|(_, rest)| rest.split_once("```"))
        .map_or("", |(text, _)| text)
}
