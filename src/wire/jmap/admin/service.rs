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
    pub accounts: u64,
    /// Why the store takes no writes; `None` if it does.
    pub writes: Option<String>,
    pub queue: QueueHealth,
    /// Synced writes of the engine.
    pub syncs: u64,
    /// Bytes that the engine wrote to its log.
    pub log_octets: u64,
    /// Bytes that the engine wrote to its tables.
    pub table_octets: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueHealth {
    /// Why the queue is held; `None` if it is not.
    pub held: Option<String>,
    pub relay: Option<RelayOutage>,
}
