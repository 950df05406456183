//! Import and export through a running service.

use super::*;
use crate::wire::jmap::With;
use crate::wire::jmap::admin::AccountRef;
use crate::wire::jmap::admin::accounts::{
    AccountAdd, AccountAddArguments, AccountChanges, AccountSet,
};
use crate::wire::jmap::admin::mail::{MailIndex, MailIndexArguments};
use crate::wire::jmap::admin::mailboxes::{MailboxEnsure, MailboxEnsureArguments};
use crate::wire::jmap::admin::store::{StoreCheck, StoreCheckArguments};
use crate::wire::jmap::arguments::Nullable;

/// Writes a Maildir++ as Dovecot leaves it.
fn foreign(dir: &Path) {
    for folder in ["", ".Lists.rust", ".Entw&APw-rfe", ".Trash", ".Empty"] {
        for sub in ["cur", "new", "tmp"] {
            fs::create_dir_all(dir.join(folder).join(sub)).unwrap();
        }
    }
    let write = |name: &str, subject: &str| {
        let file = dir.join(name);
        fs::write(
            &file,
            format!("Subject: {subject}\nMessage-ID: <{subject}@example.org>\n\ntext\n"),
        )
        .unwrap();
        let at = std::time::UNIX_EPOCH + std::time::Duration::from_millis(1_700_000_000_500);
        fs::File::options().write(true).open(&file).unwrap().set_modified(at).unwrap();
    };
    fs::write(dir.join("dovecot-keywords"), "0 Work\n1 $Forwarded\n").unwrap();
    write("cur/1.M1.h,S=3:2,FSa", "one");
    write("new/2.M1.h", "two");
    write("cur/3.M1.h:2,ST", "three");
    write(".Lists.rust/cur/4.M1.h:2,R", "four");
    write(".Entw&APw-rfe/cur/5.M1.h:2,D", "five");
}

fn config(dir: &Path) -> Config {
    let mut config = Config::default();
    config.store.path = dir.join("data");
    config.lmtp.listen = Some(vec![ListenValue::Unix(dir.join("lmtp"))]);
    config.control.socket = dir.join("control");
    config.limits.message.0 = 1 << 20;
    config
}

struct Fixture {
    context: CommandContext,
    dir: tempfile::TempDir,
}

impl Fixture {
    async fn import(
        &self,
        account: &str,
        paths: &[&Path],
        change: impl FnOnce(&mut ImportArgs),
    ) -> Result<(), Failure> {
        let mut args = ImportArgs {
            account: AccountArgs { account: account.into() },
            format: None,
            mailbox: None,
            with_deleted: false,
            without_scripts: false,
            dry_run: false,
            paths: paths.iter().map(|path| path.to_path_buf()).collect(),
        };
        change(&mut args);
        import(args, &self.context).await
    }

    async fn export(&self, account: &str, format: Format, path: &Path) -> Result<(), Failure> {
        let account = AccountArgs { account: account.into() };
        export(ExportArgs { account, format, dry_run: false, path: path.to_owned() }, &self.context)
            .await
    }

    async fn account(&self, address: &str, quota: Option<u64>) {
        let new = AccountAddArguments {
            address: address.into(),
            quota_emails: quota,
            ..AccountAddArguments::default()
        };
        self.context.client.call::<AccountAdd>(new).await.unwrap();
    }

    /// Returns for each email the paths of its mailboxes, its date, its keywords and its size.
    async fn index(&self, account: &str) -> Vec<(BTreeSet<String>, i64, BTreeSet<String>, u64)> {
        let args = MailIndexArguments { after: None, limit: Some(10_000) };
        let page = self
            .context
            .client
            .call::<MailIndex>(With(AccountRef::by_name(account), args))
            .await
            .unwrap();
        let path_of = |id: &String| {
            let mailbox = page.mailboxes.iter().find(|known| known.id == *id).unwrap();
            MailboxPath { inbox: mailbox.inbox, names: mailbox.names.clone() }.path()
        };
        let rows = page.list.iter();
        rows.map(|row| {
            let id: EmailId = row.id.parse().unwrap();
            (
                row.mailbox_ids.iter().map(path_of).collect(),
                id.received_at().0,
                row.keywords.clone(),
                row.size,
            )
        })
        .collect()
    }
}

/// Runs a test with a service. After it, the check of the store must find no errors.
fn with_service(test: impl AsyncFnOnce(&Fixture)) {
    let dir = tempfile::tempdir().unwrap();
    let config = config(dir.path());
    runtime().unwrap().block_on(async {
        let service = Service::start(config.clone(), Arc::new(clock::SystemClock)).await.unwrap();
        let client = ControlClient::new(&config.control.socket);
        let bed = Fixture { context: CommandContext { config, client, json: true }, dir };
        test(&bed).await;
        let mut meter = crate::cli::terminal::meter::ProgressMeter::new("check");
        let args = StoreCheckArguments { blobs: false };
        let checked =
            crate::cli::control::job::run::<StoreCheck>(&bed.context, args, &mut meter).await;
        assert_eq!(checked.unwrap().breaches, [""; 0]);
        service.stop().await;
    });
}

#[test]
fn a_maildir_is_imported_once_and_comes_back_in_every_form() {
    with_service(async |bed| {
        bed.account("ann@example.org", None).await;
        let maildir = bed.dir.path().join("Maildir");
        foreign(&maildir);
        bed.import("ann@example.org", &[&maildir], |args| args.dry_run = true).await.unwrap();
        assert!(bed.index("ann@example.org").await.is_empty());
        for _ in 0..2 {
            bed.import("ann@example.org", &[&maildir], |_| ()).await.unwrap();
            let mut index = bed.index("ann@example.org").await;
            index.sort();
            let at = 1_700_000_000_500;
            let row = |mailbox: &str, words: &str, subject: &str| {
                let octets = format!(
                    "Subject: {subject}\r\nMessage-ID: <{subject}@example.org>\r\n\r\ntext\r\n"
                )
                .len();
                (BTreeSet::from([mailbox.to_owned()]), at, set(words), octets as u64)
            };
            let wanted = [
                row("Entwürfe", "$draft", "five"),
                row("Inbox", "", "two"),
                row("Inbox", "$flagged $seen work", "one"),
                row("Lists/rust", "$answered", "four"),
            ];
            assert_eq!(index, wanted);
        }
        bed.import("ann@example.org", &[&maildir], |args| args.with_deleted = true).await.unwrap();
        let mut index = bed.index("ann@example.org").await;
        index.sort();
        assert_eq!((index.len(), index[4].0.contains("Trash")), (5, true), "{index:?}");

        // A copy in another folder is the same email in another mailbox.
        let copy = maildir.join(".Trash/cur/9.M1.h:2,F");
        fs::copy(maildir.join("cur/1.M1.h,S=3:2,FSa"), &copy).unwrap();
        let at = std::time::UNIX_EPOCH + std::time::Duration::from_millis(1_700_000_000_500);
        fs::File::options().write(true).open(&copy).unwrap().set_modified(at).unwrap();
        bed.import("ann@example.org", &[&maildir], |_| ()).await.unwrap();
        let mut index = bed.index("ann@example.org").await;
        index.sort();
        assert!(index.len() == 5 && index.iter().any(|row| row.0.len() == 2), "{index:?}");

        for (number, format) in FORMATS.into_iter().enumerate() {
            let to = bed.dir.path().join(format!("out{number}"));
            bed.export("ann@example.org", format, &to).await.unwrap();
            bed.export("ann@example.org", format, &to).await.unwrap();
            // The messages are there already.
            bed.import("ann@example.org", &[&to], |_| ()).await.unwrap();
            let other = format!("bob{number}@example.org");
            bed.account(&other, None).await;
            bed.import(&other, &[&to], |_| ()).await.unwrap();
            for account in ["ann@example.org", &other] {
                let mut again = bed.index(account).await;
                again.sort();
                assert_eq!(again, index, "{format:?} {account}");
            }
        }
        let args = With(
            AccountRef::by_name("bob0@example.org"),
            MailIndexArguments { after: None, limit: None },
        );
        let page = bed.context.client.call::<MailIndex>(args).await.unwrap();
        let is_kept =
            page.mailboxes.iter().any(|mailbox| mailbox.names.iter().any(|name| name == "Empty"));
        assert!(is_kept, "folders without mail are kept");
    });
}

#[test]
fn hostile_and_odd_mail_goes_through_the_service() {
    with_service(async |bed| {
        bed.account("ann@example.org", None).await;
        // A third of the messages, so that the test stays short.
        let mail: MailboxContents = mail().into_iter().step_by(3).collect();
        let (from, to) = (bed.dir.path().join("from"), bed.dir.path().join("to"));
        write(&from, Format::Maildir, &mail);
        bed.import("ann@example.org", &[&from], |_| ()).await.unwrap();
        bed.export("ann@example.org", Format::Mbox, &to).await.unwrap();
        let read = read_back(&to, Some(Format::Mbox));
        assert_eq!(read.len(), mail.len());
        for ((place, at), wanted) in &mail {
            // In an account, a mailbox named Inbox without a parent is the Inbox.
            let key =
                if place.inbox { place.clone() } else { MailboxPath::of(place.names.clone()) };
            assert!(read.get(&(key, *at)) == Some(wanted), "{place:?} {at}");
        }
    });
}

/// RFC 7807: status and type say what is wrong.
#[test]
fn refusals_say_what_is_wrong() {
    with_service(async |bed| {
        bed.account("ann@example.org", None).await;
        let args = MailboxEnsureArguments { inbox: true, names: Vec::new(), role: None };
        let args = With(AccountRef::by_name("ann@example.org"), args);
        let inbox = bed.context.client.call::<MailboxEnsure>(args).await.unwrap().id;
        let pool = ControlPool::new(bed.context.client.clone());
        let post = async |query: &str, body: Vec<u8>| {
            let path = format!("/append?{query}");
            let answer = pool.exchange(&hyper::Method::POST, &path, &body.into()).await.unwrap();
            (answer.status.as_u16(), answer.problem().unwrap_or_default())
        };
        let to = format!("account=ann%40example.org&mailbox={inbox}");
        let words = |count: usize| {
            (0..count).map(|number| format!("k{number}")).collect::<Vec<_>>().join("%20")
        };
        for (query, status, problem) in [
            (to.clone(), 200, ""),
            (format!("{to}&keywords=%24seen%20x&receivedAt=2026-11-21T09:00:00.5Z"), 200, ""),
            (format!("{to}&keywords=%22"), 400, "invalidArguments"),
            (format!("{to}&keywords={}", words(101)), 400, "invalidArguments"),
            (format!("{to}&receivedAt=soon"), 400, "invalidArguments"),
            (format!("{to}&known=x"), 400, "invalidArguments"),
            (format!("{to}&account=x"), 400, "invalidArguments"),
            ("account=ann%40example.org".into(), 400, "invalidArguments"),
            (format!("account=eve&mailbox={inbox}"), 404, "accountNotFound"),
            ("account=ann%40example.org&mailbox=m000001o".into(), 404, "notFound"),
        ] {
            assert_eq!(
                post(&query, b"Subject: x\r\n\r\n".to_vec()).await,
                (status, problem.to_owned()),
                "{query}"
            );
        }
        assert_eq!(post(&to, vec![b'x'; (1 << 20) + 1]).await, (413, "tooLarge".into()));
        assert_eq!(post(&to, vec![b'x'; 1 << 20]).await, (200, String::new()));
        // One email for each answer with the status 200.
        assert_eq!(bed.index("ann@example.org").await.len(), 3);
        let get = async |query: &str| {
            let path = format!("/octets?{query}");
            let answer =
                pool.exchange(&hyper::Method::GET, &path, &Vec::new().into()).await.unwrap();
            (answer.status.as_u16(), answer.problem().unwrap_or_default())
        };
        assert_eq!(
            get("account=ann%40example.org&email=e0000000000000").await,
            (404, "notFound".into())
        );
        assert_eq!(get("account=ann%40example.org&email=x").await, (404, "notFound".into()));
        assert_eq!(get("account=eve&email=x").await, (404, "accountNotFound".into()));
    });
}

/// An email gets at most as many keywords as a client can set, so that the client can change them
/// later.
#[test]
fn message_with_too_many_keywords_is_imported_with_some_of_them() {
    with_service(async |bed| {
        bed.account("ann@example.org", None).await;
        let words = (0..150).map(|number| format!("k{number:03}")).collect::<Vec<_>>().join(" ");
        let file = bed.dir.path().join("many.mbox");
        let fields = format!("X-Keywords: {words}\nStatus: RO\nSubject: x");
        let mail = format!("From bob Sat Nov 21 09:00:00 2026\n{fields}\n\ntext\n");
        fs::write(&file, mail).unwrap();
        bed.import("ann@example.org", &[&file], |_| ()).await.unwrap();
        let index = bed.index("ann@example.org").await;
        assert_eq!(index.len(), 1);
        assert_eq!(index[0].2.len(), crate::model::limits::MAX_KEYWORDS);
        assert!(index[0].2.contains("$seen"));
    });
}

#[test]
fn import_that_a_quota_stopped_is_continued_by_another_one() {
    with_service(async |bed| {
        bed.account("ann@example.org", Some(3)).await;
        let maildir = bed.dir.path().join("Maildir");
        foreign(&maildir);
        let stopped = bed.import("ann@example.org", &[&maildir], |_| ()).await.unwrap_err();
        assert!(
            stopped.code == exit::TEMPORARY && stopped.message.contains("over quota"),
            "{stopped}"
        );
        assert_eq!(bed.index("ann@example.org").await.len(), 3);
        let changes = AccountChanges { quota_emails: Some(None), ..AccountChanges::default() };
        let args = With(AccountRef::by_name("ann@example.org"), Nullable(changes));
        bed.context.client.call::<AccountSet>(args).await.unwrap();
        bed.import("ann@example.org", &[&maildir], |_| ()).await.unwrap();
        assert_eq!(bed.index("ann@example.org").await.len(), 4);
    });
}

#[test]
fn what_cannot_be_imported_is_reported_and_the_rest_is_imported() {
    with_service(async |bed| {
        bed.account("ann@example.org", None).await;
        let tree = bed.dir.path().join("tree");
        fs::create_dir_all(tree.join("a/b")).unwrap();
        fs::write(tree.join("a/large.eml"), vec![b'x'; 2 << 20]).unwrap();
        fs::write(
            tree.join("a/b/small.eml"),
            "Received: x; Sat, 21 Nov 2026 10:00:00 +0100\nSubject: x\n\n",
        )
        .unwrap();
        symlink(tree.join("a/b/small.eml"), tree.join("a/b/link.eml")).unwrap();
        let failed = bed
            .import("ann@example.org", &[&tree], |args| args.mailbox = Some("Old/mail".into()))
            .await;
        let failed = failed.unwrap_err();
        // The large file and the link.
        assert!(failed.code == exit::DATA && failed.message.starts_with("2 "), "{failed}");
        let index = bed.index("ann@example.org").await;
        assert_eq!(index.len(), 1);
        // The date is that of the Received field, in milliseconds.
        assert_eq!(
            (index[0].0.clone(), index[0].1),
            (BTreeSet::from(["Old/mail/a/b".into()]), 1_795_251_600_000)
        );
        let none =
            bed.import("ann@example.org", &[&tree.join("nothing")], |_| ()).await.unwrap_err();
        assert_eq!(none.code, exit::NO_INPUT);
        let nobody = bed.import("eve@example.org", &[&tree], |_| ()).await.unwrap_err();
        assert_eq!(nobody.code, exit::NO_USER);
    });
}

/// Writes a home as Dovecot leaves it: a Maildir, and scripts of which the link names one.
fn dovecot_home(home: &Path) {
    foreign(&home.join("Maildir"));
    fs::create_dir_all(home.join("sieve/tmp")).unwrap();
    let write =
        |name: &str, source: &str| fs::write(home.join("sieve").join(name), source).unwrap();
    write("main.sieve", "require \"imapflags\";\r\nmark;\r\nfileinto \"Lists.rust\";\r\n");
    write("broken.sieve", "require \"vnd.dovecot.pipe\";\npipe \"x\";\nkeeep;\n");
    write("gr\u{fc}n.sieve", "keep; # \u{df}");
    write("main.svbin", "compiled");
    write(".sieve", "");
    symlink("/var/vmail/ann/sieve/main.sieve", home.join(".dovecot.sieve")).unwrap();
}

impl Fixture {
    /// Asks what an import of a script would do.
    async fn append_script(&self, address: &str, name: &str, source: &str) -> serde_json::Value {
        let pool = ControlPool::new(self.context.client.clone());
        let query = crate::wire::query::write(&[
            ("account", address),
            ("name", name),
            ("activate", "true"),
            ("dryRun", "true"),
        ]);
        let (path, body) = (format!("/append-script?{query}"), source.as_bytes().to_vec().into());
        let answer = pool.exchange(&hyper::Method::POST, &path, &body).await.unwrap();
        assert!(answer.status.is_success(), "{}", answer.failure().message);
        serde_json::from_slice(&answer.body).unwrap()
    }
}

#[test]
fn scripts_of_a_home_are_imported_once_and_the_active_one_is_active() {
    with_service(async |bed| {
        let ann = "ann@example.org";
        bed.account(ann, None).await;
        let home = bed.dir.path().join("home");
        dovecot_home(&home);
        // It fails because `broken.sieve` has errors.
        bed.import(ann, &[&home], |args| args.dry_run = true).await.unwrap_err();
        bed.import(ann, &[&home], |args| args.without_scripts = true).await.unwrap();
        bed.import(ann, &[&home], |args| args.mailbox = Some("Old".into())).await.unwrap();
        // None of these has imported a script.
        assert_eq!(bed.append_script(ann, "main", "keep;").await["outcome"], "added");
        for _ in 0..2 {
            let failure = bed.import(ann, &[&home], |_| ()).await.unwrap_err();
            assert_eq!(failure.code, exit::DATA);
            assert!(failure.message.contains("has errors"), "{}", failure.message);
            // Messages of the Maildir in the home are in the Inbox.
            let index = bed.index(ann).await;
            let inbox = BTreeSet::from(["Inbox".to_owned()]);
            assert!(index.iter().any(|(mailboxes, ..)| mailboxes.is_superset(&inbox)), "{index:?}");
            let main = "require [\"fileinto\"];\r\nrequire \"imap4flags\";\r\n\
                        addflag \"\\\\Flagged\";\r\nfileinto \"Lists.rust\";\r\n";
            let there = bed.append_script(ann, "main", main).await;
            assert_eq!((&there["outcome"], &there["active"]), (&"there".into(), &"main".into()));
            let broken = fs::read_to_string(home.join("sieve/broken.sieve")).unwrap();
            let there = bed.append_script(ann, "broken", &broken).await;
            assert_eq!((&there["outcome"], &there["valid"]), (&"there".into(), &false.into()));
            assert!(there["diagnostics"].as_array().unwrap().len() >= 3, "{there}");
            let there = bed.append_script(ann, "gr\u{fc}n", "keep; # \u{df}").await;
            assert_eq!(there["outcome"], "there");
            // The name of a file may be decomposed.
            let there = bed.append_script(ann, "gru\u{308}n", "keep; # \u{df}").await;
            assert_eq!(there["outcome"], "there");
        }
        assert_eq!(bed.append_script(ann, "main", "stop;").await["outcome"], "differs");
    });
}

#[test]
fn limits_of_scripts_hold_for_an_import() {
    with_service(async |bed| {
        let ann = "ann@example.org";
        bed.account(ann, None).await;
        let home = bed.dir.path().join("home");
        fs::create_dir_all(home.join("sieve")).unwrap();
        let most = bed.context.config.sieve.scripts;
        for number in 0..=most {
            fs::write(home.join(format!("sieve/{number:03}.sieve")), "keep;").unwrap();
        }
        // The active script is imported first, and one of the others does not fit.
        let last = format!("{most:03}");
        symlink(format!("sieve/{last}.sieve"), home.join(".dovecot.sieve")).unwrap();
        let failure = bed.import(ann, &[&home], |_| ()).await.unwrap_err();
        assert!(failure.message.contains("was not imported"), "{}", failure.message);
        let there = bed.append_script(ann, &last, "keep;").await;
        assert_eq!((&there["outcome"], &there["active"]), (&"there".into(), &last.clone().into()));

        let ben = "ben@example.org";
        bed.account(ben, None).await;
        fs::remove_dir_all(home.join("sieve")).unwrap();
        fs::remove_file(home.join(".dovecot.sieve")).unwrap();
        let size = usize::try_from(bed.context.config.sieve.script_size.0).unwrap();
        fs::write(home.join(".dovecot.sieve"), " ".repeat(size + 1)).unwrap();
        assert!(bed.import(ben, &[&home], |_| ()).await.is_err());
        assert_eq!(bed.append_script(ben, "dovecot", "keep;").await["outcome"], "added");
        fs::write(home.join(".dovecot.sieve"), "keep;").unwrap();
        bed.import(ben, &[&home], |_| ()).await.unwrap();
        assert_eq!(bed.append_script(ben, "dovecot", "keep;").await["active"], "dovecot");
    });
}
