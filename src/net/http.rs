//! The control socket: JMAP over HTTP on a Unix socket. Who asks is known by the peer's credentials: root, the service's own
//! user and the named administrators (users, or `@` and a group) may manage everything, any other Unix user the account that is mapped to him.

mod transfer;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, HttpBody as _, to_bytes};
use axum::extract::State;
use axum::extract::connect_info::{ConnectInfo, Connected};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::serve::IncomingStream;
use serde_json::{Value, json};
use tokio::net::UnixListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::listen::{Bound, Listen};
use super::lmtp::LmtpSettings;
use super::stop::Stop;
use crate::account::Directory;
use crate::deliver::Delivery;
use crate::jmap::{self, CAPABILITIES, Caller, Context, Jobs, Taken};
use crate::model::{Address, Envelope, Live, Recipient, RelayTrouble, limits};
use crate::proof;
use crate::store::Store;
use crate::trace::count;
use crate::vacation;
use crate::wire::jmap::parse;
use crate::wire::smtp::Reply;

/// What a site sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlSettings {
    /// The site's vacation settings.
    pub vacation: vacation::Settings,
    /// How long what was destroyed can be restored.
    pub restore: Duration,
    /// Unix users who may manage everything, beside root and the service's own.
    pub administrators: Vec<String>,
    /// Octets of an administrator's request, for it may carry a message; others have `limits::REQUEST_OCTETS`.
    pub max_request: usize,
    /// Octets of a message that is appended.
    pub max_message: u64,
}

/// What the control socket serves.
#[derive(Clone)]
pub struct Control {
    /// The store.
    pub store: Store,
    /// The accounts.
    pub directory: Directory,
    /// The way in.
    pub deliver: Arc<Taken>,
    /// A request keeps those that it began with.
    pub settings: Live<ControlSettings>,
    /// Long work.
    pub jobs: Jobs,
    /// Why nothing is sent, while the relay is out of order.
    pub relay: Live<Option<RelayTrouble>>,
    /// What requests under way may hold.
    in_flight: Rooms,
    /// Messages on their way out.
    out_flight: Rooms,
}

/// Octets that may be held at once, in KiB.
#[derive(Debug, Clone)]
struct Rooms(Arc<Semaphore>, u32);

impl Rooms {
    fn new(kib: u32) -> Self {
        Self(Arc::new(Semaphore::new(usize::try_from(kib).unwrap_or(usize::MAX))), kib)
    }

    /// Room for so many octets, as soon as there is; all there is where they are more. `None` where there is none for long.
    async fn take(&self, octets: usize) -> Option<OwnedSemaphorePermit> {
        let kib = u32::try_from(octets.div_ceil(KIB)).unwrap_or(u32::MAX).clamp(1, self.1);
        timeout(PATIENCE, Arc::clone(&self.0).acquire_many_owned(kib)).await.ok()?.ok()
    }
}

const KIB: usize = 1024;
/// KiB of requests that are read at once.
const IN_FLIGHT_KIB: u32 = 256 * 1024;
/// KiB of messages that are handed out at once.
const OUT_FLIGHT_KIB: u32 = 128 * 1024;
/// Longest wait for a place, and then for the request.
const PATIENCE: Duration = Duration::from_secs(60);

impl Control {
    /// The control socket over a store, its accounts and the way in.
    #[must_use]
    pub fn new(store: Store, directory: Directory, deliver: Arc<Taken>, settings: Live<ControlSettings>) -> Self {
        let (in_flight, out_flight) = (Rooms::new(IN_FLIGHT_KIB), Rooms::new(OUT_FLIGHT_KIB));
        Self {
            store,
            directory,
            deliver,
            settings,
            jobs: Jobs::default(),
            relay: Live::default(),
            in_flight,
            out_flight,
        }
    }
}

impl std::fmt::Debug for Control {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Control").field("settings", &self.settings).finish_non_exhaustive()
    }
}

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
    let mut bound = Bound::bind(&Listen::Unix(path.to_owned()), 0o666).await?;
    bound.pop().ok_or_else(|| std::io::Error::other("no socket"))
}

/// Serves the control socket until the end.
pub async fn serve(bound: Bound, control: Control, mut stop: Stop) {
    let Bound::Unix(listener, _own_path) = bound else { return };
    let router = Router::new()
        .route("/jmap", post(request))
        .route("/append", post(transfer::take_in))
        .route("/octets", get(transfer::give_out))
        .route("/health", get(health))
        .route("/metrics", get(metrics))
        .with_state(Arc::new(control));
    let served = axum::serve(listener, router.into_make_service_with_connect_info::<Peer>())
        .with_graceful_shutdown(async move { stop.pulled().await });
    if let Err(error) = served.await {
        tracing::error!(%error, "the control socket failed");
    }
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

async fn request(State(control): State<Arc<Control>>, ConnectInfo(peer): ConnectInfo<Peer>, body: Body) -> Response {
    let settings = control.settings.get();
    let caller = caller(peer, &settings.administrators);
    let most = if caller.admin { settings.max_request } else { limits::REQUEST_OCTETS.min(settings.max_request) };
    // Whoever may open the socket may send: all that is read at once has a bound, and so has the time.
    let announced = body.size_hint().upper().and_then(|octets| usize::try_from(octets).ok());
    let Some(_room) = control.in_flight.take(announced.map_or(most, |octets| octets.min(most))).await else {
        return (StatusCode::SERVICE_UNAVAILABLE, "too many requests at once\n").into_response();
    };
    let Ok(Ok(body)) = timeout(PATIENCE, to_bytes(body, most)).await else {
        return (StatusCode::PAYLOAD_TOO_LARGE, "the request is too large, too slow, or broke off\n").into_response();
    };
    let request = match parse(&body, CAPABILITIES) {
        Ok(request) => request,
        Err(error) => {
            return answer(StatusCode::BAD_REQUEST, "application/problem+json", &error.problem());
        }
    };
    let context = context(&control, &settings, caller);
    // Methods wait for the disk.
    match tokio::task::spawn_blocking(move || jmap::run(&context, request)).await {
        Ok(response) => answer(StatusCode::OK, "application/json", &response.json()),
        Err(error) => {
            tracing::error!(%error, "a method failed");
            let problem = json!({"status": 500, "detail": "a method failed"});
            answer(StatusCode::INTERNAL_SERVER_ERROR, "application/problem+json", &problem)
        }
    }
}

/// What a request of this caller is answered by.
fn context(control: &Control, settings: &ControlSettings, caller: Caller) -> Context {
    Context {
        store: control.store.clone(),
        directory: control.directory.clone(),
        vacation: settings.vacation.clone(),
        restore: settings.restore,
        deliver: Arc::clone(&control.deliver),
        jobs: control.jobs.clone(),
        relay: control.relay.clone(),
        caller,
    }
}

fn answer(status: StatusCode, kind: &'static str, value: &Value) -> Response {
    (status, [("content-type", kind)], value.to_string()).into_response()
}

async fn health(State(control): State<Arc<Control>>) -> Response {
    match control.store.health() {
        Ok(()) => "in order\n".into_response(),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")).into_response(),
    }
}

async fn metrics(State(control): State<Arc<Control>>, ConnectInfo(peer): ConnectInfo<Peer>) -> Response {
    if !caller(peer, &control.settings.get().administrators).admin {
        return (StatusCode::FORBIDDEN, "for administrators\n").into_response();
    }
    counted(&control.store)
}

/// What was counted, as Prometheus reads it.
fn counted(store: &Store) -> Response {
    let done = store.statistics();
    for (what, value) in [("syncs", done.syncs), ("log_octets", done.log_octets), ("table_octets", done.table_octets)] {
        count::store(what, value);
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
    Caller { admin: uid == 0 || uid == own || named, user, account: None }
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

/// The way in for `Mail/deliver`, over the same deliveries and by the same bounds as LMTP. To be called from a thread that
/// may wait.
pub fn taken<D: Delivery>(deliver: Arc<D>, settings: Live<LmtpSettings>) -> Arc<Taken> {
    let runtime = tokio::runtime::Handle::current();
    Arc::new(move |sender: Option<Address>, recipients: Vec<Address>, message: Vec<u8>| {
        let settings = settings.get();
        let mut session = D::Session::default();
        let size = Some(message.len() as u64);
        let mut envelope = Envelope { sender, size, lhlo: "localhost".into(), ..Envelope::default() };
        let mut replies: Vec<(Address, Option<Reply>)> = Vec::new();
        for recipient in recipients.into_iter().map(Recipient::plain) {
            let reply = if size > Some(settings.max_message) {
                Reply::new(552, [5, 3, 4], format!("the message is larger than {} octets", settings.max_message))
            } else if envelope.recipients.len() >= settings.max_recipients {
                Reply::new(452, [4, 5, 3], "too many recipients at once")
            } else {
                deliver.admit(&mut session, &envelope, &recipient)
            };
            let refusal = (!reply.is_positive()).then_some(reply);
            replies.push((recipient.address.clone(), refusal));
            if replies.last().is_some_and(|(_, refusal)| refusal.is_none()) {
                envelope.recipients.push(recipient);
            }
        }
        let taken = if envelope.recipients.is_empty() {
            Vec::new()
        } else {
            runtime.block_on(async {
                if deliver.may_answer(&session, &envelope, &message) {
                    envelope.forged = proof::examine(&message, &envelope, &settings.proof).await;
                }
                Arc::clone(&deliver).deliver(session, envelope, message).await
            })
        };
        let mut taken = taken.into_iter();
        let lost = || Reply::new(451, [4, 3, 0], "no answer from the mail store");
        replies
            .into_iter()
            .map(|(address, refusal)| (address, refusal.or_else(|| taken.next()).unwrap_or_else(lost)))
            .collect()
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
