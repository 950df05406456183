//! Tests folding and merging of the search index: searches in between, destroyed and imported
//! emails, changes while a piece of a fold is being made, and ids that are used again.

use super::*;
use crate::query::matching::candidate::{Candidate, CandidateSource, FetchedEmail};

#[test]
fn searches_are_right_between_the_pieces_of_a_merge() {
    let mut fixture = Fixture::new();
    for n in 0..64 {
        let filler = "lunch big lunch ".repeat(n % 7 * 40);
        fixture.deliver(
            &plain(&format!("number {n}"), &format!("{filler} 日本語 w{} noon", n % 5)),
            i64::try_from(n).unwrap(),
        );
    }
    let sizes =
        FoldSizes { rows: 8, row_bytes: 1 << 20, block: 256, fan: 4, piece: 1024, last_level: 2 };
    let mut steps = 0;
    while fixture.fold_step(&sizes).unwrap() {
        steps += 1;
        if steps % 16 == 0 {
            fixture.assert_sound();
            assert_eq!(fixture.find("w3", tokens::BODY).len(), 13);
            assert_eq!(fixture.find("'big lunch big'", tokens::BODY).len(), 0);
        }
    }
    // So many steps that there were searches in the midst of folds and merges.
    assert!(steps > 40, "{steps} pieces");
    let folds = fixture.store.snapshot().folds(ACCOUNT).unwrap();
    // Of 64 emails eight folds of eight were made, and each four of these were merged.
    let levels: Vec<(u8, u32)> =
        folds.live.iter().map(|fold| (fold.id.level, fold.emails)).collect();
    assert_eq!(
        (levels.as_slice(), folds.merges.len(), folds.dropped.len()),
        (&[(1, 32), (1, 32)][..], 0, 0)
    );
    fixture.assert_sound();
    fixture.assert_answers();
}

#[test]
fn merges_drop_destroyed_emails_until_no_fold_is_left() {
    let mut fixture = Fixture::new();
    for n in 0..8 {
        fixture.deliver(&plain("lunch", "noon"), n);
    }
    let sizes = FoldSizes { rows: 2, fan: 2, last_level: 3, ..FoldSizes::default() };
    for _ in 0..4 {
        fixture.fold_step(&sizes).unwrap();
    }
    for _ in 0..8 {
        fixture.destroy(0);
    }
    assert_eq!(fixture.find("lunch", WORD_FIELDS), []);
    fixture.assert_sound();
    while fixture.fold_step(&sizes).unwrap() {}
    assert_eq!(fixture.store.snapshot().folds(ACCOUNT).unwrap().live, []);
    fixture.assert_sound();
}

#[test]
fn fold_piece_made_from_outdated_rows_is_not_written() {
    let mut fixture = Fixture::new();
    for n in 0..4 {
        fixture.deliver(&plain("lunch", "noon"), n);
    }
    let sizes = FoldSizes { rows: 2, ..FoldSizes::default() };
    let (first, second) = (fixture.next_piece(&sizes), fixture.next_piece(&sizes));
    assert!(fixture.write_piece(&first) && !fixture.write_piece(&second));
    let third = fixture.next_piece(&sizes);
    fixture.destroy(0);
    assert!(!fixture.write_piece(&third));
    fixture.assert_sound();
    fixture.assert_answers();
}

/// Returns six emails that are not folded, and the parts of a fold of them with these sizes.
fn fold_in_parts() -> (Fixture, FoldSizes, Vec<FoldPiece>) {
    let mut fixture = Fixture::new();
    for n in 0..6 {
        fixture.deliver(&plain("lunch", &format!("noon number {n}")), n);
    }
    let sizes = FoldSizes { rows: 6, block: 100, piece: 100, ..FoldSizes::default() };
    let parts = fixture.next_piece(&sizes).parts(sizes.piece);
    (fixture, sizes, parts)
}

#[test]
fn fold_that_was_not_finished_is_deleted_and_made_again() {
    let (fixture, sizes, parts) = fold_in_parts();
    assert!(parts.len() > 2, "{}", parts.len());
    for part in &parts[..parts.len() - 1] {
        assert!(fixture.write_piece(part));
        let folds = fixture.store.snapshot().folds(ACCOUNT).unwrap();
        assert!(folds.live.is_empty() && folds.dropped.len() == 1);
        fixture.assert_sound();
        fixture.assert_answers();
    }
    // A kill before the last part: another process makes the fold again, and deletes these rows.
    while fixture.fold_step(&sizes).unwrap() {}
    let folds = fixture.store.snapshot().folds(ACCOUNT).unwrap();
    assert!(folds.live.len() == 1 && folds.dropped.is_empty(), "{folds:?}");
    assert!(folds.live[0].id.number > 1);
    let is_written = fixture.write_piece(parts.last().unwrap());
    assert!(!is_written, "the last part of the fold that was deleted");
    fixture.assert_sound();
    fixture.assert_answers();
}

#[test]
fn no_part_of_a_fold_is_written_after_another_piece() {
    let (fixture, sizes, parts) = fold_in_parts();
    assert!(fixture.write_piece(&parts[0]) && fixture.write_piece(&parts[1]));
    // A call with other sizes deletes a row of the unfinished fold.
    let deletes = FoldSizes { rows: 99, piece: 1, ..FoldSizes::default() };
    let (one, same) = (fixture.next_piece(&deletes), fixture.next_piece(&deletes));
    assert!(fixture.write_piece(&one));
    assert!(!fixture.write_piece(&parts[2]) && !fixture.write_piece(&same));
    while fixture.fold_step(&deletes).unwrap() {}
    assert_eq!(fixture.store.snapshot().folds(ACCOUNT).unwrap().dropped, []);
    while fixture.fold_step(&sizes).unwrap() {}
    assert_eq!(fixture.store.snapshot().folds(ACCOUNT).unwrap().live.len(), 1);
    fixture.assert_sound();
    fixture.assert_answers();
}

#[test]
fn imported_emails_of_any_date_are_found_newest_first() {
    let mut fixture = Fixture::new();
    let sizes = FoldSizes { rows: 2, fan: 99, ..FoldSizes::default() };
    let ids: Vec<EmailId> = [50, 90, 10, 70, 5, 60]
        .into_iter()
        .map(|at| {
            let id = fixture.deliver(&plain("lunch", "noon"), at);
            fixture.fold_step(&sizes).unwrap();
            id
        })
        .collect();
    let expected: Vec<EmailId> = [1, 3, 5, 0, 2, 4].into_iter().map(|at: usize| ids[at]).collect();
    assert_eq!(fixture.find("lunch", WORD_FIELDS), expected);
    assert_eq!(fixture.store.snapshot().folds(ACCOUNT).unwrap().live.len(), 3);
}

/// Otherwise a search would step over the remains of the newest rows before it finds others.
#[test]
fn oldest_emails_are_folded_first_and_imported_older_ones_last() {
    let mut fixture = Fixture::new();
    let sizes = FoldSizes { rows: 2, fan: 99, ..FoldSizes::default() };
    let deliver_all = |fixture: &mut Fixture, times: &[i64]| {
        let mail = plain("lunch", "noon");
        times.iter().map(|at| (*at, fixture.deliver(&mail, *at))).collect::<Vec<_>>()
    };
    let mut emails = deliver_all(&mut fixture, &[50, 60, 70, 80]);
    fixture.fold_step(&sizes).unwrap();
    emails.extend(deliver_all(&mut fixture, &[10, 20, 90, 100]));
    while fixture.fold_step(&sizes).unwrap() {}
    // One newer email is not enough for a fold.
    emails.extend(deliver_all(&mut fixture, &[1, 2, 3, 110]));
    fixture.fold_step(&sizes).unwrap();
    let time = |id: EmailId| emails.iter().find(|(_, email)| *email == id).unwrap().0;
    let folds = fixture.store.snapshot().folds(ACCOUNT).unwrap().live;
    let spans: Vec<_> = folds.iter().map(|fold| (time(fold.oldest), time(fold.newest))).collect();
    assert_eq!(spans, [(50, 60), (70, 80), (90, 100), (10, 20), (1, 2)]);
    fixture.assert_sound();
    fixture.assert_answers();
}

/// An email that is newer than the fold has got the id of a purged email of the fold.
#[test]
fn fold_does_not_answer_for_an_email_newer_than_the_fold() {
    let store = open(&Arc::new(FaultyEngine::new(MemoryEngine::new())));
    create_account(&store);
    let id = file(&store, b"Subject: s\r\n\r\nlunch\r\n", 1);
    while fold_step(&store, &FoldSizes { rows: 1, ..FoldSizes::default() }).unwrap() {}
    let snapshot = store.snapshot();
    let email = snapshot.email(ACCOUNT, id).unwrap().unwrap();
    let (created, folded) = (email.created, snapshot.folds(ACCOUNT).unwrap().live[0].created_upto);
    assert!(snapshot.is_current_in_fold(ACCOUNT, folded, id).unwrap());
    assert!(!snapshot.is_current_in_fold(ACCOUNT, ModSeq(created.0 - 1), id).unwrap());
    let matcher = Matcher::new(&Filter::Is(Condition::Body("lunch".into())), store.secrets());
    let spec = QuerySpec { account: ACCOUNT, ..small_batches() };
    let mut source = CandidateSource::new(&snapshot, &spec, &matcher);
    let index_answer = source.index_answer(id).unwrap();
    for (created, expected) in [(created, true), (folded, true), (folded.next(), false)] {
        let email = EmailMetadata { created, ..email.clone() };
        assert_eq!(Candidate::new(&mut source, id, &email).may_contain(0).unwrap(), Some(expected));
        let mut fetched = Candidate::new(&mut source, id, &email)
            .with_fetched(FetchedEmail::of(index_answer.clone()));
        assert_eq!(fetched.may_contain(0).unwrap(), Some(expected));
    }
}
