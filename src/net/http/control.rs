//! The control socket: JMAP over HTTP on a Unix socket, and the listener for metrics.
//!
//! - The kernel identifies the caller by the Unix user of the client.
//! - Root, the service's own user and the configured administrators may manage every account. Any
//!   other Unix user may use the accounts that are mapped to that user.

use std::path::Path;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};

use super::connection::{HttpLimits, HttpListener, HttpPermit, Timeouts};
use super::origin::ConnectionInfo;
use super::problem::Problem;
use super::request_context::RequestContext;
use super::{Backend, problem, routes, transfer};
use crate::jmap::Caller;
use crate::model::{ActionKind, ActionState, limits};
use crate::net::ceiling::Ceiling;
use crate::net::listen::{Access, BoundListener, ListenAddress, Peer, User};
use crate::net::stop::StopSignal;
use crate::store::Store;
use crate::trace::metrics;

/// Listens at the control socket, to which every Unix user may connect.
///
/// # Errors
/// The operating system refuses, or another process listens at `path`.
pub async fn bind(path: &Path) -> std::io::Result<BoundListener> {
    let mut bound =
        BoundListener::bind(&ListenAddress::Unix(path.to_owned()), &Access::Everybody).await?;
    bound.pop().ok_or_else(|| std::io::Error::other("no socket"))
}

/// Serves the control socket until the service stops. Root and the service's own user have
/// `MAX_CONTROL_CONNECTIONS` connections that no other user can take.
pub async fn serve(bound: BoundListener, backend: Arc<Backend>, stop: StopSignal) {
    let router = Router::new()
        .route("/append", post(transfer::import_message))
        .route("/append-script", post(transfer::import_script))
        .route("/octets", get(transfer::export_message))
        .route("/metrics", get(metrics))
        .route("/health", get(health))
        .merge(routes())
        .layer(from_fn(problem::add_problem_details))
        .layer(from_fn_with_state(Arc::clone(&backend), identify_peer))
        .with_state(backend);
    let permit = control_permits(HttpLimits::new(Ceiling::new(limits::MAX_CONTROL_CONNECTIONS, 0)));
    HttpListener { router, permit, tls: |_| None, timeouts: Timeouts::default() }
        .serve(bound, stop)
        .await;
}

/// Returns the function that admits connections to the control socket. Root and the service's own
/// user share permits that do not count among all others. Clients whose user is unknown share the
/// permits of one user.
pub(super) fn control_permits(http_limits: HttpLimits) -> impl Fn(Peer) -> Option<HttpPermit> {
    move |peer| match peer {
        Peer::Unix(Some(user)) if user.is_own() => {
            http_limits.reserved_permit_for("own".into(), limits::MAX_CONTROL_CONNECTIONS)
        }
        Peer::Unix(Some(user)) => {
            http_limits.permit_for(user.uid.to_string(), limits::MAX_CONTROL_CONNECTIONS_PER_USER)
        }
        Peer::Unix(None) | Peer::Tcp(_) => {
            http_limits.permit_for("nobody".into(), limits::MAX_CONTROL_CONNECTIONS_PER_USER)
        }
    }
}

/// Passes a request on with the caller that the kernel names. The base of URLs is that of
/// `[http] url`, or `http://localhost`.
async fn identify_peer(
    State(backend): State<Arc<Backend>>,
    mut request: Request,
    next: Next,
) -> Response {
    let user = match request.extensions().get::<ConnectionInfo>().map(|connection| connection.peer)
    {
        Some(Peer::Unix(user)) => user,
        _ => None,
    };
    let caller = caller(user, &backend.settings.get().administrators);
    let base = backend.http.get().url.clone().unwrap_or_else(|| "http://localhost".into());
    request.extensions_mut().insert(RequestContext { caller, base: base.into() });
    next.run(request).await
}

/// Serves metrics to every client that can connect.
pub async fn serve_metrics(bound: BoundListener, store: Store, stop: StopSignal) {
    let router = Router::new().route(
        "/metrics",
        get(|State(store): State<Store>| async move { metrics_response(&store) }),
    );
    let router = router.layer(from_fn(problem::add_problem_details)).with_state(store);
    let http_limits = HttpLimits::new(Ceiling::new(limits::MAX_METRICS_CONNECTIONS, 0));
    HttpListener {
        router,
        permit: move |_| http_limits.permit(),
        tls: |_| None,
        timeouts: Timeouts::default(),
    }
    .serve(bound, stop)
    .await;
}

/// Answers 200 if the store takes writes, and 503 with the reason if it does not.
async fn health(State(backend): State<Arc<Backend>>) -> Response {
    match backend.store.health() {
        Ok(()) => "in order\n".into_response(),
        Err(error) => {
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string()).into_response()
        }
    }
}

async fn metrics(
    State(backend): State<Arc<Backend>>,
    Extension(context): Extension<RequestContext>,
) -> Response {
    if !context.caller.admin {
        return Problem::new(StatusCode::FORBIDDEN, "only administrators may read metrics here")
            .into_response();
    }
    metrics_response(&backend.store)
}

fn metrics_response(store: &Store) -> Response {
    let statistics = store.statistics();
    for (name, value) in [
        ("syncs", statistics.syncs),
        ("log_octets", statistics.log_bytes),
        ("table_octets", statistics.table_bytes),
        ("write_buffers_octets", statistics.memtable_bytes),
        ("cache_octets", statistics.cache_bytes),
    ] {
        metrics::set_engine_statistic(name, value);
    }
    match store.snapshot().queue_counts() {
        Ok(queued) => {
            for (kind, state) in
                ActionKind::ALL.iter().flat_map(|kind| ActionState::ALL.map(|state| (*kind, state)))
            {
                let actions = queued.get(&(kind, state)).copied().unwrap_or_default();
                metrics::set_queued_actions(kind.name(), state.name(), actions);
            }
        }
        Err(error) => tracing::warn!(%error, "cannot count the queue"),
    }
    match store.snapshot().queue_mark() {
        Ok(mark) => metrics::set_queue_held(mark.is_some_and(|mark| mark.held.is_some())),
        Err(error) => tracing::warn!(%error, "cannot read whether the queue is held"),
    }
    (
        [("content-type", "application/openmetrics-text; version=1.0.0; charset=utf-8")],
        metrics::openmetrics_text(),
    )
        .into_response()
}

/// Returns the caller for a Unix user. If the kernel does not tell the user, the caller has no
/// rights.
fn caller(user: Option<User>, administrators: &[String]) -> Caller {
    let Some(User { uid, gid }) = user else { return Caller::default() };
    let is_own = User { uid, gid }.is_own();
    let user = user_name(uid);
    let has_groups = administrators.iter().any(|name| name.starts_with('@'));
    let groups = if has_groups { std::fs::read_to_string("/etc/group").ok() } else { None };
    let is_administrator = administrators.iter().any(|name| match name.strip_prefix('@') {
        Some(group) => {
            groups.as_deref().is_some_and(|groups| is_member(groups, group, user.as_deref(), gid))
        }
        None => user.as_ref() == Some(name),
    });
    Caller { admin: is_own || is_administrator, user, ..Caller::default() }
}

/// Whether a user is a member of a Unix group in `groups` (the text of `/etc/group`), or `gid` is
/// the number of that group.
fn is_member(groups: &str, group: &str, user: Option<&str>, gid: u32) -> bool {
    groups.lines().any(|line| {
        let mut fields = line.split(':');
        let (name, id) = (fields.next(), fields.nth(1).and_then(|id| id.parse::<u32>().ok()));
        let mut members =
            fields.next().unwrap_or_default().split(',').filter(|member| !member.is_empty());
        name == Some(group)
            && (id == Some(gid) || user.is_some_and(|user| members.any(|member| member == user)))
    })
}

/// Returns the name of a Unix user in `/etc/passwd`, or `None` if the user is not there.
fn user_name(uid: u32) -> Option<String> {
    let text = std::fs::read_to_string("/etc/passwd").ok()?;
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let id = fields.nth(1)?.parse::<u32>().ok()?;
        (id == uid).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_is_in_a_group_as_member_or_by_the_group_of_the_process() {
        let groups = "root:x:0:\nrestante:x:990:ann,bob\nrest:x:991:eve\nbroken\nempty:x:992:\n";
        let in_group = |group: &str, user: Option<&str>, gid| is_member(groups, group, user, gid);
        assert!(in_group("restante", Some("ann"), 100) && in_group("restante", Some("bob"), 100));
        assert!(
            in_group("restante", Some("eve"), 990)
                && in_group("restante", None, 990)
                && !in_group("restante", Some("eve"), 991)
        );
        assert!(!in_group("restante", Some("an"), 100) && !in_group("restante", None, 100));
        assert!(!in_group("empty", Some("ann"), 100) && in_group("empty", Some("ann"), 992));
        assert!(
            !in_group("broken", Some("ann"), 0)
                && !in_group("nowhere", Some("ann"), 990)
                && !in_group("", Some("ann"), 990)
        );
    }
}
