//! From the file's values to each room's own settings.

use super::{Config, LogFormat, Mailboxes};
use crate::model::Address;
use crate::{account, trace};

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

    /// How addresses are read.
    #[must_use]
    pub fn directory_settings(&self) -> account::Settings {
        account::Settings {
            delimiter: self.directory.delimiter.chars().next(),
            case_sensitive: self.directory.case_sensitive,
            postmaster: self.directory.postmaster.as_deref().and_then(|text| Address::parse(text).ok()),
            all_mailboxes: self.directory.mailboxes == Mailboxes::Roles,
        }
    }
}
