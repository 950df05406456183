//! `[http]`: JMAP in public.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Deserialize;

use super::convert::{place, tls};
use super::{ByteSize, Config, ListenValue};
use crate::jmap::UploadSettings;
use crate::model::limits;
use crate::net::ceiling::Ceiling;
use crate::net::http::{AllowedOrigins, HttpSettings, Network, Proxies};
use crate::net::listen::{Access, ListenAddress};

/// The group of proxies, unless the site names another. Not the service's own: who is in that one
/// manages all accounts.
const PROXY_GROUP: &str = "restante-http";

/// `[http]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct HttpSection {
    /// Where to listen; nowhere if nothing is said.
    pub listen: Option<Vec<ListenValue>>,
    /// The group that may connect to the Unix sockets among them.
    pub socket_group: Option<String>,
    /// PEM certificate chain for TLS.
    pub tls_certificate: Option<PathBuf>,
    /// PEM private key for TLS.
    pub tls_key: Option<PathBuf>,
    /// What the session's URLs begin with.
    pub url: Option<String>,
    /// Peers that say whom they speak for.
    pub trusted_proxies: Vec<String>,
    /// In which field they say it.
    pub proxy_field: ProxyField,
    /// Origins whose scripts may ask.
    pub origins: Vec<String>,
    /// Media types that are refused on upload.
    pub refused_types: Vec<String>,
    /// Largest upload.
    pub max_upload: ByteSize,
    /// Uploads of a user in a minute.
    pub uploads_per_minute: u32,
    /// Bytes of them.
    pub uploaded_per_minute: ByteSize,
    /// Connections at once.
    pub connections: usize,
    /// Whether changes may be pushed to addresses of the inside.
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

/// The header field in which a proxy says whom it speaks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProxyField {
    /// What most proxies write.
    #[default]
    XForwardedFor,
    /// RFC 7239.
    Forwarded,
}

impl Config {
    /// Where JMAP is served in public.
    #[must_use]
    pub fn http_places(&self) -> Vec<ListenAddress> {
        self.http.listen.iter().flatten().map(place).collect()
    }

    /// Who may connect there by a Unix socket: a proxy, whose word about its clients is believed.
    #[must_use]
    pub fn http_access(&self) -> Access {
        Access::Group { name: self.http.socket_group.clone(), usual: Some(PROXY_GROUP) }
    }

    /// How it is served. Reads certificate and key, where they are named.
    ///
    /// # Errors
    /// What is wrong with certificate or key.
    pub fn http_settings(&self) -> Result<HttpSettings, String> {
        let http = &self.http;
        let protocols: [&[u8]; 2] = [b"h2", b"http/1.1"];
        Ok(HttpSettings {
            tls: tls("http", http.tls_certificate.as_deref(), http.tls_key.as_deref(), &protocols)?,
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

    /// How many may be connected.
    #[must_use]
    pub fn http_ceiling(&self) -> Ceiling {
        Ceiling::new(self.http.connections, u64::MAX)
    }
}

/// What is wrong with the table's meaning.
pub(super) fn check(http: &HttpSection, fault: &mut dyn FnMut(&str, &str, String, &str)) {
    let mut fault = |key: &str, problem: String, remedy: &str| fault("http", key, problem, remedy);
    let secured = http.tls_certificate.is_some() && http.tls_key.is_some();
    if http.tls_certificate.is_some() != http.tls_key.is_some() {
        let (have, lack) = if http.tls_key.is_some() {
            ("tls-key", "tls-certificate")
        } else {
            ("tls-certificate", "tls-key")
        };
        fault(have, format!("set without {lack}"), "set both, or neither where a proxy does TLS");
    }
    for listener in http.listen.iter().flatten() {
        if let ListenValue::Tcp { host, port } = listener
            && !secured
            && http.trusted_proxies.is_empty()
            && host != "localhost"
            && !host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
        {
            let problem =
                format!("tcp:{host}:{port} would take passwords in the clear from a network");
            fault(
                "listen",
                problem,
                "set tls-certificate and tls-key, name trusted-proxies, or listen on 127.0.0.1",
            );
        }
    }
    if let Some(url) = &http.url {
        let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
        let good = rest.is_some_and(|rest| {
            rest.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '[')
                && rest
                    .bytes()
                    .all(|octet| octet.is_ascii_graphic() && !b"?#{}\"<>\\^`|@".contains(&octet))
        });
        if !good {
            fault(
                "url",
                format!("`{url}` is no base URL"),
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
        fault("trusted-proxies", format!("`{peer}` is not an address"), remedy);
    }
    for origin in http.origins.iter().filter(|origin| *origin != "*") {
        // An extension of a browser, or an app, has a scheme of its own: `moz-extension://…`,
        // `capacitor://localhost`.
        let is_scheme = |scheme: &str| {
            scheme.starts_with(|first: char| first.is_ascii_alphabetic())
                && scheme
                    .bytes()
                    .all(|octet| octet.is_ascii_alphanumeric() || b"+-.".contains(&octet))
        };
        let good = origin.split_once("://").is_some_and(|(scheme, host)| {
            is_scheme(scheme) && !host.is_empty() && !host.contains(['/', ' ', ','])
        });
        if !good {
            fault(
                "origins",
                format!("`{origin}` is no origin"),
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
            fault(
                "refused-types",
                format!("`{kind}` is no media type"),
                "write one such as \"video/*\"",
            );
        }
    }
    for (key, none) in [
        ("uploads-per-minute", http.uploads_per_minute == 0),
        ("uploaded-per-minute", http.uploaded_per_minute.0 == 0),
    ] {
        if none {
            fault(key, "nobody could upload".into(), "write at least 1");
        }
    }
    if http.connections == 0 {
        fault("connections", "nobody could connect".into(), "write at least 1");
    }
}
