//! What a repair that is under way does: the row that marks its account.

/// How much is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepairScope {
    /// What is wrong.
    Repair,
    /// What searches use, as this version makes it of the messages; clients notice nothing.
    Reindex,
    /// Every derived row, as this version makes it; history begins anew.
    Rebuild,
}

impl RepairScope {
    const ALL: [(Self, u8); 3] = [(Self::Repair, 0), (Self::Reindex, 1), (Self::Rebuild, 2)];

    /// The row of an account that is being repaired so.
    pub(in crate::store) fn row(self) -> Vec<u8> {
        let number =
            Self::ALL.iter().find(|(scope, _)| *scope == self).map_or(0, |(_, number)| *number);
        vec![1, number]
    }

    pub(in crate::store) fn of_row(row: &[u8]) -> Option<Self> {
        let [1, number] = row else { return None };
        Self::ALL.iter().find(|(_, known)| known == number).map(|(scope, _)| *scope)
    }
}
