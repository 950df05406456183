//! Restante: a mail delivery agent with a vacation responder.
//!
//! This library serves one program and is no API: [`cli::main`] is all that the program calls.
//!
//! # The rooms
//! A room is a directory or file right under `src/`, and uses only rooms in lower layers;
//! `tests/layering.rs` checks that. `docs/path.md` follows a message and a request through the
//! rooms, and `docs/glossary.md` defines the words.
//!
//! ```text
//! layer 7  cli             the command line: starts the service, and talks to it
//!            commands        the arguments, the calls and the output of each command
//!            control         the client of the control socket, and long jobs
//!            service         starts, reloads and stops all parts of the service
//!            terminal        files, dates, tables and progress
//! layer 6  config          the configuration file: reads it, checks it, makes settings of it
//! layer 5  net             sockets and tasks
//!            http            JMAP, uploads, downloads, events, the control socket, metrics
//!            managesieve     the ManageSieve server
//!            push            notifications to URLs that clients registered
//! layer 4  deliver         delivers one message to each of its recipients
//!          queue           sends due actions to the relay
//!            round           what the queue worker does in one round
//!            send            one SMTP or LMTP session with the relay
//!          jmap            JMAP methods
//!            admin           vendor methods, for the command line and administrators
//!            blob            uploads, downloads, Blob/*
//!            email           Email/*, SearchSnippet/get
//!            mailbox         Mailbox/*
//!            mdn             MDN/*
//!            sieve           Sieve scripts
//!            standard        what the standard methods have in common
//!            submission      EmailSubmission/*
//!            vacation        VacationResponse/*
//!          transfer        the formats of imports and exports, and what an import stores
//!            mbox            messages in one file
//! layer 3  account         the directory: accounts and their addresses
//!            login           passwords and tokens
//!          filter          runs the Sieve scripts of the site and of accounts over a message
//!          query           Email/query and Email/queryChanges
//!            plan            chooses how a query is answered
//!            listing         answers from a listing
//!            search          text conditions, and their hits in the search index
//!            walk            goes through candidates in order
//!            generic         decides each candidate, and sorts
//!            matching        whether an email matches a filter
//!          upkeep          background work: folding, purge, expiry, collection, listings
//! layer 2  store           what is on the disk; see `docs/storage.md`
//!            engine          ordered keys in tables: RocksDB, or memory
//!            table           declares each table and its keys
//!            row             encodes and decodes the values of tables
//!            txn             transactions, change numbers, group commit
//!            blob            messages and uploads
//!            email           emails and threads
//!            listing         listings of mailboxes
//!            search          the search index
//!            account         accounts, mailboxes, shares
//!            outbox          actions to send
//!            vacation        the vacation response and the told senders
//!            script          Sieve scripts, and what their runs leave
//!            repair          checks and repairs all of it
//!          vacation        decides whether a message is answered, and writes the reply
//!          outbox          the states of an action, retries, reports; no I/O
//!          proof           who sent a message, and signatures of our own
//!            verify          DKIM, SPF, DMARC and ARC
//! layer 1  wire            protocols as values, without sockets
//!            http            fields of HTTP
//!            jmap            requests, responses, arguments
//!            lmtp            commands and replies of LMTP
//!            managesieve     commands and responses of ManageSieve
//!            sasl            mechanisms of logins
//!            smtp            what SMTP and LMTP have in common
//!          message         messages as values, without I/O
//!            parse           properties of a message and its parts
//!            header          the fields of a header, found once
//!            decode          transfer encodings and charsets
//!            build           new messages
//!            report          delivery status and disposition notifications
//! layer 0  model           plain values: ids, addresses, times, objects of an account, limits
//!            clock           the clocks, and time zones
//!          trace           logging and metrics
//! ```
//!
//! `fuzzing` has the bodies of the fuzz targets, and may use all rooms.
//!
//! # Exports
//! Every room is `pub(crate)`, so that rustc reports unused code. [`internals`] re-exports what the
//! benches and `tests/it` use; [`fuzzing`] serves the fuzz targets.

pub(crate) mod model;
pub(crate) mod trace;

pub(crate) mod message;
pub(crate) mod wire;

pub(crate) mod outbox;
pub(crate) mod proof;
pub(crate) mod store;
pub(crate) mod vacation;

pub(crate) mod account;
pub(crate) mod filter;
pub(crate) mod query;
pub(crate) mod upkeep;

pub(crate) mod deliver;
pub(crate) mod jmap;
pub(crate) mod queue;
pub(crate) mod transfer;

pub(crate) mod net;

pub(crate) mod config;

pub(crate) mod cli;

#[cfg(any(test, feature = "internals"))]
#[doc(hidden)]
pub mod fuzzing;

pub use cli::main;

/// Re-exports for the benches and `tests/it`. `tests/it` is also built without the feature
/// `internals`, and then uses only `proof`.
#[doc(hidden)]
pub mod internals {
    #[cfg(feature = "internals")]
    pub mod account {
        pub use crate::account::{Directory, NewAccount, Settings, hash_password};
    }
    #[cfg(feature = "internals")]
    pub mod message {
        pub use crate::message::content::content;
        pub use crate::message::header::IncomingMessage;
        pub use crate::message::tokens::tokens;
        pub use crate::message::{Message, rows, rows_of};
    }
    /// Types in the signatures of the other rooms.
    #[cfg(feature = "internals")]
    pub mod model {
        pub use crate::model::clock;
        pub use crate::model::{
            AccountId, AccountRow, Address, EmailId, ListingFilter, ListingStage, LiveValue,
            MailboxUid, ModSeq, Role, Secrets, UtcMillis,
        };
    }
    pub mod proof {
        pub use crate::proof::{Algorithm, Signer, SigningKey, generate};
    }
    #[cfg(feature = "internals")]
    pub mod query {
        pub use crate::query::{
            Condition, Filter, Query, QueryChanges, QuerySpec, Start, Window, changes, query,
        };
    }
    #[cfg(feature = "internals")]
    pub mod store {
        pub use crate::store::{
            ClientState, EncodedMessage, NewEmail, NewMailbox, Options, Store, Ticket, Usage,
        };
    }
    #[cfg(feature = "internals")]
    pub mod upkeep {
        pub use crate::upkeep::{Settings, Upkeep, fold_index};
    }
}

// What tests need of the machine; `tests/it` has it as a module, too.
#[cfg(test)]
#[path = "../tests/it/needs.rs"]
mod needs;
