//! Own verification: SPF (RFC 7208), DKIM (RFC 6376), DMARC (RFC 9989) and ARC (RFC 8617), by mail-auth and its resolver.
//!
//! What it finds has the form of Authentication-Results, so that `judge` decides about both alike. What must hold:
//! - its time is bounded, whatever name servers do; what was not found in time is `temperror`, by which nobody is a forger;
//! - its work is bounded, whatever the message is: a header that is too large, or that has more signatures than anybody
//!   makes, counts as not signed (`policy`); and a fault of the library is no fault of the message;
//! - without a client (`client`) nothing is said about SPF, and DMARC does not fail: the pass may have been SPF's.
//!
//! ARC is asked only where there is a failure to heal. A chain that holds (RFC 8617 §5.2) says that its last sealer had the
//! message as it is, and no more: so all sealers from the one whose results are taken up to the last must be named as
//! trusted, and those results must say what would do without ARC: a pass for the envelope sender, and no failure.

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
    ArcOutput, AuthenticatedMessage, DkimOutput, DkimResult, DmarcResult, MessageAuthenticator, SpfOutput,
};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::time::timeout;

use super::client::Client;
use super::domain;
use super::judge::{Policy, judge};
use super::results::{Payload, Verdict};
use crate::message::header::{body_offset, fields};
use crate::model::{Address, limits};

/// Signatures and seals of a message that are looked at.
const SIGNATURES: usize = 60;
/// Octets of one of them.
const SIGNATURE_OCTETS: usize = 8 * 1024;
/// Fields of a header that is looked at for signatures.
const FIELDS: usize = 1000;
/// Octets of such a header.
const HEADER_OCTETS: usize = 256 * 1024;

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
    /// Our name.
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

    /// Why the sender is taken for forged by what is found, if he is.
    pub(super) async fn forged(
        &self,
        raw: &[u8],
        sender: &Address,
        client: Option<&Client>,
        policy: Policy,
    ) -> Option<String> {
        let asks = match self.asks.get_or_init(|| asks(&self.settings)) {
            Ok(asks) => asks,
            Err(error) => {
                tracing::error!(error, "no verification: there is no resolver");
                return judge(&undecided(), sender, policy);
            }
        };
        let question = Question { asks, settings: &self.settings, raw, sender, client, policy };
        let answer = timeout(self.settings.timeout, guarded(Box::pin(question.forged())));
        match answer.await {
            Ok(Some(forged)) => forged,
            Ok(None) => {
                tracing::error!("a message could not be verified: the library failed");
                judge(&undecided(), sender, policy)
            }
            Err(_) => {
                tracing::warn!(domain = sender.domain(), "a message could not be verified in time");
                judge(&undecided(), sender, policy)
            }
        }
    }
}

/// What is said where nothing could be found.
fn undecided() -> [Verdict; 3] {
    ["spf", "dkim", "dmarc"].map(|method| Verdict::of(method, "temperror", &[]))
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
    options.timeout = settings.timeout / 3;
    MessageAuthenticator::new(config, options).map_err(|error| error.to_string())
}

/// One message, and what is asked about it.
struct Question<'a> {
    asks: &'a MessageAuthenticator,
    settings: &'a VerifySettings,
    raw: &'a [u8],
    sender: &'a Address,
    client: Option<&'a Client>,
    policy: Policy,
}

impl Question<'_> {
    async fn forged(&self) -> Option<String> {
        let Some(message) = parsed(self.raw) else {
            return judge(&[], self.sender, self.policy);
        };
        let sender = self.sender.travelling();
        let signed = !is_too_much(self.raw);
        let spf = self.spf(&sender);
        let dkim = async { if signed { Box::pin(self.asks.verify_dkim(&message)).await } else { Vec::new() } };
        let (spf, mut dkim) = tokio::join!(spf, dkim);
        // SHA-1 proves nothing any more (RFC 8301 §3.1).
        dkim.retain(|one| one.signature().is_none_or(|signature| signature.a != Algorithm::RsaSha1));
        let mut verdicts: Vec<Verdict> = dkim.iter().map(dkim_verdict).collect();
        if !signed {
            verdicts.push(Verdict::of("dkim", "policy", &[]));
        }
        if let Some(spf) = &spf {
            verdicts.push(Verdict::of("spf", &spf.result().to_string(), &[("smtp.mailfrom", sender.domain())]));
        }
        verdicts.push(self.dmarc(&message, &dkim, &sender, spf.as_ref()).await);
        let failure = judge(&verdicts, self.sender, self.policy)?;
        tracing::debug!(domain = sender.domain(), failure, "found by own verification");
        if signed && self.is_healed(&message).await { None } else { Some(failure) }
    }

    async fn spf(&self, sender: &Address) -> Option<SpfOutput> {
        let client = self.client?;
        let (sender, host) = (sender.to_string(), &self.settings.hostname);
        let question = SpfParameters::mail_from(client.address, &client.helo, host, &sender);
        Some(Box::pin(self.asks.verify_spf(question)).await)
    }

    async fn dmarc(
        &self,
        message: &AuthenticatedMessage<'_>,
        dkim: &[DkimOutput<'_>],
        sender: &Address,
        spf: Option<&SpfOutput>,
    ) -> Verdict {
        let unknown = SpfOutput::default();
        let question = DmarcParameters::new(message, dkim, sender.domain(), spf.unwrap_or(&unknown));
        let found = Box::pin(self.asks.verify_dmarc(question)).await;
        let result = match found.result() {
            DmarcResult::Pass => "pass",
            // The pass may have been SPF's.
            DmarcResult::Fail(_) if spf.is_none() => "temperror",
            DmarcResult::Fail(_) => "fail",
            DmarcResult::TempError(_) => "temperror",
            DmarcResult::PermError(_) => "permerror",
            DmarcResult::None => "none",
        };
        Verdict::of("dmarc", result, &[("header.from", found.domain())])
    }

    /// Whether a chain of trusted seals says that the message was well before it was forwarded.
    async fn is_healed(&self, message: &AuthenticatedMessage<'_>) -> bool {
        let trusts = |name: &str| self.settings.sealers.iter().any(|sealer| domain::same(sealer, name));
        if self.settings.sealers.is_empty() {
            return false;
        }
        let chain: ArcOutput<'_> = Box::pin(self.asks.verify_arc(message)).await;
        if chain.result() != &DkimResult::Pass {
            return false;
        }
        let trusted = chain.chain().iter().rev().take_while(|link| trusts(&link.seal.header.d));
        let first = trusted.last().map(|link| sealed_results(link.results.value)).unwrap_or_default();
        let healed = judge(&first, self.sender, Policy::Strict).is_none();
        tracing::debug!(healed, "a chain of ARC seals holds");
        healed
    }
}

/// The results in an ARC-Authentication-Results field: `i=N; authserv-id; ...` (RFC 8617 §4.1.1).
fn sealed_results(value: &[u8]) -> Vec<Verdict> {
    let text: String = String::from_utf8_lossy(value).chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    let payload = text.split_once(';').and_then(|(_, payload)| Payload::read(payload));
    payload.map(|payload| payload.verdicts).unwrap_or_default()
}

fn dkim_verdict(one: &DkimOutput<'_>) -> Verdict {
    let result = match one.result() {
        DkimResult::Pass => "pass",
        DkimResult::Neutral(_) => "neutral",
        DkimResult::Fail(_) => "fail",
        DkimResult::PermError(_) => "permerror",
        DkimResult::TempError(_) => "temperror",
        DkimResult::None => "none",
    };
    match one.signature() {
        Some(signature) => Verdict::of("dkim", result, &[("header.d", &signature.d)]),
        None => Verdict::of("dkim", result, &[]),
    }
}

/// Whether a header is so large, or so full of signatures, that they are not looked at.
fn is_too_much(raw: &[u8]) -> bool {
    let (mut all, mut signatures) = (0usize, 0usize);
    for field in fields(raw) {
        all += 1;
        if ["DKIM-Signature", "ARC-Seal", "ARC-Message-Signature"].iter().any(|name| field.is(name)) {
            signatures += if field.value.len() > SIGNATURE_OCTETS { SIGNATURES } else { 1 };
        }
        if all > FIELDS || signatures > SIGNATURES {
            return true;
        }
    }
    body_offset(raw) > HEADER_OCTETS
}

/// The message with the hashes of its body, which take their time where it is large.
fn parsed(raw: &[u8]) -> Option<AuthenticatedMessage<'_>> {
    let parse = || AuthenticatedMessage::parse(raw);
    let many = Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread);
    if many && raw.len() > limits::BODY_IN_MEMORY { tokio::task::block_in_place(parse) } else { parse() }
}

/// A future's value; `None` where it panicked.
async fn guarded<T>(work: impl Future<Output = T>) -> Option<T> {
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
