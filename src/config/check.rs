//! What the values mean together: each rule with its remedy.

use std::path::Path;
use std::time::Duration;

use super::load::ConfigProblem;
use super::{Config, ListenValue, TlsValue};
use crate::model::address::domain_is_well_formed;
use crate::model::{Address, clock, limits};
use crate::trace;

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// All that is wrong with the meaning of `config`, which was read from `text` of `file`.
#[must_use]
pub fn check(config: &Config, text: &str, file: &Path) -> Vec<ConfigProblem> {
    let mut faults = Vec::new();
    let mut fault = |table: &str, key: &str, problem: String, remedy: &str| {
        faults.push(ConfigProblem {
            file: file.to_owned(),
            line: line_of(text, table, key),
            problem: format!("[{table}] {key}: {problem}"),
            remedy: remedy.to_owned(),
        });
    };

    super::store::check(&config.store, &mut fault);
    lmtp(config, &mut fault);
    directory(config, &mut fault);
    relay(config, &mut fault);
    super::http::check(&config.http, &mut fault);
    verify(config, &mut fault);
    dkim(config, &mut fault);
    if !trace::is_level(&config.log.level) {
        fault(
            "log",
            "level",
            format!("`{}` is no level", config.log.level),
            "write error, warn, info, debug or trace",
        );
    }
    upkeep(config, &mut fault);
    size_limits(config, &mut fault);
    faults
}

/// What a check calls for each fault: table, key, problem, remedy.
type ConfigFaultFn<'a> = &'a mut dyn FnMut(&str, &str, String, &str);

/// `[lmtp]`
fn lmtp(config: &Config, fault: ConfigFaultFn<'_>) {
    for listener in config.lmtp.listen.iter().flatten() {
        if matches!(listener, ListenValue::Tcp { port: 25, .. }) {
            fault(
                "lmtp",
                "listen",
                "LMTP must not be served on port 25 (RFC 2033 §5)".into(),
                "take another port, such as tcp:127.0.0.1:24, or a Unix socket",
            );
        }
    }
    if config.lmtp.listen.as_ref().is_some_and(Vec::is_empty) {
        fault(
            "lmtp",
            "listen",
            "no listener, so no mail".into(),
            "name one, or leave the key out for the usual socket",
        );
    }
    if config.lmtp.tls_certificate.is_some() != config.lmtp.tls_key.is_some() {
        let (have, lack) = if config.lmtp.tls_key.is_some() {
            ("tls-key", "tls-certificate")
        } else {
            ("tls-certificate", "tls-key")
        };
        fault("lmtp", have, format!("set without {lack}"), "set both, or neither for no STARTTLS");
    }
    for peer in &config.lmtp.trusted {
        if peer != "unix" && peer.parse::<std::net::IpAddr>().is_err() {
            fault(
                "lmtp",
                "trusted",
                format!("`{peer}` is not an address"),
                "write \"unix\" or an IP address",
            );
        }
    }
}

/// `[directory]`
fn directory(config: &Config, fault: ConfigFaultFn<'_>) {
    if config.directory.delimiter.chars().count() > 1 {
        fault(
            "directory",
            "delimiter",
            "more than one character".into(),
            "write one character, or \"\" for none",
        );
    }
    if let Some(address) = &config.directory.postmaster
        && Address::parse(address).is_err()
    {
        fault(
            "directory",
            "postmaster",
            format!("`{address}` is not an address"),
            "write one such as hostmaster@example.org",
        );
    }
    if let Some(zone) = &config.directory.zone
        && clock::zone(zone).is_none()
    {
        fault(
            "directory",
            "zone",
            format!("`{zone}` is not a time zone"),
            "write an IANA name such as \"Europe/Berlin\"",
        );
    }
}

/// `[verify]`
fn verify(config: &Config, fault: ConfigFaultFn<'_>) {
    if config.verify.timeout.0 < Duration::from_secs(1)
        || config.verify.timeout.0 > Duration::from_secs(60)
    {
        let problem = "no name server is that quick, or Postfix would wait too long".into();
        fault("verify", "timeout", problem, "write from \"1s\" to \"60s\"");
    }
    for sealer in &config.verify.trusted_sealers {
        if !domain_is_well_formed(sealer) {
            fault(
                "verify",
                "trusted-sealers",
                format!("`{sealer}` is not a domain"),
                "write one such as example.net",
            );
        }
    }
}

/// `[dkim]`
fn dkim(config: &Config, fault: ConfigFaultFn<'_>) {
    let keys = &config.dkim.keys;
    for (at, key) in keys.iter().enumerate() {
        let (domain, selector) = (&key.domain, &key.selector);
        if !domain_is_well_formed(domain) || domain.starts_with('[') {
            fault(
                "dkim",
                "keys",
                format!("`{domain}` is not a domain"),
                "write one such as example.org",
            );
        }
        if !domain_is_well_formed(selector) || selector.starts_with('[') {
            fault(
                "dkim",
                "keys",
                format!("`{selector}` is not a selector"),
                "write letters and digits, such as 2026a",
            );
        }
        if keys.iter().take(at).any(|other| {
            other.domain.eq_ignore_ascii_case(domain)
                && other.selector.eq_ignore_ascii_case(selector)
        }) {
            let problem = format!("`{selector}` of `{domain}` stands there twice");
            fault("dkim", "keys", problem, "give each key a selector of its own");
        }
    }
}

/// `[upkeep]`
fn upkeep(config: &Config, fault: ConfigFaultFn<'_>) {
    let keep = &config.upkeep;
    for (key, value, least, why) in [
        ("restore", keep.restore, HOUR, "what was destroyed by mistake would be gone"),
        ("history", keep.history, DAY, "clients could not catch up"),
        ("lists", keep.lists, DAY * 2, "it is known to a day when a list was asked for"),
        ("told", keep.told, DAY, "nobody could look who was told"),
        ("threads", keep.threads, DAY * 2, "it is known to a day when a message id was seen"),
        ("messages", keep.messages, HOUR, "a commit under way might still want it"),
        (
            "uploads",
            keep.uploads,
            HOUR,
            "a client that makes a message of it would find it gone (RFC 8620 §6)",
        ),
        ("every", keep.every, Duration::from_secs(60), "it would never rest"),
    ] {
        if value.0 < least {
            let least = if least < HOUR {
                "1m"
            } else if least < DAY {
                "1h"
            } else if least < DAY * 2 {
                "1d"
            } else {
                "2d"
            };
            fault(
                "upkeep",
                key,
                format!("too short: {why}"),
                &format!("write at least \"{least}\""),
            );
        }
    }
}

/// `[limits]`
fn size_limits(config: &Config, fault: ConfigFaultFn<'_>) {
    if config.limits.recipients < 100 {
        fault(
            "limits",
            "recipients",
            "fewer than the 100 of RFC 5321 §4.5.3.1.8".into(),
            "write at least 100",
        );
    }
    if config.limits.connections == 0 {
        fault("limits", "connections", "nobody could connect".into(), "write at least 1");
    }
    if config.limits.idle.0 < Duration::from_secs(300) {
        fault(
            "limits",
            "idle",
            "shorter than the five minutes of RFC 5321 §4.5.3.2.7".into(),
            "write at least \"5m\"",
        );
    }
    let copies = limits::FILING_COPIES as u64 + 1;
    if config.limits.message.0.saturating_mul(copies) > config.limits.in_flight.0 {
        fault(
            "limits",
            "message",
            format!(
                "{copies} times as much, for its copies, is more than in-flight: it could never come in"
            ),
            "raise in-flight or lower message",
        );
    }
    if config.limits.body_in_memory > config.limits.in_flight {
        fault(
            "limits",
            "body-in-memory",
            "larger than in-flight".into(),
            "write less, such as \"256 KiB\"",
        );
    }
}

/// `[relay]` and `[queue]`.
fn relay(config: &Config, fault: ConfigFaultFn<'_>) {
    let (relay, second) = (&config.relay, Duration::from_secs(1));
    let mut numbers = |table: &str, key: &str, is_wrong: bool, problem: &str, remedy: &str| {
        if is_wrong {
            fault(table, key, problem.into(), remedy);
        }
    };
    let (first, longest) = (config.queue.retry_first.0, config.queue.retry_longest.0);
    for (table, key, is_wrong, problem, remedy) in [
        (
            "relay",
            "concurrency",
            relay.concurrency == 0,
            "nothing would be sent",
            "write at least 1",
        ),
        ("relay", "recipients", relay.recipients == 0, "nothing would be sent", "write at least 1"),
        (
            "relay",
            "messages-per-connection",
            relay.messages_per_connection == 0,
            "nothing would be sent",
            "write at least 1: a connection for each message",
        ),
        ("relay", "pause", relay.pause.0.is_zero(), "the relay would be hammered", "write \"15s\""),
        ("relay", "timeout", relay.timeout.0 < second, "shorter than a second", "write \"60s\""),
        (
            "queue",
            "retry-first",
            first < second,
            "those who refuse would be hammered",
            "write \"1m\"",
        ),
        ("queue", "retry-longest", longest < first, "shorter than retry-first", "write \"1h\""),
        (
            "queue",
            "submissions",
            config.queue.submissions.0 < HOUR,
            "too short: nobody could look what became of them",
            "write at least \"1h\"",
        ),
    ] {
        numbers(table, key, is_wrong, problem, remedy);
    }
    if relay.user.is_some() != relay.password_file.is_some() {
        let (have, lack) = if relay.user.is_some() {
            ("user", "password-file")
        } else {
            ("password-file", "user")
        };
        fault("relay", have, format!("set without {lack}"), "set both, or neither for no AUTH");
    }
    if relay.socket.is_some()
        && relay.tls_name.is_none()
        && matches!(relay.tls, TlsValue::Required | TlsValue::Implicit)
    {
        let problem = "a Unix socket has no name for a certificate to hold".into();
        fault(
            "relay",
            "tls",
            problem,
            "write \"none\", for it does not leave the machine; or name a tls-name",
        );
    }
    let is_local = relay.socket.is_some()
        || relay.host == "localhost"
        || relay.host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    let is_secret = is_local
        || matches!(relay.tls, TlsValue::Required | TlsValue::Implicit)
        || relay.password_in_the_clear;
    if relay.password_file.is_some() && !is_secret {
        let problem = "whoever listens on the way to the relay could have it".into();
        let remedy = "write tls = \"required\" or \"implicit\" (or password-in-the-clear = true, if it must be)";
        fault("relay", "password-file", problem, remedy);
    }
}

/// The line on which a key of a table is set, or its first element or its table begins.
fn line_of(text: &str, table: &str, key: &str) -> Option<usize> {
    let mut current = String::new();
    let mut header = None;
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            name.trim_start_matches('[').trim().clone_into(&mut current);
            if current == format!("{table}.{key}") {
                return Some(at + 1);
            }
            if current == table {
                header = Some(at + 1);
            }
        } else if let Some((name, _)) = line.split_once('=') {
            let name = name.trim();
            let full =
                if current.is_empty() { name.to_owned() } else { format!("{current}.{name}") };
            if full == format!("{table}.{key}") {
                return Some(at + 1);
            }
        }
    }
    header
}
