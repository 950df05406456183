//! All bounds on input, and the times for which things are kept. Configuration can change those
//! that `config` names.

use std::time::Duration;

/// Longest LMTP command line, CRLF included: 512 of RFC 5321 §4.5.3.1.4 and what its extensions
/// add, with room.
pub const MAX_COMMAND_BYTES: usize = 4096;
/// Recipients of one transaction (RFC 5321 §4.5.3.1.8 asks for at least 100).
pub const MAX_RECIPIENTS: usize = 1000;
/// A message with this many Received fields is refused as a loop (RFC 5321 §6.3).
pub const MAX_RECEIVED_FIELDS: usize = 100;
/// Commands of one LMTP session.
pub const MAX_LMTP_COMMANDS: u32 = 100_000;
/// Refused commands of one LMTP session, before 421; an unknown recipient does not count.
pub const MAX_LMTP_ERRORS: u32 = 20;
/// Time that an LMTP session may be idle (RFC 5321 §4.5.3.2.7 asks for at least five minutes).
pub const LMTP_IDLE_TIMEOUT: Duration = Duration::from_secs(300);
/// Time that an LMTP session may take as a whole.
pub const LMTP_SESSION_TIMEOUT: Duration = Duration::from_secs(6 * 3600);
/// Bytes of a message that is received, by default (SIZE, RFC 1870).
pub const MAX_MESSAGE_BYTES: u64 = 50 * 1024 * 1024;
/// Bytes of all attachments of an email that is created (RFC 8621 §1.3.1
/// maxSizeAttachmentsPerEmail). In base64 with line ends, they leave room for a text in the largest
/// message.
pub const MAX_ATTACHMENTS_BYTES: u64 = 36 * 1024 * 1024;
/// Bodies up to this size are collected in memory; larger ones in a file.
pub const MAX_BODY_BYTES_IN_MEMORY: usize = 256 * 1024;
/// Bytes of messages that are being received, over all connections.
pub const MAX_MESSAGE_BYTES_IN_FLIGHT: u64 = 256 * 1024 * 1024;
/// Copies that filing makes of a received message. They count among the bytes in flight.
pub const FILING_COPIES: usize = 2;
/// LMTP connections at once.
pub const MAX_LMTP_CONNECTIONS: usize = 200;
/// Bytes of a keyword (RFC 8621 §4.1.1).
pub const MAX_KEYWORD_BYTES: usize = 255;
/// Keywords of one email that JMAP, the command line or an import sets (RFC 8621 §4.6
/// tooManyKeywords).
pub const MAX_KEYWORDS: usize = 100;
/// Bytes of a mailbox name (RFC 8621 §2 leaves it to the server; RFC 8620 §1.2's size serves).
pub const MAX_MAILBOX_NAME_BYTES: usize = 255;
/// Message ids of one email that take part in threading: the first and the last of longer lists.
pub const MAX_THREADING_IDS: usize = 60;
/// Bytes of one message id; a longer one is ignored.
pub const MAX_MESSAGE_ID_BYTES: usize = 998;
/// Bytes of a header that is given to the MIME parser whole. Of a larger header it gets the MIME
/// fields only. Other servers accept less: Postfix 100 kB.
pub const MAX_PARSED_HEADER_BYTES: usize = 1024 * 1024;
/// Header fields of a message that are read. Lines that are not a field count, too.
pub const MAX_HEADER_FIELDS: usize = 10_000;

/// Whether the limits let all fields of a header be read. A message that is sent or signed for a
/// user must not have fields that were not read.
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

/// Bytes of the value of a header field that are parsed. The rest is stored, but not read.
pub const MAX_FIELD_BYTES: usize = 256 * 1024;
/// Bytes at the beginning of a message in which its header may begin: after a byte order mark,
/// blank lines, or lines of a mailbox file.
pub const MAX_PREAMBLE_BYTES: usize = 4096;
/// Lines that look like header fields, in all parts of a message together. After them no more parts
/// are searched for.
pub const MAX_PART_FIELDS: usize = 500_000;
/// Addresses that are stored of one header field of an email.
pub const MAX_FIELD_ADDRESSES: usize = 1000;
/// Characters of a preview (RFC 8621 §4.1.4).
pub const MAX_PREVIEW_CHARS: usize = 256;
/// Occurrences of words (not distinct words) of one email that are indexed for search, those of the
/// header first. A search does not find the words after them.
pub const MAX_INDEXED_WORDS: usize = 50_000;
/// Bytes of text that are searched for words in one email.
pub const MAX_INDEXED_BYTES: usize = 4 * 1024 * 1024;
/// MIME parts of a message whose offsets are stored.
pub const MAX_MIME_PARTS: usize = 1000;
/// Bytes of a body that are searched for the attachment of an aggregate report (DMARC, SMTP TLS).
/// The attachment follows a short text.
pub const MAX_REPORT_SEARCH_BYTES: usize = 64 * 1024;
/// MIME parts that are searched for the attachment of an aggregate report.
pub const MAX_REPORT_PARTS: usize = 16;
/// Depth of MIME nesting that is followed.
pub const MAX_MIME_DEPTH: usize = 64;
/// Addressees of one message that are searched for the owner before the message is answered.
pub const MAX_ADDRESSEES: usize = 10 * MAX_FIELD_ADDRESSES;
/// Bytes of the machine-readable part of a report (RFC 6522) that are read, before decoding.
pub const MAX_REPORT_STATUS_BYTES: usize = 512 * 1024;
/// Bytes of the returned original message in a report that are searched for its header.
pub const MAX_REPORT_ORIGINAL_BYTES: usize = 64 * 1024;
/// Fields of one group of a report that are read.
pub const MAX_REPORT_GROUP_FIELDS: usize = 200;
/// Languages of one message that are read.
pub const MAX_LANGUAGES: usize = 32;
/// Bytes of a language tag.
pub const MAX_LANGUAGE_TAG_BYTES: usize = 35;
/// Bytes of a uuencoded part that are searched for `begin`.
pub const MAX_UUENCODE_PREAMBLE_BYTES: usize = 64 * 1024;
/// Bytes of a Date field that are read; no date is longer.
pub const MAX_DATE_BYTES: usize = 200;
/// Unclosed quotes in one value of message ids. Quotes after them are read as other characters.
pub const MAX_UNCLOSED_QUOTES: usize = 10;
/// Sections of one parameter, and parameters of one field.
pub const MAX_PARAMETER_SECTIONS: usize = 1000;
/// Bytes of an address literal.
pub const MAX_ADDRESS_LITERAL_BYTES: usize = 255;
/// Signatures and seals of a message that are read.
pub const MAX_SIGNATURES: usize = 60;
/// Bytes of one signature or seal.
pub const MAX_SIGNATURE_BYTES: usize = 8 * 1024;
/// Signatures are not verified if the header has more fields.
pub const MAX_VERIFIED_FIELDS: usize = 1000;
/// Signatures are not verified if the header has more bytes.
pub const MAX_VERIFIED_HEADER_BYTES: usize = 256 * 1024;
/// Clauses of one Authentication-Results field that are read.
pub const MAX_RESULT_CLAUSES: usize = 100;
/// Properties of one clause that are read.
pub const MAX_RESULT_PROPERTIES: usize = 50;
/// Results in the Authentication-Results fields of one message that are used.
pub const MAX_AUTHENTICATION_RESULTS: usize = 1000;
/// Bytes of a local part. More than the 64 of RFC 5321 §4.5.3.1.1: the VERP senders of real lists
/// are longer.
pub const MAX_LOCAL_PART_BYTES: usize = 256;
/// Bytes of a domain (RFC 5321 §4.5.3.1.2).
pub const MAX_DOMAIN_BYTES: usize = 255;
/// Bytes of a query string that is read.
pub const MAX_QUERY_STRING_BYTES: usize = 32 * 1024;
/// Characters of ENVID (RFC 3461 §4.4).
pub const MAX_ENVID_BYTES: usize = 100;
/// Characters of ORCPT (RFC 3461 §4.2).
pub const MAX_ORCPT_BYTES: usize = 500;
/// Senders that are remembered as told, for each response; the oldest are forgotten first.
pub const MAX_TOLD_SENDERS: usize = 10_000;
/// How long a delivery is remembered, so that its retry is answered and not repeated.
pub const DELIVERY_RETENTION: Duration = Duration::from_secs(14 * 24 * 3600);
/// How long decisions are kept.
pub const DECISION_RETENTION: Duration = Duration::from_secs(90 * 24 * 3600);
/// How long a destroyed email can be restored.
pub const DESTROYED_EMAIL_RETENTION: Duration = Duration::from_secs(60 * 24 * 3600);
/// How long the history of listings is kept: as long as that of emails, so that a client can catch
/// up with both or neither.
pub const LISTING_HISTORY_RETENTION: Duration = Duration::from_secs(60 * 24 * 3600);
/// How long a listing that was made on demand is maintained after its last use.
pub const UNUSED_LISTING_RETENTION: Duration = Duration::from_secs(30 * 24 * 3600);
/// How long a told sender is remembered after the reply, once the response is off or over.
pub const TOLD_RETENTION: Duration = Duration::from_secs(90 * 24 * 3600);
/// How long a message id leads to its thread after it was last seen.
pub const THREAD_REF_RETENTION: Duration = Duration::from_secs(730 * 24 * 3600);
/// How long a message is kept after the last reference to it is gone. It must be longer than any
/// commit takes.
pub const UNREFERENCED_MESSAGE_RETENTION: Duration = Duration::from_secs(24 * 3600);
/// How long an unused upload is kept, one from which no object was created (RFC 8620 §6: at least
/// an hour).
pub const UPLOAD_RETENTION: Duration = Duration::from_secs(24 * 3600);
/// Bytes of the unused uploads of one user in one account (RFC 8620 §6: at least what one object
/// can refer to).
pub const MAX_UPLOADED_BYTES: u64 = 4 * MAX_MESSAGE_BYTES;
/// Unused uploads of one user in one account.
pub const MAX_UPLOADS: usize = 1000;
/// Bytes of an upload's media type (RFC 6838 §4.2).
pub const MAX_MEDIA_TYPE_BYTES: usize = 255;
/// Identities of an account (RFC 8621 §6).
pub const MAX_IDENTITIES: usize = 250;
/// Identities that an account has for its addresses, without having created them.
pub const MAX_ADDRESS_IDENTITIES: usize = 100;
/// Submissions of an account that are still remembered (RFC 8621 §7).
pub const MAX_SUBMISSIONS: usize = 5000;
/// Reports of each kind that a submission lists (RFC 8621 §7 dsnBlobIds, mdnBlobIds). Later ones
/// are not listed.
pub const MAX_SUBMISSION_REPORTS: usize = 100;
/// How long a submission is remembered after it was settled.
pub const SUBMISSION_RETENTION: Duration = Duration::from_secs(30 * 24 * 3600);
/// How long a message may be held before it is sent (RFC 8621 §1.3.2 maxDelayedSend, RFC 4865 §4).
pub const MAX_DELAYED_SEND: Duration = Duration::from_secs(365 * 24 * 3600);
/// Share notifications of an account that were not dismissed.
pub const MAX_SHARE_NOTIFICATIONS: usize = 500;
/// Push subscriptions of a user (RFC 8620 §7.2).
pub const MAX_PUSH_SUBSCRIPTIONS: usize = 32;
/// Pushes of one user in progress at once. A push to a URL that does not answer takes half a
/// minute.
pub const MAX_CONCURRENT_PUSHES_PER_USER: usize = 8;
/// Bytes of an identity, a submission or a push subscription, as they are stored.
pub const MAX_OBJECT_BYTES: usize = 256 * 1024;
/// Time between two rounds of upkeep.
pub const UPKEEP_INTERVAL: Duration = Duration::from_secs(3600);
/// How long a reply may wait before it is dropped as stale.
pub const REPLY_LIFETIME: Duration = Duration::from_secs(24 * 3600);
/// How long everything else that is queued may wait (RFC 5321 §4.5.4.1 asks for at least four to
/// five days).
pub const QUEUE_LIFETIME: Duration = Duration::from_secs(5 * 24 * 3600);
/// How long mail waits for earlier mail of the same account to the same address, if that was
/// refused temporarily. After that the later mail is sent first.
pub const MAX_ORDER_WAIT: Duration = Duration::from_secs(3600);
/// Postponed actions that are remembered, so that later mail to the same address waits for them.
pub const MAX_POSTPONED_ACTIONS: usize = 16_384;
/// Passwords of an account. A login tries each of them, which takes long.
pub const MAX_PASSWORDS: usize = 16;
/// Tokens of an account.
pub const MAX_TOKENS: usize = 64;
/// Bytes of the name of a password or a token.
pub const MAX_SECRET_NAME_BYTES: usize = 128;
/// Actions of an account in the queue, with those that are done and kept for the owner to see.
/// There may be as many reports in addition, because each report is about another action or a
/// delivery.
pub const MAX_QUEUED_ACTIONS: u64 = 100_000;
/// Bytes of a JMAP request (RFC 8620 §2, maxSizeRequest).
pub const MAX_REQUEST_BYTES: usize = 10_000_000;
/// API requests of an account at once (maxConcurrentRequests).
pub const MAX_CONCURRENT_REQUESTS: usize = 8;
/// Bytes of an upload (maxSizeUpload).
pub const MAX_UPLOAD_BYTES: u64 = 50 * 1024 * 1024;
/// Uploads of an account at once (maxConcurrentUpload).
pub const MAX_CONCURRENT_UPLOADS: usize = 4;
/// Uploads of a user in a minute.
pub const MAX_UPLOADS_PER_MINUTE: u32 = 1000;
/// Bytes of the uploads of a user in a minute.
pub const MAX_UPLOADED_BYTES_PER_MINUTE: u64 = 1024 * 1024 * 1024;
/// Downloads of an account at once.
pub const MAX_CONCURRENT_DOWNLOADS: usize = 16;
/// Event streams and WebSocket connections of an account at once.
pub const MAX_EVENT_STREAMS: usize = 100;
/// HTTP connections at once, including idle ones and event streams.
pub const MAX_HTTP_CONNECTIONS: usize = 2000;
/// One address may have this fraction (a quarter) of the HTTP connections, unless it is a trusted
/// proxy.
pub const HTTP_ADDRESS_DIVISOR: usize = 4;
/// HTTP connections that one address may always have: as many as several browsers open.
pub const MIN_HTTP_CONNECTIONS_PER_ADDRESS: usize = 32;
/// Connections to the control socket at once. Root and the service's user have this number, and all
/// other users together have it too.
pub const MAX_CONTROL_CONNECTIONS: usize = 512;
/// Connections to the control socket of one Unix user at once.
pub const MAX_CONTROL_CONNECTIONS_PER_USER: usize = 64;
/// Connections to the metrics listener at once.
pub const MAX_METRICS_CONNECTIONS: usize = 64;
/// Bytes of the JMAP requests of all accounts in memory at once, without the `FREE_REQUEST_BYTES`
/// of each. Administrators' requests have the same amount for themselves.
pub const MAX_REQUEST_BYTES_IN_FLIGHT: u64 = 256 * 1024 * 1024;
/// The part of `MAX_REQUEST_BYTES_IN_FLIGHT` that the requests of one account may use.
pub const MAX_REQUEST_BYTES_IN_FLIGHT_PER_ACCOUNT: u64 = 64 * 1024 * 1024;
/// Bytes of each request that are not counted, so that large requests do not cause ordinary ones
/// to be refused.
pub const FREE_REQUEST_BYTES: u64 = 64 * 1024;
/// Time in which the whole body of a request must arrive.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(300);
/// Time in which a whole upload must arrive.
pub const UPLOAD_TIMEOUT: Duration = Duration::from_secs(3600);
/// Bytes of uploads and appended messages of one account that may arrive at once, in files; or the
/// size of the largest upload, if that is more.
pub const MAX_INCOMING_UPLOAD_BYTES_PER_ACCOUNT: u64 = 256 * 1024 * 1024;
/// Accounts that may have as many bytes of uploads arriving at once as one account may.
pub const MAX_FULL_UPLOADERS: u64 = 8;
/// In each window of this length a client must send `MIN_BODY_PACE_BYTES` of a body. Otherwise the
/// request ends.
pub const BODY_PACE_WINDOW: Duration = Duration::from_secs(30);
/// Bytes that a client must send in each `BODY_PACE_WINDOW`.
pub const MIN_BODY_PACE_BYTES: usize = 120 * 1024;
/// How long an HTTP connection may be without a request, and how long the head of a request may
/// take.
pub const HTTP_IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// How long an HTTP client may read nothing while a response waits.
pub const HTTP_WRITE_TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes of a response (or all that is left of it) that a client must read in each
/// `HTTP_WRITE_TIMEOUT` while the response waits: about a kilobyte a second.
pub const MIN_RESPONSE_PACE_BYTES: usize = 64 * 1024;
/// How long the rest of a request that was answered early is drained: read and dropped.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(300);
/// In each window of this length a client must send `MIN_DRAIN_PACE_BYTES` of a drained request.
pub const DRAIN_PACE_WINDOW: Duration = Duration::from_secs(5);
/// Bytes that a client must send in each `DRAIN_PACE_WINDOW`.
pub const MIN_DRAIN_PACE_BYTES: usize = 20 * 1024;
/// Bytes of a request that are drained.
pub const MAX_DRAINED_BYTES: usize = 256 * 1024 * 1024;
/// Method calls of a JMAP request (maxCallsInRequest).
pub const MAX_REQUEST_CALLS: usize = 64;
/// Bytes that the result references of one call may bring in (RFC 8620 §3.7). A call can refer to
/// the previous one several times, so without a bound a small request would double with each call.
pub const MAX_REFERENCED_BYTES: usize = 1024 * 1024;
/// Emails, decisions or other rows of one answer to the command line.
pub const MAX_LISTED_ROWS: usize = 10_000;
/// Depth of JSON that is read.
pub const MAX_JSON_DEPTH: usize = 64;
/// Values in JSON that is read. Each needs about ten times the memory of its shortest text.
pub const MAX_JSON_VALUES: usize = 500_000;
/// Objects of one /get call (RFC 8620 §2, maxObjectsInGet).
pub const MAX_OBJECTS_IN_GET: usize = 1000;
/// Objects of one /set call, created, updated and destroyed together (maxObjectsInSet).
pub const MAX_OBJECTS_IN_SET: usize = 1000;
/// Bytes of messages and uploads that all calls of one request may read. A call that would read
/// more is refused (RFC 8620 §5.1 requestTooLarge).
pub const MAX_READ_BYTES_PER_REQUEST: u64 = 1024 * 1024 * 1024;
/// Bytes of messages that the searches of one request may read, counted apart from
/// `MAX_READ_BYTES_PER_REQUEST`. A search that would read more is refused (RFC 8620 §5.5
/// unsupportedFilter).
pub const MAX_SEARCHED_BYTES_PER_REQUEST: u64 = 4 * 1024 * 1024 * 1024;
/// Rows of emails that the searches of one request, its lookups of blobs, and its counts of a
/// guest's unread threads may read before another one is refused (RFC 8620 §5.1 requestTooLarge).
/// One that began is finished, so a request with one search is never refused, however large the
/// account is.
pub const MAX_WALKED_ROWS_PER_REQUEST: u64 = 8_000_000;
/// Bytes of messages and uploads that one request may store. More are refused (RFC 8620 §5.3
/// rateLimit).
pub const MAX_FILED_BYTES_PER_REQUEST: u64 = 256 * 1024 * 1024;
/// Estimated bytes of memory for the answers to all calls of one request. A call beyond them is
/// refused (RFC 8620 §5.1 requestTooLarge). The largest message fits, in base64.
pub const MAX_ANSWER_BYTES: usize = 72 * 1024 * 1024;
/// Bytes of memory for the answers to an administrator's request on the control socket: 10,000 rows
/// with long lists of addresses fit.
pub const MAX_ADMINISTRATOR_ANSWER_BYTES: usize = 1024 * 1024 * 1024;
/// Bytes of a message that are searched for its header when only the header is wanted. Fields after
/// them are not shown.
pub const MAX_HEADER_BYTES: usize = 4 * 1024 * 1024;
/// `header:` properties of one call. Each of them is a search in the header.
pub const MAX_HEADER_PROPERTIES: usize = 250;
/// Invalid properties that one `SetError` names.
pub const MAX_NAMED_PROPERTIES: usize = 100;
/// Changes that one /changes call returns, unless it asks for fewer (RFC 8620 §5.2).
pub const MAX_CHANGES: usize = 10_000;
/// Results that one /query call returns, unless it asks for fewer (RFC 8620 §5.5).
pub const MAX_QUERY_RESULTS: usize = 10_000;

/// Mailboxes of an account (RFC 8620 §5.3 overQuota). Each change of a mailbox reads all names.
pub const MAX_MAILBOXES: usize = 10_000;

/// Attributes of a mailbox. They are in the mailbox's row, which is written again with each email
/// that changes a count of the mailbox.
pub const MAX_ATTRIBUTES: usize = 16;
/// Bytes of the name of an attribute.
pub const MAX_ATTRIBUTE_NAME_BYTES: usize = 32;
/// Bytes of the value of an attribute.
pub const MAX_ATTRIBUTE_VALUE_BYTES: usize = 255;
/// Bytes of all attributes of a mailbox together, names and values.
pub const MAX_ATTRIBUTES_BYTES: usize = 1024;

/// Accounts with which a mailbox is shared (RFC 9670). They are in the mailbox's row, like
/// attributes.
pub const MAX_SHARES: usize = 100;

/// Depth of the mailbox tree (RFC 8621 §1.3.1 maxMailboxDepth).
pub const MAX_MAILBOX_DEPTH: usize = 16;

/// Depth of a query's filter.
pub const MAX_FILTER_DEPTH: usize = 16;
/// Conditions of a query's filter, each mailbox of a list counted as one.
pub const MAX_FILTER_CONDITIONS: usize = 1000;
/// Bytes of the text of one condition.
pub const MAX_FILTER_TEXT_BYTES: usize = 1024;
/// Comparators of a query's sort.
pub const MAX_SORT_COMPARATORS: usize = 16;
/// Bytes of a text by which a result is sorted; the rest is ignored.
pub const MAX_SORT_KEY_BYTES: usize = 256;
/// Changes of emails, or of a listing, that one queryChanges reads. If there are more, the client
/// must query again.
pub const MAX_QUERY_EVENTS: usize = 100_000;
/// Requests of one account to upkeep to extend listings or to record their use.
pub const MAX_LISTING_REQUESTS_PER_ACCOUNT: usize = 64;
/// Requests of this kind of all accounts together. More are dropped; a later query makes them
/// again.
pub const MAX_LISTING_REQUESTS: usize = 4096;
/// Bytes of the preview of a search snippet (RFC 8621 §5).
pub const MAX_SNIPPET_BYTES: usize = 255;
/// Bytes of the subject of a search snippet: longer than any that a person writes (RFC 8621 §5 asks
/// for the whole subject).
pub const MAX_SNIPPET_SUBJECT_BYTES: usize = 4096;

/// The smallest block cache of the store.
pub const MIN_STORE_CACHE_BYTES: u64 = 8 << 20;
/// The least memory for rows that are not in a table file yet.
pub const MIN_STORE_WRITE_BUFFER_BYTES: u64 = 16 << 20;
/// The fewest flushes and compactions at once: one of each.
pub const MIN_STORE_JOBS: u32 = 2;
/// The most flushes and compactions at once.
pub const MAX_STORE_JOBS: u32 = 64;
