//! The reasons why the vacation responder does not answer a message.
//!
//! The code of a reason is stored in the decision and is a label of the metrics, so it is not
//! changed or used for another reason.

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $code:literal),* $(,)?) => {
        /// Why a message gets no reply.
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
    /// The vacation response is off or cannot be read, or was changed while the message was
    /// delivered.
    Disabled = "disabled",
    /// The message arrived outside `fromDate` to `toDate` (RFC 8621 §8), or not on a recurring day
    /// of the response.
    OutsideWindow = "outside-window",
    /// The envelope sender is `<>` (RFC 3834 §2, RFC 5230 §4.6).
    NullSender = "null-sender",
    /// The envelope sender has no domain, or is not a valid address.
    BadSender = "bad-sender",
    /// The envelope sender, or an address within its tags, is an address of the account, the
    /// envelope recipient, or one of `Notice::addresses` (RFC 5230 §4.6).
    OwnAddress = "own-address",
    /// The envelope sender, or an address within its tags, is a robot, a list or a bounce address
    /// (RFC 5230 §4.6).
    SystemSender = "system-sender",
    /// Auto-Submitted says that a program sent the message (RFC 3834 §5), or the message answers
    /// another one and has the subject of an out-of-office reply.
    AutoSubmitted = "auto-submitted",
    /// The message has a field of a mailing list (RFC 2369, RFC 2919; RFC 5230 §4.6), or an X-Loop
    /// that is not empty.
    List = "list",
    /// Precedence says that the message is bulk or automatic mail (RFC 3834 §2).
    Precedence = "precedence",
    /// A field asks for no automatic answer, such as X-Auto-Response-Suppress, or is one that only
    /// programs write; or the header cannot be read.
    SuppressAsked = "suppress-asked",
    /// The message is a report, such as a bounce or a receipt (RFC 6522), or one of DMARC or SMTP
    /// TLS.
    Report = "report",
    /// The message is an answer to a reply of this responder.
    OurOwnReply = "our-own-reply",
    /// A spam filter marked the message (`Settings::trust_spam_fields`), or it was filed in Junk.
    Spam = "spam",
    /// SPF, DKIM or DMARC say that the envelope sender is likely forged (RFC 8601).
    Unauthenticated = "unauthenticated",
    /// The addressees in the header include no address of the account, none of `Notice::addresses`,
    /// and not the recipient in the envelope (RFC 5230 §4.5).
    NotAddressed = "not-addressed",
    /// The owner excluded the sender, or an address within its tags (`except`), or does not answer
    /// senders like this one (`Audience`).
    NotInAudience = "not-in-audience",
    /// The sender got a reply already, and is remembered (`ToldLifetime`; RFC 5230 §4.2).
    AlreadyTold = "already-told",
    /// A Sieve script refused the message, or neither stored nor redirected it; or the message was
    /// filed before, for another recipient that is the same account.
    Script = "script",
    /// A limit of replies per hour is reached (`RateLimits`).
    RateLimit = "rate-limit",
}
