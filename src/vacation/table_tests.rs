//! Runs the table of decisions, `tests/vacation/cases.txt`, whose head explains its format.

use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::message::auto::AutoReplyFacts;
use crate::model::{Address, Audience, Identity, UtcMillis, VacationResponse};

const TABLE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vacation/cases.txt"));
const SECRET: [u8; 32] = [5; 32];
const NOW: UtcMillis = UtcMillis(1_795_251_600_000); // 2026-11-21T09:00:00Z
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Reasons that have no lines in the table, because `decide` does not decide them.
const REASONS_WITHOUT_LINES: [NoReplyReason; 2] = [NoReplyReason::RateLimit, NoReplyReason::Script];

struct TableCase {
    wanted: String,
    sender: Option<Address>,
    recipient: Address,
    raw: String,
    response: VacationResponse,
    junk: bool,
    owner_wrote: bool,
    told: Option<UtcMillis>,
    forged: Option<String>,
    catch_all: Vec<String>,
    addresses_of_others: Vec<String>,
}

impl TableCase {
    fn is_own(&self, identity: &Identity, address: &Address) -> bool {
        let real = identity.canonical(address);
        !self.addresses_of_others.contains(&real.to_string())
            && (identity.is_me(&real)
                || self.catch_all.iter().any(|domain| domain == real.domain()))
    }
}

/// Replaces the escapes of the table, and `$OWN` by the Message-ID of a reply.
fn unescape(text: &str, own_id: &str) -> String {
    let text =
        text.replace("\\n", "\r\n").replace("\\t", "\t").replace("\\r", "\r").replace("\\0", "\0");
    text.replace("$OWN", own_id)
}

fn sender(text: &str) -> Option<Address> {
    if text == "<>" {
        return None;
    }
    let text = unescape(text, "");
    // A text that is not an address is split at its last `@`.
    let parts = || text.rsplit_once('@').unwrap_or((&text, ""));
    Some(Address::parse(&text).unwrap_or_else(|_| Address::from_parts(parts().0, parts().1)))
}

fn parse_case(line: &str, own_id: &str) -> TableCase {
    let (wanted, rest) = line.split_once(' ').unwrap();
    let (from, mut rest) = rest.split_once(' ').unwrap();
    let mut case = TableCase {
        wanted: wanted.to_owned(),
        sender: sender(from),
        recipient: Address::from_parts("ann", "example.org"),
        raw: "To: ann@example.org\r\n".into(),
        response: VacationResponse {
            enabled: true,
            from_date: Some(NOW.before(DAY)),
            to_date: Some(NOW.after(DAY)),
            ..VacationResponse::default()
        },
        junk: false,
        owner_wrote: false,
        told: None,
        forged: None,
        catch_all: Vec::new(),
        addresses_of_others: Vec::new(),
    };
    while let Some((option, after)) = rest.strip_prefix('[').and_then(|rest| rest.split_once("] "))
    {
        rest = after;
        let (key, value) = option.split_once('=').unwrap_or((option, ""));
        let response = &mut case.response;
        match key {
            "bare" => case.raw.clear(),
            "rcpt" => case.recipient = Address::parse(value).unwrap(),
            "off" => response.enabled = false,
            "early" => response.from_date = Some(NOW.after(HOUR)),
            "late" => response.to_date = Some(NOW.before(HOUR)),
            "edge" => response.from_date = Some(NOW),
            "end" => response.to_date = Some(NOW),
            "told" => case.told = Some(NOW.before(HOUR)),
            "junk" => case.junk = true,
            "known" => case.owner_wrote = true,
            "audience" => response.audience = Audience::from_name(value).unwrap(),
            "organisation" => response.organisation.push(value.into()),
            "day" => response.days.push(value.parse().unwrap()),
            "catch-all" => case.catch_all.push(value.into()),
            "taken" => case.addresses_of_others.push(value.into()),
            "forged" => case.forged = Some(value.into()),
            "except" => response.except.push(value.parse().unwrap()),
            "address" => response.addresses.push(Address::parse(value).unwrap()),
            other => panic!("there is no option {other}: {line}"),
        }
    }
    if rest != "-" {
        case.raw.push_str(&unescape(rest, own_id));
        case.raw.push_str("\r\n");
    }
    case.raw.push_str("\r\nHello\r\n");
    case
}

fn decide_case(case: &TableCase, identity: &Identity) -> ReplyDecision<()> {
    let (sender, facts) = (case.sender.as_ref(), AutoReplyFacts::of(case.raw.as_bytes()));
    let input = Input {
        now: NOW,
        sender,
        recipient: &case.recipient,
        known_as: None,
        identity,
        notice: &Notice::of_response(&case.response, identity, sender, &facts, NOW),
        facts: &facts,
        forged: case.forged.as_deref(),
        junk: case.junk,
        secret: &SECRET,
        settings: &Settings::default(),
        nonce: 7,
    };
    let own = |address: &Address| case.is_own(identity, address);
    let lookup = tests::TestLookup { own, told: case.told, knows: case.owner_wrote };
    tests::decide_with(&input, &lookup)
}

#[test]
fn every_case_is_decided_as_the_table_has_it() {
    let identity = Identity {
        primary: Address::from_parts("ann", "example.org"),
        name: Some("Ann Lee".into()),
        addresses: vec![
            Address::from_parts("ann", "example.org"),
            Address::from_parts("a.lee", "example.org"),
        ],
        alias_domains: vec![("example.com".into(), "example.org".into())],
        delimiter: Some('+'),
        zone: Some("America/New_York".into()),
    };
    let facts = AutoReplyFacts::of(b"To: ann@example.org\r\n\r\n");
    let bob = Address::from_parts("bob", "example.net");
    let (response, ann) = (VacationResponse::default(), &identity.primary);
    let notice = Notice::of_response(&response, &identity, Some(&bob), &facts, NOW);
    let input = Input {
        now: NOW,
        sender: Some(&bob),
        recipient: ann,
        known_as: None,
        identity: &identity,
        notice: &notice,
        facts: &facts,
        forged: None,
        junk: false,
        secret: &SECRET,
        settings: &Settings::default(),
        nonce: 7,
    };
    let own_id = reply(&input, &bob, |address| identity.is_me(address)).message_id;
    let (mut problems, mut lines_by_reason) = (Vec::new(), BTreeMap::<String, usize>::new());
    let lines =
        TABLE.lines().zip(1..).filter(|(line, _)| !line.is_empty() && !line.starts_with('#'));
    for (line, number) in lines {
        let case = parse_case(line, &own_id);
        *lines_by_reason.entry(case.wanted.clone()).or_default() += 1;
        let ours = decide_case(&case, &identity);
        let code = match &ours {
            ReplyDecision::Reply(()) => "answer",
            ReplyDecision::Silent(silence) => silence.reason.code(),
        };
        if code != case.wanted {
            problems.push(format!("{number}: {line}\n    ours: {ours:?}"));
        }
    }
    assert!(problems.is_empty(), "{} lines:\n{}", problems.len(), problems.join("\n"));
    assert!(lines_by_reason.values().sum::<usize>() >= 300, "{lines_by_reason:?}");
    for reason in NoReplyReason::ALL.iter().filter(|reason| !REASONS_WITHOUT_LINES.contains(reason))
    {
        assert!(lines_by_reason.contains_key(reason.code()), "no line has {}", reason.code());
    }
    for code in lines_by_reason.keys() {
        assert!(
            code == "answer" || NoReplyReason::ALL.iter().any(|reason| reason.code() == code),
            "{code}"
        );
    }
}
