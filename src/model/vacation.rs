//! The account's vacation response (RFC 8621 §8), as set by its owner.

use std::fmt;
use std::str::FromStr;

use super::absence::{Absence, Audience, Days, Variant};
use super::address::{Address, AddressError, domain_is_well_formed, fold_domain};
use super::clock::UtcMillis;
use super::email::EmailAddress;

/// The singleton response of an account.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VacationResponse {
    /// Whether replies are sent at all.
    pub enabled: bool,
    /// From this instant, inclusive.
    pub from_date: Option<UtcMillis>,
    /// Until this instant, exclusive.
    pub to_date: Option<UtcMillis>,
    /// The reply's subject.
    pub subject: Option<String>,
    /// The reply's text.
    pub text_body: Option<String>,
    /// The reply's HTML.
    pub html_body: Option<String>,
    /// The reply's From (RFC 3834 §3.1.1).
    pub from: Option<EmailAddress>,
    /// The reply's Reply-To.
    pub reply_to: Option<EmailAddress>,
    /// More addresses that count as the owner's (RFC 5230 §4.5 `:addresses`).
    pub addresses: Vec<Address>,
    /// Who is never answered.
    pub except: Vec<ExcludedSender>,
    /// Who is answered.
    pub audience: Audience,
    /// Domains of the organisation, folded, beside those of the account's own addresses.
    pub organisation: Vec<String>,
    /// The language of the words above (RFC 5646), lower case.
    pub language: Option<String>,
    /// Other words for some senders.
    pub variants: Vec<Variant>,
    /// The days on which it is given; every day where it is empty.
    pub days: Vec<Days>,
    /// Whether a copy of each reply is filed in Sent.
    pub copies: bool,
    /// Whether, when it is over, a report of what came is filed in the Inbox.
    pub report: bool,
    /// When it was switched on and off.
    pub absence: Absence,
    /// Moves with every change of what it says or when, and when it is switched on again: who was
    /// told before is told anew.
    pub generation: u32,
}

impl VacationResponse {
    /// Whether another response would say something else, or at another time. Who is answered, and
    /// what the owner gets to see, does not bear on that: one exception more must not tell
    /// everybody else once more.
    #[must_use]
    pub fn differs_from(&self, other: &Self) -> bool {
        let plain = |response: &Self| Self {
            generation: 0,
            except: Vec::new(),
            audience: Audience::default(),
            organisation: Vec::new(),
            copies: false,
            report: false,
            absence: Absence::default(),
            ..response.clone()
        };
        plain(self) != plain(other)
    }

    /// When it began and ended, or will end, as far as either is known: the times of its window,
    /// within those at which it was switched on and off.
    #[must_use]
    pub fn span(&self) -> (Option<UtcMillis>, Option<UtcMillis>) {
        let began = self.absence.began.max(self.from_date);
        let ended = self.absence.ended.into_iter().chain(self.to_date).min();
        (began, ended)
    }

    /// Whether it was on and is over, at this time.
    #[must_use]
    pub fn is_over(&self, now: UtcMillis) -> bool {
        let (began, ended) = self.span();
        began.zip(ended).is_some_and(|(began, ended)| began < ended && ended <= now)
    }
}

/// Whom a response passes over: one address, or everybody in one domain (not in those below it).
/// Folded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExcludedSender {
    /// The sender of this address.
    Address(Address),
    /// Every sender in this domain.
    Domain(String),
}

impl ExcludedSender {
    /// Whether it is about `sender`.
    #[must_use]
    pub fn covers(&self, sender: &Address) -> bool {
        match self {
            Self::Address(address) => *address == sender.folded(),
            Self::Domain(domain) => *domain == fold_domain(sender.domain()),
        }
    }
}

impl FromStr for ExcludedSender {
    type Err = AddressError;

    /// Reads `user@domain`, `@domain` or `domain`.
    fn from_str(text: &str) -> Result<Self, AddressError> {
        let text = text.trim();
        match text.strip_prefix('@').unwrap_or(text) {
            domain if domain.contains('@') => Ok(Self::Address(Address::parse(text)?.folded())),
            domain if domain.chars().any(char::is_control) => Err(AddressError::Control),
            domain if domain.len() > 255 => Err(AddressError::Long),
            domain if domain_is_well_formed(domain) => Ok(Self::Domain(fold_domain(domain))),
            _ => Err(AddressError::Domain),
        }
    }
}

impl fmt::Display for ExcludedSender {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(out),
            Self::Domain(domain) => out.write_str(domain),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceptions_cover_what_they_name() {
        let covers = |except: &str, sender: &str| {
            except.parse::<ExcludedSender>().unwrap().covers(&Address::parse(sender).unwrap())
        };
        assert!(
            covers("Bob@Example.NET", "bob@example.net")
                && !covers("bob@example.net", "bobby@example.net")
        );
        assert!(
            covers("bücher.example", "x@xn--bcher-kva.example")
                && covers("@example.net", "bob@EXAMPLE.net")
        );
        assert!(
            !covers("example.net", "bob@sub.example.net")
                && !covers("example.net", "bob@notexample.net")
        );
        for text in
            ["", "@", "a b", "bob@", "@@example.net", "x\r\ny.example", "ex ample@example.net"]
        {
            assert!(text.parse::<ExcludedSender>().is_err(), "{text:?}");
        }
        for text in ["bob@example.net", "example.net"] {
            assert_eq!(text.parse::<ExcludedSender>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn an_exception_more_tells_nobody_anew() {
        let old = VacationResponse::default();
        let new = VacationResponse {
            except: vec![ExcludedSender::Domain("example.net".into())],
            ..old.clone()
        };
        assert!(new != old && !new.differs_from(&old));
        let quiet = VacationResponse {
            audience: Audience::Known,
            copies: true,
            report: true,
            ..old.clone()
        };
        assert!(!quiet.differs_from(&old));
        assert!(VacationResponse { enabled: true, ..old.clone() }.differs_from(&old));
        assert!(
            VacationResponse { variants: vec![Variant::default()], ..old.clone() }
                .differs_from(&old)
        );
        assert!(
            VacationResponse { days: vec![Days::Weekday(5)], ..old.clone() }.differs_from(&old)
        );
    }
}
