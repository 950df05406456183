//! Sharing: guests find the mailboxes that are shared with them, and nobody else does.

use std::collections::BTreeMap;

use super::fixture::{Fixture, fixture};
use super::*;
use crate::model::{DataType, limits, mailbox};

const BOB: AccountId = AccountId(2);
const EVE: AccountId = AccountId(3);
const INBOX: MailboxUid = MailboxUid(1);
const ARCHIVE: MailboxUid = MailboxUid(3);

fn three() -> Fixture {
    let fixture = fixture();
    make_account(&fixture.store, BOB);
    make_account(&fixture.store, EVE);
    fixture
}

fn share(fixture: &Fixture, uid: MailboxUid, with: &[(AccountId, u16)]) -> Result<bool, Error> {
    let shares: BTreeMap<AccountId, u16> = with.iter().copied().collect();
    fixture.done(|txn| txn.update_mailbox(uid, |row| row.shares.clone_from(&shares)))
}

#[test]
fn a_guest_finds_the_accounts_that_share_mailboxes() {
    let fixture = three();
    let with = |user| fixture.store.snapshot().accounts_shared_with(user).unwrap();
    let rights = |user| {
        let all = fixture.store.snapshot().mailboxes(ACCOUNT).unwrap().into_iter();
        let all = all.map(|(uid, row)| (uid, row.rights_of(ACCOUNT, user)));
        all.filter(|(_, rights)| *rights != 0).collect::<BTreeMap<MailboxUid, u16>>()
    };
    assert_eq!((with(BOB), rights(BOB)), (vec![], BTreeMap::new()));
    let before = fixture.store.snapshot().state(ACCOUNT, DataType::Mailbox).unwrap();
    assert!(share(&fixture, INBOX, &[(BOB, 1), (EVE, 3)]).unwrap());
    let since = fixture
        .store
        .snapshot()
        .mailbox_changes(ACCOUNT, ClientState::at(before), 99)
        .unwrap()
        .unwrap();
    assert_eq!(
        (since.changes.updated, since.only_counts),
        (vec![INBOX], false),
        "its users learn of it"
    );
    assert!(share(&fixture, ARCHIVE, &[(BOB, mailbox::ALL_RIGHTS)]).unwrap());
    assert!(!share(&fixture, INBOX, &[(BOB, 1), (EVE, 3)]).unwrap(), "the same again is no change");
    assert_eq!((with(BOB), with(EVE), with(ACCOUNT)), (vec![ACCOUNT], vec![ACCOUNT], vec![]));
    assert_eq!(rights(BOB), [(INBOX, 1), (ARCHIVE, mailbox::ALL_RIGHTS)].into());
    assert_eq!(rights(EVE), [(INBOX, 3)].into());
    assert!(
        rights(ACCOUNT).values().all(|rights| *rights == mailbox::ALL_RIGHTS)
            && rights(ACCOUNT).len() == 3
    );
    // The account is found as long as one mailbox is shared.
    share(&fixture, INBOX, &[]).unwrap();
    assert_eq!((with(BOB), with(EVE)), (vec![ACCOUNT], vec![]));
    fixture.done(|txn| txn.destroy_mailbox(ARCHIVE)).unwrap();
    assert_eq!((with(BOB), rights(BOB)), (vec![], BTreeMap::new()));
    assert_clean(&fixture.store);
}

#[test]
fn invalid_shares_are_refused() {
    let fixture = three();
    let many: Vec<(AccountId, u16)> =
        (0..=limits::MAX_SHARES).map(|n| (AccountId(u32::try_from(n).unwrap() + 9), 1)).collect();
    // With the owner, with the site, without rights, with an unknown right, with an account that
    // does not exist, with too many.
    for wrong in [
        &[(ACCOUNT, 1)][..],
        &[(AccountId::SITE, 1)],
        &[(BOB, 0)],
        &[(BOB, 1 << 9)],
        &[(AccountId(99), 1)],
        &many,
    ] {
        let refused = share(&fixture, INBOX, wrong);
        let fault = |refused: &Result<bool, Error>| match refused {
            Err(Error::Mailbox { fault, .. }) => format!("{fault:?}").starts_with("Share("),
            _ => false,
        };
        assert!(fault(&refused), "{refused:?}");
    }
    assert_eq!(fixture.rows(Table::Shared), 0);
}

#[test]
fn a_removed_account_leaves_no_shares() {
    let fixture = three();
    share(&fixture, INBOX, &[(BOB, 1), (EVE, 1)]).unwrap();
    fixture
        .on(BOB, |txn| txn.update_mailbox(INBOX, |row| row.shares = [(ACCOUNT, 1)].into()))
        .unwrap();
    // Bob's account is removed at once, and what others share with Bob in steps.
    assert!(!fixture.on(BOB, |txn| txn.erase(999)).unwrap());
    assert_clean(&fixture.store);
    assert_eq!(fixture.store.snapshot().accounts_shared_with(ACCOUNT).unwrap(), []);
    assert!(fixture.done(|txn| txn.unshare_removed_accounts(1)).unwrap());
    assert!(!fixture.done(|txn| txn.unshare_removed_accounts(1)).unwrap());
    let left = fixture.store.snapshot().mailboxes(ACCOUNT).unwrap().remove(0).1.shares;
    assert_eq!((left, fixture.rows(Table::Shared)), ([(EVE, 1)].into(), 1));
    assert!(!fixture.done(|txn| txn.unshare(&[EVE].into(), 9)).unwrap());
    assert_eq!(fixture.rows(Table::Shared), 0);
    assert_clean(&fixture.store);
}
