//! Turns the engine's addresses, flags and actions into types of this crate, and the NOTIFY
//! parameter of a recipient into the text that the engine expects.

use std::collections::BTreeSet;

use restante_sieve::ir;
use restante_sieve::{
    AddressSpec, FccIntent, FlagSet, NotifyIntent, RedirectIntent, RedirectTarget, Target,
    VacationBody, VacationIntent,
};

use super::action::{EditedMessage, FilterAction, Importance, Notification, StoreTarget};
use super::mailto;
use crate::model::{Address, DsnNotify, DsnReturn, Role, keyword};
use crate::vacation;

/// Returns an address of the engine in the type of this crate; `None` if mail cannot be sent to it.
pub(super) fn envelope_address(address: &AddressSpec) -> Option<Address> {
    Address::parse(&address.to_string()).ok()
}

/// Returns the keywords of flags (RFC 8621 §4.1.1). `\Deleted` has none, and neither has a flag
/// that is no valid keyword.
pub(super) fn keywords(flags: &FlagSet) -> impl Iterator<Item = String> {
    flags.iter().filter(|flag| !flag.eq_ignore_ascii_case("\\Deleted")).filter_map(
        |flag| match flag.strip_prefix('\\') {
            Some(system) => keyword::normalize(&format!("${system}")),
            None => keyword::normalize(flag),
        },
    )
}

/// Returns a target in types of this crate. The ids of mailboxes are those that
/// `AccountWorld::mailbox` gave to the engine. A special use that no role stands for is left out.
pub(super) fn store_target(target: Target) -> StoreTarget {
    match target {
        Target::Inbox => StoreTarget::Inbox,
        Target::Mailbox { id, .. } => id.parse().map_or(StoreTarget::Inbox, StoreTarget::Mailbox),
        Target::Create { name, special_use } => StoreTarget::Create {
            path: name,
            role: special_use
                .and_then(|text| Role::from_name(&text.trim_start_matches('\\').to_lowercase())),
        },
    }
}

/// Returns a redirect in types of this crate; `None` if the address cannot be used in an envelope,
/// or if the target is a list, which no site offers.
pub(super) fn redirect(
    intent: &RedirectIntent,
    message: Option<EditedMessage>,
) -> Option<FilterAction> {
    let RedirectTarget::Address(address) = &intent.to else { return None };
    let notify = intent.notify.map(|notify| match notify {
        ir::DsnNotify::Never => DsnNotify { never: true, ..DsnNotify::default() },
        ir::DsnNotify::When { success, failure, delay } => {
            DsnNotify { never: false, success, failure, delay }
        }
    });
    let ret = intent.ret.map(|ret| match ret {
        ir::DsnReturn::Full => DsnReturn::Full,
        ir::DsnReturn::Headers => DsnReturn::Headers,
    });
    let to = envelope_address(address)?;
    Some(FilterAction::Redirect { to, notify, ret, message })
}

/// Returns the arguments of a `vacation` action in types of this crate. Texts of `:addresses` that
/// are no addresses are left out.
pub(super) fn vacation_script(intent: VacationIntent) -> vacation::Script {
    let (mime, reason) = match intent.body {
        VacationBody::Text(text) => (false, text),
        VacationBody::Mime(entity) => (true, entity),
    };
    vacation::Script {
        // The handle of the engine is a hash of the text of `:handle`, or of the arguments as
        // written (RFC 5230 §4.2).
        handle: Some(intent.handle.to_string()),
        period: match intent.period {
            restante_sieve::Period::Unset => vacation::Period::Unset,
            restante_sieve::Period::Days(days) => vacation::Period::Days(days),
            restante_sieve::Period::Seconds(seconds) => vacation::Period::Seconds(seconds),
        },
        // The texts of `:addresses` may have display names.
        addresses: (intent.addresses.iter())
            .filter_map(|text| AddressSpec::parse_mailbox(text))
            .map(|address| address.to_string())
            .collect(),
        from: intent.from,
        subject: intent.subject,
        mime,
        reason,
        fcc: intent.fcc.map(copy_target),
        // Read only if an action has no handle, to tell one action from another.
        unexpanded: vacation::ScriptArguments::default(),
    }
}

/// Returns where the copy of a reply or notification is filed (RFC 8580).
fn copy_target(fcc: FccIntent) -> vacation::Fcc {
    let keywords = keywords(&fcc.flags).collect();
    match fcc.to {
        Target::Inbox => {
            vacation::Fcc { mailbox: "inbox".into(), keywords, ..vacation::Fcc::default() }
        }
        Target::Mailbox { name, .. } => {
            vacation::Fcc { mailbox: name, keywords, ..vacation::Fcc::default() }
        }
        Target::Create { name, special_use } => {
            vacation::Fcc { mailbox: name, special_use, create: true, keywords }
        }
    }
}

/// Returns a notification about a message in types of this crate; `None` if its method is no
/// usable `mailto` URI.
pub(super) fn notification(
    intent: NotifyIntent,
    message: Option<EditedMessage>,
) -> Option<Notification> {
    let uri = mailto::parse(&intent.method)?;
    Some(Notification {
        to: uri.to,
        from: intent.from,
        // RFC 5436 §2.6, §2.7: `:message` is the subject, whatever the URI says; the URI gives the
        // body. Without a body of the URI, the body has all of `:message` (RFC 5435 §3.1), of which
        // a subject may have only the beginning.
        subject: intent.message.clone().or(uri.subject),
        text: uri.body.or(intent.message),
        importance: match intent.importance {
            ir::Importance::High => Importance::High,
            ir::Importance::Normal => Importance::Normal,
            ir::Importance::Low => Importance::Low,
        },
        message,
        fcc: intent.fcc.map(copy_target),
    })
}

/// Returns the value of NOTIFY, its words in alphabetical order; `None` if the sender gave none.
pub(super) fn notify_text(notify: DsnNotify) -> Option<String> {
    let DsnNotify { never, success, failure, delay } = notify;
    let words = [(never, "NEVER"), (success, "SUCCESS"), (failure, "FAILURE"), (delay, "DELAY")];
    let words: BTreeSet<&str> =
        words.into_iter().filter(|(is_set, _)| *is_set).map(|(_, word)| word).collect();
    (!words.is_empty()).then(|| words.into_iter().collect::<Vec<_>>().join(","))
}
