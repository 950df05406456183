//! The table of decisions, `tests/vacation/cases.txt`: every rule by what it catches, in every odd
//! form, and by the near misses that it must let through. What a line means is said at its head.

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

/// The reasons that are not decided of a message and its response alone, and so have no lines.
const ELSEWHERE: [Reason; 1] = [Reason::RateLimit];

struct TableCase {
    wanted: String,
    sender: Option<Address>,
    recipient: Address,
    raw: String,
    response: VacationResponse,
    junk: bool,
    known: bool,
    told: Option<UtcMillis>,
    forged: Option<String>,
    /// Domains that the account takes whole.
    whole: Vec<String>,
    /// Addresses that the directory gives to somebody else.
    taken: Vec<String>,
}

impl TableCase {
    /// Whether the directory leads an address to the account.
    fn is_own(&self, identity: &Identity, address: &Address) -> bool {
        let real = identity.canonical(address);
        !self.taken.contains(&real.to_string())
            && (identity.is_me(&real) || self.whole.iter().any(|domain| domain == real.domain()))
    }
}

fn unescaped(text: &str, own: &str) -> String {
    let text =
        text.replace("\\n", "\r\n").replace("\\t", "\t").replace("\\r", "\r").replace("\\0", "\0");
    text.replace("$OWN", own)
}

fn sender(text: &str) -> Option<Address> {
    if text == "<>" {
        return None;
    }
    let text = unescaped(text, "");
    // What is no address comes as its parts.
    let parts = || text.rsplit_once('@').unwrap_or((&text, ""));
    Some(Address::parse(&text).unwrap_or_else(|_| Address::from_parts(parts().0, parts().1)))
}

fn case(line: &str, own: &str) -> TableCase {
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
        known: false,
        told: None,
        forged: None,
        whole: Vec::new(),
        taken: Vec::new(),
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
            "known" => case.known = true,
            "audience" => response.audience = Audience::from_name(value).unwrap(),
            "organisation" => response.organisation.push(value.into()),
            "day" => response.days.push(value.parse().unwrap()),
            "catch-all" => case.whole.push(value.into()),
            "taken" => case.taken.push(value.into()),
            "forged" => case.forged = Some(value.into()),
            "except" => response.except.push(value.parse().unwrap()),
            "address" => response.addresses.push(Address::parse(value).unwrap()),
            other => panic!("there is no option {other}: {line}"),
        }
    }
    if rest != "-" {
        case.raw.push_str(&unescaped(rest, own));
        case.raw.push_str("\r\n");
    }
    case.raw.push_str("\r\nHello\r\n");
    case
}

fn decided(case: &TableCase, identity: &Identity) -> ReplyDecision<()> {
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
    let own = |one: &Address| case.is_own(identity, one);
    tests::decided(&input, &tests::TestLookup { own, told: case.told, knows: case.known })
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
    let own = reply(&input, &bob, |address| identity.is_me(address)).message_id;
    let (mut wrong, mut seen) = (Vec::new(), BTreeMap::<String, usize>::new());
    let lines =
        TABLE.lines().zip(1..).filter(|(line, _)| !line.is_empty() && !line.starts_with('#'));
    for (line, number) in lines {
        let case = case(line, &own);
        *seen.entry(case.wanted.clone()).or_default() += 1;
        let ours = decided(&case, &identity);
        let code = match &ours {
            ReplyDecision::Reply(()) => "answer",
            ReplyDecision::Silent(silence) => silence.reason.code(),
        };
        if code != case.wanted {
            wrong.push(format!("{number}: {line}\n    ours: {ours:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} lines:\n{}", wrong.len(), wrong.join("\n"));
    assert!(seen.values().sum::<usize>() >= 300, "{seen:?}");
    for reason in Reason::ALL.iter().filter(|reason| !ELSEWHERE.contains(reason)) {
        assert!(seen.contains_key(reason.code()), "no line has {}", reason.code());
    }
    for known in seen.keys() {
        assert!(
            known == "answer" || Reason::ALL.iter().any(|reason| reason.code() == known),
            "{known}"
        );
    }
}
