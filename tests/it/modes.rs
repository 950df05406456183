//! The permissions of files and sockets.
//!
//! - Files that the program writes can be opened only by its user, whatever the umask is. Only a
//!   DKIM key may also be read by the group of the service.
//! - Each socket can be opened by the users who need it.
//! - A data directory that other users may enter is reported in the log.
#![cfg(feature = "rocksdb")]

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::bed::TestBed;
use crate::mail::{Client, letter};

const ANN: &str = "ann@example.org";

/// Every file and folder under `root` that users other than its owner can open, with its mode.
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

/// The permission bits of a file or folder.
fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o777
}

#[test]
fn data_backups_and_exports_are_private_whatever_the_umask() {
    for umask in ["000", "077"] {
        let mut bed = TestBed::new("limits.body-in-memory = \"4 KiB\"\n");
        bed.umask = Some(umask);
        let dir = bed.dir.clone();
        let path = |name: &str| dir.join(name).to_str().unwrap().to_owned();
        let paths = ["backups", "maildir", "mbox", "eml", "restored"].map(path);
        let [backups, maildir, mbox, eml, restored] = &paths;
        let key = dir.join("dkim/keys/a.pem");
        bed.start();
        bed.add_account(ANN, &[]);
        for size in [10, 100_000] {
            let message = letter("zoe@example.net", ANN, "hello", &"lorem ipsum\r\n".repeat(size));
            let mut client = Client::lmtp(&bed.lmtp()).unwrap();
            assert!(client.deliver("zoe@example.net", &[ANN], &message).unwrap()[0].ok());
        }
        let id = bed.list_mail(ANN).remove(0).id;
        // A keyword that file names cannot express goes into a separate file of the export.
        bed.run_ok(&["mail", "flag", "-a", ANN, &id, "--add", "$Work"]);
        bed.run_ok(&["backup", backups]);
        for (format, to) in [("maildir", maildir), ("mbox", mbox), ("eml", eml)] {
            bed.run_ok(&["mail", "export", "-a", ANN, "--format", format, to]);
        }
        let keygen = [
            "dkim",
            "keygen",
            "--domain",
            "example.org",
            "--selector",
            "a",
            "--file",
            key.to_str().unwrap(),
        ];
        bed.run_ok(&keygen);
        bed.run_ok(&["restore", backups, "--to", restored]);
        bed.stop();
        for path in std::iter::once(&path("data")).chain(&paths) {
            assert_eq!(open_to_others(Path::new(path)), Vec::<String>::new(), "umask {umask}");
        }
        // The group of the service may read the key, if that group exists. All may enter the
        // folders.
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
fn data_directory_open_to_others_is_logged() {
    use std::os::unix::fs::PermissionsExt as _;
    let mut bed = TestBed::new("");
    fs::create_dir(bed.dir.join("data")).unwrap();
    fs::set_permissions(bed.dir.join("data"), fs::Permissions::from_mode(0o755)).unwrap();
    bed.start();
    assert!(bed.log().contains("other users may enter this directory"), "{}", bed.log());
    bed.finish();
}

#[test]
fn sockets_are_open_to_the_configured_group() {
    let own = rustix::process::getegid().as_raw();
    // Root may give a socket to any group, other users only to groups of their own.
    let group = if rustix::process::geteuid().is_root() { 1 } else { own };
    let mut bed = TestBed::new("");
    let sockets = ["http", "lmtp", "metrics"].map(|name| bed.dir.join(name));
    let [http, _, metrics] = &sockets;
    let listen = format!(
        "[http]\nlisten = [\"unix:{}\"]\nsocket-group = \"{group}\"\n\
         [metrics]\nlisten = \"unix:{}\"\n",
        http.display(),
        metrics.display()
    );
    bed.umask = Some("000");
    bed.configure(&format!("lmtp.socket-group = \"{group}\"\n{listen}"));
    bed.start();
    let found =
        sockets.each_ref().map(|socket| (mode(socket), fs::metadata(socket).unwrap().gid()));
    assert_eq!(found, [(0o660, group), (0o660, group), (0o660, own)]);
    // The control socket is open to all: it authorises each peer by its credentials.
    assert_eq!(mode(&bed.dir.join("control")), 0o666);
    bed.stop();
    bed.configure(&listen.replace(&format!("\"{group}\""), "\"no-such-group\""));
    let refused = bed.run(&["serve"]);
    let output = String::from_utf8_lossy(&refused.stderr).into_owned() + &bed.log();
    assert!(
        !refused.status.success() && output.contains("there is no group no-such-group"),
        "{output}"
    );
    assert!(!http.exists());
    bed.configure("");
    bed.finish();
}
