//! The service itself.

use serde_json::{Value, json};

use super::queue;
use crate::jmap::context::{Args, Context};
use crate::wire::jmap::MethodError;

pub(super) fn status(context: &Context, _: &Args<'_>) -> Result<Value, MethodError> {
    context.admin_only()?;
    let done = context.store.statistics();
    let accounts = context.directory.list()?.len();
    Ok(json!({
        "version": env!("CARGO_PKG_VERSION"), "accounts": accounts,
        "writes": context.store.health().err().map(|error| error.to_string()),
        "queue": {"held": queue::held(context)?, "relay": queue::relay(context)},
        "syncs": done.syncs, "logOctets": done.log_octets, "tableOctets": done.table_octets,
    }))
}
