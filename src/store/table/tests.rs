//! Keys round trip and sort as their fields do, and the tables are those on disk.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt::Debug;

use proptest::prelude::*;

use super::codec::{KeyTime, Prefix};
use super::folds::{FoldBlockKey, FoldId, FoldKey, FoldRows};
use super::keys::*;
use super::*;
use crate::model::{
    AccountId, ActionId, BlobHash, Listing, ListingFilter, MailboxUid, ObjectKind, Shape,
    ThreadKey, Token, ToldKey, UtcMillis,
};

/// Numbers that are often equal, so that the next field of a key decides the order.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        0u64..3,
        Just(255),
        Just(256),
        Just(1 << 32),
        Just(u64::MAX - 1),
        Just(u64::MAX),
        any::<u64>()
    ]
}

fn narrow() -> impl Strategy<Value = u32> {
    prop_oneof![0u32..3, Just(255), Just(256), Just(u32::MAX), any::<u32>()]
}

fn account() -> impl Strategy<Value = AccountId> {
    narrow().prop_map(AccountId)
}

fn time() -> impl Strategy<Value = KeyTime> {
    number()
        .prop_map(|millis| KeyTime::from(UtcMillis(i64::try_from(millis / 2).unwrap_or(i64::MAX))))
}

fn hash<const N: usize>() -> impl Strategy<Value = [u8; N]> {
    (any::<u8>(), any::<u8>()).prop_map(|(first, last)| {
        let mut hash = [0; N];
        hash[0] = first % 3;
        hash[N - 1] = last;
        hash
    })
}

fn filter() -> impl Strategy<Value = ListingFilter> {
    proptest::sample::select(ListingFilter::ALL.to_vec())
}

fn listing() -> impl Strategy<Value = Listing> {
    (narrow(), filter(), any::<bool>()).prop_map(|(uid, filter, collapsed)| Listing {
        uid: MailboxUid(uid),
        filter,
        shape: if collapsed { Shape::Threads } else { Shape::Emails },
    })
}

fn token() -> impl Strategy<Value = Token> {
    prop_oneof![narrow().prop_map(Token::Word), "[a-b\\x00\u{e9}]{0,4}".prop_map(Token::Text)]
}

fn wake() -> impl Strategy<Value = WakeCondition> {
    let at = || time().prop_map(UtcMillis::from);
    prop_oneof![
        at().prop_map(WakeCondition::Attempting),
        at().prop_map(WakeCondition::Urgent),
        at().prop_map(WakeCondition::Due),
        number().prop_map(|action| WakeCondition::After(ActionId(action))),
        at().prop_map(WakeCondition::Forget),
    ]
}

fn kind() -> impl Strategy<Value = ObjectKind> {
    proptest::sample::select(ObjectKind::ALL.to_vec())
}

fn assert_round_trip_and_order<T: Table<Key: Ord + Clone + Debug>>(
    first: &T::Key,
    second: &T::Key,
) {
    let (left, right) = (first.encode(), second.encode());
    assert_eq!(left.cmp(&right), first.cmp(second), "{first:?} {second:?}");
    assert_eq!(decode_key::<T>(&left).as_ref(), Ok(first));
    assert_eq!(T::ID.check_key(&right), Ok(()));
    // Without its last byte, it is no key or another one.
    assert!(left.is_empty() || decode_key::<T>(&left[..left.len() - 1]).as_ref() != Ok(first));
    // An address ends where the key ends.
    if T::ID != TableId::Addresses {
        assert!(
            decode_key::<T>(&[left.as_slice(), &[0]].concat()).is_err(),
            "{first:?} and one byte more"
        );
    }
}

/// Declares a test for each table, with a strategy for its keys.
macro_rules! keys_sort_and_read_back {
    ($($test:ident: $table:ident = $strategy:expr;)*) => {
        proptest! {
            $(
                #[test]
                fn $test(first in $strategy, second in $strategy) {
                    assert_round_trip_and_order::<$table>(&first, &second);
                }
            )*
        }

        #[test]
        fn the_key_of_every_table_is_tested() {
            let tested: BTreeSet<TableId> = [$($table::ID),*].into();
            assert_eq!(tested, TableId::ALL.iter().copied().collect());
        }
    };
}

fn account_key() -> impl Strategy<Value = AccountKey> {
    account().prop_map(|account| AccountKey { account })
}

fn email_key() -> impl Strategy<Value = EmailKey> {
    (account(), number()).prop_map(|(account, email)| EmailKey { account, email: EmailId(email) })
}

fn modseq_key() -> impl Strategy<Value = ModSeqKey> {
    (account(), number())
        .prop_map(|(account, modseq)| ModSeqKey { account, modseq: ModSeq(modseq) })
}

fn action_key() -> impl Strategy<Value = ActionKey> {
    (account(), number())
        .prop_map(|(account, action)| ActionKey { account, action: ActionId(action) })
}

fn site_key() -> impl Strategy<Value = SiteKey> {
    prop_oneof![Just(SiteKey::Queue), Just(SiteKey::Store), account().prop_map(SiteKey::Repair)]
}

fn fold_key() -> impl Strategy<Value = FoldKey> {
    // The derived order of the enum is not the order of the bytes, so only blocks are compared.
    (account(), 0u8..3, number(), token(), narrow(), narrow()).prop_map(
        |(account, level, number, token, ordinal, position)| {
            FoldKey::Block(FoldBlockKey {
                account,
                level,
                number: Reverse(number),
                token,
                ordinal,
                position,
            })
        },
    )
}

fn blob() -> impl Strategy<Value = BlobHash> {
    hash().prop_map(BlobHash)
}

fn delivery() -> impl Strategy<Value = DeliveryKey> {
    (account(), hash()).prop_map(|(account, hash)| DeliveryKey { account, hash })
}

fn told() -> impl Strategy<Value = ToldKey> {
    hash().prop_map(ToldKey)
}

fn email() -> impl Strategy<Value = EmailId> {
    number().prop_map(EmailId)
}

fn mailbox() -> impl Strategy<Value = MailboxUid> {
    narrow().prop_map(MailboxUid)
}

fn thread() -> impl Strategy<Value = ThreadId> {
    number().prop_map(ThreadId)
}

keys_sort_and_read_back! {
    site: Site = site_key();
    accounts: Accounts = account_key();
    addresses: Addresses = "[@=a-b\u{e9}]{0,5}".prop_map(AddressKey);
    account_state: AccountState = account_key();
    email_metadata: EmailMetadata = email_key();
    email_by_modseq: EmailByModseq = modseq_key();
    email_by_thread: EmailByThread = (account(), thread(), email())
        .prop_map(|(account, thread, email)| ThreadEmailKey { account, thread, email });
    email_content: EmailContent = email_key();
    email_tokens: EmailTokens = email_key();
    search_folds: SearchFolds = fold_key();
    mailbox_email_list: MailboxEmailList = (account(), listing(), number(), number())
        .prop_map(|(account, listing, removed, added)| ListingHistoryKey {
            account,
            listing,
            removed: ModSeq(removed),
            added: ModSeq(added),
        });
    mailbox_email_index: MailboxEmailIndex = (account(), listing(), email())
        .prop_map(|(account, listing, email)| ListingEmailKey { account, listing, email });
    mailbox_rank: MailboxRank = (account(), listing(), 0u8..4, email())
        .prop_map(|(account, listing, level, boundary)| RankKey {
            account,
            listing,
            level,
            boundary,
        });
    mailbox_thread_index: MailboxThreadIndex = (account(), mailbox(), filter(), thread(), email())
        .prop_map(|(account, mailbox, filter, thread, email)| ThreadIndexKey {
            account,
            mailbox,
            filter,
            thread,
            email,
        });
    threads: Threads = (account(), thread())
        .prop_map(|(account, thread)| ThreadIdKey { account, thread });
    thread_by_modseq: ThreadByModseq = modseq_key();
    mailboxes: Mailboxes = (account(), mailbox())
        .prop_map(|(account, mailbox)| MailboxKey { account, mailbox });
    subscriptions: Subscriptions = (account(), mailbox(), account())
        .prop_map(|(account, mailbox, subscriber)| SubscriptionKey {
            account,
            mailbox,
            subscriber,
        });
    thread_refs: ThreadRefs = (account(), hash())
        .prop_map(|(account, key)| ThreadRefKey { account, key: ThreadKey(key) });
    blobs: Blobs = blob().prop_map(|blob| BlobKey { blob });
    blob_frames: BlobFrames = (blob(), narrow())
        .prop_map(|(blob, number)| BlobFrameKey { blob, number });
    blob_refs: BlobRefs = (blob(), account(), email())
        .prop_map(|(blob, account, email)| BlobRefKey { blob, account, email });
    deliveries: Deliveries = delivery();
    delivery_by_time: DeliveryByTime = (account(), time(), hash())
        .prop_map(|(account, at, hash)| DeliveryTimeKey { account, at, hash });
    vacation: Vacation = account_key();
    vacation_told: VacationTold = (account(), told())
        .prop_map(|(account, told)| VacationToldKey { account, told });
    told_by_time: ToldByTime = (account(), time(), told())
        .prop_map(|(account, at, told)| ToldTimeKey { account, at, told });
    decisions: Decisions = (account(), time(), email())
        .prop_map(|(account, at, email)| DecisionKey { account, at: Reverse(at), email });
    email_purge: EmailPurge = (account(), time(), email())
        .prop_map(|(account, at, email)| PurgeKey { account, at, email });
    outbox: Outbox = action_key();
    outbox_messages: OutboxMessages = action_key();
    outbox_due: OutboxDue = (wake(), account(), number())
        .prop_map(|(wake, account, action)| DueKey { wake, account, action: ActionId(action) });
    outbox_same: OutboxSame = (account(), hash())
        .prop_map(|(account, hash)| SameActionKey { account, hash });
    outbox_blobs: OutboxBlobs = (blob(), account(), number())
        .prop_map(|(blob, account, action)| ActionBlobKey {
            blob,
            account,
            action: ActionId(action),
        });
    blob_purge: BlobPurge = (time(), blob()).prop_map(|(at, blob)| BlobPurgeKey { at, blob });
    history: History = (account(), time()).prop_map(|(account, at)| HistoryKey { account, at });
    sweeps: Sweeps = (account(), any::<u8>())
        .prop_map(|(account, number)| SweepKey { account, number });
    uploads: Uploads = (account(), account(), blob())
        .prop_map(|(account, user, blob)| UploadKey { account, user, blob });
    upload_blobs: UploadBlobs = (blob(), account(), account())
        .prop_map(|(blob, account, user)| UploadBlobKey { blob, account, user });
    objects: Objects = (account(), kind(), number())
        .prop_map(|(account, kind, object)| ObjectKey { account, kind, object: ObjectId(object) });
    object_by_modseq: ObjectByModseq = (account(), kind(), number())
        .prop_map(|(account, kind, modseq)| ObjectModSeqKey {
            account,
            kind,
            modseq: ModSeq(modseq),
        });
    script_sources: ScriptSources = (account(), number())
        .prop_map(|(account, script)| ScriptKey { account, script: ObjectId(script) });
    active_script: ActiveScript = account_key();
    script_errors: ScriptErrors = account_key();
    duplicates: Duplicates = (account(), hash())
        .prop_map(|(account, hash)| DuplicateKey { account, hash });
    duplicate_by_time: DuplicateByTime = (account(), time(), hash())
        .prop_map(|(account, until, hash)| DuplicateTimeKey { account, until, hash });
    script_hits: ScriptHits = (account(), number(), any::<u32>())
        .prop_map(|(account, script, rule)| ScriptHitsKey {
            account,
            script: ObjectId(script),
            rule,
        });
    shared: Shared = (account(), account()).prop_map(|(user, account)| SharedKey { user, account });
}

proptest! {
    #[test]
    fn any_bytes_are_a_key_that_reads_back_or_an_error(
        table in 0..TableId::ALL.len(),
        bytes in any::<Vec<u8>>(),
    ) {
        // For most tables this only shows that nothing panics.
        drop(TableId::ALL[table].check_key(&bytes));
        if let Ok(key) = decode_key::<SearchFolds>(&bytes) {
            prop_assert_eq!(key.encode(), bytes.clone());
        }
        // Times that `UtcMillis` cannot have are read as its greatest.
        if let Ok(key) = decode_key::<OutboxDue>(&bytes) {
            prop_assert_eq!(decode_key::<OutboxDue>(&key.encode()), Ok(key));
        }
        if let Ok(key) = decode_key::<Objects>(&bytes) {
            prop_assert_eq!(key.encode(), bytes);
        }
    }

    #[test]
    fn keys_begin_with_the_bytes_of_their_prefixes(
        account in account(),
        listing in listing(),
        email in email(),
        fold in fold_key(),
    ) {
        let key = ListingEmailKey { account, listing, email }.encode();
        prop_assert!(key.starts_with(&Prefix::<ListingEmailKey>::encode(&(account,))));
        prop_assert!(key.starts_with(&Prefix::<ListingEmailKey>::encode(&(account, listing))));
        let (FoldKey::Block(block), Some(id)) = (&fold, fold.fold()) else { unreachable!() };
        let (account, token, bytes) = (block.account, &block.token, fold.encode());
        prop_assert_eq!(&FoldKey::block(account, id, token, block.ordinal, block.position), &fold);
        prop_assert!(bytes.starts_with(&(account, id).encode()));
        prop_assert!(bytes.starts_with(&(account, id, FoldRows::Token(token)).encode()));
        let rows = match token {
            Token::Text(text) => FoldRows::Texts(text),
            Token::Word(_) => FoldRows::Words,
        };
        prop_assert!(bytes.starts_with(&(account, id, rows).encode()));
        let emails = FoldKey::emails(account, id, u32::MAX);
        prop_assert_eq!(emails.fold(), Some(id));
        prop_assert!(emails.encode().starts_with(&(account, id, FoldRows::Emails).encode()));
        prop_assert!(FoldKey::list(account).encode() < emails.encode() && emails.encode() < bytes);
        prop_assert_eq!(decode_key::<SearchFolds>(&emails.encode()), Ok(emails));
    }
}

#[test]
fn folds_of_a_level_sort_newest_first() {
    let at = |level: u8, number: u64| (AccountId(1), FoldId { level, number }).encode();
    assert!(AccountKey { account: AccountId(1) }.encode() < at(0, 9));
    assert!(at(0, 9) < at(0, 8) && at(0, 0) < at(1, 9));
    assert!(at(9, 0) < AccountKey { account: AccountId(2) }.encode());
}

/// If a number or a name changed, existing stores could not be read. Later formats have only added
/// tables, at the end.
#[test]
fn numbers_and_names_of_tables_stay_as_they_are() {
    let listed: Vec<String> =
        TableId::ALL.iter().map(|table| format!("{} {table}", *table as u8)).collect();
    insta::assert_snapshot!(listed.join("\n"));
}

proptest! {
    #[test]
    fn blocks_of_a_fold_sort_as_their_postings_do(
        mut all in proptest::collection::vec((token_of_posting(), any::<u32>(), 0u32..3), 2..20),
    ) {
        let (account, id) = (AccountId(1), FoldId { level: 1, number: 7 });
        all.sort();
        let key = |(token, ordinal, position): &(Token, u32, u32)| {
            FoldKey::block(account, id, token, *ordinal, *position).encode()
        };
        let keys: Vec<Vec<u8>> = all.iter().map(key).collect();
        prop_assert!(keys.is_sorted());
        for (row, key) in all.iter().zip(&keys) {
            prop_assert!(key.starts_with(&(account, id, FoldRows::Token(&row.0)).encode()));
            prop_assert!(key.starts_with(&(account, id).encode()));
            prop_assert!(*key > FoldKey::emails(account, id, u32::MAX).encode());
        }
    }
}

fn token_of_posting() -> impl Strategy<Value = Token> {
    prop_oneof![(0u32..9).prop_map(Token::Word), "[a-b\\x00\u{e9}]{0,4}".prop_map(Token::Text)]
}
