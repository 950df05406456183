//! Who a sender is: the same person under daily tags, or a machine.

use crate::model::Address;
use crate::model::address::fold_domain;

/// Tags within one another that are taken off: a forwarder's, a list's, and the sender's own.
const MAX_NESTED_TAGS: usize = 4;

/// The form in which senders are the same, as text: who a sender is without tags, and the domain
/// that the reply goes to where that is another one. So no sender can use up the reply to somebody
/// else.
#[must_use]
pub fn sender_key(sender: &Address) -> String {
    let (plain, outer) = (plain_sender(sender), fold_domain(sender.domain()));
    // No address has a blank in its domain: no two senders have one key.
    if plain.domain() == outer { plain.to_string() } else { format!("{plain} by {outer}") }
}

/// The sender, folded, and what stands within its tags, one after the other.
pub(super) fn layers(sender: &Address) -> impl Iterator<Item = Address> {
    unfolded_layers(sender).map(|one| one.folded())
}

/// Whether mail comes from the account itself: its sender, or an address within the sender's tags,
/// is the account's. `is_own` asks the directory, which may tell addresses apart by their case:
/// each is asked for as it is written, and folded.
pub(super) fn is_from_self(sender: &Address, is_own: impl Fn(&Address) -> bool) -> bool {
    unfolded_layers(sender).any(|one| is_own(&one) || is_own(&one.folded()))
}

/// The sender, and what stands within its tags, one after the other: those that would make one
/// person look new every day. They are BATV (`prvs=tag=user`), SRS
/// (`SRS0=hash=time=domain=user` and the SRS1 around it), and VERP (`user+...=...`).
///
/// What stands within a tag was written by whoever sends. It may give a reason for silence, but
/// never one for an answer, nor for more than a stranger is told.
fn unfolded_layers(sender: &Address) -> impl Iterator<Item = Address> {
    std::iter::successors(Some(sender.clone()), strip_tag).take(MAX_NESTED_TAGS.saturating_add(1))
}

/// The sender without any tag: lower case, A-labels.
fn plain_sender(sender: &Address) -> Address {
    layers(sender).last().unwrap_or_else(|| sender.folded())
}

/// The sender without the tags within which its domain is the one that the reply goes to.
#[must_use]
pub fn plain_in_domain(sender: &Address) -> Address {
    let outer = sender.folded();
    layers(sender).take_while(|inner| inner.domain() == outer.domain()).last().unwrap_or(outer)
}

/// Without its outermost tag, if there is one and what is left is an address.
fn strip_tag(tagged: &Address) -> Option<Address> {
    let (local, domain) = (tagged.local(), tagged.domain());
    let address = |user: &str, domain: &str| {
        let found = Address::from_parts(user, domain);
        Address::parse(&found.to_string()).ok()
    };
    let behind = |tag: &str| {
        let (start, rest) = local.split_at_checked(tag.len())?;
        start.eq_ignore_ascii_case(tag).then_some(rest)
    };
    if let Some(rest) = behind("prvs=").or_else(|| behind("msprvs1=")) {
        // An early draft of BATV has `user/tag`.
        let user = rest
            .split_once('=')
            .map(|(_, user)| user)
            .or_else(|| rest.split_once('/').map(|(user, _)| user));
        return address(user?, domain);
    }
    if let Some(rest) = behind("btv1==") {
        return address(rest.split_once("==")?.1, domain);
    }
    let srs0 = |rest: &str| {
        let mut parts = rest.splitn(4, '=');
        let (_hash, _time) = (parts.next()?, parts.next()?);
        let (domain, user) = (parts.next()?, parts.next()?);
        address(user, domain)
    };
    let separators = ['=', '+', '-'];
    if let Some(rest) = behind("srs0").and_then(|rest| rest.strip_prefix(separators)) {
        return srs0(rest);
    }
    if let Some(rest) = behind("srs1").and_then(|rest| rest.strip_prefix(separators)) {
        // Hash and first forwarder, and then what that one had made, from its separator on.
        return srs0(rest.splitn(3, '=').nth(2)?.strip_prefix(separators)?);
    }
    match local.split_once('+') {
        Some((user, tail)) if tail.contains('=') => address(user, domain),
        _ => None,
    }
}

/// Local parts that are machines; `postmaster` is not: people read and write there (RFC 5230 §4.6).
const MACHINE_NAMES: [&str; 22] = [
    "mailer-daemon",
    "listserv",
    "majordomo",
    "root",
    "daemon",
    "nobody",
    "www-data",
    "apache",
    "httpd",
    "nginx",
    "cron",
    "mdaemon",
    "mailman",
    "sympa",
    "mlmmj",
    "bounce",
    "bounces",
    "autoreply",
    "auto-reply",
    "autoresponder",
    "dev-null",
    "devnull",
];
const MACHINE_PREFIXES: [&str; 2] = ["owner-", "bouncer-"];
const MACHINE_SUFFIXES: [&str; 9] = [
    "-request",
    "-owner",
    "-bounces",
    "-bounce",
    "-errors",
    "-relay",
    "-outgoing",
    "-confirm",
    "-return",
];

/// Words that say that no answer is wanted.
const NO_REPLY_WORDS: [&str; 6] =
    ["noreply", "donotreply", "dontreply", "donotrespond", "nepasrepondre", "noresponse"];

/// What list managers put behind a plus, alone (`list+owner`) or, of those that are `true`, with a
/// tail behind a hyphen (`list+confsub-0123abcd`, `list+bounces-77-ann=example.org`): mlmmj's
/// control addresses.
const LIST_MANAGER_TAGS: [(&str, bool); 7] = [
    ("bounces", true),
    ("bounce", true),
    ("owner", false),
    ("help", false),
    ("moderate", true),
    ("confsub", true),
    ("confunsub", true),
];

/// Labels of domains that only take bounces.
const BOUNCE_LABELS: [&str; 3] = ["bounce", "bounces", "bounced"];

/// Which rule says that a sender is no person, if any does. `more` are local parts that the site
/// adds, in lower case.
pub(super) fn system_sender(sender: &Address, more: &[String]) -> Option<String> {
    let sender = sender.folded();
    let local = sender.local();
    if sender.domain().split('.').any(|label| BOUNCE_LABELS.contains(&label)) {
        return Some(format!("envelope sender in {}", sender.domain()));
    }
    // A VERP tail hides what kind of address it is: `list-bounces+ann=example.org`.
    let (base, detail) = local.split_once('+').unwrap_or((local, ""));
    let bounce_tail = ["bounces", "bounce"].iter().any(|word| {
        let tail = base.strip_prefix(word).unwrap_or_default();
        tail.starts_with(|c: char| "-.=_".contains(c) || c.is_ascii_digit())
    });
    let system = MACHINE_NAMES.contains(&base)
        || more.iter().any(|word| word == base)
        || MACHINE_PREFIXES.iter().any(|start| base.starts_with(start))
        || MACHINE_SUFFIXES.iter().any(|end| base.ends_with(end) || has_recipient_tail(base, end))
        || bounce_tail
        || refuses_answers(base)
        || detail.split('+').any(is_list_detail);
    system.then(|| format!("envelope sender {local}@"))
}

/// Whether what stands behind a plus is a list manager's word.
fn is_list_detail(detail: &str) -> bool {
    LIST_MANAGER_TAGS.iter().any(|(word, with_tail)| {
        let tail = detail.strip_prefix(word);
        tail.is_some_and(|tail| tail.is_empty() || (*with_tail && tail.starts_with(['-', '='])))
    })
}

/// Whether `end` stands there with a tail that a list makes for each recipient or message:
/// `-return-77-ann=example.org`.
fn has_recipient_tail(base: &str, end: &str) -> bool {
    base.match_indices(end).any(|(at, _)| {
        let tail = base.get(at.saturating_add(end.len())..).unwrap_or_default();
        let numbered = tail.chars().nth(1).is_some_and(|c| c.is_ascii_digit());
        tail.starts_with(['-', '=', '_', '.']) && (numbered || tail.contains('='))
    })
}

/// Whether it says, in any usual spelling, that no answer is wanted. The words must stand for
/// themselves: `piano-reply` does not say so.
fn refuses_answers(base: &str) -> bool {
    let words: Vec<&str> =
        base.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let says =
        |text: &str| NO_REPLY_WORDS.contains(&text.trim_end_matches(|c: char| c.is_ascii_digit()));
    words.iter().any(|word| {
        NO_REPLY_WORDS.iter().any(|deaf| word.starts_with(deaf) || word.ends_with(deaf))
    }) || (2..=3).any(|count| words.windows(count).any(|some| says(&some.concat())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vacation::told::{Handle, told_key};

    #[test]
    fn mail_from_oneself_is_known_where_addresses_differ_by_case() {
        let address = |text: &str| Address::parse(text).unwrap();
        let own = [address("Boss@example.org"), address("max@example.org")];
        for (sender, is_self) in [
            ("Boss@example.org", true),
            ("PRVS=0123abcd=Boss@example.org", true),
            ("SRS0=ab12=XY=example.org=Boss@forwarder.example", true),
            ("MAX@example.org", true),
            ("prvs=0123abcd=Max@example.org", true),
            ("boss@example.org", false),
            ("bob@example.net", false),
        ] {
            assert_eq!(
                is_from_self(&address(sender), |one| own.contains(one)),
                is_self,
                "{sender}"
            );
        }
    }

    #[test]
    fn the_same_person_under_daily_tags() {
        let key = |text: &str| plain_sender(&Address::parse(text).unwrap()).to_string();
        assert_eq!(key("Bob@Example.NET"), "bob@example.net");
        assert_eq!(key("prvs=0123abcd=bob@example.net"), "bob@example.net");
        assert_eq!(key("SRS0=ab12=XY=example.net=bob@forwarder.example"), "bob@example.net");
        assert_eq!(
            key("SRS1=zz=first.example==ab12=XY=example.net=bob@second.example"),
            "bob@example.net"
        );
        assert_eq!(key("bob+ann=example.org@example.net"), "bob@example.net");
        assert_eq!(key("bob+tag@example.net"), "bob+tag@example.net");
        assert_eq!(key("SRS0+ab12=XY=example.net=bob@forwarder.example"), "bob@example.net");
        assert_eq!(
            key("SRS1=zz=first.example=+ab12=XY=example.net=bob@second.example"),
            "bob@example.net"
        );
        assert_eq!(
            key("SRS0=ab12=XY=Bücher.example=prvs=0123=Bob+x==y@f.example"),
            "bob@xn--bcher-kva.example"
        );
        assert_eq!(key("prvs=bob/0123abcd@example.net"), "bob@example.net");
        assert_eq!(key("btv1==0123==bob@example.net"), "bob@example.net");
        assert_eq!(key("Bob@Bücher.example"), "bob@xn--bcher-kva.example");
        // What is no tag, and what would leave no address, stays.
        for whole in [
            "prvs=bob@example.net",
            "srs0=a=b=c@example.net",
            "srs0=a=b=-c=d@example.net",
            "+x=y@example.net",
        ] {
            assert_eq!(key(whole), whole);
        }
        let told =
            |handle, sender: &str| told_key(&[7; 32], &handle, &Address::parse(sender).unwrap());
        let named = Handle::Named;
        assert_eq!(told(named("a"), "bob@example.net"), told(named("a"), "prvs=1=bob@example.net"));
        // One who forwards is told once for each person; nobody uses up the reply to somebody else.
        let forwarded = "SRS0=ab12=XY=example.net=bob@forwarder.example";
        assert_eq!(
            told(named("a"), forwarded),
            told(named("a"), &forwarded.replace("ab12=XY", "cd34=ZZ"))
        );
        for other in [
            "bob@example.net",
            "bob@forwarder.example",
            "SRS0=ab12=XY=example.net=bob@second.example",
        ] {
            assert_ne!(told(named("a"), forwarded), told(named("a"), other), "{other}");
        }
        let handles =
            [named("a"), named("b"), named(""), Handle::Response, Handle::Arguments([0; 32])];
        for (at, one) in handles.iter().enumerate() {
            for other in handles.iter().skip(at + 1) {
                assert_ne!(
                    told(*one, "bob@example.net"),
                    told(*other, "bob@example.net"),
                    "{one:?} {other:?}"
                );
            }
        }
    }

    #[test]
    fn machines_and_people() {
        let at = |local: &str| Address::from_parts(local, "example.net");
        for local in [
            "MAILER-DAEMON",
            "owner-list",
            "Owner-List",
            "list-request",
            "x-Request",
            "x-bounces+me=example.org",
            "bounce-77",
            "bounces",
            "noreply",
            "no-reply",
            "No_Reply",
            "do-not-reply",
            "donotreply",
            "shop-noreply",
            "www-data",
            "LISTSERV",
        ] {
            assert!(system_sender(&at(local), &[]).is_some(), "{local}");
        }
        for local in
            ["postmaster", "ann", "bouncer", "request", "owner", "rooter", "reply", "ann-relays"]
        {
            assert!(system_sender(&at(local), &[]).is_none(), "{local}");
        }
        assert!(system_sender(&at("robot"), &["robot".into()]).is_some());
    }
}
