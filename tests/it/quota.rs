//! A disk quota that is exceeded (EDQUOT): the store takes no more writes and the watchdog is not
//! fed, so that systemd starts the service again; nothing that was acknowledged is lost.
//!
//! RocksDB goes on by itself after ENOSPC, and not after EDQUOT. A filesystem with quotas needs a
//! kernel and rights that not every machine gives; so a library that is loaded before the C
//! library's fails the writes to the store, which RocksDB cannot tell from a quota. The C compiler
//! that it is made with is there wherever RocksDB was compiled.
#![cfg(feature = "rocksdb")]

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::bed::TestBed;
use crate::mail::{Client, Reply, letter};
use crate::report_missing;

const ANN: &str = "ann@example.org";

/// Writes to files in the folder that `QUOTA_FOLDER` names fail while the file exists that
/// `QUOTA_EXCEEDED` names.
const SHIM: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static int exceeded(int fd) {
    const char *mark = getenv("QUOTA_EXCEEDED"), *folder = getenv("QUOTA_FOLDER");
    char link[64], path[4096];
    if (!mark || !folder || access(mark, F_OK) != 0) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return strncmp(path, folder, strlen(folder)) == 0;
}

#define GUARD(fd) if (exceeded(fd)) { errno = EDQUOT; return -1; }
#define REAL(name) __typeof__(&name) real = (__typeof__(&name)) dlsym(RTLD_NEXT, #name)

ssize_t write(int fd, const void *data, size_t size) { REAL(write); GUARD(fd) return real(fd, data, size); }
ssize_t writev(int fd, const struct iovec *v, int n) { REAL(writev); GUARD(fd) return real(fd, v, n); }
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { REAL(pwrite); GUARD(fd) return real(fd, data, size, at); }
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    REAL(pwrite64); GUARD(fd) return real(fd, data, size, at);
}
"#;

fn shim(dir: &Path) -> Option<PathBuf> {
    let (source, library) = (dir.join("quota.c"), dir.join("quota.so"));
    fs::write(&source, SHIM).unwrap();
    let mut compile = Command::new("cc");
    compile.args(["-shared", "-fPIC", "-O1", "-o"]).args([&library, &source]).arg("-ldl");
    match compile.output() {
        Ok(done) => {
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
            Some(library)
        }
        Err(_) => {
            report_missing("a C compiler (cc)");
            None
        }
    }
}

fn deliver(bed: &TestBed, subject: &str) -> Reply {
    let message = letter("zoe@example.net", ANN, subject, "lorem ipsum");
    Client::lmtp(&bed.lmtp())
        .unwrap()
        .deliver("zoe@example.net", &[ANN], &message)
        .unwrap()
        .remove(0)
}

/// What the service told systemd since it was last asked.
fn told(notify: &UnixDatagram) -> Vec<String> {
    let mut buffer = [0u8; 4096];
    let mut all = Vec::new();
    while let Ok(length) = notify.recv(&mut buffer) {
        all.push(String::from_utf8_lossy(&buffer[..length]).into_owned());
    }
    all
}

#[test]
fn an_exceeded_quota_stops_writing_and_a_new_start_heals_it() {
    let mut bed = TestBed::new("");
    let Some(library) = shim(&bed.dir) else { return };
    let (exceeded, notify) = (bed.dir.join("exceeded"), bed.dir.join("notify"));
    let socket = UnixDatagram::bind(&notify).unwrap();
    socket.set_nonblocking(true).unwrap();
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    bed.env = vec![
        ("LD_PRELOAD", text(&library)),
        ("QUOTA_FOLDER", text(&bed.dir.join("data"))),
        ("QUOTA_EXCEEDED", text(&exceeded)),
        ("NOTIFY_SOCKET", text(&notify)),
        ("WATCHDOG_USEC", "200000".into()),
    ];
    bed.start();
    bed.add_account(ANN, &[]);
    assert!(deliver(&bed, "before").ok());

    fs::write(&exceeded, "").unwrap();
    let refused = deliver(&bed, "exceeded");
    assert_eq!(refused.code / 100, 4, "{refused:?}");
    bed.wait_until("it is said", Duration::from_secs(20), || {
        bed.log().contains("Disk quota exceeded")
    });
    // What is there is still read.
    assert_eq!(bed.list_mail(ANN).len(), 1);
    // Even with room again RocksDB would take no write: it is a new process that heals.
    fs::remove_file(&exceeded).unwrap();
    let still = deliver(&bed, "room again");
    assert_eq!(still.code / 100, 4, "{still:?}");
    told(&socket);
    let complaints = || bed.log().matches("the store takes no writes").count();
    let before = complaints();
    bed.wait_until("the watchdog looks twice more", Duration::from_secs(20), || {
        complaints() >= before + 2
    });
    let said = told(&socket);
    assert!(said.iter().all(|text| !text.contains("WATCHDOG=1")), "the watchdog is fed: {said:?}");

    // As systemd does.
    bed.kill();
    bed.start();
    assert!(deliver(&bed, "after").ok());
    let mut subjects: Vec<String> =
        bed.list_mail(ANN).into_iter().map(|mail| mail.subject).collect();
    subjects.sort();
    assert_eq!(subjects, ["after", "before"]);
    bed.env.clear();
    bed.finish();
}
