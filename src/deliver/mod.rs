//! Delivers one message to all its recipients.
//!
//! - An account with several recipients gets one email: one for each version, if scripts edit the
//!   message, and none if they store it for no recipient.
//! - Scripts decide for each recipient by itself.
//! - 250 is answered only when the commit is durable. Emails, thread, decision, told row, reply and
//!   what scripts send on are written together for an account, or none of them is.

mod admit;
mod apply;
mod charges;
mod context;
mod copy;
mod emails;
mod file;
mod job;
mod jobs;
mod notify;
mod outcome;
mod plan;
mod rates;
mod refuse;
mod reports;
mod scripts;
mod targets;
mod version;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::account::{Directory, ResolvedAddress};
use crate::filter::AccountScripts;
use crate::message::header::IncomingMessage;
use crate::message::{auto::AutoReplyFacts, catch_parser_panic};
use crate::model::{AccountId, Envelope, LiveValue, Recipient};
use crate::store::{Error, Snapshot, Store, StreamedValue};
use crate::wire::smtp::Reply;
use crate::{filter, vacation};
use rates::RateLimiters;

/// What a protocol such as LMTP uses to deliver. For each transaction: `admit` for each recipient,
/// `begin_body` if the body is large, `may_answer`, `deliver`. `admit` and `may_answer` run on
/// threads of the async runtime, so they must not take long.
pub trait DeliveryService: Send + Sync + 'static {
    type Session: Send + Default;

    /// Accepts a recipient with a positive reply, or refuses it. `envelope` has the recipients that
    /// were accepted before.
    fn admit(
        &self,
        session: &mut Self::Session,
        envelope: &Envelope,
        recipient: &Recipient,
    ) -> Reply;

    /// Begins the body of a large message, which is written to the disk while it comes in; `None`
    /// if the body is to be kept in memory.
    ///
    /// # Errors
    /// `Full` if the disk is full, `Io`.
    fn begin_body(&self) -> Result<Option<StreamedValue>, Error> {
        Ok(None)
    }

    /// Whether the sender may get a reply or a notification. If so, the caller must verify the
    /// sender, and set `Envelope::forged`, before it calls `deliver`. What this call reads may be
    /// kept in the session.
    fn may_answer(
        &self,
        session: &mut Self::Session,
        envelope: &Envelope,
        message: &IncomingMessage,
    ) -> bool;

    /// Delivers a message to the accepted recipients, which `envelope` has in the order of `admit`.
    /// `streamed` has the bytes as they came in: maybe with blank lines or an mbox line before the
    /// header, which are no part of the message. Returns one reply for each recipient, in order,
    /// when what the replies say is durable.
    fn deliver(
        self: Arc<Self>,
        session: Self::Session,
        envelope: Envelope,
        message: IncomingMessage,
        streamed: Option<StreamedValue>,
    ) -> impl Future<Output = Vec<Reply>> + Send;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The name in Received fields.
    pub hostname: String,
    /// Whether mail over quota is refused (552 5.2.2) or deferred (452 4.2.2).
    pub quota_is_permanent: bool,
    pub vacation: vacation::Settings,
    pub filter: Arc<filter::Settings>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            hostname: "localhost".into(),
            quota_is_permanent: false,
            vacation: vacation::Settings::default(),
            filter: Arc::default(),
        }
    }
}

#[derive(Debug)]
pub struct Deliverer {
    store: Store,
    directory: Directory,
    settings: LiveValue<Settings>,
    rates: Mutex<RateLimiters>,
    /// The compiled scripts of all accounts.
    scripts: filter::ScriptCache,
    /// Permits to parse a large message. Parsing takes several times the memory of the message.
    large_parses: Arc<Semaphore>,
    /// The most bytes of edited versions of one message.
    max_edited_bytes: usize,
}

/// What a large message has: its bytes on the disk if it was streamed, and the permit to parse it.
/// A small message has neither.
#[derive(Debug, Default)]
struct LargeBody {
    streamed: Option<StreamedValue>,
    parse_permit: Option<OwnedSemaphorePermit>,
}

/// The state of one transaction. Its settings are those at the first RCPT.
#[derive(Debug, Default)]
pub struct DeliveryTransaction {
    settings: Option<Arc<Settings>>,
    /// One for each recipient of the envelope, in the same order; an account may occur repeatedly.
    targets: Vec<ResolvedAddress>,
    /// Loaded by `may_answer` if it needs them, else by `deliver`.
    scripts: Option<LoadedScripts>,
}

/// The scripts of the accounts that have any.
type LoadedScripts = BTreeMap<AccountId, AccountScripts>;

impl Deliverer {
    #[must_use]
    pub fn new(store: Store, directory: Directory, settings: LiveValue<Settings>) -> Self {
        // More at a time would use more memory and be no faster.
        let parses = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        let large_parses = Arc::new(Semaphore::new(parses));
        Self {
            store,
            directory,
            settings,
            rates: Mutex::default(),
            scripts: filter::ScriptCache::default(),
            large_parses,
            max_edited_bytes: version::MAX_EDITED_BYTES,
        }
    }
}

impl DeliveryService for Deliverer {
    type Session = DeliveryTransaction;

    fn admit(
        &self,
        session: &mut DeliveryTransaction,
        envelope: &Envelope,
        recipient: &Recipient,
    ) -> Reply {
        self.admit_one(session, envelope, recipient)
    }

    fn begin_body(&self) -> Result<Option<StreamedValue>, Error> {
        self.store.begin_message()
    }

    /// False if the sender is `<>`. Else true if
    /// - a notification of the delivery was asked for, or
    /// - a script may refuse the message, which may take a report to the sender, or
    /// - the header does not show a list or a machine (RFC 3834 §2), and either a response is on or
    ///   a script may answer.
    ///
    /// Notifications of scripts (RFC 5435) go to the addresses that the script names, so the sender
    /// is not verified for them.
    fn may_answer(
        &self,
        session: &mut DeliveryTransaction,
        envelope: &Envelope,
        message: &IncomingMessage,
    ) -> bool {
        if envelope.sender.is_none() {
            return false;
        }
        if envelope.recipients.iter().any(|recipient| recipient.notify.success) {
            return true;
        }
        let snapshot = self.store.snapshot();
        let mut may_reply = false;
        let scripts = self.load_scripts(session, &snapshot);
        let scripts = session.scripts.insert(scripts);
        for account in session.targets.iter().map(|target| target.account) {
            let uses = scripts.get(&account).map(AccountScripts::uses).unwrap_or_default();
            if uses.reject {
                return true;
            }
            may_reply = may_reply
                || uses.vacation
                || snapshot.vacation(account).is_ok_and(|response| response.enabled);
        }
        let is_person = || {
            catch_parser_panic("a header", || AutoReplyFacts::of_header(&message.header()))
                .is_some_and(|facts| !facts.is_automatic())
        };
        may_reply && is_person()
    }

    async fn deliver(
        self: Arc<Self>,
        mut session: DeliveryTransaction,
        envelope: Envelope,
        message: IncomingMessage,
        streamed: Option<StreamedValue>,
    ) -> Vec<Reply> {
        let is_large = message.size() > crate::model::limits::MAX_BODY_BYTES_IN_MEMORY;
        let scripts = session.scripts.take();
        let scripts =
            scripts.unwrap_or_else(|| self.load_scripts(&session, &self.store.snapshot()));
        let take_long = scripts_take_long(&session, &scripts);
        let prepared = if is_large || streamed.is_some() || take_long {
            let (deliverer, count) = (Arc::clone(&self), session.targets.len());
            let parse_permit = match is_large || streamed.is_some() {
                true => Arc::clone(&self.large_parses).acquire_owned().await.ok(),
                false => None,
            };
            let applied = tokio::task::spawn_blocking(move || {
                let body = LargeBody { streamed, parse_permit };
                deliverer.apply(&session, &scripts, &envelope, &message, body)
            });
            match applied.await {
                Ok(prepared) => prepared,
                // `apply` panicked.
                Err(_) => return apply::refuse_all(outcome::trouble(), count),
            }
        } else {
            self.apply(&session, &scripts, &envelope, &message, LargeBody::default())
        };
        self.replies(prepared).await
    }
}

/// The most units of fuel that scripts may cost on a thread that serves other connections: about a
/// millisecond.
const MAX_FUEL_INLINE: u64 = 16_000;

impl Deliverer {
    /// Loads the scripts of the accounts of a transaction.
    fn load_scripts(
        &self,
        session: &DeliveryTransaction,
        snapshot: &Snapshot<'_>,
    ) -> LoadedScripts {
        let settings = self.settings_of(session);
        let load = |account: AccountId| {
            AccountScripts::load(&self.scripts, &settings.filter, snapshot, account)
        };
        let accounts: BTreeSet<AccountId> =
            session.targets.iter().map(|target| target.account).collect();
        accounts.into_iter().filter_map(|account| Some((account, load(account)?))).collect()
    }

    /// Returns the settings at the first RCPT, or the current ones if there was no RCPT.
    fn settings_of(&self, session: &DeliveryTransaction) -> Arc<Settings> {
        session.settings.clone().unwrap_or_else(|| self.settings.get())
    }
}

/// Whether the scripts of a message may take too long for a thread that serves other connections.
/// Their earlier runs tell; a script that has not run yet may take long.
fn scripts_take_long(session: &DeliveryTransaction, scripts: &LoadedScripts) -> bool {
    let mut expected = 0_u64;
    for scripts in session.targets.iter().filter_map(|target| scripts.get(&target.account)) {
        let Some(fuel) = scripts.expected_fuel() else { return true };
        expected = expected.saturating_add(fuel);
    }
    expected > MAX_FUEL_INLINE
}

#[cfg(test)]
mod format_tests;
#[cfg(test)]
mod tests;
