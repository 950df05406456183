//! The control socket: JMAP over HTTP on a Unix socket. Who asks is known by the peer's
//! credentials: root, the service's own user and the named administrators (users, or `@` and a
//! group) may manage everything, any other Unix user the account that is mapped to that user.

use std::path::Path;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};

use super::connection::{HttpLimits, HttpListener, HttpPermit, Times};
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
use crate::trace::count;

/// Binds the control socket.
///
/// # Errors
/// Those of the operating system.
pub async fn bind(path: &Path) -> std::io::Result<BoundListener> {
    let mut bound =
        BoundListener::bind(&ListenAddress::Unix(path.to_owned()), &Access::Everybody).await?;
    bound.pop().ok_or_else(|| std::io::Error::other("no socket"))
}

/// Serves the control socket until the end. Whatever other users do, root and the service's own
/// user have places left.
pub async fn serve(bound: BoundListener, backend: Arc<Backend>, stop: StopSignal) {
    let router = Router::new()
        .route("/append", post(transfer::import_message))
        .route("/octets", get(transfer::export_message))
        .route("/metrics", get(metrics))
        .route("/health", get(health))
        .merge(routes())
        .layer(from_fn(problem::shape))
        .layer(from_fn_with_state(Arc::clone(&backend), identify_peer))
        .with_state(backend);
    let place = control_permits(HttpLimits::new(Ceiling::new(limits::MAX_CONTROL_CONNECTIONS, 0)));
    HttpListener { router, place, tls: |_| None, times: Times::default() }.serve(bound, stop).await;
}

/// The places on the control socket, by Unix user.
pub(super) fn control_permits(places: HttpLimits) -> impl Fn(Peer) -> Option<HttpPermit> {
    move |peer| match peer {
        Peer::Unix(Some(user)) if user.is_own() => {
            places.reserved_permit_for("own".into(), limits::MAX_CONTROL_CONNECTIONS)
        }
        Peer::Unix(Some(user)) => {
            places.permit_for(user.uid.to_string(), limits::MAX_CONTROL_CONNECTIONS_PER_USER)
        }
        Peer::Unix(None) | Peer::Tcp(_) => {
            places.permit_for("nobody".into(), limits::MAX_CONTROL_CONNECTIONS_PER_USER)
        }
    }
}

/// Adds to each request its caller, by the credentials of the peer.
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

/// Serves what was counted, and nothing else, on a listener of its own. Every client that can
/// connect may read it.
pub async fn serve_metrics(bound: BoundListener, store: Store, stop: StopSignal) {
    let router = Router::new().route(
        "/metrics",
        get(|State(store): State<Store>| async move { metrics_response(&store) }),
    );
    let router = router.layer(from_fn(problem::shape)).with_state(store);
    let places = HttpLimits::new(Ceiling::new(limits::MAX_METRICS_CONNECTIONS, 0));
    HttpListener {
        router,
        place: move |_| places.permit(),
        tls: |_| None,
        times: Times::default(),
    }
    .serve(bound, stop)
    .await;
}

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
    Extension(who): Extension<RequestContext>,
) -> Response {
    if !who.caller.admin {
        return Problem::new(StatusCode::FORBIDDEN, "for administrators").into_response();
    }
    metrics_response(&backend.store)
}

/// What was counted, as Prometheus reads it.
fn metrics_response(store: &Store) -> Response {
    let done = store.statistics();
    for (what, value) in
        [("syncs", done.syncs), ("log_octets", done.log_bytes), ("table_octets", done.table_bytes)]
    {
        count::store(what, value);
    }
    match store.snapshot().queue_counts() {
        Ok(queued) => {
            for (kind, state) in
                ActionKind::ALL.iter().flat_map(|kind| ActionState::ALL.map(|state| (*kind, state)))
            {
                let actions = queued.get(&(kind, state)).copied().unwrap_or_default();
                count::queued(kind.name(), state.name(), actions);
            }
        }
        Err(error) => tracing::warn!(%error, "the queue cannot be counted"),
    }
    match store.snapshot().queue_mark() {
        Ok(mark) => count::held(mark.is_some_and(|mark| mark.held.is_some())),
        Err(error) => tracing::warn!(%error, "whether the queue is held cannot be read"),
    }
    (
        [("content-type", "application/openmetrics-text; version=1.0.0; charset=utf-8")],
        count::text(),
    )
        .into_response()
}

fn caller(user: Option<User>, administrators: &[String]) -> Caller {
    let Some(User { uid, gid }) = user else { return Caller::default() };
    let is_own = User { uid, gid }.is_own();
    let user = user_name(uid);
    let grouped = administrators.iter().any(|name| name.starts_with('@'));
    let groups = if grouped { std::fs::read_to_string("/etc/group").ok() } else { None };
    let named = administrators.iter().any(|name| match name.strip_prefix('@') {
        Some(group) => {
            groups.as_deref().is_some_and(|groups| is_member(groups, group, user.as_deref(), gid))
        }
        None => user.as_ref() == Some(name),
    });
    Caller { admin: is_own || named, user, ..Caller::default() }
}

/// Whether a user is in a Unix group, by the lines of `/etc/group` or as the own group of the
/// user's process.
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

/// The name of a Unix user, by `/etc/passwd`.
fn user_name(uid: u32) -> Option<String> {
    let text = std::fs::read_to_string("/etc/passwd").ok()?;
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let known = fields.nth(1)?.parse::<u32>().ok()?;
        (known == uid).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_in_a_group() {
        let groups = "root:x:0:\nrestante:x:990:ann,bob\nrest:x:991:eve\nbroken\nempty:x:992:\n";
        let is = |group: &str, user: Option<&str>, gid| is_member(groups, group, user, gid);
        assert!(is("restante", Some("ann"), 100) && is("restante", Some("bob"), 100));
        // By the group of the process; but not by another's.
        assert!(
            is("restante", Some("eve"), 990)
                && is("restante", None, 990)
                && !is("restante", Some("eve"), 991)
        );
        assert!(!is("restante", Some("an"), 100) && !is("restante", None, 100));
        assert!(!is("empty", Some("ann"), 100) && is("empty", Some("ann"), 992));
        assert!(
            !is("broken", Some("ann"), 0)
                && !is("nowhere", Some("ann"), 990)
                && !is("", Some("ann"), 990)
        );
    }
}
