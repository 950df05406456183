//! `spamtest` and `virustest` (RFC 5235).

use std::borrow::Cow;

use super::{Frame, Result, Run};
use crate::ir::{Comparison, MatchType};

impl Run<'_> {
    pub(super) fn spam_test(
        &mut self,
        frame: &mut Frame<'_>,
        percent: bool,
        comparison: &Comparison,
    ) -> Result<bool> {
        let found = self.world.scan().spam_percent.map(|value| value.min(100));
        let value = match percent {
            true => found,
            false => found.map(ten_steps),
        };
        self.scan_result(frame, value, comparison)
    }

    pub(super) fn virus_test(
        &mut self,
        frame: &mut Frame<'_>,
        comparison: &Comparison,
    ) -> Result<bool> {
        let value = self.world.scan().virus.map(|value| value.clamp(1, 5));
        self.scan_result(frame, value, comparison)
    }

    /// Compares the result of a scanner. If the message was not tested, the value is `0`, and with
    /// `:count` there is no value (RFC 5235 §3.1).
    fn scan_result(
        &mut self,
        frame: &mut Frame<'_>,
        value: Option<u8>,
        comparison: &Comparison,
    ) -> Result<bool> {
        let counts = matches!(comparison.match_type, MatchType::Count(_));
        let values = match value {
            None if counts => Vec::new(),
            value => vec![Cow::Owned(value.unwrap_or(0).to_string())],
        };
        self.matches_any(frame, comparison, &values)
    }
}

/// Returns the value from 1 to 10 for a percentage (RFC 5235 §3.2.1). Only 0 gives 1, clear of
/// spam, and only 100 gives 10, certainly spam. The percentages from 1 to 99 are spread over 2 to
/// 9.
fn ten_steps(percent: u8) -> u8 {
    match percent {
        0 => 1,
        1..100 => u8::try_from(2 + (u16::from(percent) - 1) * 8 / 99).unwrap_or(9),
        _ => 10,
    }
}

#[cfg(test)]
mod tests {
    use super::ten_steps;

    #[test]
    fn only_certainty_is_at_the_ends_of_the_scale() {
        let steps = [0, 1, 13, 14, 50, 99, 100].map(ten_steps);
        assert_eq!(steps, [1, 2, 2, 3, 5, 9, 10]);
        assert!((0..100).all(|percent| ten_steps(percent) <= ten_steps(percent + 1)));
    }
}
