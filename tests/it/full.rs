//! A full disk: deliveries are deferred and no mail is lost. When there is space again, mail is
//! accepted without a restart.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::bed::TestBed;
use crate::mail::{Client, letter};
use crate::report_missing;

const MIB: u64 = 1 << 20;

/// A small mounted filesystem.
struct SmallFilesystem(PathBuf);

impl SmallFilesystem {
    /// Mounts an empty one; `None` if this machine does not allow the test to mount.
    fn mount(at: &Path, bytes: u64) -> Option<Self> {
        fs::create_dir_all(at).unwrap();
        let size = format!("size={bytes}");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(at).stderr(Stdio::null());
        mount.status().is_ok_and(|status| status.success()).then(|| Self(at.to_owned()))
    }

    /// The bytes that can still be written.
    fn free(&self) -> u64 {
        let about = rustix::fs::statvfs(&self.0).unwrap();
        about.f_bavail * about.f_frsize
    }

    /// Writes a file until little more than `bytes` is left, and returns the path of the file.
    fn fill_until(&self, bytes: u64) -> PathBuf {
        let ballast = self.0.join("ballast");
        let mut file = File::create(&ballast).unwrap();
        let block = vec![1u8; 64 << 10];
        while self.free() > bytes + block.len() as u64 && file.write_all(&block).is_ok() {}
        ballast
    }
}

impl Drop for SmallFilesystem {
    fn drop(&mut self) {
        Command::new("umount").arg("-l").arg(&self.0).status().ok();
    }
}

#[test]
fn full_disk_defers_mail_until_space_returns() {
    let mut bed = TestBed::new("");
    let Some(small) = SmallFilesystem::mount(&bed.dir.join("data"), 256 * MIB) else {
        return report_missing("the right to mount a small filesystem");
    };
    bed.start();
    bed.add_account("ann@example.org", &[]);
    let mut accepted = Vec::new();
    let mut next = 0;
    let mut deliver = |bed: &TestBed, accepted: &mut Vec<String>| {
        next += 1;
        let subject = format!("number {next}");
        let message =
            letter("zoe@example.net", "ann@example.org", &subject, &"lorem ipsum\n".repeat(80_000));
        let mut client = Client::lmtp(&bed.lmtp()).unwrap();
        let reply =
            client.deliver("zoe@example.net", &["ann@example.org"], &message).unwrap().remove(0);
        if reply.ok() {
            accepted.push(subject);
        }
        reply
    };
    for _ in 0..5 {
        assert!(deliver(&bed, &mut accepted).ok());
    }
    for round in 0..3 {
        let ballast = small.fill_until(2 * MIB);
        let refused = (0..200).map(|_| deliver(&bed, &mut accepted)).find(|reply| !reply.ok());
        let refused = refused.expect("a full disk");
        assert_eq!(
            (refused.code, refused.enhanced()),
            (452, "4.3.1"),
            "round {round}: {refused:?}"
        );
        let still = deliver(&bed, &mut accepted);
        assert!(still.code == 452, "round {round}: {still:?}");
        let segments = fs::read_dir(bed.dir.join("data/store/segments")).unwrap();
        let unfinished = segments.filter(|file| {
            file.as_ref().unwrap().path().extension().is_some_and(|kind| kind == "begun")
        });
        assert_eq!(unfinished.count(), 0, "round {round}: a refused message leaves no file");
        // Stored mail can still be read.
        assert_eq!(bed.list_mail("ann@example.org").len(), accepted.len());
        fs::remove_file(ballast).unwrap();
        bed.wait_until("mail is accepted again", Duration::from_secs(60), || {
            deliver(&bed, &mut accepted).ok()
        });
        assert!(deliver(&bed, &mut accepted).ok());
    }
    let mut listed: Vec<String> =
        bed.list_mail("ann@example.org").into_iter().map(|email| email.subject).collect();
    listed.sort();
    accepted.sort();
    assert_eq!(listed, accepted, "every accepted message is stored once");
    bed.stop_and_check();
    drop(small);
    bed.remove();
}
