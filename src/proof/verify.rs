//! Own verification: SPF (RFC 7208), DKIM (RFC 6376), DMARC (RFC 9989) and ARC (RFC 8617), by
//! mail-auth and its resolver.
//!
//! What it finds has the form of Authentication-Results, so that `judge` decides about both alike.
//! What must hold:
//! - its time is bounded, whatever name servers do: SPF and each signature of DKIM (`keys`) have
//!   half of it side by side, then DMARC and ARC a quarter each. What was not found in its time is
//!   `temperror` of that method alone, and hides nothing that another method found: who signs and
//!   who sends chooses the name servers that are asked;
//! - its work is bounded, whatever the message is: a header that is too large, or that has more
//!   signatures than anybody makes, counts as not signed (`policy`); and a fault of the library is
//!   no fault of the message;
//! - without a client (`client`) nothing is said about SPF, and DMARC does not fail where a pass
//!   may have been SPF's.
//!
//! ARC is asked only where there is a failure to heal. A chain that holds (RFC 8617 §5.2) says that
//! its last sealer had the message as it is, and no more: so all sealers from the one whose results
//! are taken up to the last must be named as trusted, and those results must say what would do
//! without ARC: a pass for the envelope sender, and no failure.

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

/// The part of a message's time that SPF has, and each key of DKIM beside it: half.
const SPF_TIME_DIVISOR: u32 = 2;
/// The part that DMARC has, and ARC after it: a quarter.
const DMARC_TIME_DIVISOR: u32 = 4;
/// The part that one question to a name server has before it is asked again, twice: less than half
/// in all, so that SPF goes on after a name that is not answered (RFC 7208 §5.5).
const DNS_TIME_DIVISOR: u32 = 8;

/// What a site sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifySettings {
    /// The name servers; none: those of `/etc/resolv.conf`.
    pub nameservers: Vec<SocketAddr>,
    /// The longest that all questions about one message may take.
    pub timeout: Duration,
    /// Answers of name servers that are kept, for as long as they hold.
    pub cache: u64,
    /// Domains whose ARC seals are believed.
    pub sealers: Vec<String>,
    pub hostname: String,
}

/// Verifies by the settings that it was made with; its cache is its own.
pub struct Verifier {
    settings: VerifySettings,
    /// Made when it is first asked for, for it wants a runtime.
    asks: OnceLock<Result<MessageAuthenticator, String>>,
}

impl std::fmt::Debug for Verifier {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.settings.fmt(out)
    }
}

impl Verifier {
    /// A verifier; it asks nobody yet.
    #[must_use]
    pub fn new(settings: VerifySettings) -> Self {
        Self { settings, asks: OnceLock::new() }
    }

    /// Returns why the sender is taken for forged by what is found, if that is so.
    pub(super) async fn forgery_reason(
        &self,
        header: &Header<'_>,
        sender: &Address,
        client: Option<&SpfClient>,
        policy: Policy,
    ) -> Option<String> {
        let asks = match self.asks.get_or_init(|| asks(&self.settings)) {
            Ok(asks) => asks,
            Err(error) => {
                tracing::error!(error, "no verification: there is no resolver");
                return judge(&[], sender, policy);
            }
        };
        Verification { asks, settings: &self.settings, header, sender, client, policy }
            .forgery_reason()
            .await
    }
}

pub(super) fn asks(settings: &VerifySettings) -> Result<MessageAuthenticator, String> {
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
    // Names in mail are whole: no search list, and nothing of the machine's own.
    let config = ResolverConfig::from_parts(None, Vec::new(), config.name_servers().to_vec());
    options.use_hosts_file = ResolveHosts::Never;
    options.cache_size = settings.cache;
    options.attempts = 2;
    options.timeout = settings.timeout / DNS_TIME_DIVISOR;
    MessageAuthenticator::new(config, options).map_err(|error| error.to_string())
}

/// One message, and what is asked about it.
struct Verification<'a> {
    asks: &'a MessageAuthenticator,
    settings: &'a VerifySettings,
    header: &'a Header<'a>,
    sender: &'a Address,
    client: Option<&'a SpfClient>,
    policy: Policy,
}

impl Verification<'_> {
    async fn forgery_reason(&self) -> Option<String> {
        let sender = self.sender.wire_form();
        let parsed = catch_unwind(|| parsed(self.header.trimmed()))
            .map_err(|_| tracing::error!("a message could not be parsed"));
        let message = parsed.as_ref().ok().and_then(Option::as_ref);
        let signed = !is_too_much(self.header);
        let (spf, keys) = tokio::join!(self.spf(&sender), self.keys(message.filter(|_| signed)));
        let mut verdicts = Vec::new();
        if let Some(spf) = &spf {
            verdicts.push(MethodResult::of(
                "spf",
                &spf.result().to_string(),
                &[("smtp.mailfrom", sender.domain())],
            ));
        }
        if !signed {
            verdicts.push(MethodResult::of("dkim", "policy", &[]));
        }
        if let Some(message) = message {
            let found = match &keys {
                Some(keys) => {
                    self.within("dkim", SPF_TIME_DIVISOR, keys.verify(message, self.asks)).await
                }
                None => None,
            };
            let signatures = trustworthy(found.as_deref().unwrap_or_default());
            verdicts.extend(signatures.iter().map(dkim_verdict));
            verdicts.push(self.dmarc(message, &signatures, &sender, spf).await);
        }
        if verdicts.iter().any(|one| one.result == "temperror") {
            tracing::warn!(domain = sender.domain(), "a message could not be verified in time");
        }
        let failure = judge(&verdicts, self.sender, self.policy)?;
        tracing::debug!(domain = sender.domain(), failure, "found by own verification");
        let Some(message) = message.filter(|_| signed) else { return Some(failure) };
        if self.is_healed(message).await { None } else { Some(failure) }
    }

    /// What a method finds in its share of the time; `None` where the time was over, or the library
    /// panicked.
    async fn within<T>(
        &self,
        method: &str,
        share: u32,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let found =
            timeout(self.settings.timeout / share, catch_panic(Box::pin(work))).await.ok()?;
        if found.is_none() {
            tracing::error!(method, "a message could not be verified: the library failed");
        }
        found
    }

    /// SPF of the envelope sender; `None` without a client.
    async fn spf(&self, sender: &Address) -> Option<SpfOutput> {
        let client = self.client?;
        let (address, host) = (sender.to_string(), &self.settings.hostname);
        let question = SpfParameters::mail_from(client.address, &client.helo, host, &address);
        let found = self.within("spf", SPF_TIME_DIVISOR, self.asks.verify_spf(question)).await;
        Some(found.unwrap_or_else(|| unknown_spf(sender)))
    }

    /// The keys of a message's signatures; `None` without a message, or where the library panicked.
    async fn keys(&self, message: Option<&AuthenticatedMessage<'_>>) -> Option<KeyRecords> {
        let most = self.settings.timeout / SPF_TIME_DIVISOR;
        catch_panic(Box::pin(KeyRecords::of(message?, self.asks, most))).await
    }

    async fn dmarc(
        &self,
        message: &AuthenticatedMessage<'_>,
        signatures: &[DkimOutput<'_>],
        sender: &Address,
        spf: Option<SpfOutput>,
    ) -> MethodResult {
        let spf = spf.unwrap_or_else(|| unknown_spf(sender));
        let question = DmarcParameters::new(message, signatures, sender.domain(), &spf);
        let Some(found) =
            self.within("dmarc", DMARC_TIME_DIVISOR, self.asks.verify_dmarc(question)).await
        else {
            return MethodResult::of("dmarc", "temperror", &[]);
        };
        let result = match found.result() {
            DmarcResult::Pass => "pass",
            DmarcResult::Fail(_) => "fail",
            DmarcResult::TempError(_) => "temperror",
            DmarcResult::PermError(_) => "permerror",
            DmarcResult::None => "none",
        };
        MethodResult::of("dmarc", result, &[("header.from", found.domain())])
    }

    /// Whether a chain of trusted seals says that the message was well before it was forwarded.
    async fn is_healed(&self, message: &AuthenticatedMessage<'_>) -> bool {
        let trusts =
            |name: &str| self.settings.sealers.iter().any(|sealer| domain::same(sealer, name));
        if self.settings.sealers.is_empty() {
            return false;
        }
        let Some(chain) =
            self.within("arc", DMARC_TIME_DIVISOR, self.asks.verify_arc(message)).await
        else {
            return false;
        };
        if chain.result() != &DkimResult::Pass {
            return false;
        }
        let trusted = chain.chain().iter().rev().take_while(|link| trusts(&link.seal.header.d));
        let first =
            trusted.last().map(|link| sealed_results(link.results.value)).unwrap_or_default();
        let healed = judge(&first, self.sender, Policy::Strict).is_none();
        tracing::debug!(healed, "a chain of ARC seals holds");
        healed
    }
}

/// What DMARC is told where SPF was not found out: a pass is possible.
fn unknown_spf(sender: &Address) -> SpfOutput {
    SpfOutput::new(sender.domain().into()).with_result(SpfResult::TempError)
}

/// The results that count: SHA-1 proves nothing any more (RFC 8301 §3.1), and a valid signature is
/// one whatever a record of ATPS would say of another domain.
fn trustworthy<'x>(found: &'x [DkimOutput<'x>]) -> Vec<DkimOutput<'x>> {
    let strong = |one: &&DkimOutput<'_>| {
        one.signature().is_none_or(|signature| signature.a != Algorithm::RsaSha1)
    };
    let valid = |one: &'x DkimOutput<'x>| match one.signature() {
        Some(signature) if one.is_atps() => {
            DkimOutput::from(DkimResult::Pass).with_signature(signature)
        }
        _ => one.clone(),
    };
    found.iter().filter(strong).map(valid).collect()
}

/// The results in an ARC-Authentication-Results field: `i=N; authserv-id; ...` (RFC 8617 §4.1.1).
fn sealed_results(value: &[u8]) -> Vec<MethodResult> {
    let text: String =
        String::from_utf8_lossy(value).chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    let payload = text.split_once(';').and_then(|(_, payload)| Payload::read(payload));
    payload.map(|payload| payload.verdicts).unwrap_or_default()
}

fn dkim_verdict(one: &DkimOutput<'_>) -> MethodResult {
    let result = match one.result() {
        DkimResult::Pass => "pass",
        DkimResult::Neutral(_) => "neutral",
        DkimResult::Fail(_) => "fail",
        DkimResult::PermError(_) => "permerror",
        DkimResult::TempError(_) => "temperror",
        DkimResult::None => "none",
    };
    match one.signature() {
        Some(signature) => MethodResult::of("dkim", result, &[("header.d", &signature.d)]),
        None => MethodResult::of("dkim", result, &[]),
    }
}

/// Whether a header is so large, or so full of signatures, that they are not looked at.
fn is_too_much(header: &Header<'_>) -> bool {
    let (mut all, mut signatures) = (0usize, 0usize);
    for field in header.fields() {
        all += 1;
        if ["DKIM-Signature", "ARC-Seal", "ARC-Message-Signature"].iter().any(|name| field.is(name))
        {
            signatures += if field.value.len() > limits::MAX_SIGNATURE_BYTES {
                limits::MAX_SIGNATURES
            } else {
                1
            };
        }
        if all > limits::MAX_VERIFIED_FIELDS || signatures > limits::MAX_SIGNATURES {
            return true;
        }
    }
    header.body_offset() > limits::MAX_VERIFIED_HEADER_BYTES
}

/// The message, given from where its header begins, with the hashes of its body, which take their
/// time where it is large.
fn parsed(raw: &[u8]) -> Option<AuthenticatedMessage<'_>> {
    let parse = || AuthenticatedMessage::parse(raw);
    let many = Handle::try_current()
        .is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread);
    if many && raw.len() > limits::MAX_BODY_BYTES_IN_MEMORY {
        tokio::task::block_in_place(parse)
    } else {
        parse()
    }
}

/// A future's value; `None` where it panicked.
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
