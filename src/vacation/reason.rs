//! Why no reply is sent. Each code is recorded with the message, shown to the owner, and counted.

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $code:literal),* $(,)?) => {
        /// A rule by which no reply is sent.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Reason { $($(#[$doc])* $name),* }

        impl Reason {
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
    /// Before its first or after its last instant (RFC 8621 §8).
    OutsideWindow = "outside-window",
    /// The envelope sender is `<>` (RFC 3834 §2, RFC 5230 §4.6).
    NullSender = "null-sender",
    /// The envelope sender is no deliverable address.
    BadSender = "bad-sender",
    /// The envelope sender is the account itself (RFC 5230 §4.6).
    OwnAddress = "own-address",
    /// The envelope sender is a robot, a list or a bounce address (RFC 5230 §4.6).
    SystemSender = "system-sender",
    /// Auto-Submitted says so (RFC 3834 §5).
    AutoSubmitted = "auto-submitted",
    /// A list field is there (RFC 2369, RFC 2919; RFC 5230 §4.6).
    List = "list",
    /// Precedence says so (RFC 3834 §2).
    Precedence = "precedence",
    /// It asks for no automatic answer.
    SuppressAsked = "suppress-asked",
    /// It is a report: a bounce, a receipt (RFC 6522).
    Report = "report",
    /// It answers a reply of ours.
    OurOwnReply = "our-own-reply",
    /// A filter called it spam.
    Spam = "spam",
    /// Its sender is likely forged (RFC 8601).
    Unauthenticated = "unauthenticated",
    /// No address of the account is among those it is addressed to (RFC 5230 §4.5).
    NotAddressed = "not-addressed",
    /// The owner answers only others (`except`).
    NotInAudience = "not-in-audience",
    /// The same sender was told in this vacation (RFC 5230 §4.2).
    AlreadyTold = "already-told",
    /// More replies than the site allows in an hour.
    RateLimit = "rate-limit",
}
