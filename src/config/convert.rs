//! Turns the values of the configuration into the settings of the rooms, and says which changed
//! values need a restart.
//!
//! - The values must have passed `check`.
//! - Certificates, keys, the relay's password and the scripts of the site are read from their
//!   files, so these conversions can fail.
//! - The settings of the HTTP listener are in `http.rs`, those of ManageSieve in `managesieve.rs`,
//!   the keys for DKIM in `dkim.rs`, and the scripts in `sieve.rs`.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::{
    Authentication, ByteSize, Config, ListenValue, LogFormat, Mailboxes, OverQuota, ProtocolValue,
    RelaySection, TlsValue,
};
use crate::model::{Address, limits};
use crate::net::ceiling::Ceiling;
use crate::net::http::ControlSettings;
use crate::net::listen::{Access, ListenAddress};
use crate::net::lmtp::LmtpSettings;
use crate::{account, deliver, outbox, proof, queue, store, trace, upkeep, vacation};

/// The group of Postfix's own processes.
const POSTFIX_GROUP: &str = "postfix";
/// Postfix can reach this socket from its chroot.
const LMTP_SOCKET: &str = "/var/spool/postfix/private/restante";
/// However large the write buffers are, all tables are flushed when one has this many bytes in
/// memory, so that a flush does not take long.
const MAX_MEMTABLE_BYTES: usize = 64 << 20;

impl Config {
    #[must_use]
    pub fn trace_settings(&self) -> trace::Settings {
        trace::Settings {
            level: self.log.level.clone(),
            output: match self.log.format {
                LogFormat::Auto => trace::Output::Auto,
                LogFormat::Plain => trace::Output::Plain,
                LogFormat::Journald => trace::Output::Journald,
            },
        }
    }

    #[must_use]
    pub fn directory_settings(&self) -> account::Settings {
        account::Settings {
            delimiter: self.directory.delimiter.chars().next(),
            case_sensitive: self.directory.case_sensitive,
            postmaster: self
                .directory
                .postmaster
                .as_deref()
                .and_then(|text| Address::parse(text).ok()),
            standard_mailboxes: self.directory.mailboxes == Mailboxes::Roles,
            zone: self.directory.zone.clone(),
        }
    }

    /// Returns `[lmtp] hostname`, or else the name of the machine.
    #[must_use]
    pub fn hostname(&self) -> String {
        let machine_name = || {
            let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
            if name.is_empty() { "localhost".into() } else { name }
        };
        self.lmtp.hostname.clone().unwrap_or_else(machine_name)
    }

    #[must_use]
    pub fn vacation_settings(&self) -> vacation::Settings {
        vacation::Settings {
            system_senders: self
                .vacation
                .system_senders
                .iter()
                .map(|name| name.to_lowercase())
                .collect(),
            rate: vacation::RateLimits {
                account: self.vacation.replies_per_hour,
                domain: self.vacation.replies_per_hour_to_domain,
                site: self.vacation.replies_per_hour_in_all,
            },
            trust_spam_fields: self.vacation.trust_spam_fields,
        }
    }

    /// Reads the scripts of the site.
    ///
    /// # Errors
    /// The problem of the first script that cannot be used, with a remedy.
    pub fn deliver_settings(&self) -> Result<deliver::Settings, String> {
        Ok(deliver::Settings {
            hostname: self.hostname(),
            quota_is_permanent: self.directory.over_quota == OverQuota::Refuse,
            vacation: self.vacation_settings(),
            filter: self.filter_settings()?,
        })
    }

    /// Returns where to listen for LMTP. `systemd_passes` tells whether systemd passes a socket
    /// with the given name.
    #[must_use]
    pub fn lmtp_addresses(&self, systemd_passes: impl Fn(&str) -> bool) -> Vec<ListenAddress> {
        match &self.lmtp.listen {
            Some(addresses) => addresses.iter().map(listen_address).collect(),
            None if systemd_passes("lmtp") => vec![ListenAddress::Fd("lmtp".into())],
            None => vec![ListenAddress::Unix(LMTP_SOCKET.into())],
        }
    }

    /// Returns who may connect to the Unix sockets for LMTP.
    #[must_use]
    pub fn lmtp_access(&self) -> Access {
        Access::Group { name: self.lmtp.socket_group.clone(), default_group: Some(POSTFIX_GROUP) }
    }

    #[must_use]
    pub fn metrics_access(&self) -> Access {
        Access::Group { name: self.metrics.socket_group.clone(), default_group: None }
    }

    /// Returns the address at which metrics are served besides the control socket.
    #[must_use]
    pub fn metrics_address(&self) -> Option<ListenAddress> {
        self.metrics.listen.as_ref().map(listen_address)
    }

    /// Reads certificate and key, if configured.
    ///
    /// # Errors
    /// The problem of certificate or key, with a remedy.
    pub fn lmtp_settings(&self) -> Result<LmtpSettings, String> {
        Ok(LmtpSettings {
            hostname: self.hostname(),
            max_message: self.limits.message.0,
            max_recipients: self.limits.recipients,
            trusted: self
                .lmtp
                .trusted
                .iter()
                .filter_map(|peer| peer.parse::<IpAddr>().ok())
                .collect(),
            trust_unix: self.lmtp.trusted.iter().any(|peer| peer == "unix"),
            idle: self.limits.idle.0,
            session: self.limits.session.0,
            body_in_memory: usize::try_from(self.limits.body_in_memory.0).unwrap_or(usize::MAX),
            proof: self.proof_settings(),
            tls: read_tls_config(
                "lmtp",
                self.lmtp.tls_certificate.as_deref(),
                self.lmtp.tls_key.as_deref(),
                &[],
            )?,
        })
    }

    fn proof_settings(&self) -> proof::Settings {
        let verifier = self.verify.on.then(|| {
            Arc::new(proof::Verifier::new(proof::VerifySettings {
                nameservers: self.verify.nameservers.iter().map(|server| server.0).collect(),
                timeout: self.verify.timeout.0,
                cache: self.verify.cache,
                sealers: self.verify.trusted_sealers.clone(),
                hostname: self.hostname(),
            }))
        });
        proof::Settings {
            verifier,
            authserv_ids: self.vacation.trusted_authserv_ids.clone(),
            policy: match self.vacation.authentication {
                Authentication::Off => proof::Policy::Off,
                Authentication::FailOnly => proof::Policy::FailOnly,
                Authentication::Strict => proof::Policy::Strict,
            },
        }
    }

    /// Reads the signing keys, the relay's password and the certificates of authorities, if
    /// configured.
    ///
    /// # Errors
    /// The first problem of these files, with a remedy.
    pub fn queue_settings(&self) -> Result<queue::Settings, String> {
        let RelaySection { host, port, .. } = &self.relay;
        let address = match &self.relay.socket {
            Some(path) => queue::RelayAddress::Unix(path.clone()),
            None => queue::RelayAddress::Tcp { host: host.clone(), port: *port },
        };
        Ok(queue::Settings {
            signer: self.signer()?,
            relay: queue::Relay {
                address,
                protocol: match self.relay.protocol {
                    ProtocolValue::Smtp => queue::Protocol::Smtp,
                    ProtocolValue::Lmtp => queue::Protocol::Lmtp,
                },
                tls: match self.relay.tls {
                    TlsValue::None => queue::Tls::None,
                    TlsValue::Opportunistic => queue::Tls::Opportunistic,
                    TlsValue::Required => queue::Tls::Required,
                    TlsValue::Implicit => queue::Tls::Implicit,
                },
                authorities: self
                    .relay
                    .tls_ca
                    .as_deref()
                    .map_or(Ok(Vec::new()), read_authorities)?,
                tls_name: self.relay.tls_name.clone(),
                login: self.read_relay_credentials()?,
                hostname: self.hostname(),
                timeout: self.relay.timeout.0,
                max_recipients: self.relay.recipients,
                max_messages: self.relay.messages_per_connection,
                idle_timeout: self.relay.idle.0,
            },
            concurrency: self.relay.concurrency,
            relay_pause: self.relay.pause.0,
            retry: outbox::RetrySchedule {
                first: self.queue.retry_first.0,
                longest: self.queue.retry_longest.0,
                keep_sent: self.queue.submissions.0,
            },
        })
    }

    /// Returns `None` if no login is configured.
    ///
    /// # Errors
    /// The problem of the password file, with a remedy.
    fn read_relay_credentials(&self) -> Result<Option<queue::RelayCredentials>, String> {
        let (Some(user), Some(file)) = (&self.relay.user, &self.relay.password_file) else {
            return Ok(None);
        };
        let describe = |problem: &dyn std::fmt::Display, remedy: &str| {
            format!("[relay] password-file {}: {problem}\n  {remedy}", file.display())
        };
        let remedy = "name a file that the service's user can read";
        let metadata = std::fs::metadata(file).map_err(|error| describe(&error, remedy))?;
        if std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o007 != 0 {
            let remedy = format!("chmod 0640 {0}; chgrp restante {0}", file.display());
            return Err(describe(&"everybody may use it", &remedy));
        }
        let text = std::fs::read_to_string(file).map_err(|error| describe(&error, remedy))?;
        let password = text.trim_end_matches(['\r', '\n']);
        if password.is_empty() || password.contains(['\r', '\n', '\0']) {
            return Err(describe(
                &"it does not contain exactly one line",
                "write the password into it, and nothing else",
            ));
        }
        Ok(Some(queue::RelayCredentials {
            user: user.clone(),
            password: password.to_owned(),
            in_the_clear: self.relay.password_in_the_clear,
        }))
    }

    #[must_use]
    pub fn upkeep_settings(&self) -> upkeep::Settings {
        upkeep::Settings {
            destroyed_emails: self.upkeep.restore.0,
            history: self.upkeep.history.0,
            unused_listings: self.upkeep.lists.0,
            told_rows: self.upkeep.told.0,
            thread_refs: self.upkeep.threads.0,
            unreferenced_messages: self.upkeep.messages.0,
            unused_uploads: self.upkeep.uploads.0,
            final_submissions: self.queue.submissions.0,
            interval: self.upkeep.every.0,
        }
    }

    #[must_use]
    pub fn lmtp_ceiling(&self) -> Ceiling {
        Ceiling::new(self.limits.connections, self.limits.in_flight.0)
    }

    #[must_use]
    pub fn store_options(&self) -> store::Options {
        let bytes = |size: ByteSize| usize::try_from(size.0).unwrap_or(usize::MAX);
        let (buffers, default) = (bytes(self.store.write_buffers), store::Options::default());
        store::Options {
            cache_bytes: bytes(self.store.cache),
            // A table's memtable may take at most half of the memory for all tables. When one is
            // full, all tables are flushed together.
            memtable_bytes: MAX_MEMTABLE_BYTES.min(buffers / 2),
            total_memtable_bytes: buffers,
            // More than the buffers, so that a flush usually begins because they are full.
            log_bytes: self.store.write_buffers.0.saturating_mul(2),
            jobs: self.store.jobs.unwrap_or(default.jobs),
            ..default
        }
    }

    /// `deliver` has the scripts of the site, which `deliver_settings` has read.
    #[must_use]
    pub fn control_settings(&self, deliver: &deliver::Settings) -> ControlSettings {
        // Base64 takes 4/3 of the size; 3/2 leaves room.
        let encoded_message = self.limits.message.0.saturating_mul(3) / 2;
        ControlSettings {
            vacation: self.vacation_settings(),
            filter: Arc::clone(&deliver.filter),
            hostname: self.hostname().into(),
            restore: self.upkeep.restore.0,
            administrators: self.control.administrators.clone(),
            max_request: usize::try_from(encoded_message)
                .unwrap_or(usize::MAX)
                .saturating_add(limits::MAX_REQUEST_BYTES),
            max_message: self.limits.message.0,
            body_in_memory: usize::try_from(self.limits.body_in_memory.0).unwrap_or(usize::MAX),
            spill_dir: self.spill_dir(),
        }
    }

    /// The directory in which large uploads are written while they are received.
    #[must_use]
    pub fn spill_dir(&self) -> PathBuf {
        self.store.path.join("spill")
    }

    /// Returns table and key of each changed value that takes effect only after a restart; of
    /// `[metrics]`, only the table. These are the values that `after_reload` keeps.
    #[must_use]
    pub fn changes_for_restart(&self, new: &Self) -> Vec<&'static str> {
        [
            (self.store.path != new.store.path, "[store] path"),
            (self.store.cache != new.store.cache, "[store] cache"),
            (self.store.write_buffers != new.store.write_buffers, "[store] write-buffers"),
            (self.store.jobs != new.store.jobs, "[store] jobs"),
            (self.lmtp.listen != new.lmtp.listen, "[lmtp] listen"),
            (self.lmtp.socket_group != new.lmtp.socket_group, "[lmtp] socket-group"),
            (self.control.socket != new.control.socket, "[control] socket"),
            (self.http.listen != new.http.listen, "[http] listen"),
            (self.http.socket_group != new.http.socket_group, "[http] socket-group"),
            (self.managesieve.listen != new.managesieve.listen, "[managesieve] listen"),
            (
                self.managesieve.socket_group != new.managesieve.socket_group,
                "[managesieve] socket-group",
            ),
            (self.metrics != new.metrics, "[metrics]"),
            (self.log.format != new.log.format, "[log] format"),
        ]
        .into_iter()
        .filter_map(|(differs, key)| differs.then_some(key))
        .collect()
    }

    /// Returns the configuration after a reload: `new`, but with the values of `self` for the keys
    /// that need a restart (`changes_for_restart`).
    #[must_use]
    pub fn after_reload(&self, new: Self) -> Self {
        Self {
            store: self.store.clone(),
            lmtp: super::LmtpSection {
                listen: self.lmtp.listen.clone(),
                socket_group: self.lmtp.socket_group.clone(),
                ..new.lmtp
            },
            control: super::ControlSection { socket: self.control.socket.clone(), ..new.control },
            http: super::HttpSection {
                listen: self.http.listen.clone(),
                socket_group: self.http.socket_group.clone(),
                ..new.http
            },
            managesieve: super::ManageSieveSection {
                listen: self.managesieve.listen.clone(),
                socket_group: self.managesieve.socket_group.clone(),
                ..new.managesieve
            },
            metrics: self.metrics.clone(),
            log: super::LogSection { format: self.log.format, ..new.log },
            ..new
        }
    }
}

/// Reads the certificates of `[relay] tls-ca`, in DER.
///
/// # Errors
/// The problem of the file, with a remedy; also if it has no certificate.
fn read_authorities(file: &Path) -> Result<Vec<Vec<u8>>, String> {
    let describe = |problem: &dyn std::fmt::Display| {
        let remedy = "name a PEM file of certificates that the service's user can read";
        format!("[relay] tls-ca {}: {problem}\n  {remedy}", file.display())
    };
    let certificates: Vec<Vec<u8>> = CertificateDer::pem_file_iter(file)
        .and_then(|all| all.map(|one| one.map(|one| one.to_vec())).collect())
        .map_err(|error| describe(&error))?;
    if certificates.is_empty() {
        Err(describe(&"it contains no certificate"))
    } else {
        Ok(certificates)
    }
}

/// Reads certificate and key, and offers `protocols` by ALPN. Returns `None` without certificate or
/// key.
///
/// # Errors
/// The problem of certificate or key, with a remedy; it names the configuration's `table`.
pub(super) fn read_tls_config(
    table: &str,
    certificate: Option<&Path>,
    key: Option<&Path>,
    protocols: &[&[u8]],
) -> Result<Option<Arc<ServerConfig>>, String> {
    let (Some(certificate), Some(key)) = (certificate, key) else { return Ok(None) };
    let unreadable = |name: &str, file: &Path, error: &dyn std::fmt::Display| {
        format!(
            "[{table}] {name} {}: {error}\n  name a PEM file that the service's user can read",
            file.display()
        )
    };
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unreadable("tls-certificate", certificate, &error))?;
    let private_key =
        PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable("tls-key", key, &error))?;
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, private_key);
    let mut config = config.map_err(|error| {
        format!(
            "[{table}] tls-certificate and tls-key do not match: {error}\n  \
             name the key of this certificate"
        )
    })?;
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    Ok(Some(Arc::new(config)))
}

pub(super) fn listen_address(value: &ListenValue) -> ListenAddress {
    match value {
        ListenValue::Unix(path) => ListenAddress::Unix(path.clone()),
        ListenValue::Tcp { host, port } => ListenAddress::Tcp(host.clone(), *port),
        ListenValue::Fd(name) => ListenAddress::Fd(name.clone()),
    }
}
