//! A guest of an account whose row is damaged or missing.

use std::sync::Arc;

use super::super::context_over;
use super::*;
use crate::account::{Directory, Settings};
use crate::store::engine::memory::MemoryEngine;
use crate::store::engine::{Batch, Engine as _, Put, Table};

#[test]
fn guest_keeps_the_session_while_the_row_of_the_owner_is_damaged() {
    // No row, and a row of a version that does not exist.
    for damaged in [None, Some(vec![99])] {
        let engine = Arc::new(MemoryEngine::new());
        let mut bed = SharingFixture::over(context_over(engine.clone()));
        bed.open(&bed.plans, &["mayReadItems"]);
        assert!(bed.session(&bed.bob)["accounts"].get(&bed.ann).is_some());
        let key = bed.ann.parse::<AccountId>().unwrap().0.to_be_bytes().to_vec();
        let puts = vec![Put { table: Table::Accounts, key, value: damaged }];
        engine.write(&[Arc::new(Batch::of(puts))]).unwrap();
        bed.context.directory = Directory::new(bed.context.store.clone(), Settings::default());
        let bob = bed.asks(&bed.bob);
        let accessible: Vec<String> =
            bob.accessible_accounts().unwrap().iter().map(|one| one.id.to_string()).collect();
        assert_eq!(accessible, [bed.bob.clone()]);
        let session = bed.session(&bed.bob);
        assert!(
            session["accounts"].get(&bed.bob).is_some()
                && session["accounts"].get(&bed.ann).is_none()
        );
        assert_eq!(call(&bob, "Mailbox/get", &json!({"accountId": bed.bob})).0, "Mailbox/get");
        let (kind, answer) =
            call(&bob, "Principal/get", &json!({"accountId": bed.bob, "ids": null}));
        assert_eq!(kind, "Principal/get", "{answer}");
        // The error does not say that the account does not exist.
        assert_eq!(bed.bob_fails("Mailbox/get", json!({})), "serverFail");
    }
}
