//! The vendor method that reports the status of the service.

use serde::{Deserialize, Serialize};

use super::queue::RelayOutage;
use super::{EmptyArguments, vendor_methods};

vendor_methods! {
    ServiceStatus = "Service/status"(EmptyArguments) -> ServiceStatusAnswer;
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceStatusAnswer {
    pub version: String,
    /// How many accounts there are.
    pub accounts: u64,
    /// Why the store takes no writes; `None` if it does.
    pub writes: Option<String>,
    pub queue: QueueHealth,
    /// Syncs of the store's files since the service was started.
    pub syncs: u64,
    /// Bytes written since the service was started: messages and rows, as they came.
    pub log_octets: u64,
    /// Bytes written since the service was started while rows were sorted into the files of tables.
    pub table_octets: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueHealth {
    /// Why the queue is held; `None` if it is not.
    pub held: Option<String>,
    /// Why the relay cannot be reached; `None` if it can, as far as is known.
    pub relay: Option<RelayOutage>,
}
