//! Compares the decisions about the messages of a corpus of real mail with the corpus's table: its
//! column `vacation_reply`, and `reasons` if both refuse a reply.
//!
//! - Only rows with confidence `high` and the answer `yes` or `no` are compared.
//! - The recipient is the first address in the message's destination fields that is not the
//!   sender. Messages without one are left out.
//! - The owner is away, and no sender was told before. Header fields of spam filters are not
//!   believed.

use super::tests::{TestLookup, decide_with};
use super::{Input, Notice, ReplyDecision, Settings, Silence};
use crate::message::auto::AutoReplyFacts;
use crate::message::parse;
use crate::model::{Address, Identity, UtcMillis, VacationResponse};

/// Expected differences from the table, as (file, reason). `docs/corpus.md` explains each.
const KNOWN_DIFFERENCES: &[(&str, &str)] =
    &[("auto/flanker.aol.eml", "list"), ("auto/mox.example.eml", "system-sender")];

/// Returns the envelope sender of the table's column `env_from`: an address, or a local part, which
/// gets a domain, or the last address of a header field.
fn envelope_sender(cell: &str) -> Option<Address> {
    let bare = || {
        (!cell.is_empty() && !cell.contains('@'))
            .then(|| Address::parse(&format!("{cell}@example.net")).ok())
    };
    let mailbox = || Address::parse(&parse::addresses(cell.as_bytes()).pop()?.email).ok();
    Address::parse(cell).ok().or_else(|| bare().flatten()).or_else(mailbox)
}

#[test]
fn decisions_agree_with_the_table() {
    let Some(dir) = crate::needs::corpus() else { return };
    let table = std::fs::read_to_string(dir.join("expect.tsv")).unwrap();
    let mut lines = table.lines();
    let names: Vec<&str> = lines.next().unwrap().split('\t').collect();
    let (mut problems, mut decisions) = (Vec::new(), 0);
    for line in lines {
        let cells: Vec<&str> = line.split('\t').collect();
        let cell = |name: &str| cells[names.iter().position(|column| *column == name).unwrap()];
        let (file, wanted) = (cell("file"), cell("vacation_reply"));
        if cell("confidence") != "high" || !["yes", "no"].contains(&wanted) {
            continue;
        }
        let facts = AutoReplyFacts::of(&std::fs::read(dir.join(file)).unwrap());
        let sender = envelope_sender(cell("env_from"));
        let recipient = facts.destinations.iter().find(|to| Some(*to) != sender.as_ref()).cloned();
        let Some(recipient) = recipient else { continue };
        let identity = Identity {
            primary: recipient.clone(),
            name: None,
            addresses: vec![recipient.folded()],
            alias_domains: Vec::new(),
            delimiter: Some('+'),
            zone: None,
        };
        let response = VacationResponse { enabled: true, ..VacationResponse::default() };
        let input = Input {
            now: UtcMillis(0),
            sender: sender.as_ref(),
            recipient: &recipient,
            known_as: None,
            identity: &identity,
            notice: &Notice::of_response(
                &response,
                &identity,
                sender.as_ref(),
                &facts,
                UtcMillis(0),
            ),
            facts: &facts,
            forged: None,
            junk: false,
            secret: &[0; 32],
            settings: &Settings { trust_spam_fields: false, ..Settings::default() },
            nonce: 7,
        };
        let lookup = TestLookup {
            own: |address: &Address| identity.is_me(address),
            told: None,
            knows: false,
        };
        let decision = decide_with(&input, &lookup);
        decisions += 1;
        let ours = if decision.is_reply() { "yes" } else { "no" };
        if ours != wanted {
            problems
                .push(format!("{file}: table {wanted} ({}), ours {decision:?}", cell("reasons")));
        }
        if let (ReplyDecision::Silent(Silence { reason, .. }), "no") = (&decision, wanted) {
            let is_in_table = cell("reasons").split(',').any(|code| code == reason.code());
            if !is_in_table && !KNOWN_DIFFERENCES.contains(&(file, reason.code())) {
                problems.push(format!("{file}: table {}, ours {}", cell("reasons"), reason.code()));
            }
        }
    }
    assert!(decisions > 200, "only {decisions} decisions were compared");
    assert!(problems.is_empty(), "{}\n", problems.join("\n"));
}
