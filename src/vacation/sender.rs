//! Who a sender is: the same person under daily tags, or a machine.

use crate::model::{Address, ToldKey};

/// The form in which senders are the same: lower case, A-labels, and without the tags that would make one person look new
/// every day: BATV `prvs=tag=user`, SRS `SRS0=hash=time=domain=user`, VERP `user+...=...`.
#[must_use]
pub fn sender_key(sender: &Address) -> String {
    let folded = sender.folded();
    let (local, domain) = (folded.local(), folded.domain());
    if let Some(tagged) = local.strip_prefix("prvs=") {
        let user = tagged.split_once('=').map_or(tagged, |(_, user)| user);
        return format!("{user}@{domain}");
    }
    if let Some((first, rest)) = local.split_once(['=', '+', '-'])
        && (first == "srs0" || first == "srs1")
    {
        // SRS1 has a forwarder before the SRS0 part; the original is what follows the last time stamp.
        let rest = rest.rsplit_once("==").map_or(rest, |(_, inner)| inner);
        let mut parts = rest.splitn(4, '=');
        if let (Some(_), Some(_), Some(domain), Some(user)) = (parts.next(), parts.next(), parts.next(), parts.next()) {
            return format!("{user}@{domain}");
        }
    }
    match local.split_once('+') {
        Some((user, tail)) if tail.contains('=') && !user.is_empty() => format!("{user}@{domain}"),
        _ => folded.to_string(),
    }
}

/// Under which key a sender is remembered for a handle. Both parts are hashed by themselves, so no two pairs collide.
#[must_use]
pub fn told_key(secret: &[u8; 32], handle: &str, sender: &Address) -> ToldKey {
    let hash = |context: u8, text: &str| {
        let mut hasher = blake3::Hasher::new_keyed(secret);
        hasher.update(&[context]);
        hasher.update(text.as_bytes());
        let mut out = [0u8; 16];
        hasher.finalize_xof().fill(&mut out);
        out
    };
    let mut key = [0u8; 32];
    let parts = hash(0, handle).into_iter().chain(hash(1, &sender_key(sender)));
    key.iter_mut().zip(parts).for_each(|(to, from)| *to = from);
    ToldKey(key)
}

/// Local parts that are machines; `postmaster` is not: people read and write there (RFC 5230 §4.6).
const EXACT: [&str; 19] = [
    "mailer-daemon",
    "listserv",
    "majordomo",
    "root",
    "daemon",
    "nobody",
    "www-data",
    "apache",
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
];
const ENDS: [&str; 9] =
    ["-request", "-owner", "-bounces", "-bounce", "-errors", "-relay", "-outgoing", "-confirm", "-return"];

/// Which rule says that a local part is no person's, if any does. `more` are the site's own, in lower case.
pub(super) fn system_sender(local: &str, more: &[String]) -> Option<String> {
    let local = local.to_lowercase();
    // A VERP tail hides what kind of address it is: `list-bounces+ann=example.org`.
    let base = local.split_once('+').map_or(local.as_str(), |(base, _)| base);
    let squeezed: String = base.chars().filter(char::is_ascii_alphanumeric).collect();
    let bounce_tail = ["bounce", "bounces"]
        .iter()
        .any(|word| base.strip_prefix(word).is_some_and(|tail| tail.starts_with(['-', '.', '=', '_'])));
    let system = EXACT.contains(&base)
        || more.iter().any(|word| word == base)
        || base.starts_with("owner-")
        || ENDS.iter().any(|end| base.ends_with(end))
        || bounce_tail
        || ["noreply", "donotreply", "nepasrepondre", "noresponse"]
            .iter()
            .any(|word| squeezed.starts_with(word) || squeezed.ends_with(word));
    system.then(|| format!("envelope sender {local}@"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_person_under_daily_tags() {
        let key = |text: &str| sender_key(&Address::parse(text).unwrap());
        assert_eq!(key("Bob@Example.NET"), "bob@example.net");
        assert_eq!(key("prvs=0123abcd=bob@example.net"), "bob@example.net");
        assert_eq!(key("SRS0=ab12=XY=example.net=bob@forwarder.example"), "bob@example.net");
        assert_eq!(key("SRS1=zz=first.example==ab12=XY=example.net=bob@second.example"), "bob@example.net");
        assert_eq!(key("bob+ann=example.org@example.net"), "bob@example.net");
        assert_eq!(key("bob+tag@example.net"), "bob+tag@example.net");
        let told = |handle, sender: &str| told_key(&[7; 32], handle, &Address::parse(sender).unwrap());
        assert_eq!(told("a", "bob@example.net"), told("a", "prvs=1=bob@example.net"));
        assert_ne!(told("a", "bob@example.net"), told("b", "bob@example.net"));
    }

    #[test]
    fn machines_and_people() {
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
            assert!(system_sender(local, &[]).is_some(), "{local}");
        }
        for local in ["postmaster", "ann", "bouncer", "request", "owner", "rooter", "reply", "ann-relays"] {
            assert!(system_sender(local, &[]).is_none(), "{local}");
        }
        assert!(system_sender("robot", &["robot".into()]).is_some());
    }
}
