//! From the file's values to each room's own settings.

use super::{Config, LogFormat};
use crate::trace;

impl Config {
    /// How to log.
    #[must_use]
    pub fn trace_settings(&self) -> trace::Settings {
        trace::Settings {
            level: self.log.level.clone(),
            output: match self.log.format {
                LogFormat::Auto => trace::Output::Auto,
                LogFormat::Plain => trace::Output::Plain,
                LogFormat::Journald => trace::Output::Journald,
            },
        }
    }
}
