//! `NoReplyReason`: the rules by which no reply is sent. Each code is recorded with the message, shown to
//! the owner, and counted in the metrics.

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $code:literal),* $(,)?) => {
        /// A rule by which no reply is sent.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum NoReplyReason { $($(#[$doc])* $name),* }

        impl NoReplyReason {
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            #[must_use]
            pub fn code(self) -> &'static str {
                match self { $(Self::$name => $code),* }
            }
        }
    };
}

reasons! {
    /// The response is off.
    Disabled = "disabled",
    /// The message came before `fromDate`, not before `toDate`, or on no day of the response
    /// (RFC 8621 §8).
    OutsideWindow = "outside-window",
    /// The envelope sender is `<>` (RFC 3834 §2, RFC 5230 §4.6).
    NullSender = "null-sender",
    /// The envelope sender is not a deliverable address.
    BadSender = "bad-sender",
    /// The envelope sender is the account itself (RFC 5230 §4.6).
    OwnAddress = "own-address",
    /// The envelope sender is a robot, a list or a bounce address (RFC 5230 §4.6).
    SystemSender = "system-sender",
    /// Auto-Submitted says that a program sent the message (RFC 3834 §5).
    AutoSubmitted = "auto-submitted",
    /// The message has a field of a mailing list (RFC 2369, RFC 2919; RFC 5230 §4.6).
    List = "list",
    /// Precedence says that the message is bulk mail (RFC 3834 §2).
    Precedence = "precedence",
    /// The message asks for no automatic answer.
    SuppressAsked = "suppress-asked",
    /// The message is a report: a bounce or a receipt (RFC 6522).
    Report = "report",
    /// The message answers a reply of this responder.
    OurOwnReply = "our-own-reply",
    /// A filter marked the message as spam, or it was filed in Junk.
    Spam = "spam",
    /// The sender is likely forged (RFC 8601).
    Unauthenticated = "unauthenticated",
    /// The message is not addressed to an address of the account (RFC 5230 §4.5).
    NotAddressed = "not-addressed",
    /// The owner excluded the sender (`except`), or answers only a narrower audience.
    NotInAudience = "not-in-audience",
    /// The sender was told already in this vacation (RFC 5230 §4.2).
    AlreadyTold = "already-told",
    /// The site's limit of replies per hour is reached.
    RateLimit = "rate-limit",
}
