//! JMAP over HTTP, on the control socket and on public listeners.
//!
//! - `control` identifies the caller by the Unix user of the client; `public` by a login (`auth`).
//!   Both serve `routes`; `control` has further paths for administration.
//! - Time and memory of a request are bounded before it is read.
//! - A refusal has problem details (RFC 7807).

mod api;
mod auth;
mod blocking;
mod body_pace;
mod change_follower;
mod compress;
mod connection;
mod control;
mod control_delivery;
mod cors;
mod download;
mod events;
mod handshake;
mod hub;
mod in_flight;
mod origin;
mod problem;
mod public;
mod request_context;
mod response_pace;
mod session;
mod socket;
mod streamed_body;
mod transfer;
mod turns;
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

pub use connection::HttpLimits;
pub use control::{bind, serve, serve_metrics};
pub use control_delivery::deliver_fn;
pub use origin::Proxies;
pub use public::{AllowedOrigins, HttpSettings, serve_public};

pub use crate::wire::http::Network;

use crate::account::{Directory, Logins};
use crate::jmap::{Budget, Context, DeliverFn, Jobs, SubscriptionTimes, UploadRates};
use crate::model::{LiveValue, RelayTrouble, limits};
use crate::net::concurrency::ConcurrencyLimit;
use crate::net::passwords::PasswordChecks;
use crate::net::stop::StopSignal;
use crate::store::Store;
use crate::wire::jmap::json;
use crate::wire::jmap::session::path;
use crate::{filter, vacation};

use hub::Hub;
use in_flight::{InFlight, RequestBytes};
use request_context::RequestContext;
use turns::Turns;

/// Settings of the control socket and of public listeners.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlSettings {
    pub vacation: vacation::Settings,
    pub filter: Arc<filter::Settings>,
    /// The name of the service, as in Received fields.
    pub hostname: Arc<str>,
    /// How long a destroyed email can be restored.
    pub restore: Duration,
    /// Unix users who may manage every account, besides root and the service's own user; a name
    /// with a leading `@` is a group.
    pub administrators: Vec<String>,
    /// The largest request of an administrator, in bytes; it may contain a message.
    pub max_request: usize,
    /// The largest message that is imported, in bytes.
    pub max_message: u64,
    /// Bodies of more bytes are collected in a file.
    pub body_in_memory: usize,
    /// The directory for these files.
    pub spill_dir: PathBuf,
}

/// The state that the handlers share.
pub struct Backend {
    pub store: Store,
    pub directory: Directory,
    pub deliver: Arc<DeliverFn>,
    /// The methods of one request all use the same settings.
    pub settings: LiveValue<ControlSettings>,
    pub http: LiveValue<HttpSettings>,
    pub jobs: Jobs,
    subscription_times: SubscriptionTimes,
    /// Why nothing is sent, while the relay has failed.
    pub relay: LiveValue<Option<RelayTrouble>>,
    logins: Logins,
    passwords: PasswordChecks,
    turns: Turns,
    request_bytes: RequestBytes,
    /// The bytes of uploads that are being received, mostly in files.
    upload_bytes: InFlight,
    /// For uploads and imported messages while they are being stored. They are complete then, so a
    /// slow client does not hold this memory.
    storing_memory: ByteSemaphore,
    /// For exported messages until the client has read them, and for messages that are parsed to
    /// find a part.
    outgoing_memory: ByteSemaphore,
    requests: ConcurrencyLimit,
    sessions: ConcurrencyLimit,
    uploads: ConcurrencyLimit,
    upload_rates: UploadRates,
    downloads: ConcurrencyLimit,
    /// Bounds the event streams and `WebSockets` of each caller.
    streams: ConcurrencyLimit,
    hub: Hub,
    stop: StopSignal,
}

/// Bounds bytes; counts in KiB.
#[derive(Debug, Clone)]
struct ByteSemaphore {
    semaphore: Arc<Semaphore>,
    /// The size of the semaphore.
    kib: u32,
}

impl ByteSemaphore {
    fn new(kib: u32) -> Self {
        let permits = usize::try_from(kib).unwrap_or(usize::MAX);
        Self { semaphore: Arc::new(Semaphore::new(permits)), kib }
    }

    /// Waits for a permit for `bytes`, or for the whole semaphore if `bytes` are more than it has.
    /// Returns `None` if the wait exceeds `MEMORY_TIMEOUT`.
    async fn acquire(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let kib = u32::try_from(bytes.div_ceil(KIB)).unwrap_or(u32::MAX).clamp(1, self.kib);
        let acquired = Arc::clone(&self.semaphore).acquire_many_owned(kib);
        timeout(MEMORY_TIMEOUT, acquired).await.ok()?.ok()
    }
}

/// How many JMAP requests are worked on at a time, for each core. With 1, a core would be idle
/// while a request waits for the disk, and until the next one has begun.
const TURNS_PER_CORE: usize = 2;
const KIB: usize = 1024;
/// The size of `storing_memory`, from which the copies that storing makes are taken, too.
const MAX_STORING_KIB: u32 = 256 * 1024;
/// The size of `outgoing_memory`.
const MAX_OUTGOING_KIB: u32 = 128 * 1024;
/// The longest wait for memory.
const MEMORY_TIMEOUT: Duration = Duration::from_secs(60);

impl Backend {
    #[must_use]
    pub fn new(
        store: Store,
        directory: Directory,
        deliver: Arc<DeliverFn>,
        settings: LiveValue<ControlSettings>,
        http: LiveValue<HttpSettings>,
        logins: Logins,
        stop: StopSignal,
    ) -> Self {
        let passwords = PasswordChecks::new(logins.clone());
        let hub = Hub::new(&store);
        let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        Self {
            store,
            directory,
            deliver,
            settings,
            http,
            jobs: Jobs::default(),
            subscription_times: SubscriptionTimes::default(),
            relay: LiveValue::default(),
            logins,
            passwords,
            turns: Turns::new(TURNS_PER_CORE * cores),
            request_bytes: RequestBytes::default(),
            upload_bytes: InFlight::default(),
            storing_memory: ByteSemaphore::new(MAX_STORING_KIB),
            outgoing_memory: ByteSemaphore::new(MAX_OUTGOING_KIB),
            requests: ConcurrencyLimit::new(limits::MAX_CONCURRENT_REQUESTS),
            sessions: ConcurrencyLimit::new(limits::MAX_CONCURRENT_SESSION_REQUESTS),
            uploads: ConcurrencyLimit::new(limits::MAX_CONCURRENT_UPLOADS),
            upload_rates: UploadRates::default(),
            downloads: ConcurrencyLimit::new(limits::MAX_CONCURRENT_DOWNLOADS),
            streams: ConcurrencyLimit::new(limits::MAX_EVENT_STREAMS),
            hub,
            stop,
        }
    }

    /// Returns the checks of passwords, which other listeners share.
    #[must_use]
    pub fn passwords(&self) -> PasswordChecks {
        self.passwords.clone()
    }

    /// Whether the caller's password or token is still valid. Always true on the control socket,
    /// where nobody logs in.
    fn is_still_logged_in(&self, request: &RequestContext) -> bool {
        match (&request.caller.account, &request.caller.credential) {
            (Some(account), Some(credential)) => self.logins.is_valid(*account, credential),
            _ => true,
        }
    }

    /// Returns what the methods of a request need.
    fn context(&self, settings: &ControlSettings, request: &RequestContext) -> Context {
        Context {
            store: self.store.clone(),
            directory: self.directory.clone(),
            vacation: settings.vacation.clone(),
            filter: Arc::clone(&settings.filter),
            hostname: Arc::clone(&settings.hostname),
            restore_period: settings.restore,
            deliver: Arc::clone(&self.deliver),
            jobs: self.jobs.clone(),
            subscription_times: self.subscription_times.clone(),
            relay: self.relay.clone(),
            uploads: Arc::clone(&self.http.get().uploads),
            upload_rates: self.upload_rates.clone(),
            caller: request.caller.clone(),
            base_url: Arc::clone(&request.base),
            budget: Budget::default(),
        }
    }
}

impl std::fmt::Debug for Backend {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Backend").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// Returns the paths that the control socket and the public listeners have in common.
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

fn json_response(status: StatusCode, media_type: &'static str, value: &Value) -> Response {
    (status, [("content-type", media_type)], json::write(value)).into_response()
}
