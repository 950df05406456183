//! The filter of a query (RFC 8621 §4.4.1, RFC 8620 §5.5), its bounds, and what its answer depends
//! on. `matching::evaluate` decides whether an email matches.

use super::Error;
use crate::model::{MailboxUid, UtcMillis, keyword, limits};

/// A condition, or an operator over filters (RFC 8620 §5.5). The default matches every email.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filter {
    /// An empty list is true.
    And(Vec<Self>),
    /// An empty list is false.
    Or(Vec<Self>),
    /// None of these matches, or the list is empty.
    Not(Vec<Self>),
    Is(Condition),
}

impl Default for Filter {
    fn default() -> Self {
        Self::And(Vec::new())
    }
}

/// A condition on an email (RFC 8621 §4.4.1). Keywords are in normal form. Sizes are in bytes. How
/// a text is divided into pieces, and each piece is found, is said in `search::term`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    InMailbox(MailboxUid),
    /// The email is in at least one mailbox that is not listed here.
    InMailboxOtherThan(Vec<MailboxUid>),
    /// The email was received before this time, not at it.
    Before(UtcMillis),
    /// The email was received at this time or later.
    After(UtcMillis),
    /// The email has this size or a larger one.
    MinSize(u64),
    /// The email is smaller than this; one of exactly this size does not match.
    MaxSize(u64),
    AllInThreadHaveKeyword(String),
    SomeInThreadHaveKeyword(String),
    NoneInThreadHaveKeyword(String),
    HasKeyword(String),
    NotKeyword(String),
    HasAttachment(bool),
    /// Each piece of the text is in From, To, Cc, Bcc, Subject, the body or the name of an
    /// attachment.
    Text(String),
    From(String),
    To(String),
    Cc(String),
    Bcc(String),
    Subject(String),
    Body(String),
    /// A text in the name of an attachment. Not in RFC 8621.
    AttachmentName(String),
    /// The email has an attachment of this media type; `type` or `type/` stands for all its
    /// subtypes. Not in RFC 8621.
    AttachmentType(String),
    /// The email has a header field of this name. If there is a `text`, the value of one such field
    /// contains each piece of it.
    Header {
        /// In any letter case.
        name: String,
        text: Option<String>,
    },
}

/// What an answer depends on, apart from immutable properties of the email.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Dependencies {
    /// On mailboxes or keywords, of the email or of its thread.
    pub mutable: bool,
    /// On the other emails of the thread.
    pub threads: bool,
}

impl Dependencies {
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { mutable: self.mutable || other.mutable, threads: self.threads || other.threads }
    }
}

impl Filter {
    /// Checks the bounds of `model::limits`, and the keywords.
    ///
    /// # Errors
    /// `Unsupported`, with the bound that is exceeded, or because a keyword is not well-formed.
    pub fn validate(&self) -> Result<(), Error> {
        let mut left = limits::MAX_FILTER_CONDITIONS;
        self.within(limits::MAX_FILTER_DEPTH, &mut left)
    }

    /// Checks that at most `depth` operators are nested, and subtracts the number of conditions
    /// from `left`. An `inMailboxOtherThan` counts as many conditions as it has mailboxes, at least
    /// one.
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
    fn filter_beyond_its_bounds_is_refused() {
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
    fn dependencies_of_conditions() {
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
