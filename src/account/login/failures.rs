//! Limits failed logins by source and by account.
//!
//! - Each failure costs its source and its account a fixed time. The times of several failures add
//!   up to a debt, which becomes smaller as time passes.
//! - A source or an account that would owe more than the cost of a fixed number of failures must
//!   wait before the next attempt.
//! - A source from which an account was logged in to before is counted separately for that account,
//!   so that guesses from elsewhere do not lock the owner out. At a new source the owner may have
//!   to wait.
//! - Memory is bounded. Beyond the bound, new sources and accounts are not counted.
//! - Nothing is stored on disk.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use parking_lot::Mutex;

use crate::model::{AccountId, MonotonicMillis};

/// An IPv4 address, the /64 network of an IPv6 address, or this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LoginSource(Option<IpAddr>);

impl LoginSource {
    /// A client on a Unix socket.
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

/// The time to wait before the next attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many logins that failed")]
pub struct TooManyFailures(pub Duration);

/// How many failures one source may owe at a time, and the time that each costs.
const SOURCE_FAILURES: (i64, Duration) = (20, Duration::from_secs(15));
/// How many failures one account may owe, from all sources together that did not log in to it
/// before, and the time that each costs.
const ACCOUNT_FAILURES: (i64, Duration) = (100, Duration::from_secs(6));
/// How many failures an account may owe from one source that logged in to it before, and the time
/// that each costs.
const OWN_SOURCE_FAILURES: (i64, Duration) = SOURCE_FAILURES;
/// How many sources are counted, how many accounts, and how many pairs of both.
const MAX_TRACKED_KEYS: usize = 65_536;
/// How many sources of successful logins are remembered for one account.
const MAX_OWN_SOURCES: usize = 32;
/// How long a source is remembered after its last successful login.
const OWN_SOURCE_LIFETIME: Duration = Duration::from_secs(30 * 24 * 3600);

#[derive(Debug, Default)]
pub struct Failures {
    sources: Mutex<Penalties<LoginSource>>,
    accounts: Mutex<Penalties<LoginTarget>>,
    own_sources: Mutex<Penalties<(AccountId, LoginSource)>>,
    /// For each account the sources of successful logins, with the time of the last one.
    successes: Mutex<HashMap<AccountId, Vec<(LoginSource, MonotonicMillis)>>>,
}

/// When each key will owe nothing any more, if it has no further failures.
type Penalties<K> = HashMap<K, MonotonicMillis>;

/// An account, or the hash of a name that nobody has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum LoginTarget {
    Account(AccountId),
    Nobody(u64),
}

/// An attempt to log in. It counts as a failure unless one of two functions is called:
/// `cancel_charge` if the password was right, `withdraw` if it was not checked.
#[derive(Debug)]
#[must_use]
pub struct LoginAttempt<'a> {
    failures: &'a Failures,
    source: LoginSource,
    target: LoginTarget,
    /// Whether the source recently logged in to the account.
    is_own_source: bool,
    now: MonotonicMillis,
}

impl Failures {
    /// Begins an attempt, and charges it as a failure. `account` is `None` if nobody has the name;
    /// the name is then counted like an account.
    ///
    /// # Errors
    /// `TooManyFailures` if the source or the account must wait first. Then nothing is charged.
    pub fn attempt(
        &self,
        source: LoginSource,
        account: Option<AccountId>,
        name: &str,
        now: MonotonicMillis,
    ) -> Result<LoginAttempt<'_>, TooManyFailures> {
        let target = account.map_or_else(
            || {
                let mut hasher = DefaultHasher::new();
                name.to_lowercase().hash(&mut hasher);
                LoginTarget::Nobody(hasher.finish())
            },
            LoginTarget::Account,
        );
        let attempt =
            |is_own_source| LoginAttempt { failures: self, source, target, is_own_source, now };
        if let LoginTarget::Account(account) = target
            && self.is_own_source(account, source, now)
        {
            charge(&mut self.own_sources.lock(), (account, source), OWN_SOURCE_FAILURES, now)?;
            return Ok(attempt(true));
        }
        charge(&mut self.sources.lock(), source, SOURCE_FAILURES, now)?;
        // If the account must wait, no password is checked, so the attempt is no guess of the
        // source, and the source is not charged.
        charge(&mut self.accounts.lock(), target, ACCOUNT_FAILURES, now).inspect_err(|_| {
            refund(&mut self.sources.lock(), &source, SOURCE_FAILURES);
        })?;
        Ok(attempt(false))
    }

    /// Charges a source with a failure that concerns no account.
    ///
    /// # Errors
    /// `TooManyFailures` if the source must wait first.
    pub fn charge_source(
        &self,
        source: LoginSource,
        now: MonotonicMillis,
    ) -> Result<(), TooManyFailures> {
        charge(&mut self.sources.lock(), source, SOURCE_FAILURES, now)
    }

    fn is_own_source(&self, account: AccountId, source: LoginSource, now: MonotonicMillis) -> bool {
        let successes = self.successes.lock();
        let sources = successes.get(&account).map_or(&[][..], Vec::as_slice);
        sources.iter().any(|(own, last)| *own == source && now < last.after(OWN_SOURCE_LIFETIME))
    }

    fn record_success(&self, account: AccountId, source: LoginSource, now: MonotonicMillis) {
        let mut successes = self.successes.lock();
        let sources = successes.entry(account).or_default();
        sources.retain(|(own, _)| *own != source);
        if sources.len() >= MAX_OWN_SOURCES {
            // The first one was used longest ago.
            sources.remove(0);
        }
        sources.push((source, now));
    }
}

impl LoginAttempt<'_> {
    /// Called when the password was right: refunds the charge, and remembers that the source logged
    /// in to the account. If nobody has the name, the charge stays.
    pub fn cancel_charge(self) {
        let LoginTarget::Account(account) = self.target else { return };
        let (failures, source, now) = (self.failures, self.source, self.now);
        self.withdraw();
        failures.record_success(account, source, now);
    }

    /// Called when the password was not checked, because of an error of this server: refunds the
    /// charge.
    pub fn withdraw(self) {
        let failures = self.failures;
        match self.target {
            LoginTarget::Account(account) if self.is_own_source => {
                let key = (account, self.source);
                refund(&mut failures.own_sources.lock(), &key, OWN_SOURCE_FAILURES);
            }
            _ => {
                refund(&mut failures.sources.lock(), &self.source, SOURCE_FAILURES);
                refund(&mut failures.accounts.lock(), &self.target, ACCOUNT_FAILURES);
            }
        }
    }
}

/// Charges `key` with one failure, unless all entries are in use by other keys.
///
/// # Errors
/// If the key would owe more than `burst` failures. Then nothing is charged.
fn charge<K: Eq + std::hash::Hash>(
    penalties: &mut Penalties<K>,
    key: K,
    (burst, cost): (i64, Duration),
    now: MonotonicMillis,
) -> Result<(), TooManyFailures> {
    if penalties.len() >= MAX_TRACKED_KEYS && !penalties.contains_key(&key) {
        penalties.retain(|_, until| *until > now);
        if penalties.len() >= MAX_TRACKED_KEYS {
            return Ok(());
        }
    }
    let until = penalties.entry(key).or_insert(now);
    let due = (*until).max(now).after(cost);
    let latest = now.after(cost.saturating_mul(u32::try_from(burst).unwrap_or(u32::MAX)));
    if due > latest {
        return Err(TooManyFailures(due.since(latest)));
    }
    *until = due;
    Ok(())
}

/// Takes back the charge of one failure. Does nothing if `key` has no entry.
fn refund<K: Eq + std::hash::Hash>(
    penalties: &mut Penalties<K>,
    key: &K,
    (_, cost): (i64, Duration),
) {
    if let Some(until) = penalties.get_mut(key) {
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
    fn source_that_guesses_must_wait_and_others_need_not() {
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
        // After the cost of one failure, one more attempt is allowed.
        let later = NOW.after(Duration::from_secs(15));
        drop(failures.attempt(eve, None, "ann", later).unwrap());
        assert!(failures.attempt(eve, None, "ann", later).is_err());
    }

    #[test]
    fn guesses_from_many_sources_at_one_account_are_bounded() {
        let failures = Failures::default();
        let ann = Some(AccountId(1));
        let attempt = |n: u32, account| {
            failures.attempt(LoginSource::from(IpAddr::from(n.to_be_bytes())), account, "ann", NOW)
        };
        (0..100).for_each(|n| drop(attempt(n, ann).unwrap()));
        assert_eq!(attempt(100, ann).unwrap_err(), TooManyFailures(Duration::from_secs(6)));
        assert!(attempt(101, Some(AccountId(2))).is_ok());
        // It is the same with a name that nobody has.
        (0..100).for_each(|n| drop(attempt(n, None).unwrap()));
        assert_eq!(attempt(101, None).unwrap_err(), TooManyFailures(Duration::from_secs(6)));
    }

    #[test]
    fn source_is_not_charged_if_only_the_account_must_wait() {
        let failures = Failures::default();
        let (ann, bob) = (Some(AccountId(1)), Some(AccountId(2)));
        for n in 0..100u32 {
            let source = LoginSource::from(IpAddr::from(n.to_be_bytes()));
            drop(failures.attempt(source, ann, "ann", NOW).unwrap());
        }
        let cafe = from("192.0.2.9");
        (0..50).for_each(|_| assert!(failures.attempt(cafe, ann, "ann", NOW).is_err()));
        assert!(failures.attempt(cafe, bob, "bob", NOW).is_ok());
    }

    #[test]
    fn invalid_tokens_are_counted_by_source_alone() {
        let failures = Failures::default();
        for n in 0..1000u32 {
            let source = LoginSource::from(IpAddr::from(n.to_be_bytes()));
            failures.charge_source(source, NOW).unwrap();
        }
        let eve = from("192.0.2.9");
        (0..20).for_each(|_| failures.charge_source(eve, NOW).unwrap());
        assert_eq!(failures.charge_source(eve, NOW), Err(TooManyFailures(Duration::from_secs(15))));
    }

    #[test]
    fn attempts_that_were_not_checked_are_neither_failures_nor_successes() {
        let failures = Failures::default();
        let cafe = from("192.0.2.9");
        for account in [Some(AccountId(1)), None] {
            for _ in 0..200 {
                failures.attempt(cafe, account, "ann", NOW).unwrap().withdraw();
            }
        }
        assert!(!failures.is_own_source(AccountId(1), cafe, NOW));
        // It is the same at a source that logged in before.
        failures.attempt(cafe, Some(AccountId(1)), "ann", NOW).unwrap().cancel_charge();
        for _ in 0..200 {
            failures.attempt(cafe, Some(AccountId(1)), "ann", NOW).unwrap().withdraw();
        }
    }

    #[test]
    fn successful_logins_are_not_counted() {
        let failures = Failures::default();
        for _ in 0..1000 {
            failures
                .attempt(LoginSource::LOCAL, Some(AccountId(1)), "ann", NOW)
                .unwrap()
                .cancel_charge();
        }
    }

    #[test]
    fn sources_of_successful_logins_are_remembered_up_to_a_number_and_for_a_time() {
        let failures = Failures::default();
        let (ann, bob) = (AccountId(1), AccountId(2));
        let source =
            |n: usize| LoginSource::from(IpAddr::from(u32::try_from(n).unwrap().to_be_bytes()));
        let log_in = |n: usize, now| {
            failures.attempt(source(n), Some(ann), "ann", now).unwrap().cancel_charge();
        };
        (0..MAX_OWN_SOURCES).for_each(|n| log_in(n, NOW));
        log_in(0, NOW);
        log_in(MAX_OWN_SOURCES, NOW);
        let is_own = |n: usize, now| failures.is_own_source(ann, source(n), now);
        assert!(
            is_own(0, NOW) && !is_own(1, NOW) && is_own(2, NOW) && is_own(MAX_OWN_SOURCES, NOW)
        );
        assert!(!failures.is_own_source(bob, source(0), NOW), "a source of another account");
        assert!(!is_own(0, NOW.after(OWN_SOURCE_LIFETIME)));
        // After a failure the source is not remembered.
        drop(failures.attempt(source(99), Some(bob), "bob", NOW).unwrap());
        assert!(!failures.is_own_source(bob, source(99), NOW));
    }

    #[test]
    fn ipv6_network_is_one_source() {
        assert_eq!(from("2001:db8::1"), from("2001:db8::ffff:1"));
        assert_ne!(from("2001:db8::1"), from("2001:db8:0:1::1"));
        assert_eq!(from("::ffff:192.0.2.1"), from("192.0.2.1"));
    }
}
