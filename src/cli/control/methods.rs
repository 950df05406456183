//! Names of the methods that the commands call, in one place.

pub(in crate::cli) const VACATION_GET: &str = "Vacation/get";
pub(in crate::cli) const VACATION_SET: &str = "Vacation/set";
pub(in crate::cli) const VACATION_REPORT: &str = "Vacation/report";
pub(in crate::cli) const VACATION_LOG: &str = "Decision/list";
pub(in crate::cli) const TOLD_LIST: &str = "Told/list";
pub(in crate::cli) const TOLD_FORGET: &str = "Told/forget";
pub(in crate::cli) const MAIL_LIST: &str = "Mail/list";
pub(in crate::cli) const MAIL_QUERY: &str = "Mail/query";
pub(in crate::cli) const MAIL_DESTROY: &str = "Mail/destroy";
pub(in crate::cli) const MAIL_DESTROYED: &str = "Mail/destroyed";
pub(in crate::cli) const MAIL_RESTORE: &str = "Mail/restore";
pub(in crate::cli) const MAIL_PURGE: &str = "Mail/purge";
pub(in crate::cli) const MAIL_MOVE: &str = "Mail/move";
pub(in crate::cli) const MAIL_FLAG: &str = "Mail/flag";
pub(in crate::cli) const MAILBOX_LIST: &str = "Mailbox/list";
pub(in crate::cli) const MAILBOX_ADD: &str = "Mailbox/add";
pub(in crate::cli) const MAILBOX_CHANGE: &str = "Mailbox/change";
pub(in crate::cli) const MAILBOX_REMOVE: &str = "Mailbox/remove";
pub(in crate::cli) const VACATION_TEST: &str = "Vacation/test";
pub(in crate::cli) const MAIL_SHOW: &str = "Mail/show";
pub(in crate::cli) const MAIL_INDEX: &str = "Mail/index";
pub(in crate::cli) const MAILBOX_ENSURE: &str = "Mailbox/ensure";
pub(in crate::cli) const DELIVER: &str = "Mail/deliver";
