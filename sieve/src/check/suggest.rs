//! Finds the word that the author of a script probably meant.

use super::Checker;

/// The most suggestions that a check looks for: to find one takes far more work than to read the
/// word. It is more than the default limit of diagnostics.
const MAX_SUGGESTIONS: u32 = 500;
/// Names longer than this get no suggestion.
const MAX_NAME_BYTES: usize = 40;

impl Checker<'_> {
    /// Returns the candidate that the author probably meant by a name. `None` if all are too
    /// different, if nothing is reported now, or if suggestions were sought too often.
    pub(super) fn closest<'c>(
        &mut self,
        name: &str,
        candidates: impl IntoIterator<Item = &'c str>,
    ) -> Option<&'c str> {
        if self.muted > 0 || self.suggestions == MAX_SUGGESTIONS {
            return None;
        }
        self.suggestions += 1;
        closest(name, candidates)
    }
}

/// Returns the candidate that differs from a name by the fewest edits, if these are few for the
/// length of the name. The case of letters does not count.
fn closest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > MAX_NAME_BYTES {
        return None;
    }
    let name: Vec<char> = name.to_lowercase().chars().collect();
    let limit = match name.len() {
        0..=2 => 0,
        3..=5 => 1,
        6..=9 => 2,
        _ => 3,
    };
    let is_near = |candidate: &&str| candidate.len().abs_diff(name.len()) <= limit;
    let distances = candidates.into_iter().filter(is_near).map(|candidate| {
        let letters: Vec<char> = candidate.to_lowercase().chars().collect();
        (distance(&name, &letters), candidate)
    });
    distances.filter(|(edits, _)| *edits <= limit).min_by_key(|(edits, _)| *edits).map(|it| it.1)
}

/// Returns the least number of edits that turn `a` into `b`. An edit inserts, deletes or replaces a
/// letter, or swaps two neighbours. It fills the table of distances between the beginnings of `a`
/// and `b` row by row, and keeps the last two rows.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (row, x) in a.iter().enumerate() {
        let mut current = vec![row + 1];
        for (column, y) in b.iter().enumerate() {
            let at = |line: &[usize], index: usize| line.get(index).copied().unwrap_or(usize::MAX);
            let replaced = at(&last, column).saturating_add(usize::from(x != y));
            let deleted = at(&last, column + 1).saturating_add(1);
            let inserted = at(&current, column).saturating_add(1);
            let is_swap =
                row > 0 && column > 0 && a.get(row - 1) == Some(y) && b.get(column - 1) == Some(x);
            let swapped = match is_swap {
                true => at(&before_last, column - 1).saturating_add(1),
                false => usize::MAX,
            };
            current.push(replaced.min(deleted).min(inserted).min(swapped));
        }
        before_last = std::mem::replace(&mut last, current);
    }
    last.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_word_is_found_unless_all_are_far() {
        let words = ["fileinto", "keep", "header", "discard"];
        assert_eq!(closest("filinto", words), Some("fileinto"));
        assert_eq!(closest("KEPE", words), Some("keep"));
        assert_eq!(closest("haeder", words), Some("header"));
        assert_eq!(closest("xyz", words), None);
        assert_eq!(closest("kp", words), None);
        assert_eq!(closest(&"k".repeat(1000), words), None);
    }
}
