//! A disk that is full: mail is put off and none is lost, and when there is space again it is
//! taken, without anybody's help.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::bed::Bed;
use crate::lacking;
use crate::mail::{Client, letter};

const MIB: u64 = 1 << 20;

/// A small filesystem of its own.
struct Small(PathBuf);

impl Small {
    fn mount(at: &Path, octets: u64) -> Option<Self> {
        fs::create_dir_all(at).unwrap();
        let size = format!("size={octets}");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(at).stderr(Stdio::null());
        mount.status().is_ok_and(|status| status.success()).then(|| Self(at.to_owned()))
    }

    fn free(&self) -> u64 {
        let about = rustix::fs::statvfs(&self.0).unwrap();
        about.f_bavail * about.f_frsize
    }

    /// Fills it until so many octets are left.
    fn leave(&self, octets: u64) -> PathBuf {
        let ballast = self.0.join("ballast");
        let mut file = File::create(&ballast).unwrap();
        let block = vec![1u8; 64 << 10];
        while self.free() > octets + block.len() as u64 && file.write_all(&block).is_ok() {}
        ballast
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        Command::new("umount").arg("-l").arg(&self.0).status().ok();
    }
}

#[test]
fn a_full_disk_puts_mail_off_and_heals_when_space_returns() {
    let mut bed = Bed::new("");
    let Some(small) = Small::mount(&bed.dir.join("data"), 256 * MIB) else {
        return lacking("the right to mount a small filesystem");
    };
    bed.start();
    bed.account("ann@example.org", &[]);
    let mut kept = Vec::new();
    let mut next = 0;
    let mut deliver = |bed: &Bed, kept: &mut Vec<String>| {
        next += 1;
        let subject = format!("number {next}");
        let message =
            letter("zoe@example.net", "ann@example.org", &subject, &"lorem ipsum\n".repeat(80_000));
        let mut client = Client::lmtp(&bed.lmtp()).unwrap();
        let reply =
            client.deliver("zoe@example.net", &["ann@example.org"], &message).unwrap().remove(0);
        if reply.ok() {
            kept.push(subject);
        }
        reply
    };
    for _ in 0..5 {
        assert!(deliver(&bed, &mut kept).ok());
    }
    for round in 0..3 {
        let ballast = small.leave(2 * MIB);
        let refused = (0..200).map(|_| deliver(&bed, &mut kept)).find(|reply| !reply.ok());
        let refused = refused.expect("a full disk");
        assert_eq!(
            (refused.code, refused.enhanced()),
            (452, "4.3.1"),
            "round {round}: {refused:?}"
        );
        let still = deliver(&bed, &mut kept);
        assert!(still.code == 452, "round {round}: {still:?}");
        // What is there is still read.
        assert_eq!(bed.mail("ann@example.org").len(), kept.len());
        fs::remove_file(ballast).unwrap();
        bed.eventually("mail is taken again", Duration::from_secs(60), || {
            deliver(&bed, &mut kept).ok()
        });
        assert!(deliver(&bed, &mut kept).ok());
    }
    let mut listed: Vec<String> =
        bed.mail("ann@example.org").into_iter().map(|email| email.subject).collect();
    listed.sort();
    kept.sort();
    assert_eq!(listed, kept, "each once");
    bed.prove();
    drop(small);
    bed.discard();
}
