//! The kinds of small objects of an account: identities, submissions, push subscriptions, share
//! notifications, Sieve scripts.
//!
//! Their fields are defined in `sender`, `submission`, `push`, `share` and `script`.

use super::change::DataType;

/// The kind of a small object; the number is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ObjectKind {
    /// RFC 8621 §6.
    Identity = 1,
    /// RFC 8621 §7.
    EmailSubmission = 2,
    /// RFC 8620 §7.2.
    PushSubscription = 3,
    /// RFC 9670 §3.
    ShareNotification = 4,
    /// RFC 9661 §2. The source is a row of its own.
    SieveScript = 5,
}

impl ObjectKind {
    pub const ALL: [Self; 5] = [
        Self::Identity,
        Self::EmailSubmission,
        Self::PushSubscription,
        Self::ShareNotification,
        Self::SieveScript,
    ];

    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == number)
    }

    /// Returns the data type whose state changes with objects of this kind. Push subscriptions have
    /// no state.
    #[must_use]
    pub fn data_type(self) -> Option<DataType> {
        match self {
            Self::Identity => Some(DataType::Identity),
            Self::EmailSubmission => Some(DataType::EmailSubmission),
            Self::PushSubscription => None,
            Self::ShareNotification => Some(DataType::ShareNotification),
            Self::SieveScript => Some(DataType::SieveScript),
        }
    }
}
