//! Bounds on input and on work, and the times for which things are kept. The code that uses a bound
//! enforces it. Some are only the defaults of settings in the configuration. A bound that only one
//! file needs may be defined there.

use std::time::Duration;

/// CRLF included: 512 of RFC 5321 §4.5.3.1.4 and what its extensions add, with room.
pub const MAX_COMMAND_BYTES: usize = 4096;
/// RFC 5321 §4.5.3.1.8 asks for at least 100.
pub const MAX_RECIPIENTS: usize = 1000;
/// A message with this many Received fields is refused as a loop (RFC 5321 §6.3).
pub const MAX_RECEIVED_FIELDS: usize = 100;
/// Of one LMTP session.
pub const MAX_LMTP_COMMANDS: u32 = 100_000;
/// Refused commands of one LMTP session. Refusals of unknown recipients, and 452, do not count.
pub const MAX_LMTP_ERRORS: u32 = 20;
pub const MAX_MANAGESIEVE_CONNECTIONS: usize = 200;
/// The bound on ManageSieve connections divided by this is the bound for one address.
pub const MANAGESIEVE_ADDRESS_DIVISOR: usize = 4;
/// One address may have this many in any case.
pub const MIN_MANAGESIEVE_CONNECTIONS_PER_ADDRESS: usize = 8;
/// Of a client that is logged in (RFC 5804 §1.2 asks for at least half an hour).
pub const MANAGESIEVE_IDLE_TIMEOUT: Duration = Duration::from_secs(1800);
/// For the whole login.
pub const MANAGESIEVE_LOGIN_TIMEOUT: Duration = Duration::from_secs(120);
/// Refused commands of one ManageSieve session; also its commands before the login.
pub const MAX_MANAGESIEVE_ERRORS: u32 = 50;
/// The failed login with this number closes a ManageSieve connection.
pub const MAX_FAILED_LOGINS_PER_CONNECTION: u32 = 5;
/// RFC 5321 §4.5.3.2.7 asks for at least five minutes.
pub const LMTP_IDLE_TIMEOUT: Duration = Duration::from_secs(300);
pub const LMTP_SESSION_TIMEOUT: Duration = Duration::from_secs(6 * 3600);
/// The default of `[limits] message` (SIZE, RFC 1870), and a fixed bound in JMAP.
pub const MAX_MESSAGE_BYTES: u64 = 50 * 1024 * 1024;
/// Of an email that is created (RFC 8621 §1.3.1 maxSizeAttachmentsPerEmail). In base64 they leave
/// room for a text in the largest message.
pub const MAX_ATTACHMENTS_BYTES: u64 = 36 * 1024 * 1024;
/// Of a message that is being received. A larger one is written to the store while it comes in.
pub const MAX_BODY_BYTES_IN_MEMORY: usize = 256 * 1024;
/// Bytes of messages that are being received, over all connections.
pub const MAX_MESSAGE_BYTES_IN_FLIGHT: u64 = 256 * 1024 * 1024;
/// Copies that filing makes of a received message, which count among the bytes in flight.
pub const FILING_COPIES: usize = 2;
pub const MAX_LMTP_CONNECTIONS: usize = 200;
/// RFC 8621 §4.1.1.
pub const MAX_KEYWORD_BYTES: usize = 255;
/// Of one email (RFC 8621 §4.6 tooManyKeywords).
pub const MAX_KEYWORDS: usize = 100;
/// RFC 8621 §2 leaves it to the server.
pub const MAX_MAILBOX_NAME_BYTES: usize = 255;
/// Of longer lists the first and the last ids take part in threading.
pub const MAX_THREADING_IDS: usize = 60;
/// As long as a line (RFC 5322 §2.1.1).
pub const MAX_MESSAGE_ID_BYTES: usize = 998;
/// Of a larger header the MIME parser gets the MIME fields only.
pub const MAX_PARSED_HEADER_BYTES: usize = 1024 * 1024;
/// Lines that are not a field count, too.
pub const MAX_HEADER_FIELDS: usize = 10_000;

/// Whether the limits let all fields be read. A message that is sent or signed for a user must not
/// have fields that were not read. Each folded line counts here, so some headers are refused that
/// would be read whole.
#[must_use]
pub fn all_fields_are_seen(header: &[u8]) -> bool {
    let lines = || {
        header
            .iter()
            .filter(|byte| **byte == b'\n')
            .take(MAX_HEADER_FIELDS.saturating_add(1))
            .count()
    };
    header.len() <= MAX_HEADER_BYTES && lines() <= MAX_HEADER_FIELDS
}

/// The rest of the value of a field is stored, but not read. Of a list of message ids, it is the
/// middle that is not read.
pub const MAX_FIELD_BYTES: usize = 256 * 1024;
/// Bytes before a header: a byte order mark, blank lines, or lines of a mailbox file.
pub const MAX_PREAMBLE_BYTES: usize = 4096;
/// Lines that look like header fields, in all parts of a message together. After them no more parts
/// are searched for.
pub const MAX_PART_FIELDS: usize = 500_000;
/// Addresses and groups in one field, where a run of addresses outside of groups does not count as
/// a group; also ids, URLs or language tags in one field, and the search tokens of a message that
/// are texts.
pub const MAX_FIELD_ADDRESSES: usize = 1000;
/// RFC 8621 §4.1.4.
pub const MAX_PREVIEW_CHARS: usize = 256;
/// Occurrences of words (not distinct words) of one email, those of the header first.
pub const MAX_INDEXED_WORDS: usize = 50_000;
/// Bytes of decoded text of one email, and as many of its HTML attributes.
pub const MAX_INDEXED_BYTES: usize = 4 * 1024 * 1024;
/// Parts of a message, the whole message included. Further parts are not shown.
pub const MAX_MIME_PARTS: usize = 1000;
/// Bytes of a body that are searched for the attachment of an aggregate report (DMARC, SMTP TLS).
pub const MAX_REPORT_SEARCH_BYTES: usize = 64 * 1024;
/// MIME parts that are searched for that attachment.
pub const MAX_REPORT_PARTS: usize = 16;
/// Parts within parts. Deeper multiparts are not opened.
pub const MAX_MIME_DEPTH: usize = 64;
/// Of one message, searched for the owner before the message is answered.
pub const MAX_ADDRESSEES: usize = 10 * MAX_FIELD_ADDRESSES;
/// Bytes of the machine-readable part of a report (RFC 6522), before decoding.
pub const MAX_REPORT_STATUS_BYTES: usize = 512 * 1024;
/// Bytes of the returned original message that are searched for its header.
pub const MAX_REPORT_ORIGINAL_BYTES: usize = 64 * 1024;
/// Fields about the message, or about one recipient, in a report.
pub const MAX_REPORT_GROUP_FIELDS: usize = 200;
/// Of the header of one message, in Accept-Language and in Content-Language each.
pub const MAX_LANGUAGES: usize = 32;
/// RFC 5646 §4.4.1.
pub const MAX_LANGUAGE_TAG_BYTES: usize = 35;
/// Bytes of a part in which the beginning of the uuencode is looked for.
pub const MAX_UUENCODE_PREAMBLE_BYTES: usize = 64 * 1024;
/// Of the value of a Date field in an obsolete form; the rest is not read.
pub const MAX_DATE_BYTES: usize = 200;
/// In one value of message ids. Later quotation marks are read like any other character.
pub const MAX_UNCLOSED_QUOTES: usize = 10;
/// Sections of one parameter, and parameters of one field.
pub const MAX_PARAMETER_SECTIONS: usize = 1000;
pub const MAX_ADDRESS_LITERAL_BYTES: usize = 255;
/// In one header. A header beyond this or one of the next three bounds is not verified
/// (`proof::verify`).
pub const MAX_SIGNATURES: usize = 60;
pub const MAX_SIGNATURE_BYTES: usize = 8 * 1024;
pub const MAX_VERIFIED_FIELDS: usize = 1000;
pub const MAX_VERIFIED_HEADER_BYTES: usize = 256 * 1024;
/// Of one Authentication-Results field.
pub const MAX_RESULT_CLAUSES: usize = 100;
/// Of one clause.
pub const MAX_RESULT_PROPERTIES: usize = 50;
/// Of all Authentication-Results fields of one message.
pub const MAX_AUTHENTICATION_RESULTS: usize = 1000;
/// More than the 64 of RFC 5321 §4.5.3.1.1: the VERP senders of real lists are longer.
pub const MAX_LOCAL_PART_BYTES: usize = 256;
/// RFC 5321 §4.5.3.1.2.
pub const MAX_DOMAIN_BYTES: usize = 255;
pub const MAX_QUERY_STRING_BYTES: usize = 32 * 1024;
/// RFC 3461 §4.4.
pub const MAX_ENVID_BYTES: usize = 100;
/// RFC 3461 §4.2.
pub const MAX_ORCPT_BYTES: usize = 500;
/// Of an account: those whom the response told, and those whom scripts told, together. The oldest
/// are forgotten first.
pub const MAX_TOLD_SENDERS: usize = 10_000;
/// The most recipients that the record of a delivery has, in all its retries together. The
/// record has at most as many emails.
pub const MAX_DELIVERY_RECIPIENTS: usize = MAX_RECIPIENTS;
/// The most bytes of different refusals that the record of a delivery has.
pub const MAX_DELIVERY_REFUSAL_BYTES: usize = 64 << 10;
/// How long a delivery is remembered, so that its retry is answered and not repeated.
pub const DELIVERY_RETENTION: Duration = Duration::from_secs(14 * 24 * 3600);
/// How long the log has the decisions about a message.
pub const DECISION_RETENTION: Duration = Duration::from_secs(90 * 24 * 3600);
/// How long a destroyed email can be restored before it is purged.
pub const DESTROYED_EMAIL_RETENTION: Duration = Duration::from_secs(60 * 24 * 3600);
/// As long as the history of emails, so that a client can catch up with both or neither.
pub const LISTING_HISTORY_RETENTION: Duration = Duration::from_secs(60 * 24 * 3600);
/// How long a listing that was made on demand is maintained after its last use.
pub const UNUSED_LISTING_RETENTION: Duration = Duration::from_secs(30 * 24 * 3600);
/// How long after its reply a told row is kept, once the response is off or over.
pub const TOLD_RETENTION: Duration = Duration::from_secs(90 * 24 * 3600);
/// How long a message id leads to its thread after it was last seen.
pub const THREAD_REF_RETENTION: Duration = Duration::from_secs(730 * 24 * 3600);
/// How long a message is kept after its last reference is gone. Longer than any commit takes.
pub const UNREFERENCED_MESSAGE_RETENTION: Duration = Duration::from_secs(24 * 3600);
/// For uploads (RFC 8620 §6: at least an hour).
pub const UPLOAD_RETENTION: Duration = Duration::from_secs(24 * 3600);
/// Of the uploads of one user in one account (RFC 8620 §6: at least what one object can refer to).
pub const MAX_UPLOADED_BYTES: u64 = 4 * MAX_MESSAGE_BYTES;
/// Uploads of one user in one account.
pub const MAX_UPLOADS: usize = 1000;
/// RFC 6838 §4.2.
pub const MAX_MEDIA_TYPE_BYTES: usize = 255;
/// Of an account (RFC 8621 §6).
pub const MAX_IDENTITIES: usize = 250;
/// Identities that the server makes for the addresses of an account.
pub const MAX_ADDRESS_IDENTITIES: usize = 100;
/// Of an account (RFC 8621 §7).
pub const MAX_SUBMISSIONS: usize = 5000;
/// Of each kind that a submission lists (RFC 8621 §7 dsnBlobIds, mdnBlobIds).
pub const MAX_SUBMISSION_REPORTS: usize = 100;
/// Of the smtpReply of one recipient of a submission: a reply line without its CRLF (RFC 5321
/// §4.5.3.1.5).
pub const MAX_REPLY_LINE_BYTES: usize = 510;
/// How long a submission is kept after its end.
pub const SUBMISSION_RETENTION: Duration = Duration::from_secs(30 * 24 * 3600);
/// RFC 8621 §1.3.2 maxDelayedSend, RFC 4865 §4.
pub const MAX_DELAYED_SEND: Duration = Duration::from_secs(365 * 24 * 3600);
/// Of an account, not dismissed.
pub const MAX_SHARE_NOTIFICATIONS: usize = 500;
/// Of a user (RFC 8620 §7.2).
pub const MAX_PUSH_SUBSCRIPTIONS: usize = 32;
pub const MAX_CONCURRENT_PUSHES_PER_USER: usize = 8;
/// Of a small object (`model::object`) as a client gives it, encoded.
pub const MAX_OBJECT_BYTES: usize = 256 * 1024;
/// Of an account. A site may allow fewer.
pub const MAX_SCRIPTS: usize = 256;
/// Of the source of a script. A site may allow less.
pub const MAX_SCRIPT_BYTES: usize = 1024 * 1024;
/// RFC 5804 §1.6 asks for at least 128.
pub const MAX_SCRIPT_NAME_CHARS: usize = 128;
/// Messages that the `duplicate` test of an account's scripts remembers (RFC 7352 §6). Those that
/// are to be forgotten first make room for others.
pub const MAX_DUPLICATES: usize = 16_384;
/// The newest of an account, in one row.
pub const MAX_SCRIPT_ERRORS: usize = 50;
pub const MAX_SCRIPT_ERROR_BYTES: usize = 1024;
/// Of one decision. Further steps are not recorded, except failures, which replace the last step.
pub const MAX_FILTER_STEPS: usize = 64;
pub const MAX_FILTER_STEP_BYTES: usize = 512;
/// Of all scripts of an account for one message; further rules are not counted.
pub const MAX_FIRED_RULES: usize = 64;
pub const UPKEEP_INTERVAL: Duration = Duration::from_secs(3600);
/// How long the sending of a reply is tried.
pub const REPLY_LIFETIME: Duration = Duration::from_secs(24 * 3600);
/// How long the sending of other actions is tried (RFC 5321 §4.5.4.1 asks for at least four to five
/// days).
pub const QUEUE_LIFETIME: Duration = Duration::from_secs(5 * 24 * 3600);
/// How long mail is held back by earlier mail of the same account to the same address that was
/// refused temporarily.
pub const MAX_ORDER_WAIT: Duration = Duration::from_secs(3600);
/// Postponed actions that are remembered, so that later mail to the same address goes after them.
pub const MAX_POSTPONED_ACTIONS: usize = 16_384;
/// Of an account. A login tries each of them.
pub const MAX_PASSWORDS: usize = 16;
/// Of an account.
pub const MAX_TOKENS: usize = 64;
/// Of the name of a password or a token.
pub const MAX_SECRET_NAME_BYTES: usize = 128;
/// Of an account, with those that are kept for the owner to see. A report is queued up to twice
/// this number, because the actions on which it reports may fill the queue.
pub const MAX_QUEUED_ACTIONS: u64 = 100_000;
/// RFC 8620 §2, maxSizeRequest.
pub const MAX_REQUEST_BYTES: usize = 10_000_000;
/// Of an account (RFC 8620 §2, maxConcurrentRequests).
pub const MAX_CONCURRENT_REQUESTS: usize = 8;
/// Requests of an account for the session. They do not count as `maxConcurrentRequests`, which is
/// for the API alone.
pub const MAX_CONCURRENT_SESSION_REQUESTS: usize = 32;
/// RFC 8620 §2, maxSizeUpload.
pub const MAX_UPLOAD_BYTES: u64 = 50 * 1024 * 1024;
/// Of a user (maxConcurrentUpload).
pub const MAX_CONCURRENT_UPLOADS: usize = 4;
/// Of a user.
pub const MAX_UPLOADS_PER_MINUTE: u32 = 1000;
/// Of a user.
pub const MAX_UPLOADED_BYTES_PER_MINUTE: u64 = 1024 * 1024 * 1024;
/// Of a user.
pub const MAX_CONCURRENT_DOWNLOADS: usize = 16;
/// Of a user; `WebSockets` count, too.
pub const MAX_EVENT_STREAMS: usize = 100;
/// With idle connections and event streams.
pub const MAX_HTTP_CONNECTIONS: usize = 2000;
/// The bound on HTTP connections divided by this is the bound for one address that is no trusted
/// proxy.
pub const HTTP_ADDRESS_DIVISOR: usize = 4;
/// One address may have this many in any case: as many as several browsers open.
pub const MIN_HTTP_CONNECTIONS_PER_ADDRESS: usize = 32;
/// Root and the service's user together have this number, and all other users as many more.
pub const MAX_CONTROL_CONNECTIONS: usize = 512;
pub const MAX_CONTROL_CONNECTIONS_PER_USER: usize = 64;
pub const MAX_METRICS_CONNECTIONS: usize = 64;
/// JMAP requests of all accounts in memory, without the `FREE_REQUEST_BYTES` of each.
/// Administrators' requests have the same amount for themselves.
pub const MAX_REQUEST_BYTES_IN_FLIGHT: u64 = 256 * 1024 * 1024;
/// The part of `MAX_REQUEST_BYTES_IN_FLIGHT` that the requests of one account may use.
pub const MAX_REQUEST_BYTES_IN_FLIGHT_PER_ACCOUNT: u64 = 64 * 1024 * 1024;
/// Not counted of each request, so that large requests do not cause ordinary ones to be refused.
pub const FREE_REQUEST_BYTES: u64 = 64 * 1024;
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(300);
pub const UPLOAD_TIMEOUT: Duration = Duration::from_secs(3600);
/// Bytes of uploads and imported messages that are being received, mostly in files. The bound is
/// higher if `MAX_CONCURRENT_UPLOADS` uploads of the largest size need more.
pub const MAX_INCOMING_UPLOAD_BYTES_PER_ACCOUNT: u64 = 256 * 1024 * 1024;
/// All accounts together may have this many times the arriving bytes of one account.
pub const MAX_FULL_UPLOADERS: u64 = 8;
/// In each window of this length a client must send `MIN_BODY_PACE_BYTES` of a body.
pub const BODY_PACE_WINDOW: Duration = Duration::from_secs(30);
pub const MIN_BODY_PACE_BYTES: usize = 120 * 1024;
/// How long an HTTP connection may be without a request, and how long the head of a request may
/// take.
pub const HTTP_IDLE_TIMEOUT: Duration = Duration::from_secs(60);
pub const HTTP_WRITE_TIMEOUT: Duration = Duration::from_secs(60);
/// What a client must read of a response, or all that is left of it, in each `HTTP_WRITE_TIMEOUT`
/// while the response waits.
pub const MIN_RESPONSE_PACE_BYTES: usize = 64 * 1024;
/// For the rest of a request that was answered early, which is drained: read and dropped.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(300);
/// In each window of this length a client must send `MIN_DRAIN_PACE_BYTES`.
pub const DRAIN_PACE_WINDOW: Duration = Duration::from_secs(5);
pub const MIN_DRAIN_PACE_BYTES: usize = 20 * 1024;
pub const MAX_DRAINED_BYTES: usize = 256 * 1024 * 1024;
/// RFC 8620 §2, maxCallsInRequest.
pub const MAX_REQUEST_CALLS: usize = 64;
/// What the result references of one call may bring in (RFC 8620 §3.7). A call can refer to the
/// previous one several times, so a small request could double with each call.
pub const MAX_REFERENCED_BYTES: usize = 1024 * 1024;
/// Of one answer of a vendor method.
pub const MAX_LISTED_ROWS: usize = 10_000;
pub const MAX_JSON_DEPTH: usize = 64;
/// Each value needs about ten times the memory of its shortest text.
pub const MAX_JSON_VALUES: usize = 500_000;
/// RFC 8620 §2, maxObjectsInGet.
pub const MAX_OBJECTS_IN_GET: usize = 1000;
/// Created, updated and destroyed together (maxObjectsInSet).
pub const MAX_OBJECTS_IN_SET: usize = 1000;
/// Messages and uploads that all calls of one request may read, unless it is an administrator's. A
/// call that would read more is refused (RFC 8620 §5.1 requestTooLarge).
pub const MAX_READ_BYTES_PER_REQUEST: u64 = 1024 * 1024 * 1024;
/// Messages that the searches of one request may read, counted apart from
/// `MAX_READ_BYTES_PER_REQUEST`. A search that would read more is refused (RFC 8620 §5.5
/// unsupportedFilter).
pub const MAX_SEARCHED_BYTES_PER_REQUEST: u64 = 4 * 1024 * 1024 * 1024;
/// Rows of emails that the searches of one request, its lookups of blobs, and its counts of a
/// guest's unread threads may read before another one is refused (RFC 8620 §5.1 requestTooLarge).
/// One that began is finished, so a request with one search is never refused, however large the
/// account is.
pub const MAX_WALKED_ROWS_PER_REQUEST: u64 = 8_000_000;
/// Messages and uploads that one request may store, unless it is an administrator's. More are
/// refused (RFC 8620 §5.3 rateLimit).
pub const MAX_FILED_BYTES_PER_REQUEST: u64 = 256 * 1024 * 1024;
/// Estimated memory for the answers to all calls of one request. A call that only reads is refused
/// beyond it (RFC 8620 §5.1 requestTooLarge). The largest message fits, in base64.
pub const MAX_ANSWER_BYTES: usize = 72 * 1024 * 1024;
/// The same for an administrator's request on the control socket.
pub const MAX_ADMINISTRATOR_ANSWER_BYTES: usize = 1024 * 1024 * 1024;
/// Bytes of a message that are searched for its header.
pub const MAX_HEADER_BYTES: usize = 4 * 1024 * 1024;
/// `header:` properties of one call. Each is a search in the header.
pub const MAX_HEADER_PROPERTIES: usize = 250;
/// Invalid properties that one error names.
pub const MAX_NAMED_PROPERTIES: usize = 100;
/// Of one /changes call (RFC 8620 §5.2).
pub const MAX_CHANGES: usize = 10_000;
/// Of one /query call (RFC 8620 §5.5).
pub const MAX_QUERY_RESULTS: usize = 10_000;

/// Of an account (RFC 8620 §5.3 overQuota). A transaction that changes mailboxes reads all names
/// once.
pub const MAX_MAILBOXES: usize = 10_000;

/// Of a mailbox. They are in its row, which is written with each change of a count.
pub const MAX_ATTRIBUTES: usize = 16;
pub const MAX_ATTRIBUTE_NAME_BYTES: usize = 32;
pub const MAX_ATTRIBUTE_VALUE_BYTES: usize = 255;
/// Of a mailbox, names and values.
pub const MAX_ATTRIBUTES_BYTES: usize = 1024;

/// Accounts with which a mailbox is shared (RFC 9670). They are in its row, like attributes.
pub const MAX_SHARES: usize = 100;

/// RFC 8621 §1.3.1 maxMailboxDepth.
pub const MAX_MAILBOX_DEPTH: usize = 16;

/// Operators of a filter within operators.
pub const MAX_FILTER_DEPTH: usize = 16;
/// Of a filter. Each mailbox of a list counts as a condition.
pub const MAX_FILTER_CONDITIONS: usize = 1000;
pub const MAX_FILTER_TEXT_BYTES: usize = 1024;
pub const MAX_SORT_COMPARATORS: usize = 16;
pub const MAX_SORT_KEY_BYTES: usize = 256;
/// Changes of emails, or of a listing, that one queryChanges reads. If there are more, the client
/// must query again.
pub const MAX_QUERY_EVENTS: usize = 100_000;
/// Requests to upkeep to extend listings or to record their use.
pub const MAX_LISTING_REQUESTS_PER_ACCOUNT: usize = 64;
/// Of all accounts together. More are dropped; a later query makes them again.
pub const MAX_LISTING_REQUESTS: usize = 4096;
/// RFC 8621 §5, preview.
pub const MAX_SNIPPET_BYTES: usize = 255;
/// Longer than any that a person writes (RFC 8621 §5 asks for the whole subject).
pub const MAX_SNIPPET_SUBJECT_BYTES: usize = 4096;

pub const MIN_STORE_CACHE_BYTES: u64 = 8 << 20;
/// For rows that are not in a table file yet.
pub const MIN_STORE_WRITE_BUFFER_BYTES: u64 = 16 << 20;
/// Flushes and compactions at once: one of each.
pub const MIN_STORE_JOBS: u32 = 2;
pub const MAX_STORE_JOBS: u32 = 64;
