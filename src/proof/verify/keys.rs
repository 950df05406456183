//! Verifies the DKIM signatures of a message, with a separate time limit for each key.
//!
//! mail-auth looks up one key after another, so one silent name server would use up the time of all
//! signatures. Here mail-auth runs twice, and asks no DNS itself. In the first run every key is
//! temporarily unknown, and the signatures that fail for this reason show which keys are needed.
//! In the second run [`KeyRecords`] answers with the records that were found.
//!
//! ATPS records (RFC 6541) and addresses for failure reports (RFC 6651) are not looked up.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

use mail_auth::dkim::{DomainKey, VerifySignature as _};
use mail_auth::dns::ToFqdn as _;
use mail_auth::{
    AuthenticatedMessage, DkimOutput, DkimResult, DnsCache, DnsError, Error, MessageAuthenticator,
    NoCache, Parameters, ResolverCache, TxtRecord,
};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// The result of each lookup, by DNS name in the form in which mail-auth writes the names.
#[derive(Default)]
pub(super) struct KeyRecords(HashMap<Box<str>, TxtRecord>);

impl KeyRecords {
    /// Looks up the keys of all signatures at the same time, each for at most `time_limit`. These
    /// are at most `limits::MAX_SIGNATURES` lookups, because the caller verifies no message with
    /// more signatures.
    pub(super) async fn look_up(
        message: &AuthenticatedMessage<'_>,
        resolver: &MessageAuthenticator,
        time_limit: Duration,
    ) -> Self {
        let (mut keys, no_keys) = (Self::default(), Self::default());
        let mut lookups = JoinSet::new();
        for output in no_keys.verify(message, resolver).await {
            let Some(signature) = output.signature().filter(|_| needs_key(output.result())) else {
                continue;
            };
            let name = signature.domain_key().to_fqdn().into_owned();
            if keys.0.insert(name.clone().into(), unanswered()).is_none() {
                let resolver = resolver.clone();
                lookups.spawn(async move {
                    let answer = timeout(
                        time_limit,
                        resolver.txt_lookup::<DomainKey>(&name, None::<&NoCache>),
                    )
                    .await;
                    (name, answer)
                });
            }
        }
        while let Some(finished) = lookups.join_next().await {
            match finished {
                Ok((name, Ok(answer))) => {
                    let record = answer.map_or_else(TxtRecord::Error, TxtRecord::DomainKey);
                    keys.0.insert(name.into(), record);
                }
                Ok((_, Err(_))) => {}
                Err(error) => {
                    tracing::error!(%error, "a DKIM key was not looked up: the library panicked");
                }
            }
        }
        keys
    }

    /// Verifies the signatures with these records, without DNS. A key that is not among them is
    /// temporarily unknown.
    pub(super) async fn verify<'x>(
        &'x self,
        message: &'x AuthenticatedMessage<'x>,
        resolver: &MessageAuthenticator,
    ) -> Vec<DkimOutput<'x>> {
        Box::pin(resolver.verify_dkim(Parameters::new(message).with_cache(self))).await
    }
}

fn needs_key(result: &DkimResult) -> bool {
    matches!(result, DkimResult::TempError(_))
}

/// The record for a key whose lookup got no answer.
fn unanswered() -> TxtRecord {
    TxtRecord::Error(Error::Dns(DnsError::Resolver("no answer".into())))
}

impl ResolverCache<Box<str>, TxtRecord> for KeyRecords {
    /// Always has an answer, so that mail-auth asks no name server.
    fn get<Q>(&self, name: &Q) -> Option<TxtRecord>
    where
        Box<str>: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        Some(self.0.get(name).cloned().unwrap_or_else(unanswered))
    }

    fn remove<Q>(&self, _: &Q) -> Option<TxtRecord>
    where
        Box<str>: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        None
    }

    fn insert(&self, _: Box<str>, _: TxtRecord, _: Instant) {}
}

impl DnsCache for KeyRecords {
    type Txt = Self;
    type Mx = NoCache;
    type Ipv4 = NoCache;
    type Ipv6 = NoCache;
    type Ptr = NoCache;

    fn txt(&self) -> Option<&Self> {
        Some(self)
    }

    fn mx(&self) -> Option<&NoCache> {
        None
    }

    fn ipv4(&self) -> Option<&NoCache> {
        None
    }

    fn ipv6(&self) -> Option<&NoCache> {
        None
    }

    fn ptr(&self) -> Option<&NoCache> {
        None
    }
}
