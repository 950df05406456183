//! What a damaged or lost row of the directory does to those who ask.

use super::*;
use crate::store::engine::{Batch, Put, Table};
use crate::store::repair::Scope;

/// Ann with an alias, and rows that can be damaged.
struct Bed {
    engine: Arc<Memory>,
    context: Context,
    ann: String,
}

impl Bed {
    fn new() -> Self {
        let engine = Arc::new(Memory::new());
        let context = context_over(engine.clone());
        let ann = account_of(&context);
        for address in ["lee@example.org", "@shop.example"] {
            call(&context, "Account/alias", &json!({"account": ann, "address": address}));
        }
        Self { engine, context, ann }
    }

    /// Writes a row behind the store's back, and reads the directory anew.
    fn write(&mut self, table: Table, key: &[u8], value: Option<Vec<u8>>) {
        let puts = vec![Put { table, key: key.to_vec(), value }];
        self.engine.write(&[Arc::new(Batch { puts, asserts: Vec::new() })]).unwrap();
        self.context.directory = Directory::new(self.context.store.clone(), Settings::default());
    }

    fn repair(&self) {
        let store = &self.context.store;
        let done = store.repair(Scope::Repair, None, &|raw| rows(raw, store.secrets()), &mut |_| true).unwrap();
        assert_eq!(done.left_count, 0);
    }

    fn ask(&self, name: &str, mut arguments: Value) -> Value {
        arguments["accountId"] = self.ann.clone().into();
        let (kind, answer) = call(&self.context, name, &arguments);
        assert_eq!(kind, name, "{answer}");
        answer
    }

    /// The identities, by id.
    fn identities(&self) -> Vec<Value> {
        let mut list = self.ask("Identity/get", json!({}))["list"].as_array().unwrap().clone();
        list.sort_by_key(|one| one["id"].to_string());
        list
    }
}

#[test]
fn identities_stay_while_the_row_of_their_address_is_damaged() {
    for key in ["ann@example.org", "lee@example.org"] {
        for (damaged, signed) in [(None, true), (None, false), (Some(vec![99]), true), (Some(vec![99]), false)] {
            let mut bed = Bed::new();
            let of_key = bed.identities().into_iter().find(|one| one["email"] == key).unwrap();
            let id = of_key["id"].as_str().unwrap();
            if signed {
                bed.ask("Identity/set", json!({"update": {id: {"textSignature": "-- \nAnn"}}}));
            }
            let before = bed.identities();
            bed.write(Table::Addresses, key.as_bytes(), damaged);
            assert_eq!(bed.identities(), before, "{key} while it is damaged");
            bed.repair();
            assert_eq!(bed.identities(), before, "{key} after the repair");
            // One that is truly gone takes its identity with it.
            if key == "lee@example.org" && !signed {
                let gone = json!({"account": bed.ann, "address": key, "remove": true});
                call(&bed.context, "Account/alias", &gone);
                assert_eq!(bed.identities().len(), before.len() - 1);
            }
        }
    }
}
