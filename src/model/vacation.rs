//! The vacation response of an account (RFC 8621 §8).

use std::fmt;
use std::str::FromStr;

use super::absence::{Absence, Audience, Days, Variant};
use super::address::{Address, AddressError, domain_is_well_formed, fold_domain};
use super::clock::UtcMillis;
use super::email::EmailAddress;
use super::limits;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VacationResponse {
    pub enabled: bool,
    /// The first instant; `None` for no beginning.
    pub from_date: Option<UtcMillis>,
    /// The first instant after the response; `None` for no end.
    pub to_date: Option<UtcMillis>,
    /// Of this and the next two, those that are `None` are made up or left out by
    /// `vacation::reply`.
    pub subject: Option<String>,
    pub text_body: Option<String>,
    pub html_body: Option<String>,
    /// The sender of replies, if it is an address of the account (RFC 3834 §3.1.1). Otherwise an
    /// address of the account is chosen for each reply.
    pub from: Option<EmailAddress>,
    /// The Reply-To field of replies, if they are to have one.
    pub reply_to: Option<EmailAddress>,
    /// These count as the owner's, too (RFC 5230 §4.5 `:addresses`).
    pub addresses: Vec<Address>,
    pub except: Vec<ExcludedSender>,
    pub audience: Audience,
    /// Domains, folded, in addition to those of the account's addresses.
    pub organisation: Vec<String>,
    /// The language of the texts above (RFC 5646), in lower case.
    pub language: Option<String>,
    pub variants: Vec<Variant>,
    /// Empty for every day.
    pub days: Vec<Days>,
    /// Whether a copy of each reply is filed in Sent.
    pub copies: bool,
    /// Whether a report on the mail of an absence is filed in the Inbox.
    pub report: bool,
    pub absence: Absence,
    /// Rises with each change by which `differs_from` holds. Senders who were told in an earlier
    /// generation can get another reply. The store sets it; what a caller gives is ignored.
    pub generation: u32,
}

impl VacationResponse {
    /// Whether `other` differs so much that senders who were told may get another reply. Excluded
    /// senders, audience, organisation, copies, report, absence and generation are not compared:
    /// one more excluded sender must not cause second replies to all others.
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

    /// Returns when the response began, and when it ended or will end, as far as known: the later
    /// of `absence.began` and `from_date`, and the earlier of `absence.ended` and `to_date`.
    #[must_use]
    pub fn span(&self) -> (Option<UtcMillis>, Option<UtcMillis>) {
        let began = self.absence.began.max(self.from_date);
        let ended = self.absence.ended.into_iter().chain(self.to_date).min();
        (began, ended)
    }

    /// Whether the response began, and ended after that, by `now`.
    #[must_use]
    pub fn is_over(&self, now: UtcMillis) -> bool {
        let (began, ended) = self.span();
        began.zip(ended).is_some_and(|(began, ended)| began < ended && ended <= now)
    }
}

/// A sender, or all senders of one domain without its subdomains; folded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExcludedSender {
    Address(Address),
    Domain(String),
}

impl ExcludedSender {
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

    /// Parses `user@domain`, `@domain` or `domain`.
    fn from_str(text: &str) -> Result<Self, AddressError> {
        let text = text.trim();
        match text.strip_prefix('@').unwrap_or(text) {
            domain if domain.contains('@') => {
                Ok(Self::Address(Address::parse(text)?.folded_within_bounds()?))
            }
            domain if domain.chars().any(char::is_control) => Err(AddressError::Control),
            domain if domain.len() > limits::MAX_DOMAIN_BYTES => Err(AddressError::Long),
            domain if domain_is_well_formed(domain) => match fold_domain(domain) {
                folded if folded.len() > limits::MAX_DOMAIN_BYTES => Err(AddressError::Long),
                folded => Ok(Self::Domain(folded)),
            },
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
    fn excluded_sender_covers_its_address_or_domain_only() {
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
        // Folding makes these longer than an address or a domain may be.
        let labels = "ü.".repeat(36);
        for text in
            [format!("bob@{labels}example"), format!("{labels}example"), "İ".repeat(128) + "@x.y"]
        {
            assert_eq!(text.parse::<ExcludedSender>(), Err(AddressError::Long), "{text:?}");
        }
        for text in ["bob@example.net", "example.net"] {
            assert_eq!(text.parse::<ExcludedSender>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn another_excluded_sender_does_not_make_the_response_differ() {
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
