//! Finds the emails that have a text, such as an address, by the search index.

use crate::model::{AccountId, EmailId, Token, WantedTokens};
use crate::store::error::Error;
use crate::store::txn::snapshot::Snapshot;

impl Snapshot<'_> {
    /// Calls `each` for the live emails that have a text in one of these fields, until `each`
    /// returns false. First come the emails that are not folded, then those of each fold, newest
    /// first in each.
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
        let mut goes_on = true;
        let texts = WantedTokens { texts: true, ..WantedTokens::default() };
        self.scan_unfolded_tokens(account, EmailId(0), &texts, |id, tokens| {
            let at = tokens.texts.binary_search_by(|(other, _)| other.as_str().cmp(text)).ok();
            if at.and_then(|at| tokens.texts.get(at)).is_some_and(|(_, found)| found & fields != 0)
            {
                goes_on = each(id)?;
            }
            Ok(goes_on)
        })?;
        for fold in self.folds(account)?.live {
            let mut emails = self.fold_ordinals(account, fold);
            let mut postings = self.postings(account, fold.id, Token::Text(text.to_owned()));
            let mut next = 0;
            while goes_on && let Some(posting) = postings.seek(next)? {
                next = posting.ordinal.saturating_add(1);
                if posting.fields & fields != 0
                    && let Some(id) = emails.email(posting.ordinal)?
                    && self.is_current_in_fold(account, fold.created_upto, id)?
                {
                    goes_on = each(id)?;
                }
            }
        }
        Ok(())
    }
}
