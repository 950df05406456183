//! Runs scripts from their source: those of `sieve/scripts`, those in the shape that mail clients
//! generate, and examples of RFCs.

use restante_sieve::{
    Action, CompileOptions, FlagSet, LineIndex, MissingRequire, Outcome, Plan, Scan, Script,
    Target, check,
};

use crate::support::{TestInput, TestWorld};

/// Compiles a script, which must have no errors and no warnings.
fn compile(source: &str) -> Script {
    compile_with(source, &CompileOptions::default())
}

/// Compiles a script, which must have no errors. It may have warnings if a missing `require` is a
/// warning by the options.
fn compile_with(source: &str, options: &CompileOptions) -> Script {
    let checked = check(source.as_bytes(), options);
    let index = LineIndex::new(source.as_bytes());
    let report: String = checked.diagnostics.iter().map(|one| one.text(&index, "script")).collect();
    let is_clean = report.is_empty() || options.missing_require == MissingRequire::Warning;
    assert!(is_clean, "{report}");
    checked.script.unwrap()
}

/// Returns the plan of a script for a message, with the mailboxes `Lists/announce` and `Work`.
fn run(source: &str, message: &str) -> Plan {
    run_in(&TestWorld::with_mailboxes(&["Lists/announce", "Work"]), source, message)
}

fn run_in(world: &TestWorld, source: &str, message: &str) -> Plan {
    let Outcome { plan, error, .. } = TestInput::new(message).run(&compile(source), world);
    assert_eq!(error, None);
    assert_eq!(plan.violations(), Vec::<&str>::new());
    plan
}

/// Describes where a plan stores the message: each mailbox with the flags in brackets.
fn stores(plan: &Plan) -> Vec<String> {
    let describe = |to: &Target, flags: &FlagSet| {
        let name = match to {
            Target::Inbox => "Inbox",
            Target::Mailbox { name, .. } | Target::Create { name, .. } => name,
        };
        format!("{name} [{}]", flags.to_words())
    };
    let actions = plan.actions.iter().filter_map(|action| match action {
        Action::Store { to, flags, .. } => Some(describe(to, flags)),
        _ => None,
    });
    let implicit = plan.implicit_keep.iter().map(|keep| describe(&Target::Inbox, &keep.flags));
    actions.chain(implicit).collect()
}

const DEFAULT: &str = include_str!("../../scripts/default.sieve");
const JUNK: &str = include_str!("../../scripts/junk.sieve");
const LISTS: &str = include_str!("../../scripts/lists.sieve");
const VACATION: &str = include_str!("../../scripts/vacation.sieve");

#[test]
fn default_files_spam_and_lists_and_marks_automatic_mail() {
    let stored = |header: &str| stores(&run(DEFAULT, &format!("{header}\r\n\r\nText")));
    assert_eq!(stored("X-Spam-Flag: YES"), ["Junk []"]);
    assert_eq!(stored("X-Spam-Status: Yes, score=9"), ["Junk []"]);
    assert_eq!(stored("List-Id: All of it <Announce.example.org>"), ["Lists/announce []"]);
    // The name of a list is not used if it is empty or has a separator of paths.
    assert_eq!(stored("List-Id: Odd <../../etc.example.org>"), ["Inbox []"]);
    assert_eq!(stored("List-Id: Odd <etc/passwd.example.org>"), ["Inbox []"]);
    assert_eq!(stored("Auto-Submitted: auto-generated"), ["Inbox [$auto]"]);
    assert_eq!(stored("Subject: Hello"), ["Inbox []"]);
}

#[test]
fn junk_spares_welcome_senders() {
    let stored = |header: &str| stores(&run(JUNK, &format!("{header}\r\n\r\nText")));
    let welcome = "From: a@example.org\r\nAuthentication-Results: mx; dmarc=pass";
    assert_eq!(stored(&format!("{welcome}\r\nX-Spam: Yes")), ["Inbox []"]);
    assert_eq!(stored("From: a@example.org\r\nX-Spam: Yes"), ["Junk [$junk]"]);
    assert_eq!(stored("X-Spam-Score: 12.5"), ["Junk [$junk]"]);
    assert_eq!(stored("X-Spam-Score: 7"), ["Junk [$junk]"]);
    assert_eq!(stored("X-Spam-Score: 5.9"), ["Inbox []"]);
    assert_eq!(stored("X-Spam-Score: -20.1"), ["Inbox []"]);
}

#[test]
fn lists_files_by_address_and_by_list() {
    let stored = |header: &str| stores(&run(LISTS, &format!("{header}\r\n\r\nText")));
    assert_eq!(stored("List-Id: <announce.example.org>"), ["Announcements []"]);
    assert_eq!(stored("List-Id: <users.example.org>"), ["Lists/users []"]);
    let both = "To: me@example.org\r\nList-Id: <users.example.org>";
    assert_eq!(stored(both), ["Lists/users []", "Inbox []"]);
    assert_eq!(stored("List-Post: <a>\r\nList-Unsubscribe: <b>"), ["Lists []"]);
    let mut input = TestInput::new("Subject: x\r\n\r\n");
    input.envelope.to = "me+lists.Rust@example.org";
    let plan = input.run(&compile(LISTS), &TestWorld::default()).plan;
    assert_eq!(stores(&plan), ["Lists/rust []"]);
}

#[test]
fn vacation_answers_between_two_days() {
    // The script answers from 24 December to 6 January in the zone +0100, where 23:00 in UTC is
    // midnight.
    let mut world = TestWorld::default();
    let mut answers = |now: &str, message: &str| {
        world.now = now.parse().unwrap();
        let plan = run_in(&world, VACATION, message);
        assert_eq!(stores(&plan), ["Inbox []"]);
        plan.actions.iter().any(|action| matches!(action, Action::Vacation(_)))
    };
    let message = "Subject: Hello\r\n\r\nText";
    assert!(!answers("2026-12-23T22:59:59Z", message));
    assert!(answers("2026-12-23T23:00:00Z", message));
    assert!(answers("2027-01-06T22:59:59Z", message));
    assert!(!answers("2027-01-06T23:00:00Z", message));
    assert!(!answers("2026-12-24T12:00:00Z", "X-Spam-Flag: YES\r\n\r\n"));
}

#[test]
fn rules_of_roundcube() {
    let source = "require [\"copy\",\"fileinto\",\"imap4flags\",\"regex\"];\r\n\
        # rule:[Work]\r\n\
        if allof (header :contains \"subject\" \"report\", \
        address :domain :is \"from\" \"corp.example\")\r\n\
        {\r\n\tfileinto :copy \"Work\";\r\n\taddflag \"\\\\Flagged\";\r\n}\r\n\
        # rule:[Off]\r\n\
        if false # anyof (header :contains \"subject\" \"x\")\r\n\
        {\r\n\tdiscard;\r\n}\r\n\
        # rule:[Stop]\r\n\
        if header :regex \"subject\" \"^re(port)?:\"\r\n\
        {\r\n\tkeep;\r\n\tstop;\r\n}\r\n";
    let plan = run(source, "From: a@corp.example\r\nSubject: Report: 1\r\n\r\n");
    assert_eq!(stores(&plan), ["Work []", "Inbox [\\Flagged]"]);
    assert_eq!(plan.implicit_keep, None);
    let plan = run(source, "From: a@b.example\r\nSubject: x\r\n\r\n");
    assert_eq!(stores(&plan), ["Inbox []"]);
}

#[test]
fn out_of_office_of_nextcloud() {
    let source = "### Nextcloud Mail: Vacation Responder ### DON'T EDIT ###\n\
        require \"date\";\nrequire \"relational\";\nrequire \"vacation\";\n\
        if allof(currentdate :value \"ge\" \"iso8601\" \"2026-12-24T08:00:00Z\", \
        currentdate :value \"le\" \"iso8601\" \"2026-12-31T08:00:00Z\") {\n\
        \tvacation :days 4 :subject \"Away\" \
        :addresses [\"Me <me@example.org>\"] \"Until later.\";\n\
        }\n";
    let plan = run(source, "Subject: Hello\r\n\r\n");
    let Action::Vacation(intent) = &plan.actions[0] else { panic!("{plan:?}") };
    assert_eq!(intent.addresses, ["Me <me@example.org>"]);
    assert_eq!(intent.period, restante_sieve::Period::Days(4));
}

#[test]
fn rules_of_proton() {
    let source = "require [\"include\", \"environment\", \"variables\", \"relational\", \
        \"comparator-i;ascii-numeric\", \"spamtest\"];\n\
        require [\"fileinto\", \"imap4flags\"];\n\
        if allof (environment :matches \"vnd.proton.spam-threshold\" \"*\", \
        spamtest :value \"ge\" :comparator \"i;ascii-numeric\" \"${1}\") { return; }\n\
        if allof (address :all :comparator \"i;unicode-casemap\" :is \"From\" \
        [\"a@b.example\"]) {\n\
        fileinto \"Work\";\n}\n";
    let options =
        CompileOptions { missing_require: MissingRequire::Warning, ..CompileOptions::default() };
    let script = compile_with(source, &options);
    let mut world = TestWorld::with_mailboxes(&["Work"]);
    world.environment.insert("vnd.proton.spam-threshold".into(), "5".into());
    let mut stored = |spam_percent| {
        world.scan = Scan { spam_percent, virus: None };
        let outcome = TestInput::new("From: A@B.example\r\n\r\n").run(&script, &world);
        assert_eq!(outcome.error, None);
        stores(&outcome.plan)
    };
    // On the scale from 1 to 10, 90 percent are over the threshold of 5, and 10 percent are not.
    assert_eq!(stored(Some(90)), ["Inbox []"]);
    assert_eq!(stored(Some(10)), ["Work []"]);
    assert_eq!(stored(None), ["Work []"]);
}

#[test]
fn the_example_of_rfc_5232() {
    let source = "require [\"fileinto\", \"imap4flags\", \"variables\"];\n\
        if size :under 1M {\n addflag \"MyFlags\" \"Big\";\n\
        if header :is \"From\" \"boss@company.example.com\" \
        { addflag \"MyFlags\" \"\\\\Flagged\"; }\n\
        fileinto :flags \"${MyFlags}\" \"Work\";\n}\n\
        if header :is \"Sender\" \"owner@example.org\" {\n\
        set \"MyFlags\" \"\\\\Flagged $Work\";\n keep :flags \"${MyFlags}\";\n}\n";
    let plan = run(source, "From: boss@company.example.com\r\nSender: owner@example.org\r\n\r\n");
    assert_eq!(stores(&plan), ["Work [Big \\Flagged]", "Inbox [\\Flagged $Work]"]);
}

#[test]
fn the_example_of_rfc_5703() {
    let source = "require [\"mime\", \"variables\", \"extracttext\", \"foreverypart\", \
        \"fileinto\", \"mailbox\"];\n\
        foreverypart {\n if header :mime :type :is \"Content-Type\" \"text\" {\n\
        extracttext :first 5 \"text\";\n break;\n }\n}\n\
        fileinto :create \"${text}\";\n";
    let plan = run(source, crate::messages::NESTED);
    assert_eq!(stores(&plan), ["Hello []"]);
}

#[test]
fn run_time_errors_have_the_place_in_the_source() {
    let source = "require [\"variables\", \"reject\"];\n\
        if exists \"Subject\" { keep; }\nif true { reject \"${0}no\"; }\n";
    let script = compile(source);
    let outcome = TestInput::new("Subject: x\r\n\r\n").run(&script, &TestWorld::default());
    assert_eq!(outcome.plan, Plan::keep_only());
    let error = outcome.error.unwrap();
    let span = error.place.span;
    let index = LineIndex::new(source.as_bytes());
    assert_eq!(index.position(span.start).line, 3);
    assert_eq!(span.of(source.as_bytes()), b"reject \"${0}no\"");
    assert_eq!(error.to_string(), "`reject` cannot be used with `keep`");
}
