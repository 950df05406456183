//! Service/status: the version, counts and health of the service.

use super::{AdminMethod, queue};
use crate::jmap::method::Call;
use crate::wire::jmap::MethodError;
use crate::wire::jmap::admin::EmptyArguments;
use crate::wire::jmap::admin::service::{QueueHealth, ServiceStatus, ServiceStatusAnswer};

impl AdminMethod for ServiceStatus {
    const ADMIN_ONLY: bool = true;

    fn call(
        &Call { context, .. }: &Call<'_>,
        _: EmptyArguments,
    ) -> Result<ServiceStatusAnswer, MethodError> {
        let statistics = context.store.statistics();
        Ok(ServiceStatusAnswer {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            accounts: context.directory.list()?.len() as u64,
            writes: context.store.health().err().map(|error| error.to_string()),
            queue: QueueHealth {
                held: queue::hold_reason(context)?,
                relay: queue::relay_outage(context),
            },
            syncs: statistics.syncs,
            log_octets: statistics.log_bytes,
            table_octets: statistics.table_bytes,
        })
    }
}
