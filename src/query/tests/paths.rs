//! Compares the answers and the changes of every access path, and the rows, with those of the naive
//! account, over random histories.

use super::*;
use crate::query::tests::driver::ops;

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_access_path_gives_the_answer_of_the_naive_account(
        ops in ops(30),
        queries in proptest::collection::vec((query_spec(), window(), any::<bool>()), 1..12),
    ) {
        let mut driver = TestDriver::new();
        for chunk in ops.chunks(8) {
            driver.run(chunk);
            for (spec, window, total) in &queries {
                check_query(&driver, spec, window, *total);
            }
        }
    }

    #[test]
    fn query_changes_from_every_past_state_lead_to_the_new_results(
        ops in ops(20),
        queries in proptest::collection::vec(query_spec(), 1..5),
    ) {
        let mut driver = TestDriver::new();
        driver.run(&ops);
        for spec in &queries {
            check_changes(&driver, spec);
        }
    }

    #[test]
    fn counts_and_rows_match_the_naive_account_and_pass_the_checker(ops in ops(40)) {
        let mut driver = TestDriver::new();
        driver.run(&ops);
        check_account(&driver);
    }
}
