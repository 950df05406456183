//! Runs random histories over RocksDB, in which the store is also reopened as after a power failure
//! (`Op::Reopen`). Compares queries, changes from every past state and all rows with the naive
//! account (`naive`: vectors and full scans).
//!
//! Each case opens several databases, so there are a twentieth of the usual number of cases, and
//! at least eight.

use proptest::prelude::*;

use crate::query::tests::client::check_catching_up;
use crate::query::tests::driver::{TestDriver, ops};
use crate::query::tests::listings::{check_access_path, listing_query};
use crate::query::tests::{check_account, check_changes, check_query, config, query_spec, window};

fn few_cases() -> ProptestConfig {
    ProptestConfig { cases: (config().cases / 20).max(8), max_shrink_iters: 200, ..config() }
}

proptest! {
    #![proptest_config(few_cases())]

    #[test]
    fn answers_over_rocksdb_are_those_of_the_naive_account(
        ops in ops(40),
        queries in proptest::collection::vec((query_spec(), window(), any::<bool>()), 1..6),
        listing_queries in
            proptest::collection::vec((listing_query(), window(), any::<bool>()), 1..6),
        ranked in proptest::option::of(0u64..3),
    ) {
        let mut driver = TestDriver::on_disk(ranked);
        for chunk in ops.chunks(8) {
            driver.run(chunk);
            for (spec, window, total) in &queries {
                check_query(&driver, spec, window, *total);
            }
            for (listing_query, window, total) in &listing_queries {
                check_access_path(&driver, listing_query);
                check_query(&driver, &listing_query.spec(), window, *total);
            }
        }
        check_account(&driver);
        check_catching_up(&driver, 2);
        for (spec, ..) in &queries {
            check_changes(&driver, spec);
        }
        for (listing_query, ..) in &listing_queries {
            check_changes(&driver, &listing_query.spec());
        }
    }
}
