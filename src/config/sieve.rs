//! `[sieve]`: filters by scripts. The scripts of the site are read from their files.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

use super::{ByteSize, Config, ReportProblem};
use crate::filter::{Settings, SiteScript, SpamHeader};
use crate::message::forms::is_name;
use crate::model::limits;

/// The most scripts in one directory. With more, the configuration is refused.
const MAX_SITE_SCRIPTS: usize = 64;

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct SieveSection {
    /// Whether scripts run.
    pub on: bool,
    /// Scripts that run before those of accounts: files, or directories whose `*.sieve` files run
    /// in the order of their names.
    pub before: Vec<PathBuf>,
    /// Scripts that run after those of accounts, given in the same way.
    pub after: Vec<PathBuf>,
    /// The most scripts of one account.
    pub scripts: usize,
    /// The largest source of one script, of an account or of the site.
    pub script_size: ByteSize,
    /// The most redirects of all scripts together for one recipient of a message.
    pub redirects: u16,
    /// The most `notify` commands of all scripts together for one recipient of a message. With 0,
    /// `enotify` is not offered, and scripts that require it fail.
    pub notifications: u16,
    /// The most actions of all scripts together for one recipient of a message.
    pub actions: u16,
    /// The most redirects of one account in an hour.
    pub redirects_per_hour: u32,
    /// The field in which the spam filter writes its score; `None`: `spamtest` is not offered.
    pub spam_header: Option<String>,
    /// The score that means certain spam, from 0.001 to 1,000,000.
    pub spam_score: f64,
}

// `f64` is not `Eq` because of NaN, which `check_sieve` refuses as a score.
impl Eq for SieveSection {}

impl Default for SieveSection {
    fn default() -> Self {
        Self {
            on: true,
            before: Vec::new(),
            after: Vec::new(),
            scripts: 32,
            script_size: ByteSize(limits::MAX_SCRIPT_BYTES as u64),
            redirects: 4,
            notifications: 4,
            actions: 32,
            redirects_per_hour: 1000,
            spam_header: None,
            spam_score: 15.0,
        }
    }
}

impl Config {
    /// Returns what scripts may do. `before` and `after` are empty, because the scripts of the site
    /// are not read; `filter_settings` reads them.
    #[must_use]
    pub fn script_settings(&self) -> Settings {
        let section = &self.sieve;
        let thousandths = (section.spam_score * 1000.0).round();
        Settings {
            is_on: section.on,
            before: Vec::new(),
            after: Vec::new(),
            max_scripts: section.scripts,
            max_script_bytes: usize::try_from(section.script_size.0).unwrap_or(usize::MAX),
            max_redirects: section.redirects,
            max_notifications: section.notifications,
            max_actions: section.actions,
            redirects_per_hour: section.redirects_per_hour,
            spam: section.spam_header.as_ref().map(|name| SpamHeader {
                name: name.clone(),
                // `check` bounds the score.
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a cast from a float saturates"
                )]
                full_score: (thousandths as u32).max(1),
            }),
        }
    }

    /// Reads and checks the scripts of the site.
    ///
    /// # Errors
    /// The problem of the first script that cannot be used, with a remedy.
    pub fn filter_settings(&self) -> Result<Arc<Settings>, String> {
        let mut settings = self.script_settings();
        settings.before = read_scripts("before", &self.sieve.before, &settings)?;
        settings.after = read_scripts("after", &self.sieve.after, &settings)?;
        Ok(Arc::new(settings))
    }
}

/// The largest `redirects` and `notifications`. Each redirect and each notification is a row of the
/// delivery's commit.
const MAX_SENT: u16 = 100;

pub(super) fn check_sieve(section: &SieveSection, report: ReportProblem<'_>) {
    if section.script_size.0 > limits::MAX_SCRIPT_BYTES as u64 {
        let problem = "larger than a script may be".into();
        report("sieve", "script-size", problem, "write at most \"1 MiB\"");
    }
    if section.scripts > limits::MAX_SCRIPTS {
        let problem = "more than an account may have".into();
        report("sieve", "scripts", problem, "write at most 256");
    }
    if section.actions == 0 {
        let problem = "no script could do anything".into();
        report("sieve", "actions", problem, "write at least 1, or `on = false`");
    }
    for (name, value) in
        [("redirects", section.redirects), ("notifications", section.notifications)]
    {
        if value > MAX_SENT {
            let problem = "more than one message may cause".into();
            report("sieve", name, problem, "write at most 100");
        }
    }
    if section.spam_header.as_ref().is_some_and(|name| !is_name(name)) {
        let problem = "not a name of a header field".into();
        report("sieve", "spam-header", problem, "write a name, such as \"X-Spam-Score\"");
    }
    if !(0.001..=1_000_000.0).contains(&section.spam_score) {
        let problem = "not a score of certain spam".into();
        report(
            "sieve",
            "spam-score",
            problem,
            "write a number from 0.001 to 1000000, such as 15.0",
        );
    }
}

/// Reads and checks the scripts at these paths of `[sieve] key`, in their order.
fn read_scripts(
    key: &str,
    paths: &[PathBuf],
    settings: &Settings,
) -> Result<Vec<SiteScript>, String> {
    let mut out = Vec::new();
    for path in paths {
        let describe = |path: &Path, problem: &str, remedy: &str| {
            format!("[sieve] {key}: {}: {problem}\n  {remedy}", path.display())
        };
        let readable = "name a file that the service's user can read";
        let files =
            script_files(path).map_err(|error| describe(path, &error.to_string(), readable))?;
        if files.len() > MAX_SITE_SCRIPTS {
            return Err(describe(path, "too many scripts", "join them, or name single files"));
        }
        for file in files {
            let source = read_script(&file)
                .map_err(|error| describe(&file, &error.to_string(), readable))?;
            if source.len() > limits::MAX_SCRIPT_BYTES {
                return Err(describe(&file, "larger than 1 MiB", "split the script"));
            }
            let script = SiteScript::new(&file.display().to_string(), source);
            if let Some(errors) = script.errors(settings) {
                return Err(describe(&file, &errors, "correct the script"));
            }
            out.push(script);
        }
    }
    Ok(out)
}

/// Returns the path itself, or the scripts of a directory in the order of their names.
fn script_files(path: &Path) -> std::io::Result<Vec<PathBuf>> {
    if !fs::metadata(path)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        let file = entry?.path();
        if file.extension().is_some_and(|extension| extension == "sieve") {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

/// Reads a script. Of a file that is larger than any script may be, one byte more than that is
/// read.
fn read_script(file: &Path) -> std::io::Result<Vec<u8>> {
    let mut source = Vec::new();
    let most = limits::MAX_SCRIPT_BYTES as u64;
    fs::File::open(file)?.take(most + 1).read_to_end(&mut source)?;
    Ok(source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn site_scripts_are_read_in_order_and_errors_name_file_and_command() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        file("20-b.sieve", "keep;");
        file("10-a.sieve", "discard;");
        file("README", "not a script");
        let mut config = Config::default();
        config.sieve.before = vec![dir.path().to_owned()];
        config.sieve.after = vec![dir.path().join("20-b.sieve")];
        let settings = config.filter_settings().unwrap();
        let sources: Vec<&[u8]> =
            settings.before.iter().chain(&settings.after).map(|one| &*one.source).collect();
        assert_eq!(sources, [&b"discard;"[..], b"keep;", b"keep;"]);
        file("30-c.sieve", "keep;\nkeeep;");
        let problem = config.filter_settings().unwrap_err();
        assert!(problem.contains("30-c.sieve") && problem.contains("keeep"), "{problem}");
        file("30-c.sieve", &"#\n".repeat(limits::MAX_SCRIPT_BYTES / 2));
        assert!(config.filter_settings().is_ok());
        file("30-c.sieve", &"#\n".repeat(limits::MAX_SCRIPT_BYTES / 2 + 1));
        let problem = config.filter_settings().unwrap_err();
        assert!(problem.contains("30-c.sieve: larger than 1 MiB"), "{problem}");
        config.sieve.before = vec![dir.path().join("none")];
        assert!(config.filter_settings().unwrap_err().contains("[sieve] before: "));
    }

    #[test]
    fn what_one_message_may_cause_has_a_bound() {
        for (redirects, notifications, expected) in
            [(100, 100, &[][..]), (101, 4, &["redirects"]), (4, 101, &["notifications"])]
        {
            let section = SieveSection { redirects, notifications, ..SieveSection::default() };
            let mut found = Vec::new();
            check_sieve(&section, &mut |_, name, _, _| found.push(name.to_owned()));
            assert_eq!(found, expected);
        }
    }
}
