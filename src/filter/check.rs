//! Checks scripts, stores those that are valid, and formats them.
//!
//! - `ManageSieve`, JMAP and the command line store scripts by [`ValidScript`],
//!   which only a check without errors makes. So the limits of the site hold everywhere.
//! - Warnings do not keep a script from being stored.

use restante_sieve::diagnostic::{json, managesieve};
use restante_sieve::{Code, Diagnostic, LineIndex, Script};
use unicode_normalization::UnicodeNormalization as _;

use super::report::ScriptReport;
use super::settings::Settings;
use crate::model::{ObjectId, SieveScript};
use crate::store::{Error, ScriptFault, Txn};

/// A script, and all that is wrong with it.
#[derive(Debug, Clone, PartialEq)]
pub struct ScriptCheck<'a> {
    pub(super) source: &'a [u8],
    /// `None` if there are errors.
    pub(super) script: Option<Script>,
    diagnostics: Vec<Diagnostic>,
}

/// A script without errors. Its size is within the limit of the site.
#[derive(Debug, Clone, Copy)]
pub struct ValidScript<'a> {
    source: &'a [u8],
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
    /// Checks a script.
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

    /// Returns the script in a form that can be stored; `None` if it has errors. `settings` are
    /// those of the check.
    #[must_use]
    pub fn valid(&self, settings: &Settings) -> Option<ValidScript<'a>> {
        let max_scripts = settings.max_scripts;
        self.is_valid().then_some(ValidScript { source: self.source, max_scripts })
    }

    /// Whether the script has more bytes than the site allows.
    #[must_use]
    pub fn is_too_large(&self) -> bool {
        self.diagnostics.iter().any(|one| one.code == Code::ScriptTooLong)
    }

    /// Returns errors and warnings in the order of the script, with its lines. `name` is how they
    /// name it.
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

    /// Returns errors, and then warnings, each a line (RFC 5804 §2.6).
    #[must_use]
    pub fn report(&self) -> ScriptReport {
        let text = managesieve(&self.diagnostics, &LineIndex::new(self.source));
        ScriptReport { is_valid: self.is_valid(), text }
    }
}

impl ValidScript<'_> {
    /// Stores a new script, which is not active.
    ///
    /// # Errors
    /// `Script`: the name is not allowed or taken, or the account has as many scripts as it may
    /// have.
    pub fn create(self, txn: &mut Txn<'_>, name: &str) -> Result<ObjectId, Error> {
        if txn.snapshot().scripts(txn.account())?.len() >= self.max_scripts {
            return Err(Error::Script(ScriptFault::TooMany));
        }
        txn.create_script(&composed(name), self.source)
    }

    /// Replaces the source of a script. An active script stays active. Returns whether the source
    /// is another one.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn replace(self, txn: &mut Txn<'_>, id: ObjectId) -> Result<bool, Error> {
        txn.replace_script(id, self.source)
    }

    /// Stores a script by its name: replaces the script that has it, or creates one.
    ///
    /// # Errors
    /// As for `create`.
    pub fn put(self, txn: &mut Txn<'_>, name: &str) -> Result<StoredScript, Error> {
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

/// Finds a script by its name. Names that differ only in how letters are composed are one name.
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

/// Formats a script.
///
/// # Errors
/// The errors of its grammar. What its names mean does not matter.
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
        assert!(wrong.valid(&settings).is_none());
        let text = wrong.text("main");
        assert!(text.contains("main:1:1") && text.contains("main:2:1"), "{text}");
        assert!(wrong.json().contains("\"line\":2"), "{}", wrong.json());
        let warned = settings.check_script(b"require \"fileinto\"; keep;");
        assert!(warned.valid(&settings).is_some() && warned.text("main").contains("warning"));
        let long = [b' '; 65];
        assert!(settings.check_script(&long).is_too_large() && !wrong.is_too_large());
        assert!(settings.check_script(&long).valid(&settings).is_none());
    }

    #[test]
    fn format_returns_errors_of_the_grammar_only() {
        assert_eq!(format_script(b"KEEEP  ;# why").unwrap(), "KEEEP; # why\n");
        let refused = format_script(b"keep").unwrap_err();
        assert!(refused.text("a").contains("a:1:"), "{}", refused.text("a"));
    }
}
