//! Sharing: guests find the mailboxes that are shared with them, and nobody else does.

use std::collections::BTreeMap;

use super::life::{Fixture, bed};
use super::*;
use crate::model::{DataType, limits, mailbox};

const BOB: AccountId = AccountId(2);
const EVE: AccountId = AccountId(3);
const INBOX: MailboxUid = MailboxUid(1);
const ARCHIVE: MailboxUid = MailboxUid(3);

fn three() -> Fixture {
    let bed = bed();
    make_account(&bed.store, BOB);
    make_account(&bed.store, EVE);
    bed
}

fn share(bed: &Fixture, uid: MailboxUid, with: &[(AccountId, u16)]) -> Result<bool, Error> {
    let shares: BTreeMap<AccountId, u16> = with.iter().copied().collect();
    bed.done(|txn| txn.update_mailbox(uid, |row| row.shares.clone_from(&shares)))
}

#[test]
fn a_guest_finds_the_accounts_that_share_mailboxes() {
    let bed = three();
    let with = |user| bed.store.snapshot().accounts_shared_with(user).unwrap();
    let rights = |user| {
        let all = bed.store.snapshot().mailboxes(ACCOUNT).unwrap().into_iter();
        let all = all.map(|(uid, row)| (uid, row.rights_of(ACCOUNT, user)));
        all.filter(|(_, rights)| *rights != 0).collect::<BTreeMap<MailboxUid, u16>>()
    };
    assert_eq!((with(BOB), rights(BOB)), (vec![], BTreeMap::new()));
    let before = bed.store.snapshot().state(ACCOUNT, DataType::Mailbox).unwrap();
    assert!(share(&bed, INBOX, &[(BOB, 1), (EVE, 3)]).unwrap());
    let since = bed
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
    assert!(share(&bed, ARCHIVE, &[(BOB, mailbox::ALL_RIGHTS)]).unwrap());
    assert!(!share(&bed, INBOX, &[(BOB, 1), (EVE, 3)]).unwrap(), "a change of nothing is none");
    assert_eq!((with(BOB), with(EVE), with(ACCOUNT)), (vec![ACCOUNT], vec![ACCOUNT], vec![]));
    assert_eq!(rights(BOB), [(INBOX, 1), (ARCHIVE, mailbox::ALL_RIGHTS)].into());
    assert_eq!(rights(EVE), [(INBOX, 3)].into());
    assert!(
        rights(ACCOUNT).values().all(|rights| *rights == mailbox::ALL_RIGHTS)
            && rights(ACCOUNT).len() == 3
    );
    // The account is found as long as one mailbox is shared.
    share(&bed, INBOX, &[]).unwrap();
    assert_eq!((with(BOB), with(EVE)), (vec![ACCOUNT], vec![]));
    bed.done(|txn| txn.destroy_mailbox(ARCHIVE)).unwrap();
    assert_eq!((with(BOB), rights(BOB)), (vec![], BTreeMap::new()));
    assert_clean(&bed.store);
}

#[test]
fn invalid_shares_are_refused() {
    let bed = three();
    let many: Vec<(AccountId, u16)> =
        (0..=limits::MAX_SHARES).map(|n| (AccountId(u32::try_from(n).unwrap() + 9), 1)).collect();
    for wrong in [
        &[(ACCOUNT, 1)][..],
        &[(AccountId::SITE, 1)],
        &[(BOB, 0)],
        &[(BOB, 1 << 9)],
        &[(AccountId(99), 1)],
        &many,
    ] {
        let refused = share(&bed, INBOX, wrong);
        let fault = |refused: &Result<bool, Error>| match refused {
            Err(Error::Mailbox { fault, .. }) => format!("{fault:?}").starts_with("Share("),
            _ => false,
        };
        assert!(fault(&refused), "{refused:?}");
    }
    assert_eq!(bed.rows(Table::Shared), 0);
}

#[test]
fn a_removed_account_leaves_no_shares() {
    let bed = three();
    share(&bed, INBOX, &[(BOB, 1), (EVE, 1)]).unwrap();
    bed.on(BOB, |txn| txn.update_mailbox(INBOX, |row| row.shares = [(ACCOUNT, 1)].into())).unwrap();
    // Bob's account is removed at once, and the shares with it in steps.
    assert!(!bed.on(BOB, |txn| txn.erase(999)).unwrap());
    assert_clean(&bed.store);
    assert_eq!(bed.store.snapshot().accounts_shared_with(ACCOUNT).unwrap(), []);
    assert!(bed.done(|txn| txn.unshare_removed_accounts(1)).unwrap());
    assert!(!bed.done(|txn| txn.unshare_removed_accounts(1)).unwrap());
    let left = bed.store.snapshot().mailboxes(ACCOUNT).unwrap().remove(0).1.shares;
    assert_eq!((left, bed.rows(Table::Shared)), ([(EVE, 1)].into(), 1));
    assert!(!bed.done(|txn| txn.unshare(&[EVE].into(), 9)).unwrap());
    assert_eq!(bed.rows(Table::Shared), 0);
    assert_clean(&bed.store);
}
