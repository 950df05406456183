//! L6: the one configuration file, as plain values.
//!
//! What must hold: an empty file works; an unknown key is an error with its line and the nearest
//! name; every error names file, line and remedy. The rooms have settings of their own: the
//! conversions stand in `convert`, and only there. `docs/config.md` describes each key, and its
//! example is tested to be the defaults.

mod check;
mod convert;
mod dkim;
mod example;
mod http;
mod load;
mod store;
#[cfg(test)]
mod tests;
mod value;

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::model::limits;

pub use check::check;
pub use example::example;
pub use http::HttpSection;
#[cfg(test)]
use load::ConfigProblems;
#[cfg(any(test, feature = "internals"))]
pub use load::parse;
pub use load::{DEFAULT_PATH, load};
pub use store::StoreSection;
pub use value::{ByteSize, DurationValue, ListenValue, NameServer};

/// The whole file.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    /// Where the data are.
    pub store: StoreSection,
    /// The LMTP server.
    pub lmtp: LmtpSection,
    /// The control socket.
    pub control: ControlSection,
    /// JMAP in public.
    pub http: HttpSection,
    /// Addresses and accounts.
    pub directory: DirectorySection,
    /// The way out.
    pub relay: RelaySection,
    /// What waits to go out.
    pub queue: QueueSection,
    pub vacation: VacationSection,
    /// Own verification of senders.
    pub verify: VerifySection,
    /// Our own signatures.
    pub dkim: DkimSection,
    /// How long things are kept.
    pub upkeep: UpkeepSection,
    /// What was counted.
    pub metrics: MetricsSection,
    pub limits: LimitsSection,
    pub log: LogSection,
}

/// `[lmtp]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct LmtpSection {
    /// Where to listen; `None` is systemd's socket, else Postfix's private directory.
    pub listen: Option<Vec<ListenValue>>,
    /// The group that may connect to the Unix sockets among them.
    pub socket_group: Option<String>,
    /// Our name; `None` is the machine's.
    pub hostname: Option<String>,
    /// Peers that may say XFORWARD and XCLIENT.
    pub trusted: Vec<String>,
    /// PEM certificate chain for STARTTLS.
    pub tls_certificate: Option<PathBuf>,
    /// PEM private key for STARTTLS.
    pub tls_key: Option<PathBuf>,
}

impl Default for LmtpSection {
    fn default() -> Self {
        Self {
            listen: None,
            socket_group: None,
            hostname: None,
            trusted: vec!["unix".into(), "127.0.0.1".into(), "::1".into()],
            tls_certificate: None,
            tls_key: None,
        }
    }
}

/// `[control]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct ControlSection {
    /// The Unix socket.
    pub socket: PathBuf,
    /// Unix users who may manage all, and groups, each with an `@` before it.
    pub administrators: Vec<String>,
}

impl Default for ControlSection {
    fn default() -> Self {
        Self {
            socket: PathBuf::from("/run/restante/control"),
            administrators: vec!["@restante".into()],
        }
    }
}

/// Which mailboxes a new account has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mailboxes {
    /// Inbox, Drafts, Sent, Junk, Trash, Archive.
    #[default]
    Roles,
    /// The Inbox alone.
    Inbox,
}

/// What a full mailbox says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OverQuota {
    /// 452: Postfix tries again.
    #[default]
    Later,
    /// 552: the sender is told at once.
    Refuse,
}

/// `[directory]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct DirectorySection {
    /// What separates user and detail; empty for none.
    pub delimiter: String,
    /// Whether the case of local parts tells people apart.
    pub case_sensitive: bool,
    /// What a full mailbox says.
    pub over_quota: OverQuota,
    /// Mailboxes of a new account.
    pub mailboxes: Mailboxes,
    /// Where mail for `<Postmaster>` without a domain goes.
    pub postmaster: Option<String>,
    /// IANA zone of accounts that name none.
    pub zone: Option<String>,
}

impl Default for DirectorySection {
    fn default() -> Self {
        Self {
            delimiter: "+".into(),
            case_sensitive: false,
            over_quota: OverQuota::Later,
            mailboxes: Mailboxes::Roles,
            postmaster: None,
            zone: None,
        }
    }
}

/// Whether the way to the relay is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TlsValue {
    None,
    /// STARTTLS where offered.
    #[default]
    Opportunistic,
    /// STARTTLS with a certificate that holds, or nothing is sent.
    Required,
    /// TLS from the first octet.
    Implicit,
}

/// What the relay speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProtocolValue {
    /// RFC 5321.
    #[default]
    Smtp,
    /// RFC 2033.
    Lmtp,
}

/// `[relay]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct RelaySection {
    pub host: String,
    pub port: u16,
    /// A Unix socket in their place.
    pub socket: Option<PathBuf>,
    /// What it speaks.
    pub protocol: ProtocolValue,
    /// TLS or not.
    pub tls: TlsValue,
    /// PEM certificates that are believed in the place of the machine's.
    pub tls_ca: Option<PathBuf>,
    /// The name that its certificate must hold; `None` is its host.
    pub tls_name: Option<String>,
    /// Who we are to it.
    pub user: Option<String>,
    /// The file that holds our password.
    pub password_file: Option<PathBuf>,
    /// Whether the password may go unencrypted over a network.
    pub password_in_the_clear: bool,
    /// Longest wait for one answer.
    pub timeout: DurationValue,
    /// Actions under way at once.
    pub concurrency: usize,
    /// Recipients of one message in one go.
    pub recipients: usize,
    /// Messages of one connection.
    pub messages_per_connection: u32,
    /// How long a connection is kept that nobody uses.
    pub idle: DurationValue,
    /// First pause after the relay was found out of order.
    pub pause: DurationValue,
}

impl Default for RelaySection {
    fn default() -> Self {
        Self {
            host: "127.0.0.1".into(),
            port: 25,
            socket: None,
            protocol: ProtocolValue::Smtp,
            tls: TlsValue::Opportunistic,
            tls_ca: None,
            tls_name: None,
            user: None,
            password_file: None,
            password_in_the_clear: false,
            timeout: DurationValue(Duration::from_secs(60)),
            concurrency: 4,
            recipients: 100,
            messages_per_connection: 100,
            idle: DurationValue(Duration::from_secs(5)),
            pause: DurationValue(Duration::from_secs(15)),
        }
    }
}

/// `[queue]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct QueueSection {
    /// First wait after a temporary refusal.
    pub retry_first: DurationValue,
    /// The longest.
    pub retry_longest: DurationValue,
    /// How long it is known what became of a submission that was sent.
    pub submissions: DurationValue,
}

impl Default for QueueSection {
    fn default() -> Self {
        Self {
            retry_first: DurationValue(Duration::from_secs(60)),
            retry_longest: DurationValue(Duration::from_secs(3600)),
            submissions: DurationValue(Duration::from_secs(30 * 24 * 3600)),
        }
    }
}

/// What trusted Authentication-Results must say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Authentication {
    Off,
    /// No failure: of DMARC, or of SPF without an aligned DKIM pass.
    #[default]
    FailOnly,
    /// No failure, and a pass: of DMARC, of SPF, or of aligned DKIM.
    Strict,
}

/// `[vacation]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct VacationSection {
    /// Most replies of one account in an hour.
    pub replies_per_hour: u32,
    /// Most replies to one domain in an hour.
    pub replies_per_hour_to_domain: u32,
    /// Most replies of the site in an hour.
    pub replies_per_hour_in_all: u32,
    /// More local parts that are never answered.
    pub system_senders: Vec<String>,
    /// Whether what a spam filter wrote into the header is believed.
    pub trust_spam_fields: bool,
    /// Whose Authentication-Results are believed (RFC 8601).
    pub trusted_authserv_ids: Vec<String>,
    /// What they must say for a sender to be answered.
    pub authentication: Authentication,
}

impl Default for VacationSection {
    fn default() -> Self {
        Self {
            replies_per_hour: 100,
            replies_per_hour_to_domain: 500,
            replies_per_hour_in_all: 5_000,
            system_senders: Vec::new(),
            trust_spam_fields: true,
            trusted_authserv_ids: Vec::new(),
            authentication: Authentication::default(),
        }
    }
}

/// `[verify]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct VerifySection {
    /// Whether we look ourselves where no trusted server wrote anything.
    pub on: bool,
    /// Whom we ask; none: the name servers of `/etc/resolv.conf`.
    pub nameservers: Vec<NameServer>,
    /// Longest time for one message.
    pub timeout: DurationValue,
    /// Answers that are kept.
    pub cache: u64,
    /// Domains whose ARC seals are believed.
    pub trusted_sealers: Vec<String>,
}

impl Default for VerifySection {
    fn default() -> Self {
        Self {
            on: false,
            nameservers: Vec::new(),
            timeout: DurationValue(Duration::from_secs(10)),
            cache: 10_000,
            trusted_sealers: Vec::new(),
        }
    }
}

/// `[dkim]`
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct DkimSection {
    /// The keys, each of a domain; a domain with several has a signature by each.
    pub keys: Vec<DkimKeySection>,
}

/// One of `[[dkim.keys]]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct DkimKeySection {
    /// Of From.
    pub domain: String,
    /// Its name in the zone.
    pub selector: String,
    /// PEM private key, RSA or Ed25519.
    pub file: PathBuf,
}

/// `[upkeep]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct UpkeepSection {
    /// How long a destroyed email can be restored.
    pub restore: DurationValue,
    /// How long the history of mailboxes is kept.
    pub history: DurationValue,
    /// How long a list that was made on demand is kept after it was last asked for.
    pub lists: DurationValue,
    /// How long it is known who was told, after the response is over.
    pub told: DurationValue,
    /// How long a message id that is not seen again leads to its thread.
    pub threads: DurationValue,
    /// How long a message is kept that nobody holds any more.
    pub messages: DurationValue,
    /// How long an upload is kept that nothing was made of.
    pub uploads: DurationValue,
    /// How often all accounts are looked at.
    pub every: DurationValue,
}

impl Default for UpkeepSection {
    fn default() -> Self {
        Self {
            restore: DurationValue(limits::DESTROYED_EMAIL_RETENTION),
            history: DurationValue(limits::LISTING_HISTORY_RETENTION),
            lists: DurationValue(limits::UNUSED_LISTING_RETENTION),
            told: DurationValue(limits::TOLD_RETENTION),
            threads: DurationValue(limits::THREAD_REF_RETENTION),
            messages: DurationValue(limits::UNREFERENCED_MESSAGE_RETENTION),
            uploads: DurationValue(limits::UPLOAD_RETENTION),
            every: DurationValue(limits::UPKEEP_INTERVAL),
        }
    }
}

/// `[limits]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct LimitsSection {
    /// The largest message that is accepted.
    pub message: ByteSize,
    /// Recipients a transaction.
    pub recipients: usize,
    /// Connections at once.
    pub connections: usize,
    /// Octets under way over all connections.
    pub in_flight: ByteSize,
    /// Larger bodies are collected in a file.
    pub body_in_memory: ByteSize,
    /// Idle time of a session.
    pub idle: DurationValue,
    /// Whole time of a session.
    pub session: DurationValue,
    /// How long a stop waits for messages under way.
    pub drain: DurationValue,
}

impl Default for LimitsSection {
    fn default() -> Self {
        Self {
            message: ByteSize(limits::MAX_MESSAGE_BYTES),
            recipients: limits::MAX_RECIPIENTS,
            connections: limits::MAX_LMTP_CONNECTIONS,
            in_flight: ByteSize(limits::MAX_MESSAGE_BYTES_IN_FLIGHT),
            body_in_memory: ByteSize(limits::MAX_BODY_BYTES_IN_MEMORY as u64),
            idle: DurationValue(limits::LMTP_IDLE_TIMEOUT),
            session: DurationValue(limits::LMTP_SESSION_TIMEOUT),
            drain: DurationValue(Duration::from_secs(20)),
        }
    }
}

/// `[metrics]`
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct MetricsSection {
    /// Where to give them out; `None` is on the control socket alone.
    pub listen: Option<ListenValue>,
    /// The group that may connect to it where it is a Unix socket.
    pub socket_group: Option<String>,
}

/// `[log]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct LogSection {
    /// Least level, or directives.
    pub level: String,
    pub format: LogFormat,
}

impl Default for LogSection {
    fn default() -> Self {
        Self { level: "info".into(), format: LogFormat::Auto }
    }
}

/// Where the log goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    /// The journal under systemd, else plain.
    #[default]
    Auto,
    /// Lines on standard error.
    Plain,
    Journald,
}
