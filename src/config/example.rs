//! The example of `docs/config.md`: one text for readers, for `restante config example` and for the test.

const PAGE: &str = include_str!("../../docs/config.md");

/// Every key with its default and what it means, as TOML.
///
/// ```
/// let text = restante::config::example();
/// let config = restante::config::parse(text, std::path::Path::new("docs/config.md")).unwrap();
/// assert_eq!(config, restante::config::Config::default());
/// ```
#[must_use]
pub fn example() -> &'static str {
    PAGE.split_once("```toml\n").and_then(|(_, rest)| rest.split_once("```")).map_or("", |(text, _)| text)
}
