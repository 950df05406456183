//! Imports the Sieve scripts in the home of a Dovecot user.
//!
//! - The scripts are the files `sieve/NAME.sieve`. The active one is that to which the symbolic
//!   link `.dovecot.sieve` leads. The link is not followed: only a script in `sieve` can be active.
//! - If `.dovecot.sieve` is a file, it is the active script itself. Its name is that of the script
//!   in `sieve` with the same source, or else `dovecot` or another name that is free.
//! - The active script is imported first, so that it is there if the account may not have all.

use std::io;

use hyper::body::Bytes;
use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use super::folder::{FileContent, FileKind, Folder};
use crate::cli::control::pool::ControlPool;
use crate::cli::exit::Failure;
use crate::cli::terminal::output;
use crate::model::limits;
use crate::wire::query;

/// The active script, or a link to it.
pub(super) const ACTIVE: &str = ".dovecot.sieve";
const FOLDER: &str = "sieve";
const EXTENSION: &[u8] = b".sieve";
/// The names of a script that stands in `.dovecot.sieve` itself: the first that is free, or else
/// `ACTIVE`.
const ACTIVE_NAMES: [&str; 2] = ["dovecot", "dovecot.orig"];

#[derive(Debug, PartialEq, Eq)]
pub(super) struct SourceScript {
    pub(super) name: String,
    /// The full path of the file, for messages.
    pub(super) full_path: String,
    pub(super) source: Vec<u8>,
    /// Whether it is the active script of the home.
    pub(super) is_active: bool,
}

#[derive(Debug, Default)]
pub(super) struct ScriptSurvey {
    pub(super) scripts: Vec<SourceScript>,
    /// Each path that was skipped, and why.
    pub(super) skipped: Vec<(String, String)>,
}

/// Finds and reads the scripts in a home. `root_path` is its path.
pub(super) fn survey(root: &Folder, root_path: &str) -> io::Result<ScriptSurvey> {
    let mut found = ScriptSurvey::default();
    if let Some(folder) = root.sub(FOLDER.as_bytes())? {
        for entry in folder.entries()? {
            let stem = entry.name.strip_suffix(EXTENSION);
            let Some(stem) = stem.filter(|stem| !stem.is_empty() && !stem.starts_with(b".")) else {
                continue;
            };
            let shown = String::from_utf8_lossy(&entry.name);
            let full_path = format!("{root_path}/{FOLDER}/{shown}");
            match (entry.kind, std::str::from_utf8(stem)) {
                (FileKind::File, Ok(name)) => {
                    let name = name.to_owned();
                    found.read(&folder, &entry.name, name, full_path)?;
                }
                (FileKind::File, Err(_)) => found.skip(full_path, "its name is not UTF-8"),
                // The search for mailboxes reports links.
                _ => {}
            }
        }
    }
    let full_path = format!("{root_path}/{ACTIVE}");
    if let Some(target) = root.link(ACTIVE.as_bytes())? {
        match found.scripts.iter_mut().find(|script| leads_to(&target, &script.name)) {
            Some(script) => script.is_active = true,
            None => found.skip(
                full_path,
                "leads to no script in the folder sieve, so no script is activated",
            ),
        }
    } else {
        found.read_active(root, full_path)?;
    }
    found.scripts.sort_by_key(|script| !script.is_active);
    Ok(found)
}

/// Whether the target of a link is the file of a script in a folder `sieve`. The folders above may
/// be others, as in a copy of the home.
fn leads_to(target: &[u8], name: &str) -> bool {
    let mut parts = target.rsplit(|byte| *byte == b'/');
    let file = parts.next().and_then(|file| file.strip_suffix(EXTENSION));
    file == Some(name.as_bytes()) && parts.next() == Some(FOLDER.as_bytes())
}

impl ScriptSurvey {
    fn skip(&mut self, full_path: String, reason: &str) {
        self.skipped.push((full_path, reason.to_owned()));
    }

    /// Reads a script and adds it, or notes that it is too large.
    fn read(
        &mut self,
        folder: &Folder,
        file: &[u8],
        name: String,
        full_path: String,
    ) -> io::Result<()> {
        match folder.read(file, limits::MAX_SCRIPT_BYTES as u64)? {
            FileContent::Absent => {}
            FileContent::TooLarge => {
                let most = limits::MAX_SCRIPT_BYTES;
                self.skip(full_path, &format!("a script may have at most {most} bytes"));
            }
            FileContent::Whole(source, _) => {
                self.scripts.push(SourceScript { name, full_path, source, is_active: false });
            }
        }
        Ok(())
    }

    /// Reads the file `.dovecot.sieve`, if it is there.
    fn read_active(&mut self, root: &Folder, full_path: String) -> io::Result<()> {
        let count = self.scripts.len();
        let is_free =
            |name: &&str| !self.scripts.iter().any(|script| script.name.as_str() == *name);
        let name = ACTIVE_NAMES.into_iter().find(is_free).unwrap_or(ACTIVE).to_owned();
        self.read(root, ACTIVE.as_bytes(), name, full_path)?;
        let Some(active) = self.scripts.get(count) else { return Ok(()) };
        let same =
            self.scripts.iter().take(count).position(|script| script.source == active.source);
        if same.is_some() {
            self.scripts.truncate(count);
        }
        if let Some(active) = self.scripts.get_mut(same.unwrap_or(count)) {
            active.is_active = true;
        }
        Ok(())
    }
}

/// What became of one script.
#[derive(Debug)]
pub(super) struct ScriptResult {
    name: String,
    full_path: String,
    /// Whether it is the active script of the home.
    was_active: bool,
    /// The response of the service, or why the script was refused.
    result: Result<Value, String>,
}

/// Imports scripts, and adds what became of each. A script that is refused does not keep the others
/// from being imported.
///
/// # Errors
/// What would also stop the next script.
pub(super) async fn import(
    pool: &ControlPool,
    account: &str,
    scripts: Vec<SourceScript>,
    dry_run: bool,
    results: &mut Vec<ScriptResult>,
) -> Result<(), Failure> {
    for script in scripts {
        let SourceScript { name, full_path, source, is_active } = script;
        let flag = |is_set: bool| if is_set { "true" } else { "false" };
        let path = query::write(&[
            ("account", account),
            ("name", name.as_str()),
            ("activate", flag(is_active)),
            ("dryRun", flag(dry_run)),
        ]);
        let path = format!("/append-script?{path}");
        let answer = pool.exchange(&Method::POST, &path, &Bytes::from(source)).await?;
        let result = match answer.status {
            status if status.is_success() => {
                Ok(serde_json::from_slice(&answer.body).unwrap_or_default())
            }
            StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE | StatusCode::CONFLICT => {
                Err(answer.failure().message)
            }
            _ => {
                let failure = answer.failure();
                let message = format!("{full_path}: {}", failure.message);
                return Err(Failure::new(failure.code, message));
            }
        };
        results.push(ScriptResult { name, full_path, was_active: is_active, result });
    }
    Ok(())
}

impl ScriptResult {
    /// Whether the command must fail: the script has errors, was refused, was not imported because
    /// the account has another of this name, or was imported and is not active although it was.
    pub(super) fn is_problem(&self) -> bool {
        self.result.as_ref().map_or(true, |done| {
            done["valid"] != true
                || done["outcome"] == "differs"
                || (self.was_active && done["outcome"] == "added" && !self.is_active(done))
        })
    }

    /// Whether the script is now the active one, which `active` of the response names.
    fn is_active(&self, done: &Value) -> bool {
        done["active"] == self.name.as_str()
    }

    pub(super) fn json(&self) -> Value {
        let mut object = json!({"name": self.name, "file": self.full_path});
        match &self.result {
            Ok(done) => {
                for member in ["outcome", "valid", "changes", "diagnostics", "notes"] {
                    object[member] = done[member].clone();
                }
                object["active"] = self.is_active(done).into();
            }
            Err(error) => {
                object["outcome"] = "failed".into();
                object["why"] = error.as_str().into();
            }
        }
        object
    }

    /// Writes what became of the script, and its changes, notes and diagnostics, each on a line.
    pub(super) fn write(&self, dry_run: bool) {
        output::line(&format!("script \"{}\": {}", self.name, self.outcome(dry_run)));
        let Ok(done) = &self.result else { return };
        for member in ["changes", "notes", "diagnostics"] {
            for text in done[member].as_array().into_iter().flatten() {
                output::line(&format!("  {}", text.as_str().unwrap_or_default()));
            }
        }
    }

    /// Says in words what became of the script.
    fn outcome(&self, dry_run: bool) -> String {
        let done = match &self.result {
            Ok(done) => done,
            Err(error) => return format!("not imported: {error}"),
        };
        let outcome = match (done["outcome"].as_str(), dry_run) {
            (Some("there"), _) => "there already",
            (Some("differs"), _) => {
                return "not imported: the account has another script of this name".to_owned();
            }
            (_, true) => "would be imported",
            (_, false) => "imported",
        };
        let state = if self.is_active(done) {
            ", active".to_owned()
        } else if done["valid"] != true {
            ", with errors, so it cannot be active".to_owned()
        } else if self.was_active {
            match done["active"].as_str() {
                Some(other) => format!(", not activated: \"{other}\" is active"),
                None => ", not activated".to_owned(),
            }
        } else {
            String::new()
        };
        format!("{outcome}{state}")
    }
}
