//! Reads the configuration file and turns it into the settings of each room.
//!
//! - Every key can be left out, except for those of an element of `[[dkim.keys]]`.
//! - An unknown key is an error that suggests a similar key, or else names the valid ones.
//! - Errors of [`load()`] name the file and, where they are known, the line and a remedy. Errors of
//!   the conversions, which open the files that the configuration names, name the key and a remedy.
//! - `docs/config.md` describes every key. A test checks that its example equals the defaults.

mod check;
mod convert;
mod dkim;
mod example;
mod http;
mod load;
mod managesieve;
mod rooms;
mod sieve;
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
pub use managesieve::ManageSieveSection;
pub use rooms::RoomSettings;
pub use sieve::SieveSection;
pub use store::StoreSection;
pub use value::{ByteSize, DurationValue, ListenValue, NameServer};

/// Called for each problem, with table, key, problem and remedy.
type ReportProblem<'a> = &'a mut dyn FnMut(&str, &str, String, &str);

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    pub store: StoreSection,
    pub lmtp: LmtpSection,
    pub control: ControlSection,
    pub http: HttpSection,
    pub directory: DirectorySection,
    pub relay: RelaySection,
    pub queue: QueueSection,
    pub vacation: VacationSection,
    pub sieve: SieveSection,
    pub managesieve: ManageSieveSection,
    pub verify: VerifySection,
    pub dkim: DkimSection,
    pub upkeep: UpkeepSection,
    pub metrics: MetricsSection,
    pub limits: LimitsSection,
    pub log: LogSection,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct LmtpSection {
    /// `None`: the socket `lmtp` that systemd passes, else a socket in Postfix's private directory.
    pub listen: Option<Vec<ListenValue>>,
    /// The group that may connect to the Unix sockets; `None`: `postfix`, or the service's own
    /// group if there is no such group, or the service may not give it the sockets.
    pub socket_group: Option<String>,
    /// The name of this server; `None` is the machine's name.
    pub hostname: Option<String>,
    /// Clients that may use XFORWARD and XCLIENT: `unix` or an IP address.
    pub trusted: Vec<String>,
    /// PEM certificate chain for STARTTLS; `None` (with `tls_key`): no STARTTLS.
    pub tls_certificate: Option<PathBuf>,
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

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct ControlSection {
    pub socket: PathBuf,
    /// Who may manage every account besides root and the service's own user: Unix users, and
    /// groups with a leading `@`.
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

/// The mailboxes of a new account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mailboxes {
    /// Inbox, Drafts, Sent, Junk, Trash, Archive.
    #[default]
    Roles,
    Inbox,
}

/// The answer to mail for an account that is over its quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OverQuota {
    /// 452, so Postfix tries again.
    #[default]
    Later,
    /// 552, so the message bounces at once.
    Refuse,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct DirectorySection {
    /// The character between user and detail; empty turns sub-addresses off.
    pub delimiter: String,
    /// Whether local parts that differ only in case belong to different users.
    pub case_sensitive: bool,
    pub over_quota: OverQuota,
    pub mailboxes: Mailboxes,
    /// The address that gets mail for `<Postmaster>` without a domain; `None`: it is refused.
    pub postmaster: Option<String>,
    /// The IANA time zone of accounts that have none of their own; `None` is the machine's.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TlsValue {
    None,
    /// STARTTLS if the relay offers it, with any certificate.
    #[default]
    Opportunistic,
    /// STARTTLS with a valid certificate; otherwise nothing is sent.
    Required,
    /// TLS from the first byte, with a valid certificate.
    Implicit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProtocolValue {
    #[default]
    Smtp,
    Lmtp,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct RelaySection {
    pub host: String,
    pub port: u16,
    /// A Unix socket that replaces host and port.
    pub socket: Option<PathBuf>,
    pub protocol: ProtocolValue,
    pub tls: TlsValue,
    /// PEM certificates of the authorities that replace the machine's.
    pub tls_ca: Option<PathBuf>,
    /// The name that the relay's certificate must contain; `None` is `host`. With `socket`,
    /// required or implicit TLS needs a name.
    pub tls_name: Option<String>,
    /// `None` (with `password_file`): no login.
    pub user: Option<String>,
    pub password_file: Option<PathBuf>,
    /// Whether the password may be sent unencrypted over a network.
    pub password_in_the_clear: bool,
    /// The longest wait for one answer of the relay; for the answer to a whole message, ten times
    /// as long.
    pub timeout: DurationValue,
    /// The most actions that are sent at a time.
    pub concurrency: usize,
    /// The most recipients of one transaction.
    pub recipients: usize,
    pub messages_per_connection: u32,
    /// How long an idle connection is kept for the next message; with 0, none is kept.
    pub idle: DurationValue,
    /// The first pause after the relay has failed. Each further failure doubles it, at most to 64
    /// times the first.
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

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct QueueSection {
    /// The first wait after a temporary refusal.
    pub retry_first: DurationValue,
    pub retry_longest: DurationValue,
    /// How long a submission is kept after it ended, and its action after it was sent.
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

/// What must hold of a message's sender, so that the vacation responder may answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Authentication {
    Off,
    /// No DMARC failure, and no SPF failure without an aligned pass of DKIM or DMARC. (An exception
    /// for signatures that cannot be verified for now is in `proof::judge`.)
    #[default]
    FailOnly,
    /// As `FailOnly`, and SPF, aligned DKIM or aligned DMARC passes.
    Strict,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct VacationSection {
    /// The most replies from one account in an hour. Here and below, with 0 none is sent.
    pub replies_per_hour: u32,
    /// The most replies of the site to one domain in an hour.
    pub replies_per_hour_to_domain: u32,
    /// The most replies of the site in an hour.
    pub replies_per_hour_in_all: u32,
    /// Local parts that never get a reply, besides the built-in ones.
    pub system_senders: Vec<String>,
    /// Whether X-Spam-Flag and similar fields are trusted.
    pub trust_spam_fields: bool,
    /// The authserv-ids of the servers whose Authentication-Results are trusted (RFC 8601).
    pub trusted_authserv_ids: Vec<String>,
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

/// This server's own checks of SPF, DKIM, DMARC and ARC.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct VerifySection {
    /// Whether a message without results of a trusted server is checked here.
    pub on: bool,
    /// If empty, those of `/etc/resolv.conf`.
    pub nameservers: Vec<NameServer>,
    /// The longest time for all queries to name servers about one message.
    pub timeout: DurationValue,
    /// The most answers of name servers that are kept in memory.
    pub cache: u64,
    /// The domains whose ARC seals are trusted. If empty, ARC is not checked.
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

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct DkimSection {
    pub keys: Vec<DkimKeySection>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct DkimKeySection {
    /// The domain of the From field that this key signs for.
    pub domain: String,
    /// The name of the public key in the domain's zone.
    pub selector: String,
    /// The private key, in PEM.
    pub file: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct UpkeepSection {
    /// How long a destroyed email can be restored.
    pub restore: DurationValue,
    /// How long the history of mailboxes is kept, by which clients catch up.
    pub history: DurationValue,
    /// How long a listing that was made on demand is kept after its last use.
    pub lists: DurationValue,
    /// How long after its reply a told row is kept if the response is off or over.
    pub told: DurationValue,
    /// How long a message id that is not seen again leads to its thread.
    pub threads: DurationValue,
    /// How long a message is kept that nothing refers to any more.
    pub messages: DurationValue,
    /// How long an upload is kept after it was last uploaded. What was made of it stays.
    pub uploads: DurationValue,
    /// The time from one round of upkeep to the next.
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

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct LimitsSection {
    /// The largest message that is accepted.
    pub message: ByteSize,
    /// The most recipients of one LMTP transaction.
    pub recipients: usize,
    /// The most LMTP connections at a time.
    pub connections: usize,
    /// The most bytes of messages that all connections together are receiving.
    pub in_flight: ByteSize,
    /// A larger message is written to a file while it comes in.
    pub body_in_memory: ByteSize,
    /// A client that is silent for this long is disconnected.
    pub idle: DurationValue,
    /// The longest time that an LMTP session may take.
    pub session: DurationValue,
    /// How long a stop waits for what is under way, such as messages that are being received.
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

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct MetricsSection {
    /// `None`: only on the control socket.
    pub listen: Option<ListenValue>,
    /// The group that may connect if `listen` is a Unix socket; `None`: the service's own group.
    pub socket_group: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct LogSection {
    /// The least severe level that is logged, or directives such as `info,restante::queue=debug`.
    pub level: String,
    pub format: LogFormat,
}

impl Default for LogSection {
    fn default() -> Self {
        Self { level: "info".into(), format: LogFormat::Auto }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    /// The journal under systemd, otherwise plain.
    #[default]
    Auto,
    Plain,
    Journald,
}
