//! The service itself.

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
    /// Why nothing can be written, if so.
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
    /// Why nothing is sent, if so.
    pub held: Option<String>,
    pub relay: Option<RelayOutage>,
}
