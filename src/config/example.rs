//! The example of `docs/config.md`: one text for readers, for `restante config example` and for the
//! test.

const PAGE: &str = include_str!("../../docs/config.md");

/// Every key with its default and what it means, as TOML.
#[must_use]
pub fn example() -> &'static str {
    PAGE.split_once("```toml\n")
        .and_then(|(_, rest)| rest.split_once("```"))
        .map_or("", |(text, _)| text)
}
