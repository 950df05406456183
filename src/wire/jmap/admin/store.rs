//! The upkeep of the store, and the jobs that do it.

use serde::{Deserialize, Serialize};

use super::{VendorMethod, vendor_methods};

vendor_methods! {
    StoreCheck = "Store/check"(StoreCheckArguments) -> JobRef;
    StoreRepair = "Store/repair"(StoreRepairArguments) -> JobRef;
    StoreBackup = "Store/backup"(StoreBackupArguments) -> JobRef;
    JobGet = "Job/get"(JobRef) -> JobGetAnswer;
}

/// A method that begins a job.
pub trait JobMethod: VendorMethod<Answer = JobRef> {
    /// What comes of the job.
    type Outcome;

    /// The outcome, where the result is that of such a job.
    fn outcome(result: JobResult) -> Option<Self::Outcome>;
}

impl JobMethod for StoreCheck {
    type Outcome = CheckFindings;

    fn outcome(result: JobResult) -> Option<CheckFindings> {
        if let JobResult::Check(found) = result { Some(found) } else { None }
    }
}

impl JobMethod for StoreRepair {
    type Outcome = RepairOutcome;

    fn outcome(result: JobResult) -> Option<RepairOutcome> {
        if let JobResult::Repair(done) = result { Some(done) } else { None }
    }
}

impl JobMethod for StoreBackup {
    type Outcome = BackupFacts;

    fn outcome(result: JobResult) -> Option<BackupFacts> {
        if let JobResult::Backup(made) = result { Some(made) } else { None }
    }
}

/// Names a job by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRef {
    /// No job has the number 0.
    #[serde(default)]
    pub job: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreCheckArguments {
    /// Whether every message is read, too.
    #[serde(default)]
    pub blobs: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreRepairArguments {
    /// `repair`, `reindex` or `rebuild`.
    pub scope: String,
    /// Names, addresses or ids; none are all accounts.
    #[serde(default)]
    pub accounts: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreBackupArguments {
    /// An absolute path.
    pub dir: String,
    /// How many backups stay, the newest; all if not given.
    pub keep: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobGetAnswer {
    /// `check`, `repair` or `backup`.
    pub what: String,
    pub done: bool,
    pub progress: JobStage,
    /// `None` while the job is under way.
    pub result: Option<JobResult>,
}

/// How far a job is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum JobStage {
    /// Of a check or a repair.
    Store(StoreProgress),
    /// Of a backup: bytes that are written.
    Backup { octets: u64 },
    /// Nothing is known yet.
    Begun {},
}

/// How far a check or a repair is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreProgress {
    /// The account that is looked at, counted from 1; behind the last one come the tables that all
    /// share.
    pub number: u64,
    pub accounts: u64,
    /// The id of the account.
    pub account: String,
    pub table: String,
    /// Rows that were looked at, over all accounts.
    pub rows: u64,
    pub written: u64,
}

/// What came of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum JobResult {
    Check(CheckFindings),
    Repair(RepairOutcome),
    Backup(BackupFacts),
    /// Repairs that an earlier run of the service left unfinished are done.
    Resumed {},
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckFindings {
    /// The first of the breaches, a line each.
    pub breaches: Vec<String>,
    /// All of them.
    pub count: u64,
    pub accounts: u64,
    pub rows: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RepairOutcome {
    /// Accounts that were looked at.
    pub accounts: u64,
    /// The ids of those in which something was mended.
    pub mended: Vec<String>,
    /// The ids of those whose clients read everything anew.
    pub renewed: Vec<String>,
    /// Rows.
    pub written: u64,
    /// The first of the breaches that could not be mended, a line each.
    pub left: Vec<String>,
    /// All of them.
    pub left_count: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupFacts {
    pub id: u32,
    /// When it was made.
    pub at: String,
    /// Bytes of all its files, those that it shares with earlier backups among them.
    pub octets: u64,
    pub files: u32,
    /// Bytes that were written for it.
    pub written: u64,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{BackupFacts, CheckFindings, JobGetAnswer, JobResult, JobStage, StoreProgress};

    #[test]
    fn job_answers_are_read_as_they_are_written() {
        let stages = [
            (JobStage::Begun {}, json!({})),
            (JobStage::Backup { octets: 7 }, json!({"octets": 7})),
            (
                JobStage::Store(StoreProgress { number: 1, rows: 7, ..StoreProgress::default() }),
                json!({"number": 1, "accounts": 0, "account": "", "table": "", "rows": 7, "written": 0}),
            ),
        ];
        let backup = BackupFacts {
            id: 3,
            at: "2026-11-21T09:00:00Z".into(),
            octets: 5,
            files: 2,
            written: 5,
        };
        let found = CheckFindings { breaches: Vec::new(), count: 0, accounts: 2, rows: 9 };
        let results = [
            (None, Value::Null),
            (Some(JobResult::Resumed {}), json!({})),
            (
                Some(JobResult::Check(found)),
                json!({"breaches": [], "count": 0, "accounts": 2, "rows": 9}),
            ),
            (
                Some(JobResult::Backup(backup)),
                json!({"id": 3, "at": "2026-11-21T09:00:00Z", "octets": 5, "files": 2, "written": 5}),
            ),
        ];
        for (progress, stage) in &stages {
            for (result, outcome) in &results {
                let done = result.is_some();
                let answer = JobGetAnswer {
                    what: "check".into(),
                    done,
                    progress: progress.clone(),
                    result: result.clone(),
                };
                let written =
                    json!({"what": "check", "done": done, "progress": stage, "result": outcome});
                assert_eq!(serde_json::to_value(&answer).unwrap(), written);
                assert_eq!(serde_json::from_value::<JobGetAnswer>(written).unwrap(), answer);
            }
        }
    }
}
