//! The mark of an account that is being repaired, a row of `site`: the version 1, and the scope.

/// The rows that a repair writes anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepairScope {
    /// Those that are wrong. If clients may have seen one, the repair goes on as a `Rebuild`.
    Repair,
    /// The rows that searches use, if one is not as this version makes it from the message. Clients
    /// see no change.
    Reindex,
    /// Every derived row, made by this version. The history begins anew.
    Rebuild,
}

impl RepairScope {
    const ALL: [(Self, u8); 3] = [(Self::Repair, 0), (Self::Reindex, 1), (Self::Rebuild, 2)];

    pub(in crate::store) fn row(self) -> Vec<u8> {
        let number =
            Self::ALL.iter().find(|(scope, _)| *scope == self).map_or(0, |(_, number)| *number);
        vec![1, number]
    }

    pub(in crate::store) fn of_row(row: &[u8]) -> Option<Self> {
        let [1, number] = row else { return None };
        Self::ALL.iter().find(|(_, stored)| stored == number).map(|(scope, _)| *scope)
    }
}
