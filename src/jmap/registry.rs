//! The list of all methods.

use super::admin;
use super::blob::{BlobCopy, BlobGet, BlobLookup, BlobUpload};
use super::email::{
    EmailCopy, EmailGet, EmailImport, EmailParse, EmailQuery, EmailQueryChanges, EmailSet,
    SnippetGet,
};
use super::mailbox::MailboxSet;
use super::mdn::{MdnParse, MdnSend};
use super::method::{Call, Handler, Method, RegisteredMethod};
use super::principal::{Principal, PrincipalSet};
use super::quota::Quota;
use super::sieve::{ScriptSet, ScriptValidate};
use super::standard::{ChangesMethod, GetMethod, QueryChangesMethod, QueryMethod, SetMethod};
use super::submission::SubmissionSet;
use super::subscription::{PushSubscriptionGet, PushSubscriptionSet};
use super::thread::ThreadObjects;
use super::vacation::StandardVacation;
use crate::model::{
    EmailMetadata, EmailSubmission, Mailbox, SenderIdentity, ShareNotification, SieveScript,
};
use crate::wire::jmap::{
    BLOB, CORE, JsonObject, MAIL, MDN, MethodError, PRINCIPALS, QUOTA, SIEVE, SUBMISSION, VACATION,
};

/// The standard methods. The vendor methods are in `admin::METHODS`.
const METHODS: &[RegisteredMethod] = &[
    reads("Core/echo", CORE, Handler::of::<Echo>()),
    reads("PushSubscription/get", CORE, Handler::of::<PushSubscriptionGet>()),
    changes("PushSubscription/set", CORE, Handler::of::<PushSubscriptionSet>()),
    changes("Blob/copy", CORE, Handler::of::<BlobCopy>()),
    changes("Blob/upload", BLOB, Handler::of::<BlobUpload>()),
    reads("Blob/get", BLOB, Handler::of::<BlobGet>()),
    reads("Blob/lookup", BLOB, Handler::of::<BlobLookup>()),
    reads("Mailbox/get", MAIL, Handler::of::<GetMethod<Mailbox>>()),
    reads("Mailbox/changes", MAIL, Handler::of::<ChangesMethod<Mailbox>>()),
    reads("Mailbox/query", MAIL, Handler::of::<QueryMethod<Mailbox>>()),
    reads("Mailbox/queryChanges", MAIL, Handler::of::<QueryChangesMethod<Mailbox>>()),
    changes("Mailbox/set", MAIL, Handler::of::<MailboxSet>()),
    reads("Thread/get", MAIL, Handler::of::<GetMethod<ThreadObjects>>()),
    reads("Thread/changes", MAIL, Handler::of::<ChangesMethod<ThreadObjects>>()),
    reads("Email/changes", MAIL, Handler::of::<ChangesMethod<EmailMetadata>>()),
    reads("Email/get", MAIL, Handler::of::<EmailGet>()),
    reads("Email/parse", MAIL, Handler::of::<EmailParse>()),
    changes("Email/set", MAIL, Handler::of::<EmailSet>()),
    changes("Email/import", MAIL, Handler::of::<EmailImport>()),
    changes("Email/copy", MAIL, Handler::of::<EmailCopy>()),
    reads("Email/query", MAIL, Handler::of::<EmailQuery>()),
    reads("Email/queryChanges", MAIL, Handler::of::<EmailQueryChanges>()),
    reads("Identity/get", SUBMISSION, Handler::of::<GetMethod<SenderIdentity>>()),
    reads("Identity/changes", SUBMISSION, Handler::of::<ChangesMethod<SenderIdentity>>()),
    changes("Identity/set", SUBMISSION, Handler::of::<SetMethod<SenderIdentity>>()),
    reads("EmailSubmission/get", SUBMISSION, Handler::of::<GetMethod<EmailSubmission>>()),
    reads("EmailSubmission/changes", SUBMISSION, Handler::of::<ChangesMethod<EmailSubmission>>()),
    reads("EmailSubmission/query", SUBMISSION, Handler::of::<QueryMethod<EmailSubmission>>()),
    reads(
        "EmailSubmission/queryChanges",
        SUBMISSION,
        Handler::of::<QueryChangesMethod<EmailSubmission>>(),
    ),
    changes("EmailSubmission/set", SUBMISSION, Handler::of::<SubmissionSet>()),
    reads("SearchSnippet/get", MAIL, Handler::of::<SnippetGet>()),
    RegisteredMethod {
        second_capability: Some(MAIL),
        ..changes("MDN/send", MDN, Handler::of::<MdnSend>())
    },
    reads("MDN/parse", MDN, Handler::of::<MdnParse>()),
    reads("VacationResponse/get", VACATION, Handler::of::<GetMethod<StandardVacation>>()),
    changes("VacationResponse/set", VACATION, Handler::of::<SetMethod<StandardVacation>>()),
    reads("SieveScript/get", SIEVE, Handler::of::<GetMethod<SieveScript>>()),
    changes("SieveScript/set", SIEVE, Handler::of::<ScriptSet>()),
    reads("SieveScript/query", SIEVE, Handler::of::<QueryMethod<SieveScript>>()),
    reads("SieveScript/validate", SIEVE, Handler::of::<ScriptValidate>()),
    reads("ShareNotification/get", PRINCIPALS, Handler::of::<GetMethod<ShareNotification>>()),
    reads(
        "ShareNotification/changes",
        PRINCIPALS,
        Handler::of::<ChangesMethod<ShareNotification>>(),
    ),
    changes("ShareNotification/set", PRINCIPALS, Handler::of::<SetMethod<ShareNotification>>()),
    reads("ShareNotification/query", PRINCIPALS, Handler::of::<QueryMethod<ShareNotification>>()),
    reads(
        "ShareNotification/queryChanges",
        PRINCIPALS,
        Handler::of::<QueryChangesMethod<ShareNotification>>(),
    ),
    reads("Principal/get", PRINCIPALS, Handler::of::<GetMethod<Principal>>()),
    reads("Principal/changes", PRINCIPALS, Handler::of::<ChangesMethod<Principal>>()),
    changes("Principal/set", PRINCIPALS, Handler::of::<PrincipalSet>()),
    reads("Principal/query", PRINCIPALS, Handler::of::<QueryMethod<Principal>>()),
    reads("Principal/queryChanges", PRINCIPALS, Handler::of::<QueryChangesMethod<Principal>>()),
    reads("Quota/get", QUOTA, Handler::of::<GetMethod<Quota>>()),
    reads("Quota/changes", QUOTA, Handler::of::<ChangesMethod<Quota>>()),
    reads("Quota/query", QUOTA, Handler::of::<QueryMethod<Quota>>()),
    reads("Quota/queryChanges", QUOTA, Handler::of::<QueryChangesMethod<Quota>>()),
];

const fn reads(name: &'static str, capability: &'static str, handler: Handler) -> RegisteredMethod {
    RegisteredMethod { name, capability, second_capability: None, only_reads: true, handler }
}

const fn changes(
    name: &'static str,
    capability: &'static str,
    handler: Handler,
) -> RegisteredMethod {
    RegisteredMethod { name, capability, second_capability: None, only_reads: false, handler }
}

pub(super) fn all() -> impl Iterator<Item = &'static RegisteredMethod> {
    METHODS.iter().chain(admin::METHODS)
}

pub(super) fn find(name: &str) -> Option<&'static RegisteredMethod> {
    all().find(|method| method.name == name)
}

/// Core/echo (RFC 8620 §4).
struct Echo;

impl Method for Echo {
    type Args = JsonObject;
    type Answer = JsonObject;

    fn call(_: &Call<'_>, args: JsonObject) -> Result<JsonObject, MethodError> {
        Ok(args)
    }
}
