//! Imports a Sieve script: `POST /append-script`, which `super` describes.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use serde_json::{Value, json};

use super::super::body_pace::PacedBody;
use super::super::request_context::RequestContext;
use super::super::{Backend, json_response, upload};
use super::{Arguments, Refusal, open_account};
use crate::filter;
use crate::model::{AccountId, limits};
use crate::store::{Error, ScriptFault, Store};
use crate::transfer::{ScriptAppendRequest, append_script};

/// What the query of a request says. The body is the script.
struct ScriptImportQuery {
    account: AccountId,
    name: String,
    activate: bool,
    dry_run: bool,
}

pub(in crate::net::http) async fn import_script(
    State(backend): State<Arc<Backend>>,
    Extension(request_context): Extension<RequestContext>,
    uri: Uri,
    body: Body,
) -> Response {
    match try_import(&backend, &request_context, &uri, body).await {
        Ok(response) => response,
        Err(refusal) => refusal.response(),
    }
}

async fn try_import(
    backend: &Backend,
    request_context: &RequestContext,
    uri: &Uri,
    body: Body,
) -> Result<Response, Refusal> {
    let query = Arguments::parse(uri)?;
    let arguments = ScriptImportQuery {
        account: open_account(backend, request_context, query.required("account")?)?,
        name: query.required("name")?.to_owned(),
        activate: query.flag("activate")?,
        dry_run: query.flag("dryRun")?,
    };
    let settings = Arc::clone(&backend.settings.get().filter);
    let max = settings.max_script_bytes;
    let too_large = || {
        let detail = Error::Script(ScriptFault::TooLarge(max)).to_string();
        Refusal(StatusCode::PAYLOAD_TOO_LARGE, "tooLarge", detail)
    };
    let paced = PacedBody::of_request(body, limits::UPLOAD_TIMEOUT, &backend.stop);
    let (collected, reservation) =
        upload::collect(backend, request_context, paced, max).await?.ok_or_else(too_large)?;
    let store = backend.store.clone();
    let answer = upload::store(backend, collected, move |source| {
        answer(&store, &settings, &arguments, &source)
    });
    let answer = answer.await??;
    drop(reservation);
    Ok(json_response(StatusCode::OK, "application/json", &answer))
}

/// Adapts the script to what this site offers, and stores it, unless `dry_run` is set. Returns the
/// JSON of the response.
fn answer(
    store: &Store,
    settings: &filter::Settings,
    arguments: &ScriptImportQuery,
    original: &[u8],
) -> Result<Value, Error> {
    let &ScriptImportQuery { account, ref name, activate, dry_run } = arguments;
    let adapted = settings.adapt(original);
    let new = ScriptAppendRequest {
        name,
        source: &adapted.source,
        original,
        activate: activate && adapted.is_valid,
        max_scripts: settings.max_scripts,
        dry_run,
    };
    let appended = append_script(store, account, &new)?;
    // A dry run comes before the import of the messages, so their mailboxes need not exist yet. The
    // notes then say nothing of missing mailboxes.
    let mailboxes = match dry_run {
        true => None,
        false => Some(store.snapshot().mailboxes(account)?.into_iter().collect()),
    };
    let notes = adapted.notes(mailboxes);
    let outcome = appended.outcome.name();
    tracing::debug!(%account, name, outcome, dry_run, "imported a script");
    Ok(json!({
        "outcome": outcome,
        "valid": adapted.is_valid,
        "active": appended.active,
        "changes": adapted.changes,
        "diagnostics": adapted.diagnostics,
        "notes": notes,
    }))
}
