//! Two sites on one machine, each with people who are away, and exploders of mailing lists between
//! them: nobody is answered twice, and all fall silent.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use crate::bed::Bed;
use crate::mail::letter;
use crate::mta::{Postfix, free_port, is_here};

const MAX_TIME: Duration = Duration::from_secs(90);

fn site(port: u16, people: &[&str]) -> Bed {
    let mut bed = Bed::new(&format!(
        "relay.host = \"127.0.0.1\"\nrelay.port = {port}\nrelay.tls = \"none\"\n"
    ));
    bed.start();
    fs::set_permissions(bed.lmtp(), fs::Permissions::from_mode(0o666)).unwrap();
    for person in people {
        bed.account(person, &[]);
        bed.ok(&[
            "vacation",
            "set",
            "-a",
            person,
            "--subject",
            "Away",
            "--text",
            "Back on Monday.",
        ]);
    }
    bed
}

/// Of each person of a site: the mail that is there, and whom the person's responder answered, how
/// often.
fn told(bed: &Bed, people: &[&str]) -> BTreeMap<String, (usize, BTreeMap<String, usize>)> {
    let told = |person: &&str| {
        let mut answered = BTreeMap::new();
        for row in bed.rows(&["vacation", "log", "-a", person, "--limit", "1000"]) {
            if row["reason"].is_null() {
                *answered.entry(row["sender"].as_str().unwrap_or("<>").to_owned()).or_default() +=
                    1;
            }
        }
        ((*person).to_owned(), (bed.mail(person).len(), answered))
    };
    people.iter().map(told).collect()
}

#[test]
fn two_sites_and_lists_between_them_fall_silent() {
    if !is_here() {
        return;
    }
    let port = free_port();
    let (here, there) =
        (["ann@a.example", "keeper@a.example"], ["bob@b.example", "dora@b.example"]);
    let (a, b) = (site(port, &here), site(port, &there));
    // Two exploders: local(8) with an owner, as lists ought to be, and a bare alias that keeps the
    // envelope sender.
    let more = format!(
        "virtual_mailbox_domains = a.example b.example
transport_maps = inline:{{ {{ a.example = lmtp:unix:{} }}, {{ b.example = lmtp:unix:{} }} }}
mydestination = lists.example
local_transport = local
alias_maps = inline:{{ {{ team = ann@a.example, bob@b.example, dora@b.example }}, {{ owner-team = keeper@a.example }} }}
virtual_alias_maps = inline:{{ {{ all@bare.example = ann@a.example bob@b.example dora@b.example }} }}
virtual_alias_domains = bare.example
smtpd_recipient_restrictions = reject_unauth_destination
",
        a.lmtp().display(),
        b.lmtp().display(),
    );
    let postfix = Postfix::start(&a.dir, port, &a.lmtp(), &more);
    let everybody =
        "team@lists.example, all@bare.example, ann@a.example, bob@b.example, dora@b.example";
    let mut sent = 0;
    for round in 0..3 {
        for (sender, recipient) in [
            ("ann@a.example", "bob@b.example"),
            ("bob@b.example", "ann@a.example"),
            ("ann@a.example", "team@lists.example"),
            ("bob@b.example", "all@bare.example"),
            // An exploder that sends in its own name: what answers it is exploded again.
            ("all@bare.example", "all@bare.example"),
        ] {
            // The worst case for the rule of "not addressed": everybody is named.
            let message =
                letter(sender, everybody, &format!("round {round}"), &format!("from {sender}"));
            assert_eq!(postfix.send(sender, recipient, &message).code, 250, "{}", postfix.log());
            sent += 1;
        }
    }
    assert_eq!(sent, 15);
    let quiet =
        || postfix.is_idle() && [&a, &b].iter().all(|bed| bed.rows(&["queue", "list"]).is_empty());
    let state = || (told(&a, &here), told(&b, &there));
    a.eventually("the first have come", MAX_TIME, || told(&a, &here)["ann@a.example"].0 >= 12);
    a.eventually("nothing waits", MAX_TIME, quiet);
    let before = state();
    std::thread::sleep(Duration::from_secs(3));
    a.eventually("nothing waits", MAX_TIME, quiet);
    let after = state();
    assert_eq!(before, after, "it goes on:\n{}", postfix.log());

    for (person, (_, answered)) in after.0.iter().chain(&after.1) {
        for (sender, times) in answered {
            assert_eq!(*times, 1, "{person} answered {sender} {times} times");
        }
    }
    // Those who wrote as people were answered, and so was the exploder that wrote in its own name;
    // the list's owner and the answers were not.
    let whom = |people: &BTreeMap<String, (usize, BTreeMap<String, usize>)>,
                person: &str|
     -> Vec<String> { people[person].1.keys().cloned().collect() };
    assert_eq!(whom(&after.0, "ann@a.example"), ["all@bare.example", "bob@b.example"]);
    assert_eq!(whom(&after.1, "bob@b.example"), ["all@bare.example", "ann@a.example"]);
    assert_eq!(whom(&after.1, "dora@b.example"), ["all@bare.example", "bob@b.example"]);
    assert_eq!(whom(&after.0, "keeper@a.example"), Vec::<String>::new());
    drop(postfix);
    a.finish();
    b.finish();
}
