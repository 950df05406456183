//! The table `[http]`: the public JMAP listener.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Deserialize;

use super::convert::{listen_address, read_tls_config};
use super::{ByteSize, Config, ListenValue, ReportProblem};
use crate::jmap::UploadSettings;
use crate::model::limits;
use crate::net::ceiling::Ceiling;
use crate::net::http::{AllowedOrigins, HttpSettings, Network, Proxies};
use crate::net::listen::{Access, ListenAddress};

/// The group that may connect if `socket-group` is not set: that of the proxies. It is not the
/// service's own group, whose members manage all accounts.
const PROXY_GROUP: &str = "restante-http";

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct HttpSection {
    /// `None` or empty: JMAP is only served on the control socket.
    pub listen: Option<Vec<ListenValue>>,
    /// The group that may connect to the Unix sockets in `listen`; `None`: `PROXY_GROUP`, or the
    /// service's own group if there is no such group, or the service may not give it the sockets.
    pub socket_group: Option<String>,
    /// PEM certificate chain; `None` (with `tls_key`): no TLS.
    pub tls_certificate: Option<PathBuf>,
    pub tls_key: Option<PathBuf>,
    /// The base of the URLs in the JMAP session; `None`: as the client's Host field says.
    pub url: Option<String>,
    /// Proxies that are trusted to name the client's address: `unix`, an address or a network.
    pub trusted_proxies: Vec<String>,
    pub proxy_field: ProxyField,
    /// Origins of web pages whose scripts may use the API; `*` is every origin.
    pub origins: Vec<String>,
    /// Media types of which no uploads are accepted, such as `video/*`.
    pub refused_types: Vec<String>,
    /// The largest upload.
    pub max_upload: ByteSize,
    /// The most uploads of one user in a minute.
    pub uploads_per_minute: u32,
    /// The most bytes that one user may upload in a minute.
    pub uploaded_per_minute: ByteSize,
    /// The most connections at a time, of all listeners together.
    pub connections: usize,
    /// Whether changes may be pushed to loopback and private addresses.
    pub push_to_private: bool,
}

impl Default for HttpSection {
    fn default() -> Self {
        Self {
            listen: None,
            socket_group: None,
            tls_certificate: None,
            tls_key: None,
            url: None,
            trusted_proxies: Vec::new(),
            proxy_field: ProxyField::default(),
            origins: Vec::new(),
            refused_types: Vec::new(),
            max_upload: ByteSize(limits::MAX_UPLOAD_BYTES),
            uploads_per_minute: limits::MAX_UPLOADS_PER_MINUTE,
            uploaded_per_minute: ByteSize(limits::MAX_UPLOADED_BYTES_PER_MINUTE),
            connections: limits::MAX_HTTP_CONNECTIONS,
            push_to_private: false,
        }
    }
}

/// The header field in which a proxy names the client's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProxyField {
    #[default]
    XForwardedFor,
    Forwarded,
}

impl Config {
    #[must_use]
    pub fn http_addresses(&self) -> Vec<ListenAddress> {
        self.http.listen.iter().flatten().map(listen_address).collect()
    }

    /// Returns who may connect to the public Unix sockets: proxies.
    #[must_use]
    pub fn http_access(&self) -> Access {
        Access::Group { name: self.http.socket_group.clone(), default_group: Some(PROXY_GROUP) }
    }

    /// Reads certificate and key, if configured. The values must have passed `check_http`: a
    /// trusted proxy that is neither `unix` nor a network is left out without an error.
    ///
    /// # Errors
    /// The problem of certificate or key, with a remedy.
    pub fn http_settings(&self) -> Result<HttpSettings, String> {
        let http = &self.http;
        let protocols: [&[u8]; 2] = [b"h2", b"http/1.1"];
        Ok(HttpSettings {
            tls: read_tls_config(
                "http",
                http.tls_certificate.as_deref(),
                http.tls_key.as_deref(),
                &protocols,
            )?,
            url: http.url.as_ref().map(|url| url.trim_end_matches('/').to_owned()),
            proxies: Proxies {
                unix: http.trusted_proxies.iter().any(|peer| peer == "unix"),
                networks: http
                    .trusted_proxies
                    .iter()
                    .filter_map(|peer| peer.parse::<Network>().ok())
                    .collect(),
                standard: http.proxy_field == ProxyField::Forwarded,
            },
            origins: AllowedOrigins {
                all: http.origins.iter().any(|origin| origin == "*"),
                named: http.origins.iter().filter(|origin| *origin != "*").cloned().collect(),
            },
            uploads: Arc::new(UploadSettings {
                refused_types: http
                    .refused_types
                    .iter()
                    .map(|kind| kind.to_ascii_lowercase())
                    .collect(),
                max: http.max_upload.0,
                per_minute: http.uploads_per_minute,
                bytes_per_minute: http.uploaded_per_minute.0,
            }),
            push_to_private: http.push_to_private,
        })
    }

    /// Limits the connections. Their bytes are not limited here.
    #[must_use]
    pub fn http_ceiling(&self) -> Ceiling {
        Ceiling::new(self.http.connections, u64::MAX)
    }
}

pub(super) fn check_http(http: &HttpSection, report: ReportProblem<'_>) {
    let mut report =
        |key: &str, problem: String, remedy: &str| report("http", key, problem, remedy);
    let has_tls = http.tls_certificate.is_some() && http.tls_key.is_some();
    if http.tls_certificate.is_some() != http.tls_key.is_some() {
        let (present, missing) = if http.tls_key.is_some() {
            ("tls-key", "tls-certificate")
        } else {
            ("tls-certificate", "tls-key")
        };
        let remedy = "set both, or neither if a proxy does TLS";
        report(present, format!("set without {missing}"), remedy);
    }
    for listener in http.listen.iter().flatten() {
        if let ListenValue::Tcp { host, port } = listener
            && !has_tls
            && http.trusted_proxies.is_empty()
            && host != "localhost"
            && !host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
        {
            let problem =
                format!("tcp:{host}:{port} would accept unencrypted passwords from a network");
            report(
                "listen",
                problem,
                "set tls-certificate and tls-key, name trusted-proxies, or listen on 127.0.0.1",
            );
        }
    }
    if let Some(url) = &http.url {
        let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
        let is_valid = rest.is_some_and(|rest| {
            rest.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '[')
                && rest
                    .bytes()
                    .all(|byte| byte.is_ascii_graphic() && !b"?#{}\"<>\\^`|@".contains(&byte))
        });
        if !is_valid {
            report(
                "url",
                format!("`{url}` is not a base URL"),
                "write one such as \"https://mail.example.org\"",
            );
        }
    }
    for peer in http
        .trusted_proxies
        .iter()
        .filter(|peer| *peer != "unix" && peer.parse::<Network>().is_err())
    {
        let remedy = "write \"unix\", an IP address, or a network such as \"10.0.0.0/8\"";
        report("trusted-proxies", format!("`{peer}` is not an address"), remedy);
    }
    for origin in http.origins.iter().filter(|origin| *origin != "*") {
        // Browser extensions and apps have schemes of their own: `moz-extension://…`,
        // `capacitor://localhost`.
        let is_scheme = |scheme: &str| {
            scheme.starts_with(|first: char| first.is_ascii_alphabetic())
                && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
        };
        let is_valid = origin.split_once("://").is_some_and(|(scheme, host)| {
            is_scheme(scheme) && !host.is_empty() && !host.contains(['/', ' ', ','])
        });
        if !is_valid {
            report(
                "origins",
                format!("`{origin}` is not an origin"),
                "write one such as \"https://webmail.example.org\"",
            );
        }
    }
    for kind in &http.refused_types {
        if kind.split('/').count() != 2
            || kind.starts_with('/')
            || kind.ends_with('/')
            || kind.contains(' ')
        {
            report(
                "refused-types",
                format!("`{kind}` is not a media type"),
                "write one such as \"video/*\"",
            );
        }
    }
    for (key, is_zero) in [
        ("uploads-per-minute", http.uploads_per_minute == 0),
        ("uploaded-per-minute", http.uploaded_per_minute.0 == 0),
    ] {
        if is_zero {
            report(key, "no client could upload".into(), "write at least 1");
        }
    }
    if http.connections == 0 {
        report("connections", "no client could connect".into(), "write at least 1");
    }
}
