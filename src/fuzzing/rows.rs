//! What is on the disk: rows and keys.

use std::fmt::Debug;

use super::{Choices, bounded};
use crate::model::{
    AccountId, AccountRow, Action, ActionId, AddressRow, BlobHash, Decision, EmailId, EmailMetadata, EmailSubmission,
    Listing, Mailbox, MailboxUid, MessageRows, ModSeq, ObjectId, ObjectKind, PushSubscription, SenderIdentity, Shape,
    ShareNotification, ThreadId, ThreadKey, Token, ToldKey, UtcMillis, VacationResponse, View,
};
use crate::store::engine::Table;
use crate::store::row::block::{Blocks, Posting, read_block};
use crate::store::row::fold::{fold_emails, read_fold_emails};
use crate::store::row::{
    self, Blob, Octets, Row, content_value, decode_content, decode_frame, decode_tokens, tokens_value,
};
use crate::store::{Delivery, EncodedMessage, Error, Folds, State, Thread, Told, key};

/// Any octets under any table are a row that comes back as it was, or an error that says which row is damaged.
pub fn row(data: &[u8]) {
    let data = bounded(data);
    again::<AccountRow>(data);
    again::<AddressRow>(data);
    again::<State>(data);
    again::<EmailMetadata>(data);
    again::<Thread>(data);
    again::<Mailbox>(data);
    again::<VacationResponse>(data);
    again::<Told>(data);
    again::<Delivery>(data);
    again::<Decision>(data);
    again::<Action>(data);
    again::<row::Noted>(data);
    again::<row::Sweep>(data);
    again::<row::Upload>(data);
    again::<row::Stored<SenderIdentity>>(data);
    again::<row::Stored<ShareNotification>>(data);
    again::<row::Stored<EmailSubmission>>(data);
    again::<row::Stored<PushSubscription>>(data);
    again::<Folds>(data);
    let _read = (decoded(row::decode_message(b"key", data)), decoded(row::decode_wake(b"key", data)));
    if let Some(id) = decoded(row::decode_same(b"key", data)) {
        assert_eq!(row::decode_same(b"key", &row::same_value(id)), Ok(id));
    }
    let tokens = decoded(decode_tokens(b"key", data));
    if let Some((prefix, content)) = decoded(decode_content(b"key", data)) {
        let rows = MessageRows { content: content.clone(), ..MessageRows::default() };
        let encoded = content_value(&prefix, &EncodedMessage::new(&rows).content);
        assert_eq!(decode_content(b"key", &encoded), Ok((prefix, content)));
    }
    if let Some(tokens) = tokens {
        // Ascending words are a promise of who writes them; of others nothing is promised but that they are read.
        let ascending = tokens.words.is_sorted_by_key(|word| word.hash);
        assert!(ascending && tokens.words.iter().all(|word| word.positions.is_sorted()));
        let rows = MessageRows { tokens: tokens.clone(), ..MessageRows::default() };
        let encoded = tokens_value(b"", &EncodedMessage::new(&rows).tokens);
        assert_eq!(decode_tokens(b"key", &encoded), Ok(tokens));
    }
    if let Some(blob) = decoded(Blob::decode(b"key", data)) {
        let again = blob.encode();
        assert_eq!(Blob::decode(b"key", &again), Ok(blob));
    }
    let blob = Blob { at: UtcMillis(-1), octets: Octets::Here(data) };
    let row = blob.encode();
    assert_eq!(Blob::decode(b"key", &row), Ok(blob));
    assert!(decoded(decode_frame(b"key", data)).is_none_or(|frame| frame.len() < data.len()));
}

fn again<R: Row + PartialEq + Debug>(data: &[u8]) {
    if let Some(row) = decoded(R::decode(b"key", data)) {
        assert_eq!(R::decode(b"key", &row.encode()), Ok(row));
    }
}

fn decoded<T>(read: Result<T, Error>) -> Option<T> {
    match read {
        Ok(row) => Some(row),
        Err(Error::Corrupt { key, what, .. }) => {
            assert!(key == "6b6579" && !what.is_empty());
            None
        }
        Err(other) => panic!("{other}"),
    }
}

/// Any octets are a block of postings in order, emails in order, or an error; what was read comes back as it was, and what
/// is read of a block is no more than its octets can hold.
pub fn fold(data: &[u8]) {
    let data = bounded(data);
    if let Some(ids) = decoded(read_fold_emails(b"key", data)) {
        assert!(ids.is_sorted() && ids.len() <= data.len());
        assert_eq!(read_fold_emails(b"key", &fold_emails(&ids)), Ok(ids));
    }
    let Some(postings) = decoded(postings(data)) else { return };
    let positions: usize = postings.iter().map(|posting| posting.positions.len()).sum();
    assert!(postings.len() + positions <= data.len());
    let in_order = |one: &Posting, next: &Posting| (&one.token, one.ordinal) <= (&next.token, next.ordinal);
    assert!(postings.windows(2).all(|pair| in_order(&pair[0], &pair[1])));
    let mut blocks = Blocks::new(data.len() * 4);
    for one in &postings {
        blocks.push(&one.token, one.ordinal, one.fields, &one.positions);
    }
    let again = blocks.finish().iter().map(|block| postings_of(&block.value)).collect::<Vec<_>>().concat();
    // What one posting was may be several now, and the other way round.
    let flat = |all: &[Posting]| -> Vec<_> {
        let all = all.iter().filter(|one| !one.positions.is_empty());
        all.flat_map(|one| one.positions.iter().map(|at| (one.token.clone(), one.ordinal, one.fields, *at))).collect()
    };
    assert_eq!(flat(&again), flat(&postings));
    // A reader that wants but one token finds the same of it, and stops behind it.
    if let Some(middle) = postings.get(postings.len() / 2).map(|posting| posting.token.clone()) {
        let mut found = Vec::new();
        let wanted = |token: &Token, _: u32| (*token <= middle).then_some(*token == middle);
        let read = read_block(b"key", data, wanted, |posting| found.push(posting));
        let all: Vec<Posting> = postings.into_iter().filter(|posting| posting.token == middle).collect();
        assert_eq!((read, found), (Ok(()), all));
    }
}

fn postings(data: &[u8]) -> Result<Vec<Posting>, Error> {
    let mut out = Vec::new();
    read_block(b"key", data, |_, _| Some(true), |posting| out.push(posting)).map(|()| out)
}

fn postings_of(data: &[u8]) -> Vec<Posting> {
    postings(data).unwrap()
}

/// Keys sort as their parts do, and ids have one spelling.
pub fn key(data: &[u8]) {
    let mut choices = Choices(data);
    let (one, other) = (Keys::of(&mut choices), Keys::of(&mut choices));
    for ((parts, key), (others, other)) in one.all().into_iter().zip(other.all()) {
        assert_eq!(parts.cmp(&others), key.cmp(&other), "{parts:x?} and {others:x?}");
    }
    one.read_back();
    let text = String::from_utf8_lossy(data);
    let same = |spelt: Option<String>| assert!(spelt.is_none_or(|spelt| spelt == text), "{text} has two spellings");
    same(text.parse::<AccountId>().ok().map(|id| id.to_string()));
    same(text.parse::<EmailId>().ok().map(|id| id.to_string()));
    same(text.parse::<MailboxUid>().ok().map(|id| id.to_string()));
    same(text.parse::<BlobHash>().ok().map(|id| id.to_string()));
    let (email, blob) = (EmailId(one.email), BlobHash(one.hash));
    assert_eq!((email.to_string().parse(), blob.to_string().parse()), (Ok(email), Ok(blob)));
}

/// The parts that keys are made of.
struct Keys {
    account: u32,
    uid: u32,
    view: View,
    shape: Shape,
    email: u64,
    number: u64,
    at: i64,
    hash: [u8; 32],
}

const VIEWS: [View; 6] =
    [View::Every, View::Unseen, View::Flagged, View::ThreadUnseen, View::ThreadFlagged, View::ThreadUntouched];

impl Keys {
    fn of(choices: &mut Choices<'_>) -> Self {
        Self {
            account: choices.u32(),
            uid: choices.u32(),
            view: VIEWS.get(choices.below(6)).copied().unwrap_or(View::Every),
            shape: if choices.octet() & 1 == 0 { Shape::Emails } else { Shape::Threads },
            email: choices.u64(),
            number: choices.u64(),
            at: (choices.u64() >> 1).cast_signed(),
            hash: choices.fixed(),
        }
    }

    /// Parts in the order of the key table, each with the key that they make.
    fn all(&self) -> Vec<(Vec<u64>, Vec<u8>)> {
        let (account, uid, email) = (AccountId(self.account), MailboxUid(self.uid), EmailId(self.email));
        let listing = Listing { uid, view: self.view, shape: self.shape };
        let (a, u, e, n) = (u64::from(self.account), u64::from(self.uid), self.email, self.number);
        let (v, s, t) = (self.view as u64, self.shape as u64, self.at.cast_unsigned());
        let at = UtcMillis(self.at);
        let hash = || self.hash.iter().map(|octet| u64::from(*octet));
        let told = ToldKey(self.hash);
        let then_hash = |parts: &[u64]| parts.iter().copied().chain(hash()).collect::<Vec<u64>>();
        vec![
            (vec![a], key::account(account)),
            (vec![a, e], key::email(account, email)),
            (vec![a, n], key::by_modseq(account, ModSeq(n))),
            (vec![a, n], key::thread(account, ThreadId(n))),
            (vec![a, n, e], key::email_by_thread(account, ThreadId(n), email)),
            (vec![a, u, v, s], key::listing(account, listing)),
            (vec![a, u, v, s, n, e], key::list(account, listing, ModSeq(n), ModSeq(e))),
            (vec![a, u, v, s, e], key::index(account, listing, email)),
            (vec![a, u, v, n, e], key::thread_index(account, uid, self.view, ThreadId(n), email)),
            (vec![a, u], key::mailbox(account, uid)),
            (vec![a, u, a], key::subscription(account, uid, account)),
            (then_hash(&[a]), key::thread_ref(account, &ThreadKey(self.hash))),
            (then_hash(&[]), key::blob(&BlobHash(self.hash))),
            ([then_hash(&[]), vec![a, e]].concat(), key::blob_ref(&BlobHash(self.hash), account, email)),
            (then_hash(&[a]), key::delivery(account, &self.hash)),
            (then_hash(&[a, t]), key::delivery_by_time(account, at, &self.hash)),
            (then_hash(&[a]), key::told(account, &told)),
            (then_hash(&[a, t]), key::told_by_time(account, at, &told)),
            (vec![a, u64::MAX - t, e], key::decision(account, at, email)),
            (vec![a, t, e], key::purge(account, at, email)),
            (vec![a, n], key::action(account, ActionId(n))),
            (vec![2, t, a, n], key::due(key::Wake::Due(at), account, ActionId(n))),
            ([then_hash(&[]), vec![a, n]].concat(), key::action_blob(&BlobHash(self.hash), account, ActionId(n))),
            (then_hash(&[t]), key::blob_purge(at, &BlobHash(self.hash))),
            (vec![a, t], key::history(account, at)),
            (vec![a, v], key::sweep(account, self.view as u8)),
            (vec![u, a], key::shared(AccountId(self.uid), account)),
            (vec![a, 1, n], key::object(account, ObjectKind::Identity, ObjectId(n))),
            (vec![a, 2, n], key::object_by_modseq(account, ObjectKind::EmailSubmission, ModSeq(n))),
            (then_hash(&[a, u]), key::upload(account, AccountId(self.uid), &BlobHash(self.hash))),
            (
                [then_hash(&[]), vec![a, u]].concat(),
                key::upload_blob(&BlobHash(self.hash), account, AccountId(self.uid)),
            ),
        ]
    }

    fn read_back(&self) {
        let wake = key::Wake::Due(UtcMillis(self.at));
        let due = key::due(wake, AccountId(self.account), ActionId(self.number));
        let mut parts = key::Parts::of(Table::OutboxDue, &due);
        assert_eq!((parts.u64(), parts.u32()), (Ok(self.number), Ok(self.account)));
        assert_eq!((parts.u64(), parts.take()), (Ok(self.at.cast_unsigned()), Ok([2])));
        assert!(parts.take::<1>().is_err());
        let told = key::told(AccountId(self.account), &ToldKey(self.hash));
        assert_eq!(key::Parts::of(Table::VacationTold, &told).take(), Ok(self.hash));
    }
}
