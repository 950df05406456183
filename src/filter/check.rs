//! Checks scripts, stores those that are valid, and formats them.
//!
//! - `ManageSieve`, SieveScript/set of JMAP and the command line store scripts by [`ValidScript`],
//!   which only a check without errors makes, so the limits of the site hold. An import stores
//!   scripts with errors, too, and empty ones (`transfer::script`).
//! - A script with warnings and without errors is valid.
//! - An empty script is no error of the grammar (RFC 5228 §8.2), but clients cannot store it (RFC
//!   5804 §2.6, RFC 9661 §2.2).

use std::borrow::Cow;

use restante_sieve::diagnostic::{json, managesieve};
use restante_sieve::{Code, Diagnostic, LineIndex, Script};
use unicode_normalization::UnicodeNormalization as _;

use super::report::ScriptReport;
use super::settings::Settings;
use crate::model::{ObjectId, SieveScript};
use crate::store::{Error, ScriptFault, Txn};

/// Why an empty script cannot be stored. Clients expect the line of the first error.
const EMPTY_SCRIPT: &str = "line 1: error: a script has at least one character";

/// A script, and its errors and warnings.
#[derive(Debug, Clone, PartialEq)]
pub struct ScriptCheck<'a> {
    pub(super) source: &'a [u8],
    /// `None` if there are errors.
    pub(super) script: Option<Script>,
    /// The errors and warnings in the order of the source, as many as the engine reports at most
    /// (`CompileLimits::diagnostics`).
    diagnostics: Vec<Diagnostic>,
}

/// A script without errors that is not empty. Its size is within the limit of the site.
#[derive(Debug, Clone)]
pub struct ValidScript<'a> {
    source: Cow<'a, [u8]>,
    /// The most scripts that the account may have.
    max_scripts: usize,
}

/// A script that was stored by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredScript {
    pub id: ObjectId,
    /// False if it replaced a script of the same name.
    pub is_new: bool,
}

impl Settings {
    /// Checks a script that is to be shown with its errors, stored or tried. `check` returns the
    /// result in the types of the engine, and `report` a text for a client.
    #[must_use]
    pub fn check_script<'a>(&self, source: &'a [u8]) -> ScriptCheck<'a> {
        let checked = self.check(source);
        ScriptCheck { source, script: checked.script, diagnostics: checked.diagnostics }
    }
}

impl<'a> ScriptCheck<'a> {
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.script.is_some()
    }

    /// Returns the script in a form that can be stored. `settings` must be those with which it was
    /// checked.
    ///
    /// # Errors
    /// Why the script cannot be stored: that it is empty, or its errors and warnings (`report`).
    pub fn valid(&self, settings: &Settings) -> Result<ValidScript<'a>, String> {
        if self.source.is_empty() {
            return Err(EMPTY_SCRIPT.to_owned());
        }
        if !self.is_valid() {
            return Err(self.report().text);
        }
        let (source, max_scripts) = (Cow::Borrowed(self.source), settings.max_scripts);
        Ok(ValidScript { source, max_scripts })
    }

    /// Whether the script has more bytes than the site allows.
    #[must_use]
    pub fn is_too_large(&self) -> bool {
        self.diagnostics.iter().any(|one| one.code == Code::ScriptTooLong)
    }

    /// Returns errors and warnings in the order of the source, each with the lines that it is
    /// about. They call the script `name`.
    #[must_use]
    pub fn text(&self, name: &str) -> String {
        let index = LineIndex::new(self.source);
        let texts = self.diagnostics.iter().map(|one| one.text(&index, name));
        texts.collect::<Vec<_>>().join("\n")
    }

    /// Returns errors and warnings as a JSON array of objects.
    #[must_use]
    pub fn json(&self) -> String {
        json(&self.diagnostics, &LineIndex::new(self.source))
    }

    /// Returns the errors and then the warnings, one a line (RFC 5804 §2.6).
    #[must_use]
    pub fn report(&self) -> ScriptReport {
        let text = managesieve(&self.diagnostics, &LineIndex::new(self.source));
        ScriptReport { is_valid: self.is_valid(), text }
    }
}

impl ValidScript<'_> {
    /// Returns the script with a copy of its source, if it was borrowed.
    #[must_use]
    pub fn into_owned(self) -> ValidScript<'static> {
        ValidScript { source: Cow::Owned(self.source.into_owned()), max_scripts: self.max_scripts }
    }

    /// Stores a new script, which is not active, under the name in Unicode normalization form C.
    ///
    /// # Errors
    /// `Script`: the name is not allowed or taken, or the account has as many scripts as it may
    /// have. Those of the store.
    pub fn create(&self, txn: &mut Txn<'_>, name: &str) -> Result<ObjectId, Error> {
        if txn.snapshot().scripts(txn.account())?.len() >= self.max_scripts {
            return Err(Error::Script(ScriptFault::TooMany));
        }
        txn.create_script(&composed(name), &self.source)
    }

    /// Replaces the source of a script. An active script stays active. Returns whether the new
    /// source differs from the old one.
    ///
    /// # Errors
    /// `NotFound`. Those of the store.
    pub fn replace(&self, txn: &mut Txn<'_>, id: ObjectId) -> Result<bool, Error> {
        txn.replace_script(id, &self.source)
    }

    /// Stores a script by its name: replaces the script that has it, or creates one.
    ///
    /// # Errors
    /// As for `create`.
    pub fn put(&self, txn: &mut Txn<'_>, name: &str) -> Result<StoredScript, Error> {
        let found = find_script(&txn.snapshot().scripts(txn.account())?, name);
        match found {
            Some(id) => {
                self.replace(txn, id)?;
                Ok(StoredScript { id, is_new: false })
            }
            None => Ok(StoredScript { id: self.create(txn, name)?, is_new: true }),
        }
    }
}

/// Finds a script by its name. If none has exactly this name, the first one whose name differs only
/// in how letters are composed is found.
#[must_use]
pub fn find_script(scripts: &[(ObjectId, SieveScript)], name: &str) -> Option<ObjectId> {
    let exact = scripts.iter().find(|(_, script)| script.name == name);
    let alike = || scripts.iter().find(|(_, script)| script.name.nfc().eq(name.nfc()));
    exact.or_else(alike).map(|(id, _)| *id)
}

/// Returns a name in Unicode normalization form C, in which new scripts get it.
fn composed(name: &str) -> String {
    name.nfc().collect()
}

/// Formats a script: blanks, line ends, and the letter case of words that the engine knows.
///
/// # Errors
/// The errors of its grammar, if it has any. A command or test that does not exist is no error of
/// the grammar.
pub fn format_script(source: &[u8]) -> Result<String, Box<ScriptCheck<'_>>> {
    restante_sieve::format(source)
        .map_err(|diagnostics| Box::new(ScriptCheck { source, script: None, diagnostics }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_script_without_errors_can_be_stored() {
        let settings = Settings { max_script_bytes: 64, ..Settings::default() };
        let wrong = settings.check_script(b"keeep;\nfileinto \"a\";\n");
        assert_eq!(wrong.valid(&settings).unwrap_err(), wrong.report().text);
        let text = wrong.text("main");
        assert!(text.contains("main:1:1") && text.contains("main:2:1"), "{text}");
        assert!(wrong.json().contains("\"line\":2"), "{}", wrong.json());
        let warned = settings.check_script(b"require \"fileinto\"; keep;");
        assert!(warned.valid(&settings).is_ok() && warned.text("main").contains("warning"));
        let long = [b' '; 65];
        assert!(settings.check_script(&long).is_too_large() && !wrong.is_too_large());
        assert!(settings.check_script(&long).valid(&settings).is_err());
        let empty = settings.check_script(b"");
        assert!(empty.is_valid(), "the grammar allows it");
        assert_eq!(empty.valid(&settings).unwrap_err(), EMPTY_SCRIPT);
    }

    #[test]
    fn format_returns_errors_of_the_grammar_only() {
        assert_eq!(format_script(b"KEEEP  ;# why").unwrap(), "KEEEP; # why\n");
        let refused = format_script(b"keep").unwrap_err();
        assert!(refused.text("a").contains("a:1:"), "{}", refused.text("a"));
    }
}
