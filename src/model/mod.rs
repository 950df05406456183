//! The plain values that all other rooms use: ids, addresses, times, and the objects of an account.
//!
//! It uses no other room. `store::row` encodes and decodes the stored objects.

pub mod absence;
pub mod account;
pub mod action;
pub mod address;
pub mod blob;
pub mod change;
pub mod clock;
pub mod decision;
pub mod delivered_to;
pub mod email;
pub mod envelope;
pub mod field;
pub mod hex;
pub mod id;
pub mod identity;
pub mod keyword;
pub mod limits;
pub mod listing;
pub mod live_value;
pub mod mailbox;
pub mod object;
pub mod push;
pub mod script;
pub mod secret;
pub mod sender;
pub mod share;
mod submission;
pub mod vacation;

pub use absence::{Absence, Audience, Circle, Days, ToldLifetime, Variant};
pub use account::{
    AccessToken, AccountRow, AddressRow, DerivedScramKeys, ScramKeys, ScramPasswords,
};
pub use action::{Action, ActionKind, ActionState, RecipientState, RelayTrouble, Target};
pub use address::{Address, AddressError};
pub use blob::{BlobBase, BlobId};
pub use change::{Change, DataType};
pub use clock::{Clock, MonotonicMillis, UtcMillis};
pub use decision::{Decision, Verdict};
pub use delivered_to::DeliveredTo;
pub use email::{
    EmailAddress, EmailContent, EmailMetadata, MessageRows, PartOffsets, Positions, SearchWord,
    SearchWords, SentAt, Token, Tokens, WantedTokens,
};
pub use envelope::{
    BodyType, ClientInfo, DsnNotify, DsnReturn, Envelope, OriginalRecipient, Recipient,
};
pub use id::{
    AccountId, ActionId, BlobHash, EmailId, MailboxUid, ModSeq, ObjectId, ThreadId, ThreadKey,
    ToldKey,
};
pub use identity::Identity;
pub use listing::{Listing, ListingFilter, ListingStage, ListingStats, MaintainedListing, Shape};
pub use live_value::LiveValue;
pub use mailbox::{Mailbox, MailboxCounts, Role};
pub use object::ObjectKind;
pub use push::{PushKeys, PushSubscription};
pub use script::{FilterStep, RuleHits, ScriptError, SieveScript, is_script_name};
pub use secret::Secrets;
pub use sender::SenderIdentity;
pub use share::{ChangedBy, ShareNotification};
pub use submission::{
    DeliveryState, DeliveryStatus, EmailSubmission, EnvelopeAddress, ReturnedKind,
    ReturnedRecipient, ReturnedReport, SubmissionRecipient, UndoStatus, bounded_reply,
};
pub use vacation::{ExcludedSender, VacationResponse};
