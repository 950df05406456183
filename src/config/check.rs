//! Checks the values of the configuration: ranges, addresses, and keys that must fit together.
//! Files that the configuration names are not opened.

use std::path::Path;
use std::time::Duration;

use super::http::check_http;
use super::load::ConfigProblem;
use super::managesieve::check_managesieve;
use super::sieve::check_sieve;
use super::store::check_store;
use super::{Config, ListenValue, ReportProblem, TlsValue};
use crate::model::address::domain_is_well_formed;
use crate::model::{Address, clock, limits};
use crate::trace;

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
/// With a lower limit, hardly any message would be accepted.
const MIN_MAX_MESSAGE_BYTES: u64 = 1024;

/// Returns all problems of the values. `text` is the text of `file`, in which the lines are found.
/// A problem of any element of `[[dkim.keys]]` gets the line of the first element. `load` calls
/// this; the conversions into settings rely on it.
#[must_use]
pub fn check(config: &Config, text: &str, file: &Path) -> Vec<ConfigProblem> {
    let mut problems = Vec::new();
    let mut report = |table: &str, key: &str, problem: String, remedy: &str| {
        problems.push(ConfigProblem {
            file: file.to_owned(),
            line: line_of(text, table, key),
            problem: format!("[{table}] {key}: {problem}"),
            remedy: remedy.to_owned(),
        });
    };

    check_store(&config.store, &mut report);
    check_lmtp(config, &mut report);
    check_directory(config, &mut report);
    check_relay_and_queue(config, &mut report);
    check_http(&config.http, &mut report);
    check_verify(config, &mut report);
    check_dkim(config, &mut report);
    if !trace::is_level(&config.log.level) {
        report(
            "log",
            "level",
            format!("`{}` is not a level", config.log.level),
            "write error, warn, info, debug or trace, or directives: \"info,restante=debug\"",
        );
    }
    check_sieve(&config.sieve, &mut report);
    check_managesieve(&config.managesieve, &mut report);
    check_upkeep(config, &mut report);
    check_limits(config, &mut report);
    problems
}

fn check_lmtp(config: &Config, report: ReportProblem<'_>) {
    for listener in config.lmtp.listen.iter().flatten() {
        if matches!(listener, ListenValue::Tcp { port: 25, .. }) {
            report(
                "lmtp",
                "listen",
                "LMTP must not be served on port 25 (RFC 2033 §5)".into(),
                "take another port, such as tcp:127.0.0.1:24, or a Unix socket",
            );
        }
    }
    if config.lmtp.listen.as_ref().is_some_and(Vec::is_empty) {
        report(
            "lmtp",
            "listen",
            "without a listener no mail arrives".into(),
            "name one, or leave the key out for the usual socket",
        );
    }
    if config.lmtp.tls_certificate.is_some() != config.lmtp.tls_key.is_some() {
        let (present, missing) = if config.lmtp.tls_key.is_some() {
            ("tls-key", "tls-certificate")
        } else {
            ("tls-certificate", "tls-key")
        };
        let problem = format!("set without {missing}");
        report("lmtp", present, problem, "set both, or neither for no STARTTLS");
    }
    for peer in &config.lmtp.trusted {
        if peer != "unix" && peer.parse::<std::net::IpAddr>().is_err() {
            report(
                "lmtp",
                "trusted",
                format!("`{peer}` is not an address"),
                "write \"unix\" or an IP address",
            );
        }
    }
}

fn check_directory(config: &Config, report: ReportProblem<'_>) {
    if config.directory.delimiter.chars().count() > 1 {
        report(
            "directory",
            "delimiter",
            "more than one character".into(),
            "write one character, or \"\" for none",
        );
    }
    if let Some(address) = &config.directory.postmaster
        && Address::parse(address).is_err()
    {
        report(
            "directory",
            "postmaster",
            format!("`{address}` is not an address"),
            "write one such as hostmaster@example.org",
        );
    }
    if let Some(zone) = &config.directory.zone
        && clock::zone(zone).is_none()
    {
        report(
            "directory",
            "zone",
            format!("`{zone}` is not a time zone"),
            "write an IANA name such as \"Europe/Berlin\"",
        );
    }
}

fn check_verify(config: &Config, report: ReportProblem<'_>) {
    if config.verify.timeout.0 < Duration::from_secs(1)
        || config.verify.timeout.0 > Duration::from_secs(60)
    {
        let problem = "too short for name servers, or too long for Postfix to wait".into();
        report("verify", "timeout", problem, "write from \"1s\" to \"60s\"");
    }
    for sealer in &config.verify.trusted_sealers {
        if !domain_is_well_formed(sealer) {
            report(
                "verify",
                "trusted-sealers",
                format!("`{sealer}` is not a domain"),
                "write one such as example.net",
            );
        }
    }
}

fn check_dkim(config: &Config, report: ReportProblem<'_>) {
    let keys = &config.dkim.keys;
    for (index, key) in keys.iter().enumerate() {
        let (domain, selector) = (&key.domain, &key.selector);
        // An address literal in brackets is well-formed, too, but has no zone.
        if !domain_is_well_formed(domain) || domain.starts_with('[') {
            report(
                "dkim",
                "keys",
                format!("`{domain}` is not a domain"),
                "write one such as example.org",
            );
        }
        // A selector has the form of a domain (RFC 6376 §3.1).
        if !domain_is_well_formed(selector) || selector.starts_with('[') {
            report(
                "dkim",
                "keys",
                format!("`{selector}` is not a selector"),
                "write letters and digits, such as 2026a",
            );
        }
        if keys.iter().take(index).any(|other| {
            other.domain.eq_ignore_ascii_case(domain)
                && other.selector.eq_ignore_ascii_case(selector)
        }) {
            let problem = format!("`{selector}` of `{domain}` is listed twice");
            report("dkim", "keys", problem, "give each key a selector of its own");
        }
    }
}

fn check_upkeep(config: &Config, report: ReportProblem<'_>) {
    let upkeep = &config.upkeep;
    for (key, value, min, reason) in [
        ("restore", upkeep.restore, HOUR, "a message destroyed by mistake could not be restored"),
        ("history", upkeep.history, DAY, "clients could not catch up"),
        ("lists", upkeep.lists, DAY * 2, "the last use of a list is recorded to the day"),
        ("told", upkeep.told, DAY, "nobody could look up who got a reply"),
        ("threads", upkeep.threads, DAY * 2, "the last use of a message id is recorded to the day"),
        ("messages", upkeep.messages, HOUR, "a commit in progress might still refer to a message"),
        (
            "uploads",
            upkeep.uploads,
            HOUR,
            "an upload would be gone before the client has used it (RFC 8620 §6)",
        ),
        ("every", upkeep.every, Duration::from_secs(60), "upkeep would run all the time"),
    ] {
        if value.0 < min {
            let min = if min < HOUR {
                "1m"
            } else if min < DAY {
                "1h"
            } else if min < DAY * 2 {
                "1d"
            } else {
                "2d"
            };
            report(
                "upkeep",
                key,
                format!("too short: {reason}"),
                &format!("write at least \"{min}\""),
            );
        }
    }
}

fn check_limits(config: &Config, report: ReportProblem<'_>) {
    if config.limits.recipients < 100 {
        report(
            "limits",
            "recipients",
            "fewer than the 100 of RFC 5321 §4.5.3.1.8".into(),
            "write at least 100",
        );
    }
    if config.limits.connections == 0 {
        report("limits", "connections", "no LMTP client could connect".into(), "write at least 1");
    }
    if config.limits.idle.0 < Duration::from_secs(300) {
        report(
            "limits",
            "idle",
            "shorter than the five minutes of RFC 5321 §4.5.3.2.7".into(),
            "write at least \"5m\"",
        );
    }
    if config.limits.session.0 < config.limits.idle.0 {
        report("limits", "session", "shorter than idle".into(), "write at least as much as idle");
    }
    if config.limits.message.0 < MIN_MAX_MESSAGE_BYTES {
        report(
            "limits",
            "message",
            "nearly every message would be refused".into(),
            "write at least \"1 KiB\"",
        );
    }
    // The message as received, and the copies that filing makes.
    let copies = limits::FILING_COPIES as u64 + 1;
    if config.limits.message.0.saturating_mul(copies) > config.limits.in_flight.0 {
        report(
            "limits",
            "message",
            format!(
                "{copies} copies of a message of this size do not fit into in-flight, \
                 so it could not be received"
            ),
            "raise in-flight or lower message",
        );
    }
    if config.limits.body_in_memory > config.limits.in_flight {
        report(
            "limits",
            "body-in-memory",
            "larger than in-flight".into(),
            "write at most as much as in-flight",
        );
    }
}

fn check_relay_and_queue(config: &Config, report: ReportProblem<'_>) {
    let (relay, second) = (&config.relay, Duration::from_secs(1));
    let (first, longest) = (config.queue.retry_first.0, config.queue.retry_longest.0);
    for (table, key, is_invalid, problem, remedy) in [
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
        (
            "relay",
            "pause",
            relay.pause.0.is_zero(),
            "a failed relay would be tried without a pause",
            "write \"15s\"",
        ),
        ("relay", "timeout", relay.timeout.0 < second, "shorter than a second", "write \"60s\""),
        (
            "queue",
            "retry-first",
            first < second,
            "a server that refuses would be tried again too soon",
            "write \"1m\"",
        ),
        (
            "queue",
            "retry-longest",
            longest < first,
            "shorter than retry-first",
            "write at least as much as retry-first",
        ),
        (
            "queue",
            "submissions",
            config.queue.submissions.0 < HOUR,
            "too short: nobody could look up the results",
            "write at least \"1h\"",
        ),
    ] {
        if is_invalid {
            report(table, key, problem.into(), remedy);
        }
    }
    if relay.user.is_some() != relay.password_file.is_some() {
        let (present, missing) = if relay.user.is_some() {
            ("user", "password-file")
        } else {
            ("password-file", "user")
        };
        let problem = format!("set without {missing}");
        report("relay", present, problem, "set both, or neither for no AUTH");
    }
    if relay.socket.is_some()
        && relay.tls_name.is_none()
        && matches!(relay.tls, TlsValue::Required | TlsValue::Implicit)
    {
        let problem = "a Unix socket has no host name to compare with a certificate".into();
        report(
            "relay",
            "tls",
            problem,
            "write \"none\", as a Unix socket does not leave the machine, or set tls-name",
        );
    }
    let is_local = relay.socket.is_some()
        || relay.host == "localhost"
        || relay.host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    let is_password_safe = is_local
        || matches!(relay.tls, TlsValue::Required | TlsValue::Implicit)
        || relay.password_in_the_clear;
    if relay.password_file.is_some() && !is_password_safe {
        let problem = "the password would cross a network unencrypted".into();
        let remedy = "write tls = \"required\" or \"implicit\" \
                      (or password-in-the-clear = true, if it must be)";
        report("relay", "password-file", problem, remedy);
    }
}

/// Returns the line, from 1, that sets a key of a table or is its header (`[table.key]`,
/// `[[table.key]]`), or else that of the header `[table]`. `None` if the text has none of these, as
/// with an inline table.
fn line_of(text: &str, table: &str, key: &str) -> Option<usize> {
    let mut current = String::new();
    let mut header = None;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            name.trim_start_matches('[').trim().clone_into(&mut current);
            if current == format!("{table}.{key}") {
                return Some(index + 1);
            }
            if current == table {
                header = Some(index + 1);
            }
        } else if let Some((name, _)) = line.split_once('=') {
            let name = name.trim();
            let full_key =
                if current.is_empty() { name.to_owned() } else { format!("{current}.{name}") };
            if full_key == format!("{table}.{key}") {
                return Some(index + 1);
            }
        }
    }
    header
}
