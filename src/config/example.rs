//! The example configuration, which `restante config example` prints: the first TOML block of
//! `docs/config.md`. Tests check that it equals the defaults.

const PAGE: &str = include_str!("../../docs/config.md");

/// Returns the text of the first block of the page that is marked as TOML.
#[must_use]
pub fn example() -> &'static str {
    PAGE.split_once("```toml\n")
        .and_then(|(_, rest)| rest.split_once("```"))
        .map_or("", |(text, _)| text)
}
