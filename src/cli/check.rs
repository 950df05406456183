//! `check`: through the service when it runs, else on the data directory itself. What must hold: it changes nothing there,
//! whoever calls it, and makes no store where there is none.

use std::sync::Arc;

use serde_json::json;

use super::output::{self, text};
use super::{Context, Failure, exit, methods, service};
use crate::model::clock;

pub(super) async fn run(context: &Context) -> Result<(), Failure> {
    let breaches: Vec<String> = if context.client.is_up().await {
        let answer = context.client.call(methods::CHECK, json!({})).await?;
        answer["breaches"].as_array().into_iter().flatten().map(text).collect()
    } else {
        let store = service::look_at_store(&context.config, Arc::new(clock::System))
            .map_err(|error| Failure::new(exit::TEMPORARY, error.to_string()))?
            .ok_or_else(|| {
                let path = context.config.store.path.display();
                Failure::new(exit::NO_INPUT, format!("{path}: no store there"))
            })?;
        let breaches = store.check().map_err(|error| Failure::new(exit::SOFTWARE, error.to_string()))?;
        breaches.iter().map(ToString::to_string).collect()
    };
    if context.json {
        output::json(&json!({ "breaches": breaches }));
    } else if breaches.is_empty() {
        output::line("in order");
    } else {
        breaches.iter().for_each(|breach| output::line(breach));
    }
    if breaches.is_empty() {
        Ok(())
    } else {
        Err(Failure::new(
            exit::DATA,
            format!("{} things are not in order: report them, with this output", breaches.len()),
        ))
    }
}
