//! Runs random histories over RocksDB, with a reopening in the middle as after a crash, and
//! compares every query, every change from every past state, and the checker. A twentieth of the
//! usual number of cases, because each case opens several databases.

use proptest::prelude::*;

use crate::query::tests::client::check_catching_up;
use crate::query::tests::driver::{TestDriver, ops};
use crate::query::tests::listings::{check_way, question};
use crate::query::tests::{check_account, check_changes, check_query, config, results, window};

fn few() -> ProptestConfig {
    ProptestConfig { cases: (config().cases / 20).max(8), max_shrink_iters: 200, ..config() }
}

proptest! {
    #![proptest_config(few())]

    #[test]
    fn every_answer_on_a_disk_is_the_naive_one(
        ops in ops(40),
        asked in proptest::collection::vec((results(), window(), any::<bool>()), 1..6),
        listed in proptest::collection::vec((question(), window(), any::<bool>()), 1..6),
        ranked in proptest::option::of(0u64..3),
    ) {
        let mut drive = TestDriver::on_disk(ranked);
        for chunk in ops.chunks(8) {
            drive.run(chunk);
            for (results, window, total) in &asked {
                check_query(&drive, results, window, *total);
            }
            for (question, window, total) in &listed {
                check_way(&drive, question);
                check_query(&drive, &question.results(), window, *total);
            }
        }
        check_account(&drive);
        check_catching_up(&drive, 2);
        for (results, ..) in &asked {
            check_changes(&drive, results);
        }
        for (question, ..) in &listed {
            check_changes(&drive, &question.results());
        }
    }
}
