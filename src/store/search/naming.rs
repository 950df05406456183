//! Which emails name an address: a walk over the search tokens that stops as soon as it is told to.

use crate::model::{AccountId, EmailId, Token};
use crate::store::error::Error;
use crate::store::txn::snapshot::Snapshot;

impl Snapshot<'_> {
    /// Live emails that have a text (as `message::tokens` writes addresses) in one of these fields:
    /// first those that are not folded, then fold by fold, newest first in each. `each` says
    /// whether to go on.
    ///
    /// # Errors
    /// Those of reading, and of `each`.
    pub fn scan_emails_with_text(
        &self,
        account: AccountId,
        text: &str,
        fields: u16,
        mut each: impl FnMut(EmailId) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let mut open = true;
        self.scan_unfolded_tokens(account, EmailId(0), |id, tokens| {
            let at = tokens.texts.binary_search_by(|(known, _)| known.as_str().cmp(text)).ok();
            if at.and_then(|at| tokens.texts.get(at)).is_some_and(|(_, known)| known & fields != 0)
            {
                open = each(id)?;
            }
            Ok(open)
        })?;
        for fold in self.folds(account)?.live {
            let mut emails = self.fold_ordinals(account, fold);
            let mut postings = self.postings(account, fold.id, Token::Text(text.to_owned()));
            let mut next = 0;
            while open && let Some(posting) = postings.seek(next)? {
                next = posting.ordinal.saturating_add(1);
                if posting.fields & fields != 0
                    && let Some(id) = emails.email(posting.ordinal)?
                    && self.is_current_in_fold(account, fold.made, id)?
                {
                    open = each(id)?;
                }
            }
        }
        Ok(())
    }
}
