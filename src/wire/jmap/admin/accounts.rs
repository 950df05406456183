//! The arguments and answers of the vendor methods for accounts, their addresses, passwords and
//! tokens.

use serde::{Deserialize, Serialize};

use super::{AccountRef, EmptyAnswer, EmptyArguments, OfAccount, even_null, vendor_methods};
use crate::wire::jmap::arguments::Nullable;

vendor_methods! {
    AccountAdd = "Account/add"(AccountAddArguments) -> AccountAnswer;
    AccountList = "Account/list"(EmptyArguments) -> AccountListAnswer;
    AccountGet = "Account/get"(AccountRef) -> AccountAnswer;
    AccountSet = "Account/set"(OfAccount<Nullable<AccountChanges>>) -> AccountAnswer;
    AccountRemove = "Account/remove"(AccountRef) -> EmptyAnswer;
    AccountAlias = "Account/alias"(OfAccount<AliasArguments>) -> EmptyAnswer;
    AccountAliasDomain = "Account/aliasDomain"(AliasDomainArguments) -> EmptyAnswer;
    AccountAliasDomains = "Account/aliasDomains"(EmptyArguments) -> AliasDomainsAnswer;
    AccountPassword = "Account/password"(OfAccount<PasswordArguments>) -> EmptyAnswer;
    AccountTokenAdd = "Account/tokenAdd"(OfAccount<TokenAddArguments>) -> TokenAddAnswer;
    AccountTokenList = "Account/tokenList"(AccountRef) -> TokenListAnswer;
    AccountTokenRemove = "Account/tokenRemove"(OfAccount<TokenRemoveArguments>) -> EmptyAnswer;
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AccountAddArguments {
    /// The primary address.
    pub address: String,
    /// `None` is the address.
    pub name: Option<String>,
    pub display_name: Option<String>,
    #[serde(default)]
    pub aliases: Vec<String>,
    /// The time zone, by an IANA name; `None` is the zone of the site.
    pub zone: Option<String>,
    /// In bytes; `None` is no limit.
    pub quota_octets: Option<u64>,
    /// `None` is no limit.
    pub quota_emails: Option<u64>,
    /// The Unix user who may manage the account.
    pub unix_user: Option<String>,
    /// Whether mail to `user+Mailbox@` is filed into that mailbox.
    #[serde(default)]
    pub detail_files: bool,
    /// The mailboxes that are created: `roles` (Inbox, Drafts, Sent, Junk, Trash, Archive) or
    /// `inbox`; `None` is the site's setting.
    pub mailboxes: Option<String>,
}

/// An account. Members that are not described are as in `AccountAddArguments`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AccountAnswer {
    pub id: String,
    pub name: String,
    /// The primary address.
    pub address: String,
    pub addresses: Vec<String>,
    /// `@domain` for each domain whose other addresses belong to the account.
    pub catch_alls: Vec<String>,
    pub display_name: Option<String>,
    /// Whether new mail is accepted.
    pub active: bool,
    pub zone: Option<String>,
    pub unix_user: Option<String>,
    pub detail_files: bool,
    pub quota_octets: Option<u64>,
    pub quota_emails: Option<u64>,
    /// The bytes of all emails that are not destroyed.
    pub octets: u64,
    /// The number of all emails that are not destroyed.
    pub emails: u64,
    pub inbox_unread_emails: u64,
    pub inbox_unread_threads: u64,
    pub created: String,
    /// The names of the passwords.
    pub passwords: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountListAnswer {
    pub list: Vec<AccountAnswer>,
}

/// A member that is left out stays as it is; null removes the value, and sets `active` or
/// `detail_files` to false.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AccountChanges {
    #[serde(deserialize_with = "even_null", skip_serializing_if = "Option::is_none")]
    pub display_name: Option<Option<String>>,
    #[serde(deserialize_with = "even_null", skip_serializing_if = "Option::is_none")]
    pub unix_user: Option<Option<String>>,
    #[serde(deserialize_with = "even_null", skip_serializing_if = "Option::is_none")]
    pub zone: Option<Option<String>>,
    #[serde(deserialize_with = "even_null", skip_serializing_if = "Option::is_none")]
    pub quota_octets: Option<Option<u64>>,
    #[serde(deserialize_with = "even_null", skip_serializing_if = "Option::is_none")]
    pub quota_emails: Option<Option<u64>>,
    #[serde(deserialize_with = "even_null", skip_serializing_if = "Option::is_none")]
    pub active: Option<Option<bool>>,
    #[serde(deserialize_with = "even_null", skip_serializing_if = "Option::is_none")]
    pub detail_files: Option<Option<bool>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AliasArguments {
    /// An address, or `@domain` for all other addresses of a domain.
    pub address: String,
    /// Removes the address from the account instead of adding it.
    #[serde(default)]
    pub remove: bool,
}

/// A domain whose addresses belong to the same accounts as those of another domain, `target`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AliasDomainArguments {
    pub domain: String,
    /// Required unless the alias domain is removed.
    pub target: Option<String>,
    /// Removes the alias domain instead of adding it.
    #[serde(default)]
    pub remove: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AliasDomainsAnswer {
    pub list: Vec<AliasDomain>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AliasDomain {
    pub domain: String,
    pub target: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PasswordArguments {
    /// `None` is `default`.
    pub name: Option<String>,
    /// `None` removes the password with this name.
    pub password: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenAddArguments {
    /// The account must have no token of this name that has not expired.
    pub name: String,
    /// A date in the future; `None` if the token never expires.
    pub expires: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenAddAnswer {
    pub name: String,
    /// The text of the token. No other answer has it.
    pub token: String,
    /// `None` if the token never expires.
    pub expires: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenListAnswer {
    pub list: Vec<TokenFacts>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenFacts {
    pub name: String,
    pub created: String,
    /// `None` if the token never expires.
    pub expires: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRemoveArguments {
    pub name: String,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::AccountChanges;
    use crate::wire::jmap::arguments::{Nullable, read};
    use crate::wire::jmap::json::members;

    #[test]
    fn null_removes_a_value_and_a_missing_member_keeps_it() {
        let read = |arguments: Value| {
            read::<Nullable<AccountChanges>>("Account/set", members(arguments)).unwrap()
        };
        let changes = AccountChanges {
            zone: Some(None),
            quota_emails: Some(Some(3)),
            active: Some(Some(false)),
            ..AccountChanges::default()
        };
        let written = json!({"zone": null, "quotaEmails": 3, "active": false});
        assert_eq!(read(written.clone()), Nullable(changes.clone()));
        assert_eq!(serde_json::to_value(Nullable(changes)).unwrap(), written);
        assert_eq!(read(json!({})), Nullable(AccountChanges::default()));
    }
}
