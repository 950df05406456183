//! Verifies the DKIM signatures of one message, each with a time of its own.
//!
//! mail-auth asks for one key after another, so that one name server that never answers would use
//! up the time of all signatures. Here it never asks itself: [`KeyRecords`] answers it, first that
//! every key is unknown for now, which tells which keys are needed, then with what was found. What
//! must hold:
//! - all keys are asked for at the same time, each for at most `most`; one that is not told by then
//!   is a temporary error of its own signature;
//! - where a panic of the library ends one question, the others go on.
//!
//! It asks for no ATPS records (RFC 6541) and for no addresses of failure reports (RFC 6651):
//! nothing here reads them.

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

/// The records of keys by their names, as mail-auth writes them.
#[derive(Default)]
pub(super) struct KeyRecords(HashMap<Box<str>, TxtRecord>);

impl KeyRecords {
    /// Asks for the keys of those signatures of a message that could be valid.
    pub(super) async fn of(
        message: &AuthenticatedMessage<'_>,
        asks: &MessageAuthenticator,
        most: Duration,
    ) -> Self {
        let (mut keys, none) = (Self::default(), Self::default());
        let mut questions = JoinSet::new();
        for one in none.verify(message, asks).await {
            let Some(signature) = one.signature().filter(|_| is_open(one.result())) else {
                continue;
            };
            let name = signature.domain_key().to_fqdn().into_owned();
            if keys.0.insert(name.clone().into(), unanswered()).is_none() {
                let asks = asks.clone();
                questions.spawn(async move {
                    let answer =
                        timeout(most, asks.txt_lookup::<DomainKey>(&name, None::<&NoCache>)).await;
                    (name, answer)
                });
            }
        }
        while let Some(done) = questions.join_next().await {
            match done {
                Ok((name, Ok(answer))) => {
                    let record = answer.map_or_else(TxtRecord::Error, TxtRecord::DomainKey);
                    keys.0.insert(name.into(), record);
                }
                Ok((_, Err(_))) => {}
                Err(error) => tracing::error!(%error, "a key was not found: the library failed"),
            }
        }
        keys
    }

    /// The result of each signature by these keys.
    pub(super) async fn verify<'x>(
        &'x self,
        message: &'x AuthenticatedMessage<'x>,
        asks: &MessageAuthenticator,
    ) -> Vec<DkimOutput<'x>> {
        Box::pin(asks.verify_dkim(Parameters::new(message).with_cache(self))).await
    }
}

fn is_open(result: &DkimResult) -> bool {
    matches!(result, DkimResult::TempError(_))
}

fn unanswered() -> TxtRecord {
    TxtRecord::Error(Error::Dns(DnsError::Resolver("no answer".into())))
}

impl ResolverCache<Box<str>, TxtRecord> for KeyRecords {
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
