//! Verifies messages with SPF (RFC 7208), DKIM (RFC 6376), DMARC (RFC 9989) and ARC (RFC 8617),
//! using mail-auth and its resolver.
//!
//! - The time is bounded, whatever name servers do. A result that comes too late is `temperror` of
//!   its method, and hides no result of another: the signer and the sender choose which name
//!   servers are asked.
//! - The work is bounded, whatever the message is. A message whose header is too large, or has too
//!   many signatures or one that is too long, counts as not signed. Once the keys are known,
//!   verifying the signatures waits for nothing, so no time limit could end it. If the library
//!   panics there, the message counts as not signed; a panic in SPF or DMARC is its `temperror`.
//! - Without a client, there is no result of SPF, and DMARC does not fail if a pass of SPF is
//!   possible.
//! - ARC is checked only after a failure. A valid chain (RFC 8617 §5.2) says only that its last
//!   sealer had the message as it is now. So all sealers, from the one whose results are used up to
//!   the last, must be trusted, and those results must suffice by themselves.

mod keys;

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::OnceLock;
use std::task::Poll;
use std::time::Duration;

use mail_auth::crypto::Algorithm;
use mail_auth::dmarc::verify::DmarcParameters;
use mail_auth::hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use mail_auth::hickory_resolver::system_conf::read_system_conf;
use mail_auth::spf::verify::SpfParameters;
use mail_auth::{
    AuthenticatedMessage, DkimOutput, DkimResult, DmarcResult, MessageAuthenticator, SpfOutput,
    SpfResult,
};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::time::timeout;

use super::client::SpfClient;
use super::domain;
use super::judge::{Policy, judge};
use super::results::{MethodResult, Payload};
use crate::message::header::Header;
use crate::model::{Address, limits};
use keys::KeyRecords;

/// The timeout divided by this is the time for SPF and, in parallel, for each DKIM key.
const SPF_TIME_DIVISOR: u32 = 2;
/// The timeout divided by this is the time for DMARC, and as much again for ARC after it.
const DMARC_TIME_DIVISOR: u32 = 4;
/// The timeout divided by this is the time for one try of a query. A query without an answer is
/// tried three times, in less than the time for SPF, so that SPF goes on after such a name (RFC
/// 7208 §5.5).
const DNS_TIME_DIVISOR: u32 = 8;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifySettings {
    /// The name servers to ask; if empty, those of `/etc/resolv.conf`.
    pub nameservers: Vec<SocketAddr>,
    /// Time limit for all queries about one message.
    pub timeout: Duration,
    /// How many answers of name servers are cached.
    pub cache: u64,
    /// Domains whose ARC seals are trusted. If empty, ARC is not checked.
    pub sealers: Vec<String>,
    /// The name of this server, for the macros of SPF records (RFC 7208 §7.3).
    pub hostname: String,
}

pub struct Verifier {
    settings: VerifySettings,
    /// Made on first use, since it needs a runtime.
    resolver: OnceLock<MessageAuthenticator>,
}

impl std::fmt::Debug for Verifier {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.settings.fmt(out)
    }
}

impl Verifier {
    #[must_use]
    pub fn new(settings: VerifySettings) -> Self {
        Self { settings, resolver: OnceLock::new() }
    }

    /// Verifies a message, and returns why the results make the sender a forger. Without a resolver
    /// there are no results, and only `Policy::Strict` finds a forger.
    pub(super) async fn forgery_reason(
        &self,
        header: &Header<'_>,
        sender: &Address,
        client: Option<&SpfClient>,
        policy: Policy,
    ) -> Option<String> {
        let resolver = match self.resolver_or_make(make_resolver) {
            Ok(resolver) => resolver,
            Err(error) => {
                tracing::error!(error, "messages cannot be verified: there is no resolver");
                return judge(&[], sender, policy);
            }
        };
        Verification { resolver, settings: &self.settings, header, sender, client, policy }
            .forgery_reason()
            .await
    }

    /// Returns the resolver, which `make` makes if there is none yet. After an error the next call
    /// tries again.
    fn resolver_or_make(
        &self,
        make: impl FnOnce(&VerifySettings) -> Result<MessageAuthenticator, String>,
    ) -> Result<&MessageAuthenticator, String> {
        if let Some(resolver) = self.resolver.get() {
            return Ok(resolver);
        }
        let resolver = make(&self.settings)?;
        Ok(self.resolver.get_or_init(|| resolver))
    }
}

/// Makes a resolver with a cache of its own.
///
/// # Errors
/// If `/etc/resolv.conf` is needed and cannot be read, or the settings are not accepted.
pub(super) fn make_resolver(settings: &VerifySettings) -> Result<MessageAuthenticator, String> {
    let (config, mut options) = if settings.nameservers.is_empty() {
        read_system_conf().map_err(|error| format!("/etc/resolv.conf: {error}"))?
    } else {
        let servers = settings.nameservers.iter().map(|server| {
            let mut connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()];
            for connection in &mut connections {
                connection.port = server.port();
            }
            NameServerConfig::new(server.ip(), true, connections.into())
        });
        (ResolverConfig::from_parts(None, Vec::new(), servers.collect()), ResolverOpts::default())
    };
    // Names in mail are fully qualified: no search list, no hosts file.
    let config = ResolverConfig::from_parts(None, Vec::new(), config.name_servers().to_vec());
    options.use_hosts_file = ResolveHosts::Never;
    options.cache_size = settings.cache;
    options.attempts = 2;
    options.timeout = settings.timeout / DNS_TIME_DIVISOR;
    MessageAuthenticator::new(config, options).map_err(|error| error.to_string())
}

/// A message that is verified, with everything that this needs.
struct Verification<'a> {
    resolver: &'a MessageAuthenticator,
    settings: &'a VerifySettings,
    header: &'a Header<'a>,
    sender: &'a Address,
    client: Option<&'a SpfClient>,
    policy: Policy,
}

impl Verification<'_> {
    /// Collects the results of SPF, DKIM and DMARC, and judges them. If they make the sender a
    /// forger, a chain of trusted ARC seals may still clear the sender.
    async fn forgery_reason(&self) -> Option<String> {
        let sender = self.sender.wire_form();
        let parsed = catch_unwind(|| parse(self.header.trimmed()))
            .map_err(|_| tracing::error!("a message could not be parsed"));
        let message = parsed.as_ref().ok().and_then(Option::as_ref);
        let checks_signatures = !exceeds_limits(self.header);
        let (spf, keys) =
            tokio::join!(self.spf(&sender), self.keys(message.filter(|_| checks_signatures)));
        let mut results = Vec::new();
        if let Some(spf) = &spf {
            results.push(MethodResult::of(
                "spf",
                &spf.result().to_string(),
                &[("smtp.mailfrom", sender.domain())],
            ));
        }
        if !checks_signatures {
            results.push(MethodResult::of("dkim", "policy", &[]));
        }
        if let Some(message) = message {
            let outputs = match &keys {
                Some(keys) => without_panic("dkim", keys.verify(message, self.resolver)).await,
                None => None,
            };
            let signatures = trustworthy(outputs.as_deref().unwrap_or_default());
            results.extend(signatures.iter().map(dkim_result));
            results.push(self.dmarc(message, &signatures, &sender, spf).await);
        }
        if results.iter().any(|result| result.result == "temperror") {
            tracing::warn!(domain = sender.domain(), "a message could not be verified for now");
        }
        let failure = judge(&results, self.sender, self.policy)?;
        tracing::debug!(domain = sender.domain(), failure, "verification failed");
        let Some(message) = message.filter(|_| checks_signatures) else { return Some(failure) };
        if self.is_healed(message).await { None } else { Some(failure) }
    }

    /// Runs a method for at most `timeout / divisor`. Returns `None` if it takes longer, or if the
    /// library panics.
    async fn within<T>(
        &self,
        method: &str,
        divisor: u32,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let time_limit = self.settings.timeout / divisor;
        timeout(time_limit, without_panic(method, work)).await.ok().flatten()
    }

    /// Checks SPF; `None` without a client. The result is `temperror` if that takes too long, or if
    /// the library panics.
    async fn spf(&self, sender: &Address) -> Option<SpfOutput> {
        let client = self.client?;
        let (address, host) = (sender.to_string(), &self.settings.hostname);
        let parameters = SpfParameters::mail_from(client.address, &client.helo, host, &address);
        let output =
            self.within("spf", SPF_TIME_DIVISOR, self.resolver.verify_spf(parameters)).await;
        Some(output.unwrap_or_else(|| unknown_spf(sender)))
    }

    /// Looks up the keys of the signatures of a message; `None` without a message, or if the
    /// library panics.
    async fn keys(&self, message: Option<&AuthenticatedMessage<'_>>) -> Option<KeyRecords> {
        let time_limit = self.settings.timeout / SPF_TIME_DIVISOR;
        without_panic("dkim", KeyRecords::look_up(message?, self.resolver, time_limit)).await
    }

    /// Checks DMARC. Returns `temperror` if that takes too long, or if the library panics.
    async fn dmarc(
        &self,
        message: &AuthenticatedMessage<'_>,
        signatures: &[DkimOutput<'_>],
        sender: &Address,
        spf: Option<SpfOutput>,
    ) -> MethodResult {
        let spf = spf.unwrap_or_else(|| unknown_spf(sender));
        let parameters = DmarcParameters::new(message, signatures, sender.domain(), &spf);
        let Some(output) =
            self.within("dmarc", DMARC_TIME_DIVISOR, self.resolver.verify_dmarc(parameters)).await
        else {
            return MethodResult::of("dmarc", "temperror", &[]);
        };
        let result = match output.result() {
            DmarcResult::Pass => "pass",
            DmarcResult::Fail(_) => "fail",
            DmarcResult::TempError(_) => "temperror",
            DmarcResult::PermError(_) => "permerror",
            DmarcResult::None => "none",
        };
        MethodResult::of("dmarc", result, &[("header.from", output.domain())])
    }

    /// Whether a chain of trusted seals says that the message passed before it was forwarded.
    async fn is_healed(&self, message: &AuthenticatedMessage<'_>) -> bool {
        let is_trusted =
            |name: &str| self.settings.sealers.iter().any(|sealer| domain::is_same(sealer, name));
        if self.settings.sealers.is_empty() {
            return false;
        }
        let Some(chain) =
            self.within("arc", DMARC_TIME_DIVISOR, self.resolver.verify_arc(message)).await
        else {
            return false;
        };
        if chain.result() != &DkimResult::Pass {
            return false;
        }
        let trusted_links =
            chain.chain().iter().rev().take_while(|link| is_trusted(&link.seal.header.d));
        let results =
            trusted_links.last().map(|link| sealed_results(link.results.value)).unwrap_or_default();
        let is_healed = judge(&results, self.sender, Policy::Strict).is_none();
        tracing::debug!(is_healed, "a chain of ARC seals is valid");
        is_healed
    }
}

/// The result of SPF if there is no client, SPF took too long, or the library panicked:
/// `temperror`. DMARC then takes a pass of SPF to be possible, and does not fail.
fn unknown_spf(sender: &Address) -> SpfOutput {
    SpfOutput::new(sender.domain().into()).with_result(SpfResult::TempError)
}

/// Returns the results that count, which are not those of signatures with SHA-1 (RFC 8301 §3.1). A
/// valid signature passes, whatever an ATPS record says about another domain.
fn trustworthy<'x>(outputs: &'x [DkimOutput<'x>]) -> Vec<DkimOutput<'x>> {
    let is_strong = |output: &&DkimOutput<'_>| {
        output.signature().is_none_or(|signature| signature.a != Algorithm::RsaSha1)
    };
    let without_atps = |output: &'x DkimOutput<'x>| match output.signature() {
        Some(signature) if output.is_atps() => {
            DkimOutput::from(DkimResult::Pass).with_signature(signature)
        }
        _ => output.clone(),
    };
    outputs.iter().filter(is_strong).map(without_atps).collect()
}

/// Reads an ARC-Authentication-Results field: `i=N; authserv-id; ...` (RFC 8617 §4.1.1).
fn sealed_results(value: &[u8]) -> Vec<MethodResult> {
    let text: String =
        String::from_utf8_lossy(value).chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    let payload = text.split_once(';').and_then(|(_, payload)| Payload::read(payload));
    payload.map(|payload| payload.results).unwrap_or_default()
}

fn dkim_result(output: &DkimOutput<'_>) -> MethodResult {
    let result = match output.result() {
        DkimResult::Pass => "pass",
        DkimResult::Neutral(_) => "neutral",
        DkimResult::Fail(_) => "fail",
        DkimResult::PermError(_) => "permerror",
        DkimResult::TempError(_) => "temperror",
        DkimResult::None => "none",
    };
    match output.signature() {
        Some(signature) => MethodResult::of("dkim", result, &[("header.d", &signature.d)]),
        None => MethodResult::of("dkim", result, &[]),
    }
}

/// Whether a header is too large to be verified, has too many signatures, or one that is longer
/// than `limits::MAX_SIGNATURE_BYTES`.
fn exceeds_limits(header: &Header<'_>) -> bool {
    let (mut field_count, mut signatures) = (0usize, 0usize);
    for field in header.fields() {
        field_count += 1;
        if ["DKIM-Signature", "ARC-Seal", "ARC-Message-Signature"].iter().any(|name| field.is(name))
        {
            signatures += 1;
            if field.value.len() > limits::MAX_SIGNATURE_BYTES {
                return true;
            }
        }
        if field_count > limits::MAX_VERIFIED_FIELDS || signatures > limits::MAX_SIGNATURES {
            return true;
        }
    }
    header.body_offset() > limits::MAX_VERIFIED_HEADER_BYTES
}

/// Parses a message that begins with its header, and hashes its body. If the runtime has several
/// threads, a large message does not keep other tasks waiting.
fn parse(raw: &[u8]) -> Option<AuthenticatedMessage<'_>> {
    let parse_raw = || AuthenticatedMessage::parse(raw);
    let is_multi_thread = Handle::try_current()
        .is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread);
    if is_multi_thread && raw.len() > limits::MAX_BODY_BYTES_IN_MEMORY {
        tokio::task::block_in_place(parse_raw)
    } else {
        parse_raw()
    }
}

/// Runs a method. Returns `None`, and logs that, if the library panics.
async fn without_panic<T>(method: &str, work: impl Future<Output = T>) -> Option<T> {
    let result = catch_panic(Box::pin(work)).await;
    if result.is_none() {
        tracing::error!(method, "a message could not be verified: the library panicked");
    }
    result
}

/// Runs a future to its end; `None` if it panics.
async fn catch_panic<T>(work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
        Ok(Poll::Ready(value)) => Poll::Ready(Some(value)),
        Ok(Poll::Pending) => Poll::Pending,
        Err(_) => Poll::Ready(None),
    })
    .await
}

#[cfg(test)]
mod tests;
