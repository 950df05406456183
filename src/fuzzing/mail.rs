//! Fuzz bodies that take a message: rows, search, replies, authentication results and DKIM
//! signatures.

use std::convert::Infallible;
use std::sync::LazyLock;

use super::bounded;
use crate::message::auto::AutoReplyFacts;
use crate::message::header::{Header, body_offset, fields, leading_fields};
use crate::message::{Message, rows_of, tokens, trace};
use crate::model::{
    Address, ClientInfo, Envelope, Identity, MessageRows, Recipient, Secrets, ToldKey,
    ToldLifetime, UtcMillis, VacationResponse, limits,
};
use crate::outbox::{Reporter, dsn};
use crate::proof::{self, Policy, Signer, SigningKey};
use crate::query::{SearchTerm, WORD_FIELDS};
use crate::store::EncodedMessage;
use crate::store::row::{decode_content, decode_tokens, encode_content, encode_tokens};
use crate::vacation;

const NOW: UtcMillis = UtcMillis(1_795_251_600_000);
const SECRETS: Secrets =
    Secrets { threads: [1; 32], told: [2; 32], words: [3; 16], ranks: [4; 16] };

/// Derives the rows of any bytes as a message: deterministic, bounded, and decoded to what was
/// encoded.
pub fn message(data: &[u8]) {
    let data = bounded(data);
    let parsed = Message::parse(data);
    let rows = rows_of(&parsed, &SECRETS);
    assert_eq!(rows, rows_of(&parsed, &SECRETS));
    check_rows(&rows, data);

    let encoded = EncodedMessage::new(&rows);
    let content = encode_content(b"prefix", &encoded.content);
    assert_eq!(decode_content(b"key", &content), Ok((b"prefix".to_vec(), rows.content)));
    assert_eq!(decode_tokens(b"key", &encode_tokens(b"prefix", &encoded.tokens)), Ok(rows.tokens));
    // A loose bound: it finds rows that grow without one.
    let max = 64 * data.len() + 64 * 1024;
    assert!(
        content.len() + encoded.tokens.len() <= max,
        "rows of {} bytes",
        content.len() + encoded.tokens.len()
    );

    let facts = AutoReplyFacts::of(data);
    assert!(facts.destinations.len() <= data.len());
    let header = Header::split(data);
    assert!(fields(data).all(|field| field.name.len() + field.value.len() <= data.len()));
    assert!(header.fields().eq(fields(data)));
    assert!(header.leading_fields().eq(leading_fields(data)));
    assert_eq!(header.body_offset(), body_offset(data));
    assert!(body_offset(data) <= data.len() && trace::received_count(&header) <= data.len());
    check_trace(data, &facts);
}

/// Searches the rest of the input, as a message, for its first line. A message that contains this
/// text also matches by its tokens. Tokens and bytes together match exactly if the parsed
/// message contains the text.
pub fn search(data: &[u8]) {
    let data = bounded(data);
    let end = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let (text, raw) =
        (String::from_utf8_lossy(&data[..end]), data.get(end + 1..).unwrap_or_default());
    let tokens = rows_of(&Message::parse(raw), &SECRETS).tokens;
    for fields in [WORD_FIELDS, tokens::FROM, tokens::SUBJECT, tokens::BODY] {
        let term = SearchTerm::new(&text, fields, &SECRETS);
        let (matches_tokens, matches_raw) = (term.matches(&tokens), term.matches_raw(raw));
        assert!(matches_tokens || !matches_raw, "{text:?} is in the message, not in its tokens");
        // Two words with the same hash would break this.
        assert_eq!(matches_tokens && term.confirms(raw), matches_raw, "{text:?} in {fields}");
    }
}

/// Checks that the rows of a message keep their limits, and that lists of words are sorted.
fn check_rows(rows: &MessageRows, data: &[u8]) {
    let content = &rows.content;
    assert_eq!(rows.size, data.len() as u64);
    assert!(content.preview.chars().count() <= limits::MAX_PREVIEW_CHARS);
    let is_one_line = |text: &str| !text.chars().any(char::is_control);
    assert!(is_one_line(&content.preview));
    assert!(
        content.subject.as_deref().is_none_or(|subject| is_one_line(&subject.replace('\t', " ")))
    );
    for people in
        [&content.from, &content.to, &content.cc, &content.bcc, &content.sender, &content.reply_to]
    {
        assert!(people.len() <= limits::MAX_FIELD_ADDRESSES);
        assert!(
            people
                .iter()
                .all(|one| is_one_line(&one.email) && one.name.as_deref().is_none_or(is_one_line))
        );
    }
    for ids in [&content.message_id, &content.in_reply_to, &content.references] {
        assert!(
            ids.len() <= limits::MAX_FIELD_ADDRESSES
                && ids.iter().all(|id| id.len() <= limits::MAX_MESSAGE_ID_BYTES)
        );
    }
    assert!(content.parts.len() <= limits::MAX_MIME_PARTS);
    for part in &content.parts {
        assert!(
            part.header <= part.body && part.body <= part.end && part.end as usize <= data.len(),
            "{part:?}"
        );
    }
    assert!(
        rows.thread_keys.len() <= limits::MAX_THREADING_IDS,
        "{} thread keys",
        rows.thread_keys.len()
    );
    let tokens = &rows.tokens;
    assert!(
        tokens.words.iter().map(|word| word.positions.len()).sum::<usize>()
            <= limits::MAX_INDEXED_WORDS
    );
    assert!(tokens.words.iter().is_sorted_by(|one, next| one.hash < next.hash));
    assert!(tokens.words.iter().all(|word| word.positions.is_sorted()));
    assert!(
        tokens.texts.is_sorted_by(|one, next| one.0 < next.0)
            && tokens.texts.len() <= limits::MAX_FIELD_ADDRESSES + 1
    );
}

/// Checks that the trace prefix has exactly three fields, and that a delivery report about the
/// message is well formed. Field values of the message stand in for what a client sends.
fn check_trace(data: &[u8], facts: &AutoReplyFacts) {
    // The values of a client are bounded (RFC 5321 §4.5.3.1).
    let values = fields(data)
        .take(4)
        .map(|field| String::from_utf8_lossy(field.value).chars().take(200).collect());
    let values: Vec<String> = values.collect();
    let value = |at: usize| values.get(at).cloned();
    let client = ClientInfo {
        name: value(0),
        addr: value(1),
        helo: value(2),
        ident: value(3),
        ..ClientInfo::default()
    };
    let local = value(0).unwrap_or_default();
    let sender = facts.from.first().and_then(|from| Address::parse(&from.email).ok());
    let envelope =
        Envelope { lhlo: local.clone(), envid: value(1), sender, client, ..Envelope::default() };
    let recipient = Recipient::plain(Address::from_parts(local, "b.example"));
    let id = trace::queue_id(&Header::split(data), &envelope).unwrap_or_default();
    assert!(id.chars().count() <= 64);
    let prefix = trace::prefix(&envelope, &recipient, &recipient.address, "mx.example", &id, NOW);
    assert_eq!(
        names(&prefix),
        ["Return-Path", "Delivered-To", "Received"],
        "{}",
        prefix.escape_ascii()
    );
    assert_eq!(body_offset(&prefix), prefix.len());
    let reporter = Reporter { hostname: "mx.example", message_id: "d.1@mx.example", now: NOW };
    let Some(report) = dsn::compose_delivered(&envelope, &[&recipient], data, None, &reporter)
    else {
        return;
    };
    check_sent(
        &report.bytes,
        &envelope.sender.map(|sender| sender.to_string()).unwrap_or_default(),
    );
    assert!(
        AutoReplyFacts::of(&report.bytes).auto_submitted.is_some()
            && AutoReplyFacts::of(&report.bytes).report.is_some()
    );
}

fn names(raw: &[u8]) -> Vec<String> {
    fields(raw).map(|field| String::from_utf8_lossy(field.name).into_owned()).collect()
}

/// Checks a message that this server composed: lines (RFC 5322 §2.1.1, §2.3), each field of a reply
/// once, and ASCII unless `addresses` is not (RFC 6532 §3.2).
pub(super) fn check_sent(message: &[u8], addresses: &str) {
    assert!(message.is_ascii() || !addresses.is_ascii(), "not ASCII, though every address is");
    for line in message.split_inclusive(|byte| *byte == b'\n') {
        let text = line.strip_suffix(b"\r\n").unwrap_or(line);
        assert!(
            !text.contains(&b'\n') && !text.contains(&b'\r') && !text.contains(&0),
            "{}",
            line.escape_ascii()
        );
        assert!(text.len() <= 998, "a line of {} bytes", text.len());
    }
    let names = names(message);
    for name in ["From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted"] {
        let count = names.iter().filter(|other| other.eq_ignore_ascii_case(name)).count();
        assert_eq!(count, 1, "{name} in {names:?}");
    }
}

/// Checks a reply whose body a Sieve script supplied.
fn check_entity(message: &[u8]) {
    for line in message.split_inclusive(|byte| *byte == b'\n') {
        let text = line.strip_suffix(b"\r\n").unwrap_or(line);
        assert!(
            !text.contains(&b'\n') && !text.contains(&b'\r') && !text.contains(&0),
            "{}",
            line.escape_ascii()
        );
        assert!(text.len() <= 998, "a line of {} bytes", text.len());
    }
    let facts = AutoReplyFacts::of(message);
    assert!(
        facts.auto_submitted.is_some() && facts.precedence.is_some() && facts.list.is_none(),
        "{facts:?}"
    );
    assert!(!names(message).iter().any(|name| name.eq_ignore_ascii_case("Bcc")));
}

/// An account that has told no sender and has no correspondents, with the addresses of the
/// identity, if there is one.
struct FuzzLookup<'a>(Option<&'a Identity>);

impl vacation::AccountLookup for FuzzLookup<'_> {
    type Error = Infallible;

    fn is_own(&self, address: &Address) -> Result<bool, Infallible> {
        Ok(self.0.is_some_and(|identity| identity.is_me(address)))
    }

    fn told(&self, _: &ToldKey, _: &ToldLifetime) -> Result<Option<UtcMillis>, Infallible> {
        Ok(None)
    }

    fn knows(&self, _: &Address) -> Result<bool, Infallible> {
        Ok(false)
    }
}

/// Composes the vacation reply to any message with any text of the owner: well formed, bounded, and
/// never answered itself.
pub fn reply(data: &[u8]) {
    let data = bounded(data);
    let facts = AutoReplyFacts::of(data);
    let ann = Address::from_parts("ann", "example.org");
    let identity = Identity {
        primary: ann.clone(),
        name: facts.subject.clone(),
        addresses: vec![ann.clone()],
        alias_domains: Vec::new(),
        delimiter: Some('+'),
        zone: None,
    };
    let body = data.get(body_offset(data)..).unwrap_or_default();
    let text = Some(String::from_utf8_lossy(body).into_owned()).filter(|text| !text.is_empty());
    let html = text.clone().filter(|text| text.starts_with('<'));
    let response = VacationResponse {
        enabled: true,
        subject: facts.subject.clone().filter(|subject| subject.contains('{')),
        text_body: text.filter(|_| html.is_none()),
        html_body: html,
        from: facts.from.get(1).cloned(),
        reply_to: facts.from.get(2).cloned(),
        ..VacationResponse::default()
    };
    let sender = facts.from.first().and_then(|from| Address::parse(&from.email).ok());
    let sender = sender.unwrap_or_else(|| Address::from_parts("bob", "example.net"));
    let settings = vacation::Settings::default();
    let notice = vacation::Notice::of_response(&response, &identity, Some(&sender), &facts, NOW);
    let input = vacation::Input {
        now: NOW,
        sender: Some(&sender),
        recipient: &ann,
        known_as: None,
        identity: &identity,
        notice: &notice,
        facts: &facts,
        forged: None,
        junk: false,
        secret: &SECRETS.told,
        settings: &settings,
        nonce: 7,
    };
    let lookup = FuzzLookup(Some(&identity));
    let outcome = vacation::decide(&input, &lookup);
    assert_eq!(outcome, vacation::decide(&input, &lookup));
    let reply = vacation::reply(&input, &sender, |_| true);
    let people = [&response.from, &response.reply_to]
        .into_iter()
        .flatten()
        .map(|person| person.email.as_str());
    check_sent(&reply.message, &people.chain([sender.to_string().as_str()]).collect::<String>());
    // RFC 5230 §4.4: a script may supply any MIME entity.
    let script = vacation::Script {
        mime: true,
        from: facts.from.first().map(|from| from.email.clone()),
        reason: String::from_utf8_lossy(body).into_owned(),
        ..vacation::Script::default()
    };
    let script_notice = vacation::Notice::of_script(&script);
    let entity =
        vacation::reply(&vacation::Input { notice: &script_notice, ..input }, &sender, |_| true);
    check_entity(&entity.message);
    assert!(vacation::is_own_id(&reply.message_id, &SECRETS.told));
    let seen = AutoReplyFacts::of(&reply.message);
    assert_eq!(seen.message_id.as_deref(), Some(reply.message_id.as_str()));
    let back = vacation::Input { sender: Some(&ann), recipient: &sender, facts: &seen, ..input };
    let back = vacation::decide(&back, &FuzzLookup(None));
    assert!(back.is_ok_and(|back| !back.is_reply()), "a reply is answered");
    // A loose bound: it finds replies that grow without one.
    let max = 64 * 1024 + 16 * data.len();
    assert!(
        reply.message.len() <= max,
        "a reply of {} bytes to {}",
        reply.message.len(),
        data.len()
    );
}

/// Evaluates the Authentication-Results fields of any message. A stricter policy accepts nothing
/// that a laxer one rejects. Fields below the Received field of another server do not count, and
/// without a sender or a trusted server nothing is rejected.
pub fn results(data: &[u8]) {
    let data = bounded(data);
    let sender = Address::from_parts("bob", "example.net");
    let mut is_rejected = false;
    for policy in [Policy::Off, Policy::FailOnly, Policy::Strict] {
        let settings =
            proof::Settings { authserv_ids: vec!["mx.example.org".into()], policy, verifier: None };
        let found = proof::forgery_reason(&Header::split(data), Some(&sender), &settings);
        assert!(policy != Policy::Off || found.is_none());
        assert!(found.is_some() || !is_rejected, "rejected by the laxer policy only");
        assert!(
            found.as_ref().is_none_or(|why| why.len() < 1000 && !why.contains(char::is_control))
        );
        is_rejected = found.is_some();
        assert_eq!(proof::forgery_reason(&Header::split(data), None, &settings), None);
        let nobody = proof::Settings { policy, ..proof::Settings::default() };
        assert_eq!(proof::forgery_reason(&Header::split(data), Some(&sender), &nobody), None);
        let foreign = b"Received: from a by mx.example.org\r\nReceived: from b by evil.example\r\n";
        let below = proof::forgery_reason(
            &Header::split(&[foreign, data].concat()),
            Some(&sender),
            &settings,
        );
        assert_eq!(
            below,
            proof::forgery_reason(&Header::split(foreign), Some(&sender), &settings),
            "below a foreign Received field"
        );
        let failure = b"Authentication-Results: mx.example.org; dmarc=fail\r\n";
        let failed = proof::forgery_reason(
            &Header::split(&[failure, data].concat()),
            Some(&sender),
            &settings,
        );
        assert_eq!(failed.is_some(), policy != Policy::Off);
    }
}

/// Signs any message with two DKIM keys, below a From field. It is signed only if it has no other
/// From field. A Received field before the message, without the added From field, makes no
/// difference to whether it is signed.
pub fn sign(data: &[u8]) {
    static SIGNER: LazyLock<Signer> = LazyLock::new(|| {
        let key = |selector| SigningKey::new("example.org", selector, KEY).unwrap();
        Signer::new(vec![key("one"), key("two")])
    });
    let data = bounded(data);
    let from = b"From: Ann <ann@example.org>\r\n";
    let made = SIGNER.sign(&[from, data].concat()).unwrap();
    assert_eq!(made.is_some(), !fields(data).any(|field| field.is("From")));
    let Some(made) = made else { return };
    assert_eq!(names(&made), ["DKIM-Signature", "DKIM-Signature"], "{}", made.escape_ascii());
    assert_eq!(body_offset(&made), made.len());
    assert!(made.is_ascii() && made.split(|byte| *byte == b'\n').all(|line| line.len() <= 998));
    assert_eq!(
        SIGNER.sign(data).unwrap().is_some(),
        SIGNER.sign(&[b"Received: x\r\n", data].concat()).unwrap().is_some()
    );
}

/// An Ed25519 key that signs nothing else.
const KEY: &[u8] = b"-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g
-----END PRIVATE KEY-----
";
