//! What a site allows scripts, and the scripts of the site.

use std::sync::Arc;

use restante_sieve::{
    Checked, CompileLimits, CompileOptions, Extension, ExtensionSet, LineIndex, RunLimits, Severity,
};

use crate::message::header::Header;
use crate::model::{BlobHash, limits};

/// Extensions that no site can offer yet: external lists, metadata of mailboxes and the server,
/// delivery by a time, and new bodies of messages. `Settings::extensions` leaves out `virustest`,
/// too, because no result of a virus scanner is read.
const NOT_OFFERED: [Extension; 7] = [
    Extension::ExtLists,
    Extension::MboxMetadata,
    Extension::ServerMetadata,
    Extension::EnvelopeDeliverBy,
    Extension::RedirectDeliverBy,
    Extension::Replace,
    Extension::Enclose,
];

/// Fields that no script may add or delete, besides those of the engine (`PROTECTED_FIELDS`):
/// deliveries write them, and Delivered-To ends loops of redirects.
const DELIVERY_FIELDS: [&str; 2] = ["Delivered-To", "Return-Path"];
/// The most edited versions of a message that all scripts make for one recipient. Each takes the
/// memory of the whole message.
const MAX_VERSIONS: u16 = 4;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// If it is false, deliveries run no script, and every message goes where it would go without
    /// scripts. Scripts can still be stored, tried, and run over stored mail.
    pub is_on: bool,
    /// The scripts that run before those of accounts.
    pub before: Vec<SiteScript>,
    /// The scripts that run after those of accounts.
    pub after: Vec<SiteScript>,
    /// Of an account.
    pub max_scripts: usize,
    /// Of one script.
    pub max_script_bytes: usize,
    /// Of all scripts, for one recipient of a message.
    pub max_redirects: u16,
    /// Of all scripts, for one recipient of a message. If it is 0, `enotify` is not offered.
    pub max_notifications: u16,
    /// Of all scripts, for one recipient of a message.
    pub max_actions: u16,
    /// Of an account, in an hour. Further redirects are left out, and a message that would only
    /// have been redirected is kept.
    pub redirects_per_hour: u32,
    /// Where the results of the spam filter stand; `None`: `spamtest` is not offered.
    pub spam: Option<SpamHeader>,
}

/// A script of the site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteScript {
    /// How errors and decisions name it: `site:` and the path of the file. (`run_alone` makes one
    /// with another name.)
    pub name: String,
    pub source: Arc<[u8]>,
    /// The hash of `source`.
    pub(super) hash: BlobHash,
}

/// The header field in which a spam filter writes its score.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpamHeader {
    pub name: String,
    /// The score that means certain spam, in thousandths. The configuration makes it at least 1.
    pub full_score: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            is_on: true,
            before: Vec::new(),
            after: Vec::new(),
            max_scripts: 32,
            max_script_bytes: limits::MAX_SCRIPT_BYTES,
            max_redirects: 4,
            max_notifications: 4,
            max_actions: 32,
            redirects_per_hour: 1000,
            spam: None,
        }
    }
}

impl Settings {
    /// Returns the extensions that scripts may require: what to advertise (RFC 5804 §1.7, RFC 9661
    /// §1.2).
    #[must_use]
    pub fn extensions(&self) -> ExtensionSet {
        let offered = NOT_OFFERED.into_iter().fold(ExtensionSet::all(), ExtensionSet::without);
        let offered = offered.without(Extension::VirusTest);
        let offered = match self.max_notifications {
            0 => offered.without(Extension::ENotify),
            _ => offered,
        };
        match self.spam {
            Some(_) => offered,
            None => offered.without(Extension::SpamTest).without(Extension::SpamTestPlus),
        }
    }

    /// Checks the source of a script, and returns the script if it has no errors, with all errors
    /// and warnings, in the types of the engine. `check_script` returns a type from which a script
    /// can be stored or tried, and `report` a text for a client.
    #[must_use]
    pub fn check(&self, source: &[u8]) -> Checked {
        restante_sieve::check(source, &self.compile_options())
    }

    pub(super) fn compile_options(&self) -> CompileOptions {
        let limits = CompileLimits {
            script: u32::try_from(self.max_script_bytes).unwrap_or(u32::MAX),
            redirects: self.max_redirects,
            ..CompileLimits::default()
        };
        CompileOptions {
            allowed: self.extensions(),
            limits,
            protected_fields: DELIVERY_FIELDS.map(str::to_owned).to_vec(),
            ..CompileOptions::default()
        }
    }

    pub(super) fn run_limits(&self) -> RunLimits {
        RunLimits {
            actions: self.max_actions,
            redirects: self.max_redirects,
            notifies: self.max_notifications,
            // Each kind of message has a limit of its own: a script answers once.
            sent_messages: u16::MAX,
            versions: MAX_VERSIONS,
            ..RunLimits::default()
        }
    }

    /// Whether an account without an active script has anything to run.
    pub(super) fn has_site_scripts(&self) -> bool {
        !(self.before.is_empty() && self.after.is_empty())
    }
}

impl SiteScript {
    /// Makes a site script from the source in the file `path`. The name is `site:` and the path.
    #[must_use]
    pub fn new(path: &str, source: impl Into<Arc<[u8]>>) -> Self {
        Self::named(&format!("site:{path}"), source.into())
    }

    /// Makes a script that decisions and errors call by this name.
    pub(super) fn named(name: &str, source: Arc<[u8]>) -> Self {
        let hash = source_hash(&source);
        Self { name: name.to_owned(), source, hash }
    }

    /// Returns the errors of the script, each with its place; `None` if it has none. Warnings are
    /// left out.
    #[must_use]
    pub fn errors(&self, settings: &Settings) -> Option<String> {
        let checked = settings.check(&self.source);
        let index = LineIndex::new(&self.source);
        let errors = checked.diagnostics.iter().filter(|one| one.severity == Severity::Error);
        let errors: Vec<String> = errors.map(|one| one.text(&index, &self.name)).collect();
        checked.script.is_none().then(|| errors.join("\n"))
    }
}

/// Whether no script may add or delete a field, since deliveries write it.
pub(super) fn is_delivery_field(name: &str) -> bool {
    DELIVERY_FIELDS.iter().any(|field| field.eq_ignore_ascii_case(name))
}

/// Returns the hash under which a source is stored and cached.
pub(super) fn source_hash(source: &[u8]) -> BlobHash {
    BlobHash(*blake3::hash(source).as_bytes())
}

impl SpamHeader {
    /// Reads the score of a message as a percentage of `full_score`, rounded down and limited to
    /// the range from 0 to 100. `None` if the message has no field `name`, or the topmost one has
    /// no score, or one too large to compute with. The topmost field counts, because the filter of
    /// the site adds its field above any that came with the message.
    ///
    /// A score is the first number of the value; if the value is nothing but `*`, it is their
    /// number.
    pub(super) fn percent(&self, header: &Header<'_>) -> Option<u8> {
        let value = header.first(&self.name)?.unfolded();
        let value = value.trim();
        let thousandths = if !value.is_empty() && value.bytes().all(|byte| byte == b'*') {
            i64::try_from(value.len()).ok()?.checked_mul(1000)?
        } else {
            first_number(value)?
        };
        let full = i64::from(self.full_score.max(1));
        u8::try_from((thousandths.saturating_mul(100) / full).clamp(0, 100)).ok()
    }
}

/// Returns the first decimal number of a text, in thousandths; digits after the third decimal are
/// dropped. The number is negative if `-` stands right before it. `None` if there is no number, or
/// if it is too large.
fn first_number(text: &str) -> Option<i64> {
    let start = text.find(|c: char| c.is_ascii_digit())?;
    let (before, number) = text.split_at_checked(start)?;
    let end = number.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(number.len());
    let (whole, fraction) = number.get(..end)?.split_once('.').unwrap_or((number.get(..end)?, ""));
    let digits = fraction.bytes().filter(u8::is_ascii_digit).chain(*b"000").take(3);
    let fraction = digits.fold(0, |sum: i64, digit| sum * 10 + i64::from(digit - b'0'));
    let value = whole.parse::<i64>().ok()?.checked_mul(1000)?.checked_add(fraction)?;
    Some(if before.ends_with('-') { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_percentages_of_the_full_score() {
        let spam = SpamHeader { name: "X-Spam-Score".into(), full_score: 15_000 };
        for (value, percent) in [
            ("0", Some(0)),
            ("-3.2", Some(0)),
            ("7.5", Some(50)),
            (" 15 / 15", Some(100)),
            ("Yes, score=30.0 required=5", Some(100)),
            ("***", Some(20)),
            ("", None),
            ("none", None),
            ("99999999999999999999", None),
            ("1.23456", Some(8)),
        ] {
            // The second field does not count.
            let raw = format!("X-Spam-Score: {value}\r\nx-spam-score: 15\r\n\r\n");
            assert_eq!(spam.percent(&Header::split(raw.as_bytes())), percent, "{value}");
        }
        assert_eq!(spam.percent(&Header::split(b"Subject: x\r\n\r\n")), None);
    }

    #[test]
    fn spamtest_is_offered_only_if_a_filter_writes_scores() {
        let settings = Settings::default();
        assert!(!settings.extensions().contains(Extension::SpamTest));
        assert!(settings.extensions().contains(Extension::Vacation));
        let script = b"require \"spamtest\"; keep;";
        assert!(settings.check(script).script.is_none());
        let spam = Some(SpamHeader { name: "X-Spam-Score".into(), full_score: 15_000 });
        assert!(Settings { spam, ..settings }.check(script).script.is_some());
    }
}
