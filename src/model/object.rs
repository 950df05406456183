//! Small objects of an account that its owner makes: identities, submissions, push subscriptions. One mechanism keeps them
//! all (`store::commit::objects`); what they hold stands in `sender`, `submission` and `push`.

use super::change::DataType;

/// What kind of object it is; the number is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ObjectKind {
    /// RFC 8621 §6.
    Identity = 1,
    /// RFC 8621 §7.
    EmailSubmission = 2,
    /// RFC 8620 §7.2.
    PushSubscription = 3,
}

impl ObjectKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Identity, Self::EmailSubmission, Self::PushSubscription];

    /// The kind with this number.
    #[must_use]
    pub fn of(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == number)
    }

    /// The type whose state moves with it; push subscriptions have no state (RFC 8620 §7.2).
    #[must_use]
    pub fn data(self) -> Option<DataType> {
        match self {
            Self::Identity => Some(DataType::Identity),
            Self::EmailSubmission => Some(DataType::EmailSubmission),
            Self::PushSubscription => None,
        }
    }
}
