//! Names of the methods that the commands call, in one place.

pub(super) const ACCOUNT_ADD: &str = "Account/add";
pub(super) const ACCOUNT_LIST: &str = "Account/list";
pub(super) const ACCOUNT_GET: &str = "Account/get";
pub(super) const ACCOUNT_SET: &str = "Account/set";
pub(super) const ACCOUNT_REMOVE: &str = "Account/remove";
pub(super) const ACCOUNT_ALIAS: &str = "Account/alias";
pub(super) const ACCOUNT_DOMAIN: &str = "Account/aliasDomain";
pub(super) const ACCOUNT_DOMAINS: &str = "Account/aliasDomains";
pub(super) const ACCOUNT_PASSWORD: &str = "Account/password";
pub(super) const VACATION_GET: &str = "VacationResponse/get";
pub(super) const VACATION_SET: &str = "VacationResponse/set";
pub(super) const VACATION_LOG: &str = "Decision/list";
pub(super) const TOLD_LIST: &str = "Told/list";
pub(super) const TOLD_FORGET: &str = "Told/forget";
pub(super) const MAIL_LIST: &str = "Mail/list";
pub(super) const MAIL_QUERY: &str = "Mail/query";
pub(super) const QUEUE_LIST: &str = "Queue/list";
pub(super) const QUEUE_RETRY: &str = "Queue/retry";
pub(super) const QUEUE_REMOVE: &str = "Queue/remove";
pub(super) const CHECK: &str = "Store/check";
pub(super) const VACATION_TEST: &str = "VacationResponse/test";
pub(super) const MAIL_SHOW: &str = "Mail/show";
pub(super) const MAIL_INDEX: &str = "Mail/index";
pub(super) const MAIL_MAILBOX: &str = "Mail/mailbox";
pub(super) const DELIVER: &str = "Mail/deliver";
