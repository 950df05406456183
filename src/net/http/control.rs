//! The control socket: JMAP over HTTP on a Unix socket. Who asks is known by the peer's credentials: root, the service's own
//! user and the named administrators (users, or `@` and a group) may manage everything, any other Unix user the account that
//! is mapped to him.

use std::path::Path;
use std::sync::Arc;

use axum::extract::connect_info::{ConnectInfo, Connected};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::serve::IncomingStream;
use axum::{Extension, Router};
use tokio::net::UnixListener;

use super::who::Who;
use super::{Backend, routes, transfer};
use crate::jmap::Caller;
use crate::model::{ActionKind, ActionState};
use crate::net::listen::{Access, Bound, Listen};
use crate::net::stop::Stop;
use crate::store::Store;
use crate::trace::count;

/// Who is at the other end.
#[derive(Debug, Clone, Copy)]
struct Peer(Option<(u32, u32)>);

impl Connected<IncomingStream<'_, UnixListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, UnixListener>) -> Self {
        Self(stream.io().peer_cred().ok().map(|peer| (peer.uid(), peer.gid())))
    }
}

/// Binds the control socket.
///
/// # Errors
/// Those of the operating system.
pub async fn bind(path: &Path) -> std::io::Result<Bound> {
    let mut bound = Bound::bind(&Listen::Unix(path.to_owned()), &Access::Everybody).await?;
    bound.pop().ok_or_else(|| std::io::Error::other("no socket"))
}

/// Serves the control socket until the end.
pub async fn serve(bound: Bound, backend: Arc<Backend>, mut stop: Stop) {
    let Bound::Unix(listener, _own_path) = bound else { return };
    let router = Router::new()
        .route("/append", post(transfer::take_in))
        .route("/octets", get(transfer::give_out))
        .route("/metrics", get(metrics))
        .route("/health", get(health))
        .merge(routes())
        .layer(from_fn_with_state(Arc::clone(&backend), known))
        .with_state(backend);
    let served = axum::serve(listener, router.into_make_service_with_connect_info::<Peer>())
        .with_graceful_shutdown(async move { stop.pulled().await });
    if let Err(error) = served.await {
        tracing::error!(%error, "the control socket failed");
    }
}

/// Says of each request who asks.
async fn known(
    State(backend): State<Arc<Backend>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    mut request: Request,
    next: Next,
) -> Response {
    let caller = caller(peer, &backend.settings.get().administrators);
    let base = backend.http.get().url.clone().unwrap_or_else(|| "http://localhost".into());
    request.extensions_mut().insert(Who { caller, base: base.into() });
    next.run(request).await
}

/// Serves what was counted, and nothing else, on a listener of its own: whoever can connect may read it.
pub async fn serve_metrics(bound: Bound, store: Store, mut stop: Stop) {
    let router = Router::new().route("/metrics", get(|State(store): State<Store>| async move { counted(&store) }));
    let router = router.with_state(store);
    let stopped = async move { stop.pulled().await };
    let served = match bound {
        Bound::Unix(listener, _own_path) => axum::serve(listener, router).with_graceful_shutdown(stopped).await,
        Bound::Tcp(listener) => axum::serve(listener, router).with_graceful_shutdown(stopped).await,
    };
    if let Err(error) = served {
        tracing::error!(%error, "the metrics listener failed");
    }
}

async fn health(State(backend): State<Arc<Backend>>) -> Response {
    match backend.store.health() {
        Ok(()) => "in order\n".into_response(),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")).into_response(),
    }
}

async fn metrics(State(backend): State<Arc<Backend>>, Extension(who): Extension<Who>) -> Response {
    if !who.caller.admin {
        return (StatusCode::FORBIDDEN, "for administrators\n").into_response();
    }
    counted(&backend.store)
}

/// What was counted, as Prometheus reads it.
fn counted(store: &Store) -> Response {
    let done = store.statistics();
    for (what, value) in [("syncs", done.syncs), ("log_octets", done.log_octets), ("table_octets", done.table_octets)] {
        count::store(what, value);
    }
    match store.view().queue_counts() {
        Ok(queued) => {
            for (kind, state) in ActionKind::ALL.iter().flat_map(|kind| ActionState::ALL.map(|state| (*kind, state))) {
                let actions = queued.get(&(kind, state)).copied().unwrap_or_default();
                count::queued(kind.name(), state.name(), actions);
            }
        }
        Err(error) => tracing::warn!(%error, "the queue cannot be counted"),
    }
    ([("content-type", "application/openmetrics-text; version=1.0.0; charset=utf-8")], count::text()).into_response()
}

fn caller(peer: Peer, administrators: &[String]) -> Caller {
    let Peer(Some((uid, gid))) = peer else { return Caller::default() };
    let user = user_name(uid);
    let own = rustix::process::geteuid().as_raw();
    let grouped = administrators.iter().any(|name| name.starts_with('@'));
    let groups = if grouped { std::fs::read_to_string("/etc/group").ok() } else { None };
    let named = administrators.iter().any(|name| match name.strip_prefix('@') {
        Some(group) => groups.as_deref().is_some_and(|groups| is_member(groups, group, user.as_deref(), gid)),
        None => user.as_ref() == Some(name),
    });
    Caller { admin: uid == 0 || uid == own || named, user, ..Caller::default() }
}

/// Whether a user is in a Unix group, by the lines of `/etc/group`, or his process has it as its own.
fn is_member(groups: &str, group: &str, user: Option<&str>, gid: u32) -> bool {
    groups.lines().any(|line| {
        let mut fields = line.split(':');
        let (name, id) = (fields.next(), fields.nth(1).and_then(|id| id.parse::<u32>().ok()));
        let mut members = fields.next().unwrap_or_default().split(',').filter(|member| !member.is_empty());
        name == Some(group) && (id == Some(gid) || user.is_some_and(|user| members.any(|member| member == user)))
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
        assert!(is("restante", Some("eve"), 990) && is("restante", None, 990) && !is("restante", Some("eve"), 991));
        assert!(!is("restante", Some("an"), 100) && !is("restante", None, 100));
        assert!(!is("empty", Some("ann"), 100) && is("empty", Some("ann"), 992));
        assert!(!is("broken", Some("ann"), 0) && !is("nowhere", Some("ann"), 990) && !is("", Some("ann"), 990));
    }
}
