//! The account's vacation response (RFC 8621 §8), as set by its owner.

use super::address::Address;
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
    /// Moves with every change of what it says or when, and when it is switched on again: who was told before is told
    /// anew.
    pub generation: u32,
}

impl VacationResponse {
    /// Whether another response would say something else, or at another time.
    #[must_use]
    pub fn differs_from(&self, other: &Self) -> bool {
        let plain = |response: &Self| Self { generation: 0, ..response.clone() };
        plain(self) != plain(other)
    }
}
