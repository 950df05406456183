//! Failed logins, by source and by account: a source that guesses must wait longer and longer.
//!
//! Each failure costs a time that has to pass; a source that owes more than a number of them must
//! wait. What must hold:
//! - one source has few guesses, and all sources together have few guesses at one account;
//! - no stranger locks an owner out: a source from which an account was logged in to before is
//!   counted for that account by itself, and neither what other sources do, nor what that source
//!   does to other accounts, holds it up;
//! - a password that is remembered, or a token, is not held up by what others did: it is looked at
//!   before;
//! - what is held is bounded: beyond that newcomers are not counted, which the few threads that
//!   hash passwords still slow down;
//! - who must wait does so by this process's own time, and no longer when the clock is set back.
//!
//! While strangers guess at an account, a source from which nobody ever logged in to it waits, the
//! owner at a new address among them: before the password was hashed nothing tells the two apart. A
//! token helps there.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use parking_lot::Mutex;

use crate::model::{AccountId, MonotonicMillis};

/// Where somebody comes from: an IPv4 address, the 64 bits of an IPv6 network, or this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LoginSource(Option<IpAddr>);

impl LoginSource {
    /// This machine, by a Unix socket.
    pub const LOCAL: Self = Self(None);
}

impl From<IpAddr> for LoginSource {
    fn from(address: IpAddr) -> Self {
        Self(Some(match address.to_canonical() {
            IpAddr::V6(address) => {
                IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)))
            }
            address => address,
        }))
    }
}

/// Wait so long before the next attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many logins that failed")]
pub struct TooManyFailures(pub Duration);

/// Failures at once of one source, and what each costs.
const SOURCE_FAILURES: (i64, Duration) = (20, Duration::from_secs(15));
/// Failures that one account may have at once, from all sources, and the time that each costs.
const ACCOUNT_FAILURES: (i64, Duration) = (100, Duration::from_secs(6));
/// Failures of one account from a source that logged in to it before, and the time that each costs.
const OWN_SOURCE_FAILURES: (i64, Duration) = SOURCE_FAILURES;
/// Sources, and accounts, that are held.
const MAX_TRACKED_KEYS: usize = 65_536;
/// Sources of one account that are known, those of late.
const MAX_OWN_SOURCES: usize = 32;
/// How long a source is known after the last login.
const OWN_SOURCE_KEPT: Duration = Duration::from_secs(30 * 24 * 3600);

/// Failures of late.
#[derive(Debug, Default)]
pub struct Failures {
    sources: Mutex<Penalties<LoginSource>>,
    accounts: Mutex<Penalties<LoginTarget>>,
    own_sources: Mutex<Penalties<(AccountId, LoginSource)>>,
    known: Mutex<HashMap<AccountId, Vec<(LoginSource, MonotonicMillis)>>>,
}

/// Until when each source has paid for its failures.
type Penalties<K> = HashMap<K, MonotonicMillis>;

/// An account, or a name that is nobody's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum LoginTarget {
    Account(AccountId),
    Nobody(u64),
}

/// An attempt under way; it counts as a failure unless it is said to be none.
#[derive(Debug)]
#[must_use]
pub struct LoginAttempt<'a> {
    of: &'a Failures,
    source: LoginSource,
    whom: LoginTarget,
    /// Whether the source is known for the account.
    own: bool,
    now: MonotonicMillis,
}

impl Failures {
    /// Lets somebody try.
    ///
    /// # Errors
    /// The source or the account must wait first.
    pub fn attempt(
        &self,
        source: LoginSource,
        account: Option<AccountId>,
        name: &str,
        now: MonotonicMillis,
    ) -> Result<LoginAttempt<'_>, TooManyFailures> {
        let whom = account.map_or_else(
            || {
                let mut hasher = DefaultHasher::new();
                name.to_lowercase().hash(&mut hasher);
                LoginTarget::Nobody(hasher.finish())
            },
            LoginTarget::Account,
        );
        let attempt = |own| LoginAttempt { of: self, source, whom, own, now };
        if let LoginTarget::Account(account) = whom
            && self.knows(account, source, now)
        {
            charge(&mut self.own_sources.lock(), (account, source), OWN_SOURCE_FAILURES, now)?;
            return Ok(attempt(true));
        }
        charge(&mut self.sources.lock(), source, SOURCE_FAILURES, now)?;
        charge(&mut self.accounts.lock(), whom, ACCOUNT_FAILURES, now)?;
        Ok(attempt(false))
    }

    /// Whether an account was logged in to from this source of late.
    fn knows(&self, account: AccountId, source: LoginSource, now: MonotonicMillis) -> bool {
        let known = self.known.lock();
        let sources = known.get(&account).map_or(&[][..], Vec::as_slice);
        sources.iter().any(|(known, last)| *known == source && now < last.after(OWN_SOURCE_KEPT))
    }

    /// An account was logged in to from this source.
    fn record_success(&self, account: AccountId, source: LoginSource, now: MonotonicMillis) {
        let mut known = self.known.lock();
        let sources = known.entry(account).or_default();
        sources.retain(|(known, _)| *known != source);
        if sources.len() >= MAX_OWN_SOURCES {
            // The one that was used longest ago.
            sources.remove(0);
        }
        sources.push((source, now));
    }
}

impl LoginAttempt<'_> {
    /// It was none: what it cost is given back.
    pub fn cancel_charge(self) {
        let LoginTarget::Account(account) = self.whom else { return };
        if self.own {
            refund(&mut self.of.own_sources.lock(), &(account, self.source), OWN_SOURCE_FAILURES);
        } else {
            refund(&mut self.of.sources.lock(), &self.source, SOURCE_FAILURES);
            refund(&mut self.of.accounts.lock(), &self.whom, ACCOUNT_FAILURES);
        }
        self.of.record_success(account, self.source, self.now);
    }
}

fn charge<K: Eq + std::hash::Hash>(
    owed: &mut Penalties<K>,
    who: K,
    (burst, cost): (i64, Duration),
    now: MonotonicMillis,
) -> Result<(), TooManyFailures> {
    if owed.len() >= MAX_TRACKED_KEYS && !owed.contains_key(&who) {
        owed.retain(|_, until| *until > now);
        if owed.len() >= MAX_TRACKED_KEYS {
            return Ok(());
        }
    }
    let until = owed.entry(who).or_insert(now);
    let due = (*until).max(now).after(cost);
    let most = now.after(cost.saturating_mul(u32::try_from(burst).unwrap_or(u32::MAX)));
    if due > most {
        return Err(TooManyFailures(due.since(most)));
    }
    *until = due;
    Ok(())
}

fn refund<K: Eq + std::hash::Hash>(owed: &mut Penalties<K>, who: &K, (_, cost): (i64, Duration)) {
    if let Some(until) = owed.get_mut(who) {
        *until = until.before(cost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: MonotonicMillis = MonotonicMillis(1_795_251_600_000);

    fn from(text: &str) -> LoginSource {
        LoginSource::from(text.parse::<IpAddr>().unwrap())
    }

    #[test]
    fn a_source_that_guesses_waits_and_others_do_not() {
        let failures = Failures::default();
        let eve = from("192.0.2.9");
        for n in 0..20 {
            drop(failures.attempt(eve, None, &format!("name {n}"), NOW).unwrap());
        }
        assert_eq!(
            failures.attempt(eve, None, "ann", NOW).unwrap_err(),
            TooManyFailures(Duration::from_secs(15))
        );
        failures
            .attempt(from("192.0.2.10"), Some(AccountId(1)), "ann", NOW)
            .unwrap()
            .cancel_charge();
        // One more after the time of one; and the source is refused again.
        let later = NOW.after(Duration::from_secs(15));
        drop(failures.attempt(eve, None, "ann", later).unwrap());
        assert!(failures.attempt(eve, None, "ann", later).is_err());
    }

    #[test]
    fn an_account_is_guarded_against_many_sources() {
        let failures = Failures::default();
        let ann = Some(AccountId(1));
        let attempt = |n: u32, account| {
            failures.attempt(LoginSource::from(IpAddr::from(n.to_be_bytes())), account, "ann", NOW)
        };
        (0..100).for_each(|n| drop(attempt(n, ann).unwrap()));
        assert_eq!(attempt(100, ann).unwrap_err(), TooManyFailures(Duration::from_secs(6)));
        assert!(attempt(101, Some(AccountId(2))).is_ok());
        // A name that nobody has is no different.
        (0..100).for_each(|n| drop(attempt(n, None).unwrap()));
        assert_eq!(attempt(101, None).unwrap_err(), TooManyFailures(Duration::from_secs(6)));
    }

    #[test]
    fn who_has_it_right_is_not_counted() {
        let failures = Failures::default();
        for _ in 0..1000 {
            failures
                .attempt(LoginSource::LOCAL, Some(AccountId(1)), "ann", NOW)
                .unwrap()
                .cancel_charge();
        }
    }

    #[test]
    fn so_many_sources_of_an_account_are_known_and_for_so_long() {
        let failures = Failures::default();
        let (ann, bob) = (AccountId(1), AccountId(2));
        let source =
            |n: usize| LoginSource::from(IpAddr::from(u32::try_from(n).unwrap().to_be_bytes()));
        let log_in = |n: usize, now| {
            failures.attempt(source(n), Some(ann), "ann", now).unwrap().cancel_charge()
        };
        (0..MAX_OWN_SOURCES).for_each(|n| log_in(n, NOW));
        log_in(0, NOW);
        log_in(MAX_OWN_SOURCES, NOW);
        let known = |n: usize, now| failures.knows(ann, source(n), now);
        assert!(known(0, NOW) && !known(1, NOW) && known(2, NOW) && known(MAX_OWN_SOURCES, NOW));
        assert!(!failures.knows(bob, source(0), NOW), "another account's");
        assert!(!known(0, NOW.after(OWN_SOURCE_KEPT)));
        // A failure teaches nothing.
        drop(failures.attempt(source(99), Some(bob), "bob", NOW).unwrap());
        assert!(!failures.knows(bob, source(99), NOW));
    }

    #[test]
    fn a_network_of_ipv6_is_one_source() {
        assert_eq!(from("2001:db8::1"), from("2001:db8::ffff:1"));
        assert_ne!(from("2001:db8::1"), from("2001:db8:0:1::1"));
        assert_eq!(from("::ffff:192.0.2.1"), from("192.0.2.1"));
    }
}
