//! The vendor methods for checks, repairs and backups of the store, which run as jobs, and for
//! asking about a job.

use serde::{Deserialize, Serialize};

use super::{VendorMethod, vendor_methods};

vendor_methods! {
    StoreCheck = "Store/check"(StoreCheckArguments) -> JobRef;
    StoreRepair = "Store/repair"(StoreRepairArguments) -> JobRef;
    StoreBackup = "Store/backup"(StoreBackupArguments) -> JobRef;
    JobGet = "Job/get"(JobRef) -> JobGetAnswer;
}

/// A method that starts a job. The command line calls Job/get until the job is done, and reads the
/// outcome from the result.
pub trait JobMethod: VendorMethod<Answer = JobRef> {
    type Outcome;

    /// Returns the outcome if the result is that of such a job; otherwise `None`.
    fn outcome(result: JobResult) -> Option<Self::Outcome>;
}

impl JobMethod for StoreCheck {
    type Outcome = CheckFindings;

    fn outcome(result: JobResult) -> Option<CheckFindings> {
        if let JobResult::Check(findings) = result { Some(findings) } else { None }
    }
}

impl JobMethod for StoreRepair {
    type Outcome = RepairOutcome;

    fn outcome(result: JobResult) -> Option<RepairOutcome> {
        if let JobResult::Repair(outcome) = result { Some(outcome) } else { None }
    }
}

impl JobMethod for StoreBackup {
    type Outcome = BackupFacts;

    fn outcome(result: JobResult) -> Option<BackupFacts> {
        if let JobResult::Backup(facts) = result { Some(facts) } else { None }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRef {
    /// The number of the job. It is 0 if it was left out, and no job has the number 0.
    #[serde(default)]
    pub job: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreCheckArguments {
    /// Whether messages are also read.
    #[serde(default)]
    pub blobs: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreRepairArguments {
    /// `repair` writes derived rows anew that are wrong; `reindex` the rows for searches, if one is
    /// not as this version makes it; `rebuild` all derived rows.
    pub scope: String,
    /// Names, addresses or ids of accounts; all accounts if empty.
    #[serde(default)]
    pub accounts: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreBackupArguments {
    /// An absolute path.
    pub dir: String,
    /// How many of the newest backups are kept; `None` keeps all.
    pub keep: Option<u64>,
}

/// The state of a job that is running or has succeeded. If a job failed, Job/get returns its error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobGetAnswer {
    /// `check`, `repair` or `backup`.
    pub what: String,
    pub done: bool,
    pub progress: JobStage,
    /// `None` while the job is running.
    pub result: Option<JobResult>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum JobStage {
    /// Of a check or a repair.
    Store(StoreProgress),
    /// How many bytes a backup has written.
    Backup { octets: u64 },
    /// There is nothing to report yet.
    Begun {},
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreProgress {
    /// The position, from 1, of the account that is being checked or repaired. The shared tables
    /// come last.
    pub number: u64,
    /// How many accounts there are to check or repair.
    pub accounts: u64,
    /// The id of the account that is being checked or repaired.
    pub account: String,
    /// The table that is being read.
    pub table: String,
    /// Rows that were checked, in all accounts.
    pub rows: u64,
    /// Rows that a repair wrote, in all accounts.
    pub written: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum JobResult {
    Check(CheckFindings),
    Repair(RepairOutcome),
    Backup(BackupFacts),
    /// Repairs that an earlier run of the service left unfinished are complete.
    Resumed {},
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckFindings {
    /// The first breaches, a line each.
    pub breaches: Vec<String>,
    /// The number of all breaches.
    pub count: u64,
    /// How many accounts were checked.
    pub accounts: u64,
    /// How many rows were checked.
    pub rows: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RepairOutcome {
    /// How many accounts were looked at.
    pub accounts: u64,
    /// The ids of accounts in which rows were repaired.
    #[serde(rename = "mended")]
    pub repaired: Vec<String>,
    /// The ids of accounts whose clients must read everything again.
    pub renewed: Vec<String>,
    /// How many rows were written.
    pub written: u64,
    /// The first breaches that could not be repaired, a line each; none of the shared tables.
    #[serde(rename = "left")]
    pub unrepaired: Vec<String>,
    /// The number of all breaches that could not be repaired, without those of the shared tables.
    #[serde(rename = "leftCount")]
    pub unrepaired_count: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupFacts {
    pub id: u32,
    /// When the backup was made.
    pub at: String,
    /// Bytes of all files, including those shared with earlier backups.
    pub octets: u64,
    /// How many files these are.
    pub files: u32,
    /// Bytes written for this backup.
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
                json!({
                    "number": 1, "accounts": 0, "account": "", "table": "", "rows": 7, "written": 0,
                }),
            ),
        ];
        let backup = BackupFacts {
            id: 3,
            at: "2026-11-21T09:00:00Z".into(),
            octets: 5,
            files: 2,
            written: 5,
        };
        let findings = CheckFindings { breaches: Vec::new(), count: 0, accounts: 2, rows: 9 };
        let results = [
            (None, Value::Null),
            (Some(JobResult::Resumed {}), json!({})),
            (
                Some(JobResult::Check(findings)),
                json!({"breaches": [], "count": 0, "accounts": 2, "rows": 9}),
            ),
            (
                Some(JobResult::Backup(backup)),
                json!({
                    "id": 3, "at": "2026-11-21T09:00:00Z", "octets": 5, "files": 2, "written": 5,
                }),
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
