//! Accounts with their addresses, mailboxes, shares, subscriptions and small objects
//! (`model::ObjectKind`): the reads and changes of them, and their checks. (Mailboxes are read in
//! `email`, and subscriptions are checked in `blob`.) Also reads vacation responses, told rows,
//! deliveries and decisions.

pub(in crate::store) mod directory;
pub(in crate::store) mod directory_check;
pub(in crate::store) mod directory_read;
pub(in crate::store) mod mailbox_paths;
pub(in crate::store) mod mailbox_tree;
pub(in crate::store) mod mailboxes;
pub(in crate::store) mod mailboxes_check;
pub(in crate::store) mod objects;
pub(in crate::store) mod objects_check;
pub(in crate::store) mod objects_read;
pub(in crate::store) mod shares;
pub(in crate::store) mod shares_check;
pub(in crate::store) mod shares_read;
pub(in crate::store) mod site_check;
pub(in crate::store) mod subscriptions;
pub(in crate::store) mod unplaced_check;
