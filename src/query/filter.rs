//! The filter of a query (RFC 8621 §4.4.1, RFC 8620 §5.5) as plain values.
//!
//! An object with several properties is an `And` of its conditions (RFC 8621 §4.4.1), and one
//! without any an empty `And`. How a filter is decided is `matching::evaluate`'s business; here
//! stand its bounds and what it hangs on.

use super::Error;
use crate::model::{MailboxUid, UtcMillis, keyword, limits};

/// Operators over conditions (RFC 8620 §5.5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filter {
    /// All of these; true of none.
    And(Vec<Self>),
    /// Any of these; false of none.
    Or(Vec<Self>),
    /// None of these; true of none.
    Not(Vec<Self>),
    Is(Condition),
}

impl Default for Filter {
    fn default() -> Self {
        Self::And(Vec::new())
    }
}

/// A condition on an email (RFC 8621 §4.4.1). Keywords are in normal form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// It is in this mailbox.
    InMailbox(MailboxUid),
    /// It is in at least one mailbox that is not of these.
    InMailboxOtherThan(Vec<MailboxUid>),
    /// It was received before this.
    Before(UtcMillis),
    /// It was received at this time or after.
    After(UtcMillis),
    /// It has this many octets or more.
    MinSize(u64),
    /// It has fewer octets than this.
    MaxSize(u64),
    /// Every email of its thread has the keyword.
    AllInThreadHaveKeyword(String),
    /// Some email of its thread has the keyword.
    SomeInThreadHaveKeyword(String),
    /// No email of its thread has the keyword.
    NoneInThreadHaveKeyword(String),
    /// It has the keyword.
    HasKeyword(String),
    /// It has not the keyword.
    NotKeyword(String),
    /// Its `hasAttachment` is this.
    HasAttachment(bool),
    /// The text is in From, To, Cc, Bcc, Subject, the body or the name of an attachment.
    Text(String),
    /// The text is in From.
    From(String),
    /// The text is in To.
    To(String),
    /// The text is in Cc.
    Cc(String),
    /// The text is in Bcc.
    Bcc(String),
    /// The text is in Subject.
    Subject(String),
    /// The text is in the body.
    Body(String),
    /// The text is in the name of an attachment. Not in RFC 8621.
    AttachmentName(String),
    /// It has an attachment of this media type; `type` or `type/` stands for all of that type. Not
    /// in RFC 8621.
    AttachmentType(String),
    /// It has a header field of this name, with the text in its value where one is given.
    Header {
        /// The field's name, in any case.
        name: String,
        /// What its value holds.
        text: Option<String>,
    },
}

/// What an answer hangs on, beside what of an email never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Dependencies {
    /// Mailboxes or keywords.
    pub mutable: bool,
    /// The other emails of the thread.
    pub threads: bool,
}

impl Dependencies {
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { mutable: self.mutable || other.mutable, threads: self.threads || other.threads }
    }
}

impl Filter {
    /// Whether it keeps the bounds of `model::limits`.
    ///
    /// # Errors
    /// `Unsupported`, with what is wrong.
    pub fn validate(&self) -> Result<(), Error> {
        let mut left = limits::MAX_FILTER_CONDITIONS;
        self.within(limits::MAX_FILTER_DEPTH, &mut left)
    }

    fn within(&self, depth: usize, left: &mut usize) -> Result<(), Error> {
        match self {
            Self::And(parts) | Self::Or(parts) | Self::Not(parts) => {
                let depth =
                    depth.checked_sub(1).ok_or(Error::Unsupported("the filter is too deep"))?;
                parts.iter().try_for_each(|part| part.within(depth, left))
            }
            Self::Is(condition) => {
                let weight = match condition {
                    Condition::InMailboxOtherThan(uids) => uids.len().max(1),
                    _ => 1,
                };
                *left = left
                    .checked_sub(weight)
                    .ok_or(Error::Unsupported("the filter has too many conditions"))?;
                condition.validate()
            }
        }
    }

    /// What it hangs on.
    #[must_use]
    pub fn dependencies(&self) -> Dependencies {
        match self {
            Self::And(parts) | Self::Or(parts) | Self::Not(parts) => {
                parts.iter().fold(Dependencies::default(), |all, part| all.and(part.dependencies()))
            }
            Self::Is(condition) => condition.dependencies(),
        }
    }
}

impl Condition {
    fn validate(&self) -> Result<(), Error> {
        let texts: [Option<&str>; 2] = match self {
            Self::AllInThreadHaveKeyword(word)
            | Self::SomeInThreadHaveKeyword(word)
            | Self::NoneInThreadHaveKeyword(word)
            | Self::HasKeyword(word)
            | Self::NotKeyword(word) => {
                let normal = keyword::normalize(word).is_some_and(|normal| normal == *word);
                return if normal {
                    Ok(())
                } else {
                    Err(Error::Unsupported("a keyword is not well-formed"))
                };
            }
            Self::Text(text)
            | Self::From(text)
            | Self::To(text)
            | Self::Cc(text)
            | Self::Bcc(text)
            | Self::Subject(text)
            | Self::Body(text)
            | Self::AttachmentName(text)
            | Self::AttachmentType(text) => [Some(text), None],
            Self::Header { name, text } => [Some(name), text.as_deref()],
            Self::InMailbox(_)
            | Self::InMailboxOtherThan(_)
            | Self::Before(_)
            | Self::After(_)
            | Self::MinSize(_)
            | Self::MaxSize(_)
            | Self::HasAttachment(_) => [None, None],
        };
        if texts.into_iter().flatten().any(|text| text.len() > limits::MAX_FILTER_TEXT_BYTES) {
            return Err(Error::Unsupported("the text of a condition is too long"));
        }
        Ok(())
    }

    fn dependencies(&self) -> Dependencies {
        let threads = matches!(
            self,
            Self::AllInThreadHaveKeyword(_)
                | Self::SomeInThreadHaveKeyword(_)
                | Self::NoneInThreadHaveKeyword(_)
        );
        let own = matches!(
            self,
            Self::InMailbox(_)
                | Self::InMailboxOtherThan(_)
                | Self::HasKeyword(_)
                | Self::NotKeyword(_)
        );
        Dependencies { mutable: threads || own, threads }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(depth: usize) -> Filter {
        (0..depth).fold(Filter::Is(Condition::MinSize(1)), |inner, _| Filter::Not(vec![inner]))
    }

    #[test]
    fn bounds_are_kept() {
        assert_eq!(nested(limits::MAX_FILTER_DEPTH).validate(), Ok(()));
        assert!(nested(limits::MAX_FILTER_DEPTH + 1).validate().is_err());
        let many = |count| Filter::Or(vec![Filter::Is(Condition::MinSize(1)); count]);
        assert_eq!(many(limits::MAX_FILTER_CONDITIONS).validate(), Ok(()));
        assert!(many(limits::MAX_FILTER_CONDITIONS + 1).validate().is_err());
        let boxes = vec![MailboxUid(1); limits::MAX_FILTER_CONDITIONS + 1];
        assert!(Filter::Is(Condition::InMailboxOtherThan(boxes)).validate().is_err());
        let long = "x".repeat(limits::MAX_FILTER_TEXT_BYTES + 1);
        assert!(Filter::Is(Condition::Body(long.clone())).validate().is_err());
        assert!(
            Filter::Is(Condition::Header { name: "X".into(), text: Some(long) })
                .validate()
                .is_err()
        );
        assert!(Filter::Is(Condition::HasKeyword("$Seen".into())).validate().is_err());
        assert!(Filter::Is(Condition::HasKeyword("a b".into())).validate().is_err());
    }

    #[test]
    fn what_filters_hang_on() {
        let of =
            |condition| Filter::Not(vec![Filter::default(), Filter::Is(condition)]).dependencies();
        assert_eq!(of(Condition::Subject("x".into())), Dependencies::default());
        assert_eq!(
            of(Condition::InMailbox(MailboxUid(1))),
            Dependencies { mutable: true, threads: false }
        );
        let thread = of(Condition::NoneInThreadHaveKeyword("$seen".into()));
        assert_eq!(thread, Dependencies { mutable: true, threads: true });
    }
}
