//! Each number that bounds input, with its reason. Configuration may move those that `config` names.

use std::time::Duration;

/// Longest command line, CRLF included: 512 of RFC 5321 §4.5.3.1.4 and what its extensions add, with room.
pub const COMMAND_OCTETS: usize = 4096;
/// Recipients a transaction (RFC 5321 §4.5.3.1.8 asks for at least 100).
pub const RECIPIENTS: usize = 1000;
/// Received fields at which a message is taken to loop (RFC 5321 §6.3).
pub const RECEIVED_FIELDS: usize = 100;
/// Commands a session.
pub const COMMANDS: u32 = 100_000;
/// Refused commands a session, before 421; an unknown recipient does not count.
pub const ERRORS: u32 = 20;
/// Idle time of a session (RFC 5321 §4.5.3.2.7 asks for at least five minutes).
pub const IDLE: Duration = Duration::from_secs(300);
/// Whole time of a session.
pub const SESSION: Duration = Duration::from_secs(6 * 3600);
/// Largest message, in octets.
pub const MESSAGE_OCTETS: u64 = 50 * 1024 * 1024;
/// Octets of all attachments of an email that is made (RFC 8621 §1.3.1 maxSizeAttachmentsPerEmail): as many as in base64,
/// its line ends with it, leave room for a text in the largest message.
pub const ATTACHMENTS_OCTETS: u64 = 36 * 1024 * 1024;
/// Bodies up to this many octets are collected in memory; larger ones in a file.
pub const BODY_IN_MEMORY: usize = 256 * 1024;
/// Octets of messages under way, over all connections.
pub const OCTETS_IN_FLIGHT: u64 = 256 * 1024 * 1024;
/// Copies of a message that filing it makes, beside what was collected; they count among the octets under way.
pub const COPIES_IN_FLIGHT: usize = 2;
/// Connections at once.
pub const CONNECTIONS: usize = 200;
/// Octets of a keyword (RFC 8621 §4.1.1).
pub const KEYWORD_OCTETS: usize = 255;
/// Keywords of one email that the command line sets (RFC 8621 §4.6 tooManyKeywords).
pub const KEYWORDS: usize = 100;
/// Octets of a mailbox name (RFC 8621 §2 leaves it to the server; RFC 8620 §1.2's size serves).
pub const MAILBOX_NAME_OCTETS: usize = 255;
/// Message ids of one email that take part in threading: the first and the last of longer lists.
pub const THREAD_IDS: usize = 60;
/// Octets of one message id; a longer one is none.
pub const MESSAGE_ID_OCTETS: usize = 998;
/// Bytes of a header that the parser of MIME is given whole; of a larger one it is given the fields
/// of MIME alone. Servers take less: Postfix 100 kB.
pub const PARSED_HEADER_OCTETS: usize = 1024 * 1024;
/// Header fields that are looked at, lines that are none counted.
pub const FIELDS: usize = 10_000;

/// Whether all fields of a header, given with all its lines, are looked at: what is sent or signed
/// for a person has no field that was not seen.
#[must_use]
pub fn all_fields_are_seen(header: &[u8]) -> bool {
    let lines = || header.iter().filter(|byte| **byte == b'\n').take(FIELDS.saturating_add(1)).count();
    header.len() <= HEADER_BYTES && lines() <= FIELDS
}

/// Bytes of the value of a header field that are parsed; those behind them are kept, and not read.
pub const FIELD_OCTETS: usize = 256 * 1024;
/// Bytes at the beginning of a message in which its header may begin: after a byte order mark,
/// blank lines, or lines of a mailbox file.
pub const PREAMBLE_OCTETS: usize = 4096;
/// Lines of a message that look like header fields, its parts taken together; behind them no more
/// parts are looked for.
pub const PART_FIELDS: usize = 500_000;
/// Addresses kept from one header field of an email.
pub const ADDRESSES: usize = 1000;
/// Characters of a preview (RFC 8621 §4.1.4).
pub const PREVIEW_CHARS: usize = 256;
/// Occurrences of words (not distinct words) that are kept of one email for search, the header's first; what follows is
/// not found.
pub const WORDS: usize = 50_000;
/// Octets of text that are searched for words in one email.
pub const INDEXED_OCTETS: usize = 4 * 1024 * 1024;
/// MIME parts whose place is remembered.
pub const PARTS: usize = 1000;
/// Bytes of a body in which the attachment of an aggregate report (DMARC, SMTP TLS) is sought: it
/// follows a short text.
pub const REPORT_SEARCH_BYTES: usize = 64 * 1024;
/// Parts among which it is sought.
pub const REPORT_PARTS: usize = 16;
/// Depth of MIME nesting that is followed.
pub const MIME_DEPTH: usize = 64;
/// Addressees of one message among whom the owner is sought before it is answered.
pub const FACT_DESTINATIONS: usize = 10 * ADDRESSES;
/// Bytes of the part of a report (RFC 6522) that programs read, before it is decoded: more than so many recipients need.
pub const REPORT_STATUS_BYTES: usize = 512 * 1024;
/// Bytes of the original that a report returns in which its header is read.
pub const REPORT_ORIGINAL_BYTES: usize = 64 * 1024;
/// Fields of one group of a report that are looked at.
pub const REPORT_GROUP_FIELDS: usize = 200;
/// Languages of one message that are looked at.
pub const LANGUAGES: usize = 32;
/// Bytes of a language tag.
pub const LANGUAGE_TAG_BYTES: usize = 35;
/// Bytes of a uuencoded part in which `begin` is looked for.
pub const UUENCODE_PREAMBLE_BYTES: usize = 64 * 1024;
/// Bytes of a Date field that are looked at; no date is longer.
pub const DATE_BYTES: usize = 200;
/// Quotes in one value of message ids that may fail to close; quotes behind them mean nothing.
pub const FAILED_QUOTES: usize = 10;
/// Sections of one parameter, and parameters of one field.
pub const PARAMETER_SECTIONS: usize = 1000;
/// Bytes of an address literal.
pub const ADDRESS_LITERAL_BYTES: usize = 255;
/// Signatures and seals of a message that are looked at.
pub const SIGNATURES: usize = 60;
/// Bytes of one of them.
pub const SIGNATURE_BYTES: usize = 8 * 1024;
/// Fields of a header that is looked at for signatures.
pub const VERIFIED_FIELDS: usize = 1000;
/// Bytes of such a header.
pub const VERIFIED_HEADER_BYTES: usize = 256 * 1024;
/// Clauses of one Authentication-Results field that are read.
pub const RESULT_CLAUSES: usize = 100;
/// Properties of one clause that are read.
pub const RESULT_PROPERTIES: usize = 50;
/// Verdicts of the Authentication-Results of one message that count.
pub const AUTHENTICATION_RESULTS: usize = 1000;
/// Bytes of a local part. More than the 64 of RFC 5321 §4.5.3.1.1: the VERP senders of real lists are longer.
pub const LOCAL_PART_BYTES: usize = 256;
/// Bytes of a domain (RFC 5321 §4.5.3.1.2).
pub const DOMAIN_BYTES: usize = 255;
/// Bytes of a query string that is read.
pub const QUERY_STRING_BYTES: usize = 32 * 1024;
/// Characters of ENVID (RFC 3461 §4.4).
pub const ENVID_BYTES: usize = 100;
/// Characters of ORCPT (RFC 3461 §4.2).
pub const ORCPT_BYTES: usize = 500;
/// Senders remembered as told, a response; oldest out first.
pub const TOLD: usize = 10_000;
/// How long a delivery is remembered, so that its retry is answered and not repeated.
pub const DELIVERIES_KEPT: Duration = Duration::from_secs(14 * 24 * 3600);
/// How long decisions are kept.
pub const DECISIONS_KEPT: Duration = Duration::from_secs(90 * 24 * 3600);
/// How long a destroyed email can be restored.
pub const RESTORE_KEPT: Duration = Duration::from_secs(60 * 24 * 3600);
/// How long the history of listings is kept: as long as that of emails, so that a client can catch up with both or neither.
pub const HISTORY_KEPT: Duration = Duration::from_secs(60 * 24 * 3600);
/// How long a list that was made on demand is kept after it was last asked for.
pub const LISTS_KEPT: Duration = Duration::from_secs(30 * 24 * 3600);
/// How long it is known who was told, after the response is over.
pub const TOLD_KEPT: Duration = Duration::from_secs(90 * 24 * 3600);
/// How long a message id that is not seen again leads to its thread.
pub const THREAD_REFS_KEPT: Duration = Duration::from_secs(730 * 24 * 3600);
/// How long a message is kept that nobody holds any more. It must be longer than any commit takes.
pub const LOOSE_MESSAGES_KEPT: Duration = Duration::from_secs(24 * 3600);
/// How long an upload is kept that nothing was made of (RFC 8620 §6: at least an hour).
pub const UPLOADS_KEPT: Duration = Duration::from_secs(24 * 3600);
/// Octets of the uploads of one user in one account that nothing was made of (RFC 8620 §6: at least what one object can
/// refer to).
pub const UPLOADED_OCTETS: u64 = 4 * MESSAGE_OCTETS;
/// How many they may be.
pub const UPLOADS: usize = 1000;
/// Octets of an upload's media type (RFC 6838 §4.2).
pub const MEDIA_TYPE_OCTETS: usize = 255;
/// Identities of an account (RFC 8621 §6).
pub const IDENTITIES: usize = 250;
/// How many of them it has by itself, for its addresses.
pub const GIVEN_IDENTITIES: usize = 100;
/// Submissions of an account that are still remembered (RFC 8621 §7).
pub const SUBMISSIONS: usize = 5000;
/// Reports of each kind that a submission remembers (RFC 8621 §7 dsnBlobIds, mdnBlobIds), the first that came.
pub const REPORTS: usize = 100;
/// How long a submission is remembered after it was settled.
pub const SUBMISSIONS_KEPT: Duration = Duration::from_secs(30 * 24 * 3600);
/// How long a message may be held before it is sent (RFC 8621 §1.3.2 maxDelayedSend, RFC 4865 §4).
pub const DELAYED_SEND: Duration = Duration::from_secs(365 * 24 * 3600);
/// Share notifications of an account that were not dismissed.
pub const SHARE_NOTIFICATIONS: usize = 500;
/// Push subscriptions of a user (RFC 8620 §7.2).
pub const PUSH_SUBSCRIPTIONS: usize = 32;
/// Pushes of one user that are under way at once: one to a URL that does not answer takes half a minute.
pub const CONCURRENT_PUSHES: usize = 8;
/// Octets of an identity, a submission or a push subscription, as they are stored.
pub const OBJECT_OCTETS: usize = 256 * 1024;
/// Upkeep goes round so often.
pub const UPKEEP_EVERY: Duration = Duration::from_secs(3600);
/// How long a reply may wait before it is dropped as stale.
pub const REPLY_KEPT: Duration = Duration::from_secs(24 * 3600);
/// How long all else that is sent may wait (RFC 5321 §4.5.4.1 asks for at least four to five days).
pub const SENDING_KEPT: Duration = Duration::from_secs(5 * 24 * 3600);
/// How long mail waits for earlier mail of its account to the same address that was refused for now. Beyond it what is
/// later goes by itself: order is worth an hour, and not a day.
pub const ORDER_KEPT: Duration = Duration::from_secs(3600);
/// Actions that were put off and are remembered so, for what is queued behind them.
pub const ORDERED: usize = 16_384;
/// Passwords of an account: each is tried at a login, and that takes long.
pub const PASSWORDS: usize = 16;
/// Tokens of an account.
pub const TOKENS: usize = 64;
/// Octets of the name of a password or a token.
pub const SECRET_NAME_OCTETS: usize = 128;
/// Actions of an account in the queue, those among them that are kept for their owner. Reports, each of which comes of
/// another action or of a delivery, may be as many again.
pub const QUEUED: u64 = 100_000;
/// Octets of a JMAP request (RFC 8620 §2, maxSizeRequest).
pub const REQUEST_OCTETS: usize = 10_000_000;
/// API requests of an account at once (maxConcurrentRequests).
pub const CONCURRENT_REQUESTS: usize = 8;
/// Octets of an upload (maxSizeUpload).
pub const UPLOAD_OCTETS: u64 = 50 * 1024 * 1024;
/// Uploads of an account at once (maxConcurrentUpload).
pub const CONCURRENT_UPLOADS: usize = 4;
/// Uploads of a user in a minute.
pub const UPLOADS_PER_MINUTE: u32 = 1000;
/// Bytes of the uploads of a user in a minute.
pub const UPLOADED_PER_MINUTE: u64 = 1024 * 1024 * 1024;
/// Downloads of an account at once.
pub const CONCURRENT_DOWNLOADS: usize = 16;
/// Event streams and connections by WebSocket of an account at once.
pub const STREAMS: usize = 100;
/// HTTP connections at once: idle ones and event streams count.
pub const HTTP_CONNECTIONS: usize = 2000;
/// The fraction of the HTTP connections that one address may have, unless it is a trusted proxy's.
pub const HTTP_SHARE: usize = 4;
/// HTTP connections that one address may have however few there may be in all: as many as several browsers open.
pub const HTTP_CONNECTIONS_EACH: usize = 32;
/// Connections to the control socket at once: of root and the service's own user, and of all other users together.
pub const CONTROL_CONNECTIONS: usize = 512;
/// Connections to the control socket of one Unix user at once.
pub const CONTROL_CONNECTIONS_EACH: usize = 64;
/// Connections to the listener for metrics at once.
pub const METRICS_CONNECTIONS: usize = 64;
/// Bytes that JMAP requests of all accounts may hold at once, beyond those that are free; administrators' requests may
/// hold as much again.
pub const REQUESTS_IN_FLIGHT: u64 = 256 * 1024 * 1024;
/// Bytes of them that are one account's.
pub const REQUESTS_IN_FLIGHT_EACH: u64 = 64 * 1024 * 1024;
/// Bytes of each request that need no room, so that an ordinary one is not refused for others' large ones.
pub const REQUEST_FREE_BYTES: u64 = 64 * 1024;
/// The time in which a request must have come.
pub const REQUEST_TIME: Duration = Duration::from_secs(300);
/// The time in which an upload must have come.
pub const UPLOAD_TIME: Duration = Duration::from_secs(3600);
/// Bytes of the uploads and appended messages of one account that may come in at once, in files; more where the largest
/// upload is larger.
pub const UPLOADS_COMING_EACH: u64 = 256 * 1024 * 1024;
/// Accounts whose uploads, all that each may have at once, fit in at the same time.
pub const UPLOADERS: u64 = 8;
/// In each time of this length
pub const PACE_WINDOW: Duration = Duration::from_secs(30);
/// there must come so many bytes of a body, or it is given up.
pub const PACE_BYTES: usize = 120 * 1024;
/// How long an HTTP connection may be without a request; so long a request's head may take, too.
pub const HTTP_IDLE: Duration = Duration::from_secs(60);
/// How long a client may read nothing of what it is sent over HTTP.
pub const HTTP_UNREAD: Duration = Duration::from_secs(60);
/// In each time of that length in which an answer waits for its client, so many bytes must be taken of it, or its rest:
/// about a kilobyte a second.
pub const READ_PACE_BYTES: usize = 64 * 1024;
/// How long the rest of a request that was answered early is read on.
pub const READ_ON: Duration = Duration::from_secs(300);
/// In each time of this length
pub const READ_ON_WINDOW: Duration = Duration::from_secs(5);
/// there must come so many bytes of that rest.
pub const READ_ON_PACE_BYTES: usize = 20 * 1024;
/// Bytes of that rest.
pub const READ_ON_BYTES: usize = 256 * 1024 * 1024;
/// Method calls of a JMAP request (maxCallsInRequest).
pub const REQUEST_CALLS: usize = 64;
/// Octets that the result references of one call may bring in (RFC 8620 §3.7): each call may refer to the one before it
/// several times over, so that without a bound a small request doubles with every call.
pub const REFERENCED_OCTETS: usize = 1024 * 1024;
/// Emails or decisions of one answer to the command line.
pub const LISTED: usize = 10_000;
/// Depth of JSON that is read.
pub const JSON_DEPTH: usize = 64;
/// Values of JSON that is read: each needs some ten times the memory of its shortest text.
pub const JSON_VALUES: usize = 500_000;
/// Objects of one /get call (RFC 8620 §2, maxObjectsInGet).
pub const OBJECTS_IN_GET: usize = 1000;
/// Objects of one /set call, created, updated and destroyed together (maxObjectsInSet).
pub const OBJECTS_IN_SET: usize = 1000;
/// Bytes of messages and uploads that all calls of one request read; a call beyond them is refused
/// (RFC 8620 §5.1 requestTooLarge).
pub const READ_BYTES: u64 = 1024 * 1024 * 1024;
/// Bytes of messages that the searches of one request read beside these; a search beyond them is
/// refused (RFC 8620 §5.5 unsupportedFilter).
pub const SEARCHED_BYTES: u64 = 4 * 1024 * 1024 * 1024;
/// Rows of emails that the searches of one request, and its counts of a guest's unread threads, read
/// before no further one begins (RFC 8620 §5.1 requestTooLarge). One that began is finished: a client
/// that asks for one thing at a time is never refused, however large its account is.
pub const WALKED_ROWS: u64 = 8_000_000;
/// Bytes of messages and uploads that one request stores (RFC 8620 §5.3 rateLimit for those
/// beyond).
pub const FILED_BYTES: u64 = 256 * 1024 * 1024;
/// Bytes of memory that the answers to all calls of one request take, estimated; a call beyond them
/// is refused (RFC 8620 §5.1 requestTooLarge). The largest message fits, in base64.
pub const ANSWER_BYTES: usize = 72 * 1024 * 1024;
/// The same where an administrator asks by the control socket: 10,000 rows with long lists of
/// addresses fit.
pub const ADMINISTRATOR_ANSWER_BYTES: usize = 1024 * 1024 * 1024;
/// Bytes of a message in which its header is sought when only the header is wanted; fields beyond
/// are not shown.
pub const HEADER_BYTES: usize = 4 * 1024 * 1024;
/// `header:` properties that one call asks for: each of them looks through the header.
pub const HEADER_PROPERTIES: usize = 250;
/// Wrong properties that one `SetError` names.
pub const WRONG_PROPERTIES: usize = 100;
/// Changes that one /changes call tells, where it asks for no fewer (RFC 8620 §5.2).
pub const CHANGES: usize = 10_000;
/// Results that one /query call gives, where it asks for no fewer (RFC 8620 §5.5).
pub const RESULTS: usize = 10_000;

/// Mailboxes of an account (RFC 8620 §5.3 overQuota): every change of one reads their names.
pub const MAILBOXES: usize = 10_000;

/// Attributes of a mailbox, and octets of a name and of a value, and of all of them together: the row they stand in is
/// written again with every email that changes a count of the mailbox.
pub const ATTRIBUTES: usize = 16;
/// See `ATTRIBUTES`.
pub const ATTRIBUTE_NAME_OCTETS: usize = 32;
/// See `ATTRIBUTES`.
pub const ATTRIBUTE_OCTETS: usize = 255;
/// See `ATTRIBUTES`.
pub const ATTRIBUTES_OCTETS: usize = 1024;

/// Accounts with which a mailbox is shared (RFC 9670): they stand in its row, as attributes do.
pub const SHARES: usize = 100;

/// Mailboxes above one another (RFC 8621 §1.3.1 maxMailboxDepth).
pub const MAILBOX_DEPTH: usize = 16;

/// Depth of a query's filter.
pub const FILTER_DEPTH: usize = 16;
/// Conditions of a query's filter, each mailbox of a list counted as one.
pub const FILTER_CONDITIONS: usize = 1000;
/// Octets of the text of one condition.
pub const FILTER_TEXT_OCTETS: usize = 1024;
/// Comparators of a query's sort.
pub const SORT_COMPARATORS: usize = 16;
/// Octets of a text by which a result is sorted; what is longer is cut.
pub const SORT_KEY_OCTETS: usize = 256;
/// Changes of emails, or of a listing, that one queryChanges looks at; beyond them the client asks anew.
pub const QUERY_EVENTS: usize = 100_000;
/// Octets of the preview of a search snippet (RFC 8621 §5).
pub const SNIPPET_OCTETS: usize = 255;
/// Octets of its subject: the whole one (RFC 8621 §5), but for one that nobody would write.
pub const SNIPPET_SUBJECT_OCTETS: usize = 4096;

/// The smallest block cache of the store.
pub const STORE_CACHE_LEAST: u64 = 8 << 20;
/// The least memory for rows that are not in a table file yet.
pub const STORE_WRITE_BUFFERS_LEAST: u64 = 16 << 20;
/// The fewest flushes and compactions at once: one of each.
pub const STORE_JOBS_LEAST: u32 = 2;
/// The most flushes and compactions at once.
pub const STORE_JOBS: u32 = 64;
