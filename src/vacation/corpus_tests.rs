//! Decides over the corpus of real mail and compares with its column `vacation_reply`: supposing
//! that the recipient is named, that nobody was told before, and that the owner is away.

use super::tests::{TestLookup, decided};
use super::{Input, Notice, ReplyDecision, Settings, Silence};
use crate::message::auto::AutoReplyFacts;
use crate::message::parse;
use crate::model::{Address, Identity, UtcMillis, VacationResponse};

/// Reasons of ours that the table has no column for, each looked at and told in `docs/corpus.md`:
/// (file, reason).
const OTHERWISE: &[(&str, &str)] =
    &[("auto/flanker.aol.eml", "list"), ("auto/mox.example.eml", "system-sender")];

/// The envelope sender as Postfix would hand it over: a bare local part gets a domain, and where
/// the table took a whole mailbox out of the header, its address counts.
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
    let (mut wrong, mut looked) = (Vec::new(), 0);
    for line in lines {
        let cells: Vec<&str> = line.split('\t').collect();
        let cell = |name: &str| cells[names.iter().position(|known| *known == name).unwrap()];
        let (file, wanted) = (cell("file"), cell("vacation_reply"));
        if cell("confidence") != "high" || !["yes", "no"].contains(&wanted) {
            continue;
        }
        let facts = AutoReplyFacts::of(&std::fs::read(dir.join(file)).unwrap());
        let sender = envelope_sender(cell("env_from"));
        // The recipient is named: whoever is; where nobody is, the owner's own list of addresses
        // says who it is.
        let recipient =
            facts.destinations.iter().find(|one| Some(*one) != sender.as_ref()).cloned();
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
        let outcome = decided(&input, &lookup);
        looked += 1;
        let ours = if outcome.is_reply() { "yes" } else { "no" };
        if ours != wanted {
            wrong.push(format!("{file}: table {wanted} ({}), ours {outcome:?}", cell("reasons")));
        }
        // A reason of ours is one of the table's, where ours is a rule that the table knows.
        if let (ReplyDecision::Silent(Silence { reason, .. }), "no") = (&outcome, wanted) {
            let known = cell("reasons").split(',').any(|one| one == reason.code());
            if !known && !OTHERWISE.contains(&(file, reason.code())) {
                wrong.push(format!("{file}: table {}, ours {}", cell("reasons"), reason.code()));
            }
        }
    }
    assert!(looked > 200, "only {looked} decisions were looked at");
    assert!(wrong.is_empty(), "{}\n", wrong.join("\n"));
}
