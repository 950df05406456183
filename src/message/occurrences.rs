//! Sorts the occurrences of words, in linear time for any message.
//!
//! Keyed hashes are spread evenly, whatever the words are. So the upper bits of a hash divide the
//! occurrences into buckets in which few different words meet.

use crate::model::{SearchWord, SearchWords};

const BUCKET_BITS: u32 = 10;
/// Fewer occurrences are not divided.
const MIN_DIVIDED: usize = 64;

/// The occurrences of words in a message, each with the hash of the word in the upper half and the
/// position in the lower: one number sorts faster than a pair.
#[derive(Debug)]
pub(super) struct Occurrences(Vec<u64>);

impl Occurrences {
    pub(super) fn with_capacity(count: usize) -> Self {
        Self(Vec::with_capacity(count))
    }

    #[inline]
    pub(super) fn push(&mut self, hash: u32, position: u32) {
        self.0.push((u64::from(hash) << 32) | u64::from(position));
    }

    /// Returns the words, ascending by hash, each with its ascending positions. An occurrence that
    /// was pushed twice counts once.
    pub(super) fn into_words(mut self) -> SearchWords {
        if self.0.len() < MIN_DIVIDED {
            self.0.sort_unstable();
        } else {
            let (divided, ends) = self.divide();
            self.0 = divided;
            self.sort_buckets(&ends);
        }
        // The name of a field that occurs twice was pushed twice, with the same position.
        self.0.dedup();
        words_of(&self.0)
    }

    /// Sorts each bucket that is not in order. Nearly all buckets are in order: most occurrences in
    /// a bucket are of one word, and their positions were pushed in order.
    fn sort_buckets(&mut self, ends: &[u32]) {
        for at in 1..self.0.len() {
            let (before, packed) = (self.0.get(at.wrapping_sub(1)), self.0.get(at));
            if before <= packed {
                continue;
            }
            let bucket = packed.map_or(0, |packed| bucket(*packed));
            let end_of = |bucket: usize| ends.get(bucket).map_or(0, |end| offset(*end));
            let start = bucket.checked_sub(1).map_or(0, end_of);
            if let Some(bucket) = self.0.get_mut(start..end_of(bucket)) {
                bucket.sort_unstable();
            }
        }
    }

    /// Returns the occurrences bucket by bucket, and where each bucket ends.
    fn divide(&self) -> (Vec<u64>, [u32; 1 << BUCKET_BITS]) {
        // First the number of occurrences in each bucket, then where the bucket begins, and in the
        // end, when it is filled, where it ends.
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

/// Makes the words of occurrences that are sorted and unique: the hash of each word with the end of
/// its positions, and the positions of all words.
fn words_of(sorted: &[u64]) -> SearchWords {
    let mut words = vec![(0, 0); sorted.len()];
    let (mut word, mut last_hash) = (0usize, sorted.first().map_or(0, |packed| high_half(*packed)));
    for (packed, end) in sorted.iter().zip(1u32..) {
        let hash = high_half(*packed);
        // A branch would be mispredicted for every other word.
        word = word.wrapping_add(usize::from(hash != last_hash));
        if let Some(to) = words.get_mut(word) {
            *to = (hash, end);
        }
        last_hash = hash;
    }
    words.truncate(word.wrapping_add(1));
    SearchWords::new(words, sorted.iter().map(|packed| low_half(*packed)).collect())
}

fn bucket(packed: u64) -> usize {
    offset(high_half(packed) >> (SearchWord::HASH_BITS - BUCKET_BITS))
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
                (
                    prop_oneof![0u32..9, 0u32..1 << SearchWord::HASH_BITS],
                    prop_oneof![0u32..50, any::<u32>()],
                ),
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
