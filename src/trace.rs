//! Sets up the log, its level and its output. `metrics` has the counters.
//!
//! No code may log a body, a subject or a password.

pub mod metrics;

use std::sync::Arc;

use tracing_subscriber::filter::EnvFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer as _, Registry, fmt};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// A level, or directives such as `info,restante::queue=debug`.
    pub level: String,
    pub output: Output,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// The journal if `JOURNAL_STREAM` is set, as systemd does where standard error is the journal;
    /// otherwise `Plain`.
    Auto,
    /// Lines on standard error.
    Plain,
    Journald,
}

#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    #[error("`{0}` is no log level: write off, error, warn, info, debug or trace")]
    Level(String),
    #[error("the journal cannot be reached: {0}")]
    Journal(#[source] std::io::Error),
    #[error("logging is already set up")]
    Again,
    #[error("the running log does not take another level: {0}")]
    Reload(#[source] reload::Error),
}

/// A handle of the running log, which changes its level.
#[derive(Clone)]
pub struct LevelHandle(Arc<dyn Fn(EnvFilter) -> Result<(), reload::Error> + Send + Sync>);

impl std::fmt::Debug for LevelHandle {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("LevelHandle(..)")
    }
}

impl LevelHandle {
    /// Replaces the level of the running log.
    ///
    /// # Errors
    /// `Level` if the text is neither a level nor directives, `Reload` if the log does not take a
    /// new one. The old level stays.
    pub fn set_level(&self, level: &str) -> Result<(), TraceError> {
        (self.0)(filter(level)?).map_err(TraceError::Reload)
    }
}

/// Whether a text is a level or a list of directives.
#[must_use]
pub fn is_level(level: &str) -> bool {
    filter(level).is_ok()
}

/// Parses a level or a list of directives.
fn filter(level: &str) -> Result<EnvFilter, TraceError> {
    // The filter would take an unknown word for the name of a module, and log nothing.
    let known = |word: &str| {
        matches!(
            word.to_ascii_lowercase().as_str(),
            "off" | "error" | "warn" | "info" | "debug" | "trace"
        )
    };
    let bad = || TraceError::Level(level.to_owned());
    if !level.split(',').all(|part| part.contains('=') || known(part.trim())) {
        return Err(bad());
    }
    EnvFilter::try_new(level).map_err(|_| bad())
}

/// Sets up logging for the whole process. May be called only once.
///
/// # Errors
/// `Level` if the text is neither a level nor directives, `Journal` if the journal cannot be
/// reached, `Again` if a logger was set up before.
pub fn init(settings: &Settings) -> Result<LevelHandle, TraceError> {
    let (filter, handle) = reload::Layer::<EnvFilter, Registry>::new(filter(&settings.level)?);
    let journal = match settings.output {
        Output::Plain => false,
        Output::Journald => true,
        Output::Auto => std::env::var_os("JOURNAL_STREAM").is_some(),
    };
    let (journal, plain) = if journal {
        let layer = tracing_journald::layer().map_err(TraceError::Journal)?.with_field_prefix(None);
        (Some(layer), None)
    } else {
        let colours = std::io::IsTerminal::is_terminal(&std::io::stderr());
        (
            None,
            Some(
                fmt::layer()
                    // The layer reports its own errors by `eprintln!`, which panics if standard
                    // error cannot be written.
                    .log_internal_errors(false)
                    .with_writer(std::io::stderr)
                    .with_ansi(colours)
                    .compact()
                    .boxed(),
            ),
        )
    };
    tracing_subscriber::registry()
        .with(filter)
        .with(journal)
        .with(plain)
        .try_init()
        .map_err(|_| TraceError::Again)?;
    Ok(LevelHandle(Arc::new(move |filter| handle.reload(filter))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_names_all_levels() {
        let text = filter("loud").unwrap_err().to_string();
        for level in ["off", "error", "warn", "info", "debug", "trace"] {
            assert!(is_level(level) && text.contains(level), "{level}: {text}");
        }
    }

    #[test]
    fn only_levels_and_directives_are_accepted() {
        for (text, good) in [
            ("info", true),
            ("WARN", true),
            ("info,restante::queue=debug", true),
            ("loud", false),
            ("a=b", false),
        ] {
            assert_eq!(is_level(text), good, "{text}");
        }
    }

    #[test]
    fn level_that_is_not_taken_is_refused_with_its_cause() {
        let (layer, handle) = reload::Layer::<EnvFilter, Registry>::new(filter("info").unwrap());
        let handle = LevelHandle(Arc::new(move |filter| handle.reload(filter)));
        assert!(handle.set_level("debug").is_ok());
        assert!(matches!(handle.set_level("loud"), Err(TraceError::Level(_))));
        drop(layer);
        let error = handle.set_level("debug").unwrap_err().to_string();
        assert!(error.contains("subscriber"), "{error}");
    }
}
