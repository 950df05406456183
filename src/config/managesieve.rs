//! The table `[managesieve]`: the listener by which users manage their Sieve scripts (RFC 5804).

use std::path::PathBuf;

use serde::Deserialize;

use super::convert::{listen_address, read_tls_config};
use super::{Config, ListenValue, ReportProblem};
use crate::model::limits;
use crate::net::ceiling::Ceiling;
use crate::net::listen::{Access, ListenAddress};
use crate::net::managesieve::ManageSieveSettings;

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct ManageSieveSection {
    /// `None`: ManageSieve is not served.
    pub listen: Option<Vec<ListenValue>>,
    /// The group that may connect to the Unix sockets in `listen`; `None`: the service's own group.
    pub socket_group: Option<String>,
    /// PEM certificate chain for STARTTLS; `None` (with `tls_key`): no STARTTLS.
    pub tls_certificate: Option<PathBuf>,
    pub tls_key: Option<PathBuf>,
    /// The most connections at a time, of all listeners together.
    pub connections: usize,
}

impl Default for ManageSieveSection {
    fn default() -> Self {
        Self {
            listen: None,
            socket_group: None,
            tls_certificate: None,
            tls_key: None,
            connections: limits::MAX_MANAGESIEVE_CONNECTIONS,
        }
    }
}

impl Config {
    #[must_use]
    pub fn managesieve_addresses(&self) -> Vec<ListenAddress> {
        self.managesieve.listen.iter().flatten().map(listen_address).collect()
    }

    #[must_use]
    pub fn managesieve_access(&self) -> Access {
        Access::Group { name: self.managesieve.socket_group.clone(), default_group: None }
    }

    /// Limits the connections. Their bytes are not limited here.
    #[must_use]
    pub fn managesieve_ceiling(&self) -> Ceiling {
        Ceiling::new(self.managesieve.connections, u64::MAX)
    }

    /// Reads certificate and key, if configured.
    ///
    /// # Errors
    /// The problem of certificate or key, with a remedy.
    pub fn managesieve_settings(&self) -> Result<ManageSieveSettings, String> {
        let section = &self.managesieve;
        let (certificate, key) = (section.tls_certificate.as_deref(), section.tls_key.as_deref());
        let tls = read_tls_config("managesieve", certificate, key, &[])?;
        Ok(ManageSieveSettings { tls, ..ManageSieveSettings::default() })
    }
}

pub(super) fn check_managesieve(section: &ManageSieveSection, report: ReportProblem<'_>) {
    let mut report = |key: &str, problem: String, remedy: &str| {
        report("managesieve", key, problem, remedy);
    };
    let has_tls = section.tls_certificate.is_some() && section.tls_key.is_some();
    for listener in section.listen.iter().flatten() {
        if let ListenValue::Tcp { host, .. } = listener
            && !has_tls
            && !is_loopback(host)
        {
            report(
                "listen",
                format!(
                    "`{listener}` is open to a network, and no password may cross one unencrypted"
                ),
                "set tls-certificate and tls-key, or listen on tcp:127.0.0.1:4190",
            );
        }
    }
    if section.listen.as_ref().is_some_and(Vec::is_empty) {
        let problem = "without a listener nobody could connect".into();
        report("listen", problem, "name one, or leave the key out for no ManageSieve");
    }
    if section.tls_certificate.is_some() != section.tls_key.is_some() {
        let (present, missing) = if section.tls_key.is_some() {
            ("tls-key", "tls-certificate")
        } else {
            ("tls-certificate", "tls-key")
        };
        report(present, format!("set without {missing}"), "set both, or neither for no STARTTLS");
    }
    if section.connections == 0 {
        report("connections", "no client could connect".into(), "write at least 1");
    }
}

fn is_loopback(host: &str) -> bool {
    host == "localhost"
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}
