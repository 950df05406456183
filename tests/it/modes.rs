//! What the program writes is its user's alone, whatever the umask is; and who may connect to its
//! sockets.
#![cfg(feature = "rocksdb")]

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::bed::Bed;
use crate::mail::{Client, letter};

const ANN: &str = "ann@example.org";

/// Every file and folder under `root` that others than its owner could open, with its mode.
fn open_to_others(root: &Path) -> Vec<String> {
    let about = fs::symlink_metadata(root).unwrap();
    let mut open = Vec::new();
    if about.mode() & 0o077 != 0 {
        open.push(format!("{:04o} {}", about.mode() & 0o7777, root.display()));
    }
    if about.is_dir() {
        open.extend(
            fs::read_dir(root).unwrap().flat_map(|entry| open_to_others(&entry.unwrap().path())),
        );
    }
    open
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o777
}

#[test]
fn data_backups_and_exports_are_private_whatever_the_umask() {
    for umask in ["000", "077"] {
        let mut bed = Bed::new("limits.body-in-memory = \"4 KiB\"\n");
        bed.umask = Some(umask);
        let dir = bed.dir.clone();
        let place = |name: &str| dir.join(name).to_str().unwrap().to_owned();
        let places = ["backups", "maildir", "mbox", "eml", "restored"].map(place);
        let [backups, maildir, mbox, eml, restored] = &places;
        let key = dir.join("dkim/keys/a.pem");
        bed.start();
        bed.account(ANN, &[]);
        for size in [10, 100_000] {
            let message = letter("zoe@example.net", ANN, "hello", &"lorem ipsum\r\n".repeat(size));
            let mut client = Client::lmtp(&bed.lmtp()).unwrap();
            assert!(client.deliver("zoe@example.net", &[ANN], &message).unwrap()[0].ok());
        }
        let id = bed.mail(ANN).remove(0).id;
        // A keyword beyond those that file names hold goes to a file beside the mail.
        bed.ok(&["mail", "flag", "-a", ANN, &id, "--add", "$Work"]);
        bed.ok(&["backup", backups]);
        for (format, to) in [("maildir", maildir), ("mbox", mbox), ("eml", eml)] {
            bed.ok(&["mail", "export", "-a", ANN, "--format", format, to]);
        }
        let made = [
            "dkim",
            "keygen",
            "--domain",
            "example.org",
            "--selector",
            "a",
            "--file",
            key.to_str().unwrap(),
        ];
        bed.ok(&made);
        bed.ok(&["restore", backups, "--to", restored]);
        bed.stop();
        for place in std::iter::once(&place("data")).chain(&places) {
            assert_eq!(open_to_others(Path::new(place)), Vec::<String>::new(), "umask {umask}");
        }
        // The service's group reads keys of its own where there is such a group, and the folder
        // lets it through.
        assert_eq!(mode(&key) & 0o137, 0, "umask {umask}");
        assert_eq!(
            (mode(&bed.dir.join("dkim")), mode(&bed.dir.join("dkim/keys"))),
            (0o755, 0o755),
            "umask {umask}"
        );
        bed.finish();
    }
}

#[test]
fn a_data_directory_that_is_open_to_others_is_complained_of() {
    use std::os::unix::fs::PermissionsExt as _;
    let mut bed = Bed::new("");
    fs::create_dir(bed.dir.join("data")).unwrap();
    fs::set_permissions(bed.dir.join("data"), fs::Permissions::from_mode(0o755)).unwrap();
    bed.start();
    assert!(bed.log().contains("other users may enter this directory"), "{}", bed.log());
    bed.finish();
}

#[test]
fn sockets_for_a_proxy_postfix_and_metrics_are_open_to_one_group() {
    let own = rustix::process::getegid().as_raw();
    // Root may give a socket to any group, another user to its own groups.
    let group = if rustix::process::geteuid().is_root() { 1 } else { own };
    let mut bed = Bed::new("");
    let sockets = ["http", "lmtp", "metrics"].map(|name| bed.dir.join(name));
    let [http, _, metrics] = &sockets;
    let listen = format!(
        "[http]\nlisten = [\"unix:{}\"]\nsocket-group = \"{group}\"\n[metrics]\nlisten = \"unix:{}\"\n",
        http.display(),
        metrics.display()
    );
    bed.umask = Some("000");
    bed.configure(&format!("lmtp.socket-group = \"{group}\"\n{listen}"));
    bed.start();
    let found =
        sockets.each_ref().map(|socket| (mode(socket), fs::metadata(socket).unwrap().gid()));
    assert_eq!(found, [(0o660, group), (0o660, group), (0o660, own)]);
    // Its peers are known by their credentials.
    assert_eq!(mode(&bed.dir.join("control")), 0o666);
    bed.stop();
    bed.configure(&listen.replace(&format!("\"{group}\""), "\"no-such-group\""));
    let refused = bed.run(&["serve"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned() + &bed.log();
    assert!(
        !refused.status.success() && said.contains("there is no group no-such-group"),
        "{said}"
    );
    assert!(!http.exists());
    bed.configure("");
    bed.finish();
}
