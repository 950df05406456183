//! JMAP over HTTP: on the control socket, where the peer's credentials say who asks, and in public,
//! where the client logs in.
//!
//! - `control` and `public` are the two doors; each says of a request `who` asks. Behind them are
//!   the same `routes`.
//! - `connection` serves the connections of both within bounds, `unread` lets a client that is
//!   refused see the answer.
//! - `auth` and `origin` see to logins and to where a client is; `cors` lets the scripts of named
//!   web pages in.
//! - `session`, `api`, `upload`, `download`, `events` answer RFC 8620 §2, §3, §6.1, §6.2 and §7.3,
//!   `socket` RFC 8887 over `websocket`; `hub` wakes who waits for changes.
//! - `transfer` takes in and gives out messages for the command line.
//!
//! What must hold: a request is answered within bounds of time and octets that were set before it
//! was read; what it is refused with is problem details (RFC 7807). What methods do is `jmap`'s
//! business.

mod api;
mod auth;
mod blocking;
mod body_pace;
mod change_follower;
mod compress;
mod concurrency;
mod connection;
mod control;
mod control_delivery;
mod cors;
mod download;
mod events;
mod hub;
mod in_flight;
mod origin;
mod piece_body;
mod problem;
mod public;
mod request_context;
mod response_pace;
mod session;
mod socket;
mod transfer;
mod unread_body;
mod upload;
mod websocket;
mod write_timeout;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

pub use control::{bind, serve, serve_metrics};
pub use control_delivery::deliver_fn;
pub use origin::Proxies;
pub use public::{AllowedOrigins, HttpSettings, serve_public};

pub use crate::wire::http::Network;

use crate::account::{Directory, Logins};
use crate::jmap::{Budget, Context, DeliverFn, Jobs, SubscriptionTimes, UploadRates};
use crate::model::{LiveValue, RelayTrouble, limits};
use crate::net::stop::StopSignal;
use crate::store::{Error, Store};
use crate::vacation;
use crate::wire::jmap::json;
use crate::wire::jmap::session::path;
use concurrency::ConcurrencyLimit;
use hub::Hub;
use in_flight::InFlight;
use request_context::RequestContext;

/// What a site sets, for both doors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlSettings {
    /// The site's vacation settings.
    pub vacation: vacation::Settings,
    /// How long what was destroyed can be restored.
    pub restore: Duration,
    /// Unix users who may manage everything, beside root and the service's own.
    pub administrators: Vec<String>,
    /// Octets of an administrator's request, for it may carry a message; others have
    /// `limits::MAX_REQUEST_BYTES`.
    pub max_request: usize,
    /// Octets of a message that is appended.
    pub max_message: u64,
    /// A body of more bytes is collected in a file.
    pub body_in_memory: usize,
    /// The directory for these files.
    pub spill_dir: PathBuf,
}

/// What is served, by whichever door.
pub struct Backend {
    pub store: Store,
    pub directory: Directory,
    /// The way in.
    pub deliver: Arc<DeliverFn>,
    /// A request keeps those that it began with.
    pub settings: LiveValue<ControlSettings>,
    /// Those of the public door.
    pub http: LiveValue<HttpSettings>,
    pub jobs: Jobs,
    /// Push subscriptions that were made of late.
    subscription_times: SubscriptionTimes,
    /// Why nothing is sent, while the relay is out of order.
    pub relay: LiveValue<Option<RelayTrouble>>,
    logins: Logins,
    /// Passwords that are hashed at once.
    hashing: Arc<Semaphore>,
    /// What requests hold while they are read and answered.
    held: InFlight,
    /// What uploads hold while they come in, mostly in files.
    coming: InFlight,
    /// Memory for what came in whole and goes into the store: that takes as long as the disk does,
    /// however fast the client is.
    storing: ByteSemaphore,
    /// Messages on their way out.
    out_flight: ByteSemaphore,
    /// Requests under way, by caller.
    requests: ConcurrencyLimit,
    uploads: ConcurrencyLimit,
    /// What was uploaded of late.
    upload_rates: UploadRates,
    downloads: ConcurrencyLimit,
    /// Event streams and connections by WebSocket.
    streams: ConcurrencyLimit,
    /// Who waits for changes.
    hub: Hub,
    stop: StopSignal,
}

/// Octets that may be held at once, in KiB.
#[derive(Debug, Clone)]
struct ByteSemaphore(Arc<Semaphore>, u32);

impl ByteSemaphore {
    fn new(kib: u32) -> Self {
        Self(Arc::new(Semaphore::new(usize::try_from(kib).unwrap_or(usize::MAX))), kib)
    }

    /// Waits for room for `octets`, or for all the room there is where they are more. `None` where
    /// the wait is too long.
    async fn take(&self, octets: usize) -> Option<OwnedSemaphorePermit> {
        let kib = u32::try_from(octets.div_ceil(KIB)).unwrap_or(u32::MAX).clamp(1, self.1);
        timeout(ROOM_TIMEOUT, Arc::clone(&self.0).acquire_many_owned(kib)).await.ok()?.ok()
    }
}

const KIB: usize = 1024;
/// KiB of uploads and appended messages that are stored at once, their copies with them.
const MAX_STORING_KIB: u32 = 256 * 1024;
/// KiB of messages that are handed out at once.
const MAX_OUTGOING_KIB: u32 = 128 * 1024;
/// The longest wait for such room.
const ROOM_TIMEOUT: Duration = Duration::from_secs(60);

impl Backend {
    /// What is served over a store, its accounts and the way in.
    ///
    /// # Errors
    /// The machine has no randomness.
    pub fn new(
        store: Store,
        directory: Directory,
        deliver: Arc<DeliverFn>,
        settings: LiveValue<ControlSettings>,
        http: LiveValue<HttpSettings>,
        stop: StopSignal,
    ) -> Result<Self, Error> {
        let logins = Logins::new(directory.clone(), Arc::clone(store.clock()))?;
        let hub = Hub::of(&store);
        let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        Ok(Self {
            store,
            directory,
            deliver,
            settings,
            http,
            jobs: Jobs::default(),
            subscription_times: SubscriptionTimes::default(),
            relay: LiveValue::default(),
            logins,
            hashing: Arc::new(Semaphore::new(cores.div_ceil(2))),
            held: InFlight::default(),
            coming: InFlight::default(),
            storing: ByteSemaphore::new(MAX_STORING_KIB),
            out_flight: ByteSemaphore::new(MAX_OUTGOING_KIB),
            requests: ConcurrencyLimit::new(limits::MAX_CONCURRENT_REQUESTS),
            uploads: ConcurrencyLimit::new(limits::MAX_CONCURRENT_UPLOADS),
            upload_rates: UploadRates::default(),
            downloads: ConcurrencyLimit::new(limits::MAX_CONCURRENT_DOWNLOADS),
            streams: ConcurrencyLimit::new(limits::MAX_EVENT_STREAMS),
            hub,
            stop,
        })
    }

    /// Whether the password or token with which a connected user logged in is still valid.
    fn is_still_logged_in(&self, who: &RequestContext) -> bool {
        match (&who.caller.account, &who.caller.credential) {
            (Some(account), Some(credential)) => self.logins.is_valid(*account, credential),
            _ => true,
        }
    }

    /// What a request of this caller is answered by.
    fn context(&self, settings: &ControlSettings, who: &RequestContext) -> Context {
        Context {
            store: self.store.clone(),
            directory: self.directory.clone(),
            vacation: settings.vacation.clone(),
            restore_period: settings.restore,
            deliver: Arc::clone(&self.deliver),
            jobs: self.jobs.clone(),
            subscription_times: self.subscription_times.clone(),
            relay: self.relay.clone(),
            uploads: Arc::clone(&self.http.get().uploads),
            upload_rates: self.upload_rates.clone(),
            caller: who.caller.clone(),
            base_url: Arc::clone(&who.base),
            budget: Budget::default(),
        }
    }
}

impl std::fmt::Debug for Backend {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Backend").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// What both doors lead to.
fn routes() -> Router<Arc<Backend>> {
    Router::new()
        .route(path::WELL_KNOWN, get(session::get))
        .route(path::SESSION, get(session::get))
        .route(path::API, post(api::request))
        .route(path::UPLOAD, post(upload::upload).layer(DefaultBodyLimit::disable()))
        .route(path::DOWNLOAD, get(download::download))
        .route(path::DOWNLOAD_UNNAMED, get(download::download_unnamed))
        .route(path::EVENTS, get(events::open))
        .route(path::SOCKET, any(socket::open))
}

fn answer(status: StatusCode, kind: &'static str, value: &Value) -> Response {
    (status, [("content-type", kind)], json::write(value)).into_response()
}
