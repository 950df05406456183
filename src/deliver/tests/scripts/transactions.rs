//! Tests of one message to one account in several LMTP transactions, and of the record that they
//! share.

use super::*;
use crate::model::limits::{MAX_DELIVERY_RECIPIENTS, MAX_DELIVERY_REFUSAL_BYTES};
use crate::store::{DeliveredEmail, DeliveryRow, RecipientOutcome};

/// Another address of the account.
const LEE: &str = "lee@example.org";

const TWO_VERSIONS: &str = "require [\"editheader\", \"fileinto\", \"copy\"];\n\
                            fileinto :copy \"Archive\"; addheader \"X-Tag\" \"1\";";

impl Fixture {
    fn deliver_to(&self, recipients: &[&str]) -> Vec<String> {
        self.clock.advance(Duration::from_millis(1));
        self.send(BOB, recipients, LETTER)
    }

    /// Returns the only record of a delivery.
    fn record(&self) -> DeliveryRow {
        let rows = self.store.snapshot().deliveries(self.ann).unwrap();
        let [row] = <[DeliveryRow; 1]>::try_from(rows).unwrap();
        row
    }
}

fn addresses(count: usize) -> Vec<Address> {
    (0..count).map(|n| Address::from_parts(format!("ann+{n}"), "example.org")).collect()
}

#[test]
fn second_transaction_finds_every_version_of_the_first() {
    let fixture = fixture();
    fixture.activate(TWO_VERSIONS);
    assert!(fixture.deliver_to(&[ANN])[0].starts_with("250 filed"));
    let mut stored = fixture.stored();
    stored.sort();
    assert_eq!(stored, ["Archive", "Inbox"]);
    let record = fixture.record();
    assert_eq!(record.emails.len(), 2);
    for to in [&[LEE][..], &["ann+x@example.org"], &[ANN, LEE, "ann+y@example.org"]] {
        let replies = fixture.deliver_to(to);
        assert!(replies.iter().all(|one| one.starts_with("250 already filed")), "{replies:?}");
        assert_eq!(fixture.stored().len(), 2, "{to:?}");
    }
    assert_eq!(fixture.record().emails, record.emails);
    fixture.assert_clean();
}

#[test]
fn version_that_a_second_transaction_makes_is_found_by_the_third() {
    let fixture = fixture();
    fixture.activate(
        "require [\"envelope\", \"editheader\"];\n\
         if envelope \"to\" \"lee@example.org\" { addheader \"X-Tag\" \"1\"; }",
    );
    for to in [[ANN], [LEE]] {
        assert!(fixture.deliver_to(&to)[0].starts_with("250 filed"), "{to:?}");
    }
    for to in [["ann+x@example.org"], [LEE]] {
        assert!(fixture.deliver_to(&to)[0].starts_with("250 already filed"), "{to:?}");
    }
    assert_eq!(fixture.stored(), ["Inbox", "Inbox"]);
    fixture.assert_clean();
}

#[test]
fn version_that_the_owner_destroyed_does_not_come_back() {
    let fixture = fixture();
    fixture.activate(TWO_VERSIONS);
    fixture.deliver_to(&[ANN]);
    let edited = fixture.record().emails.iter().find(|one| one.version.is_some()).unwrap().email;
    let destroyed = fixture.store.commit(fixture.ann, |txn| txn.destroy_email(edited));
    destroyed.unwrap().1.wait_blocking().unwrap();
    assert!(fixture.deliver_to(&[LEE])[0].starts_with("250 already filed"));
    assert_eq!(fixture.stored(), ["Archive"]);
    fixture.assert_clean();
}

#[test]
fn text_of_a_refusal_is_recorded_once() {
    let fixture = fixture();
    let text = "No. ".repeat(99);
    fixture.activate(&format!("require \"reject\"; reject \"{text}\";"));
    let to: Vec<String> = addresses(40).iter().map(ToString::to_string).collect();
    let to: Vec<&str> = to.iter().map(String::as_str).collect();
    let expected = format!("550 {}", text.trim_end());
    for to in [&to[..30], &to[20..], &to[..]] {
        assert_eq!(fixture.deliver_to(to), vec![expected.clone(); to.len()]);
    }
    let record = fixture.record();
    assert_eq!(record.refusals.len(), 1);
    assert_eq!(record.refusals[0].recipients.len(), 40);
    fixture.assert_clean();
}

/// A recipient beyond the bound is not recorded. Each retry files the message for it anew, which
/// finds the email that exists.
#[test]
fn record_of_a_delivery_is_bounded() {
    let engine = Arc::new(MemoryEngine::new());
    let fixture = fixture_over(engine.clone());
    fixture.activate(TWO_VERSIONS);
    fixture.deliver_to(&[ANN]);
    // The key ends with the hash of the transaction.
    let (key, _) = engine.rows(Table::Deliveries).remove(0);
    let hash = *key.last_chunk::<32>().unwrap();
    let more = addresses(MAX_DELIVERY_RECIPIENTS + 9);
    let recorded = fixture.store.commit(fixture.ann, |txn| {
        let accepted = more.iter().map(|address| (address, RecipientOutcome::Accepted));
        txn.remember_delivery(&hash, &[], accepted)
    });
    recorded.unwrap().1.wait_blocking().unwrap();
    assert_eq!(fixture.record().accepted.len(), MAX_DELIVERY_RECIPIENTS);
    for _ in 0..2 {
        assert!(fixture.deliver_to(&[LEE])[0].starts_with("250 already filed"));
    }
    assert_eq!(fixture.stored().len(), 2);
    assert_eq!(fixture.record().accepted.len(), MAX_DELIVERY_RECIPIENTS);
    fixture.assert_clean();
}

#[test]
fn row_of_a_delivery_holds_few_bytes_of_texts_and_few_emails() {
    let mut row =
        DeliveryRow { emails: vec![], accepted: vec![], refusals: vec![], at: UtcMillis(0) };
    for (n, address) in addresses(MAX_DELIVERY_RECIPIENTS).iter().enumerate() {
        // Texts of 2000 bytes. Where there is no room for one, the refusal is not recorded, and so
        // the second call records the recipient.
        let text = format!("{n:2000}");
        row.add_recipient(address, RecipientOutcome::Refused(&text));
        row.add_recipient(address, RecipientOutcome::Accepted);
    }
    let bytes: usize = row.refusals.iter().map(|refusal| refusal.text.len()).sum();
    assert!((MAX_DELIVERY_REFUSAL_BYTES - 2000..=MAX_DELIVERY_REFUSAL_BYTES).contains(&bytes));
    assert_eq!(row.accepted.len() + row.refusals.len(), MAX_DELIVERY_RECIPIENTS);
    for n in 0..=MAX_DELIVERY_RECIPIENTS {
        let blob = crate::model::BlobHash(*blake3::hash(&n.to_be_bytes()).as_bytes());
        for _ in 0..2 {
            let email = crate::model::EmailId(n as u64);
            row.add_email(DeliveredEmail { email, version: Some(blob) });
        }
    }
    assert_eq!(row.emails.len(), MAX_DELIVERY_RECIPIENTS);
}
