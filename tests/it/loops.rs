//! Two sites whose users all have a vacation response, with mailing lists between them: nobody gets
//! two replies from one user, and the traffic ends.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use crate::bed::TestBed;
use crate::mail::letter;
use crate::mta::{Postfix, can_run_postfix, free_port};

const MAX_WAIT: Duration = Duration::from_secs(90);

/// Starts a service whose relay is the Postfix on `port`. Each of its users has a vacation
/// response.
fn site(port: u16, people: &[&str]) -> TestBed {
    let mut bed = TestBed::new(&format!(
        "relay.host = \"127.0.0.1\"\nrelay.port = {port}\nrelay.tls = \"none\"\n"
    ));
    bed.start();
    fs::set_permissions(bed.lmtp(), fs::Permissions::from_mode(0o666)).unwrap();
    for person in people {
        bed.add_account(person, &[]);
        bed.run_ok(&[
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

/// For each user of a site: the number of emails, and the number of replies to each sender.
type Traffic = BTreeMap<String, (usize, BTreeMap<String, usize>)>;

fn traffic(bed: &TestBed, people: &[&str]) -> Traffic {
    let of_person = |person: &&str| {
        let mut answered = BTreeMap::new();
        for row in bed.rows(&["vacation", "log", "-a", person, "--limit", "1000"]) {
            if row["reason"].is_null() {
                *answered.entry(row["sender"].as_str().unwrap_or("<>").to_owned()).or_default() +=
                    1;
            }
        }
        ((*person).to_owned(), (bed.list_mail(person).len(), answered))
    };
    people.iter().map(of_person).collect()
}

#[test]
fn vacation_replies_between_two_sites_and_lists_end() {
    if !can_run_postfix() {
        return;
    }
    let port = free_port();
    let (here, there) =
        (["ann@a.example", "keeper@a.example"], ["bob@b.example", "dora@b.example"]);
    let (a, b) = (site(port, &here), site(port, &there));
    // Two lists: one of local(8) with an owner, as it should be, and a bare alias that keeps the
    // envelope sender.
    let more = format!(
        "virtual_mailbox_domains = a.example b.example
transport_maps = inline:{{
  {{ a.example = lmtp:unix:{} }}, {{ b.example = lmtp:unix:{} }} }}
mydestination = lists.example
local_transport = local
alias_maps = inline:{{
  {{ team = ann@a.example, bob@b.example, dora@b.example }},
  {{ owner-team = keeper@a.example }} }}
virtual_alias_maps = inline:{{
  {{ all@bare.example = ann@a.example bob@b.example dora@b.example }} }}
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
            // A list that sends in its own name: replies to it are distributed again.
            ("all@bare.example", "all@bare.example"),
        ] {
            // The header names everybody, so no reply is withheld for "not addressed".
            let message =
                letter(sender, everybody, &format!("round {round}"), &format!("from {sender}"));
            assert_eq!(postfix.send(sender, recipient, &message).code, 250, "{}", postfix.log());
            sent += 1;
        }
    }
    assert_eq!(sent, 15);
    let is_idle =
        || postfix.is_idle() && [&a, &b].iter().all(|bed| bed.rows(&["queue", "list"]).is_empty());
    let state = || (traffic(&a, &here), traffic(&b, &there));
    // Ann gets four messages of each round: one from Bob, one by `team`, and two by `all`.
    a.wait_until("the first have arrived", MAX_WAIT, || {
        traffic(&a, &here)["ann@a.example"].0 >= 12
    });
    a.wait_until("nothing waits", MAX_WAIT, is_idle);
    let before = state();
    std::thread::sleep(Duration::from_secs(3));
    a.wait_until("nothing waits", MAX_WAIT, is_idle);
    let after = state();
    assert_eq!(before, after, "the traffic goes on:\n{}", postfix.log());

    for (person, (_, answered)) in after.0.iter().chain(&after.1) {
        for (sender, times) in answered {
            assert_eq!(*times, 1, "{person} answered {sender} {times} times");
        }
    }
    // Users got replies, and so did the list that sends in its own name. The owner of the other
    // list and the null sender got none.
    let answered_by = |people: &Traffic, person: &str| -> Vec<String> {
        people[person].1.keys().cloned().collect()
    };
    assert_eq!(answered_by(&after.0, "ann@a.example"), ["all@bare.example", "bob@b.example"]);
    assert_eq!(answered_by(&after.1, "bob@b.example"), ["all@bare.example", "ann@a.example"]);
    assert_eq!(answered_by(&after.1, "dora@b.example"), ["all@bare.example", "bob@b.example"]);
    assert_eq!(answered_by(&after.0, "keeper@a.example"), Vec::<String>::new());
    drop(postfix);
    a.finish();
    b.finish();
}
