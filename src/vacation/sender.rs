//! Recognises senders: the same person under changing tags (BATV, SRS, VERP), and machines.

use crate::model::Address;
use crate::model::address::fold_domain;

/// The most nested tags that are removed from an address.
const MAX_NESTED_TAGS: usize = 4;

/// Returns a text that is equal for two addresses of the same sender: the address without tags, and
/// the domain to which the reply goes if that is another one. Without that domain, anyone could
/// name another person in a tag, and so use up the reply to that person.
#[must_use]
pub fn sender_key(sender: &Address) -> String {
    let (plain, reply_domain) = (plain_sender(sender), fold_domain(sender.domain()));
    if plain.domain() == reply_domain {
        plain.to_string()
    } else {
        format!("{plain} by {reply_domain}")
    }
}

/// Returns `unfolded_layers`, each address folded.
pub(super) fn layers(sender: &Address) -> impl Iterator<Item = Address> {
    unfolded_layers(sender).map(|address| address.folded())
}

/// Whether the sender, or an address within the sender's tags, belongs to the account. Each is
/// looked up as written and folded, because the directory may distinguish case.
pub(super) fn is_from_self(sender: &Address, is_own: impl Fn(&Address) -> bool) -> bool {
    unfolded_layers(sender).any(|address| is_own(&address) || is_own(&address.folded()))
}

/// The sender, then the address within its outermost tag, and so on, for at most `MAX_NESTED_TAGS`
/// tags: as they are written.
///
/// The tags are BATV (`prvs=tag=user`, and variants of it), SRS (`SRS0=hash=time=domain=user` and
/// the SRS1 around it), and VERP (`user+...=...`). An address within a tag is the sender's claim.
/// It may be a reason for silence, but not for a reply, nor for telling the sender more.
fn unfolded_layers(sender: &Address) -> impl Iterator<Item = Address> {
    std::iter::successors(Some(sender.clone()), strip_tag).take(MAX_NESTED_TAGS.saturating_add(1))
}

/// The sender without any tag, in lower case and with A-labels.
fn plain_sender(sender: &Address) -> Address {
    layers(sender).last().unwrap_or_else(|| sender.folded())
}

/// The sender, folded, without its outer tags, as long as the domain stays the same. Unlike the
/// address in `sender_key`, it is not a mere claim about another domain, so it is used to find the
/// sender in From and among those whom the owner has written to.
#[must_use]
pub fn plain_in_domain(sender: &Address) -> Address {
    let outer = sender.folded();
    layers(sender).take_while(|inner| inner.domain() == outer.domain()).last().unwrap_or(outer)
}

/// Removes the outermost tag. `None` if there is none, or if no valid address would be left.
fn strip_tag(tagged: &Address) -> Option<Address> {
    let (local, domain) = (tagged.local(), tagged.domain());
    let address = |user: &str, domain: &str| {
        let untagged = Address::from_parts(user, domain);
        Address::parse(&untagged.to_string()).ok()
    };
    let strip_start = |tag: &str| {
        let (start, rest) = local.split_at_checked(tag.len())?;
        start.eq_ignore_ascii_case(tag).then_some(rest)
    };
    if let Some(rest) = strip_start("prvs=").or_else(|| strip_start("msprvs1=")) {
        // An early draft of BATV has `user/tag`.
        let user = rest
            .split_once('=')
            .map(|(_, user)| user)
            .or_else(|| rest.split_once('/').map(|(user, _)| user));
        return address(user?, domain);
    }
    if let Some(rest) = strip_start("btv1==") {
        return address(rest.split_once("==")?.1, domain);
    }
    let srs0 = |rest: &str| {
        let mut parts = rest.splitn(4, '=');
        let (_hash, _time) = (parts.next()?, parts.next()?);
        let (domain, user) = (parts.next()?, parts.next()?);
        address(user, domain)
    };
    let separators = ['=', '+', '-'];
    if let Some(rest) = strip_start("srs0").and_then(|rest| rest.strip_prefix(separators)) {
        return srs0(rest);
    }
    if let Some(rest) = strip_start("srs1").and_then(|rest| rest.strip_prefix(separators)) {
        return srs0(rest.splitn(3, '=').nth(2)?.strip_prefix(separators)?);
    }
    match local.split_once('+') {
        Some((user, tail)) if tail.contains('=') => address(user, domain),
        _ => None,
    }
}

/// Local parts of machines. `postmaster` is not one (RFC 5230 §4.6).
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

/// Words in a local part that ask for no reply: see `refuses_answers`.
const NO_REPLY_WORDS: [&str; 6] =
    ["noreply", "donotreply", "dontreply", "donotrespond", "nepasrepondre", "noresponse"];

/// The control addresses of the list manager mlmmj: the word behind the plus (`list+owner`), and
/// whether it may have a tail (`list+confsub-0123abcd`).
const LIST_MANAGER_TAGS: [(&str, bool); 7] = [
    ("bounces", true),
    ("bounce", true),
    ("owner", false),
    ("help", false),
    ("moderate", true),
    ("confsub", true),
    ("confunsub", true),
];

/// A sender whose domain has one of these labels is a machine.
const BOUNCE_LABELS: [&str; 3] = ["bounce", "bounces", "bounced"];

/// If the sender is a machine, returns a text with the domain or the local part that shows it.
/// `site_names` are further local parts of machines, in lower case.
pub(super) fn system_sender(sender: &Address, site_names: &[String]) -> Option<String> {
    let sender = sender.folded();
    let local = sender.local();
    if sender.domain().split('.').any(|label| BOUNCE_LABELS.contains(&label)) {
        return Some(format!("envelope sender in {}", sender.domain()));
    }
    // A VERP tail hides the kind of the address: `list-bounces+ann=example.org`.
    let (base, detail) = local.split_once('+').unwrap_or((local, ""));
    // `bounce-77`, `bounces77`.
    let bounce_tail = ["bounces", "bounce"].iter().any(|word| {
        let tail = base.strip_prefix(word).unwrap_or_default();
        tail.starts_with(|c: char| "-.=_".contains(c) || c.is_ascii_digit())
    });
    let system = MACHINE_NAMES.contains(&base)
        || site_names.iter().any(|name| name == base)
        || MACHINE_PREFIXES.iter().any(|prefix| base.starts_with(prefix))
        || MACHINE_SUFFIXES
            .iter()
            .any(|suffix| base.ends_with(suffix) || has_recipient_tail(base, suffix))
        || bounce_tail
        || refuses_answers(base)
        || detail.split('+').any(is_list_detail);
    system.then(|| format!("envelope sender {local}@"))
}

/// Whether the text behind a plus is one of `LIST_MANAGER_TAGS`, with a tail if that may have one.
fn is_list_detail(detail: &str) -> bool {
    LIST_MANAGER_TAGS.iter().any(|(word, with_tail)| {
        let tail = detail.strip_prefix(word);
        tail.is_some_and(|tail| tail.is_empty() || (*with_tail && tail.starts_with(['-', '='])))
    })
}

/// Whether a local part has `suffix` and behind it a tail. A tail begins with a separator (`-=_.`),
/// and either a digit follows directly, or there is a `=` anywhere in it. List managers make such
/// tails for each message or recipient: `list-return-77-ann=example.org`.
fn has_recipient_tail(base: &str, suffix: &str) -> bool {
    base.match_indices(suffix).any(|(at, _)| {
        let tail = base.get(at.saturating_add(suffix.len())..).unwrap_or_default();
        let numbered = tail.chars().nth(1).is_some_and(|c| c.is_ascii_digit());
        tail.starts_with(['-', '=', '_', '.']) && (numbered || tail.contains('='))
    })
}

/// Whether a local part says that no answer is wanted: one of its words begins or ends with one of
/// `NO_REPLY_WORDS` (`shopnoreply`), or two or three adjacent words form one, perhaps with digits
/// behind it (`do-not-reply2`). A word is a run of letters and digits: `piano-reply` is answered.
fn refuses_answers(base: &str) -> bool {
    let words: Vec<&str> =
        base.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let is_no_reply =
        |text: &str| NO_REPLY_WORDS.contains(&text.trim_end_matches(|c: char| c.is_ascii_digit()));
    words.iter().any(|word| {
        NO_REPLY_WORDS.iter().any(|no_reply| word.starts_with(no_reply) || word.ends_with(no_reply))
    }) || (2..=3).any(|count| words.windows(count).any(|run| is_no_reply(&run.concat())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vacation::told::{Handle, told_key};

    #[test]
    fn own_sender_is_recognised_where_addresses_differ_by_case() {
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
                is_from_self(&address(sender), |address| own.contains(address)),
                is_self,
                "{sender}"
            );
        }
    }

    #[test]
    fn sender_under_changing_tags_has_one_key() {
        let plain = |text: &str| plain_sender(&Address::parse(text).unwrap()).to_string();
        assert_eq!(plain("Bob@Example.NET"), "bob@example.net");
        assert_eq!(plain("prvs=0123abcd=bob@example.net"), "bob@example.net");
        assert_eq!(plain("SRS0=ab12=XY=example.net=bob@forwarder.example"), "bob@example.net");
        assert_eq!(
            plain("SRS1=zz=first.example==ab12=XY=example.net=bob@second.example"),
            "bob@example.net"
        );
        assert_eq!(plain("bob+ann=example.org@example.net"), "bob@example.net");
        assert_eq!(plain("bob+tag@example.net"), "bob+tag@example.net");
        assert_eq!(plain("SRS0+ab12=XY=example.net=bob@forwarder.example"), "bob@example.net");
        assert_eq!(
            plain("SRS1=zz=first.example=+ab12=XY=example.net=bob@second.example"),
            "bob@example.net"
        );
        assert_eq!(
            plain("SRS0=ab12=XY=Bücher.example=prvs=0123=Bob+x==y@f.example"),
            "bob@xn--bcher-kva.example"
        );
        assert_eq!(plain("prvs=bob/0123abcd@example.net"), "bob@example.net");
        assert_eq!(plain("btv1==0123==bob@example.net"), "bob@example.net");
        assert_eq!(plain("Bob@Bücher.example"), "bob@xn--bcher-kva.example");
        // Without a user, with too few parts, or with no valid address within.
        for whole in [
            "prvs=bob@example.net",
            "srs0=a=b=c@example.net",
            "srs0=a=b=-c=d@example.net",
            "+x=y@example.net",
        ] {
            assert_eq!(plain(whole), whole);
        }
        let told =
            |handle, sender: &str| told_key(&[7; 32], &handle, &Address::parse(sender).unwrap());
        let named = Handle::Named;
        assert_eq!(told(named("a"), "bob@example.net"), told(named("a"), "prvs=1=bob@example.net"));
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
        for (at, handle) in handles.iter().enumerate() {
            for other in handles.iter().skip(at + 1) {
                assert_ne!(
                    told(*handle, "bob@example.net"),
                    told(*other, "bob@example.net"),
                    "{handle:?} {other:?}"
                );
            }
        }
    }

    #[test]
    fn machines_are_recognised_and_people_are_not_taken_for_them() {
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
