//! Sorts the occurrences of words, in linear time for any message.
//!
//! Keyed hashes are spread evenly, whatever the words are. So the upper bits of a hash divide the
//! occurrences into buckets in which few different words meet.

use crate::model::SearchWords;

/// Bits of the hash of a word.
pub(super) const HASH_BITS: u32 = 28;
const BUCKET_BITS: u32 = 9;
/// Fewer occurrences are not divided.
const MIN_DIVIDED: usize = 64;

/// Words of a message, each with the hash in the upper half and the position in the lower: one
/// number sorts faster than a pair.
#[derive(Debug)]
pub(super) struct Occurrences(Vec<u64>);

impl Occurrences {
    pub(super) fn with_capacity(count: usize) -> Self {
        Self(Vec::with_capacity(count))
    }

    #[inline]
    pub(super) fn push(&mut self, hash: u32, position: u32) {
        self.0.push(u64::from(hash) << 32 | u64::from(position));
    }

    /// Returns the words, ascending by hash, each with its ascending positions. An occurrence that
    /// was pushed twice counts once.
    pub(super) fn into_words(mut self) -> SearchWords {
        if self.0.len() < MIN_DIVIDED {
            self.0.sort_unstable();
        } else {
            let (divided, ends) = self.divide();
            self.0 = divided;
            let mut start = 0;
            for end in ends {
                if end.wrapping_sub(start) > 1
                    && let Some(bucket) = self.0.get_mut(offset(start)..offset(end))
                {
                    bucket.sort_unstable();
                }
                start = end;
            }
        }
        // A field that occurs twice has one position.
        self.0.dedup();
        words_of(&self.0)
    }

    /// Returns the occurrences bucket by bucket, and where each bucket ends.
    fn divide(&self) -> (Vec<u64>, [u32; 1 << BUCKET_BITS]) {
        let bucket = |packed: u64| offset(high_half(packed) >> (HASH_BITS - BUCKET_BITS));
        let mut ends = [0u32; 1 << BUCKET_BITS];
        for packed in &self.0 {
            if let Some(count) = ends.get_mut(bucket(*packed)) {
                *count = count.wrapping_add(1);
            }
        }
        let mut start = 0u32;
        for count in &mut ends {
            (start, *count) = (start.wrapping_add(*count), start);
        }
        let mut divided = vec![0; self.0.len()];
        for packed in &self.0 {
            if let Some(at) = ends.get_mut(bucket(*packed)) {
                if let Some(to) = divided.get_mut(offset(*at)) {
                    *to = *packed;
                }
                *at = at.wrapping_add(1);
            }
        }
        (divided, ends)
    }
}

/// Makes the words of occurrences that are sorted and unique.
fn words_of(sorted: &[u64]) -> SearchWords {
    let mut words = Vec::with_capacity(sorted.len());
    let mut last = None;
    for (packed, at) in sorted.iter().zip(0u32..) {
        let hash = high_half(*packed);
        if let Some(last) = last.filter(|last| *last != hash) {
            words.push((last, at));
        }
        last = Some(hash);
    }
    words.extend(last.map(|last| (last, u32::try_from(sorted.len()).unwrap_or(u32::MAX))));
    SearchWords::new(words, sorted.iter().map(|packed| low_half(*packed)).collect())
}

fn high_half(number: u64) -> u32 {
    u32::try_from(number >> 32).unwrap_or_default()
}

fn low_half(number: u64) -> u32 {
    u32::try_from(number & u64::from(u32::MAX)).unwrap_or_default()
}

fn offset(at: u32) -> usize {
    usize::try_from(at).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn occurrences_are_sorted_and_unique(
            found in proptest::collection::vec(
                (prop_oneof![0u32..9, 0u32..1 << HASH_BITS], prop_oneof![0u32..50, any::<u32>()]),
                0..300,
            ),
        ) {
            let mut wanted: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
            let mut occurrences = Occurrences::with_capacity(0);
            for (hash, position) in found {
                wanted.entry(hash).or_default().insert(position);
                occurrences.push(hash, position);
            }
            let words = occurrences.into_words();
            prop_assert_eq!(words.iter().len(), wanted.len());
            for (word, (hash, positions)) in words.iter().zip(wanted) {
                prop_assert_eq!(word.hash, hash);
                prop_assert!(word.positions.iter().eq(&positions));
                prop_assert_eq!(words.positions_of(hash), word.positions);
            }
        }
    }
}
