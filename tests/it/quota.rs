//! An exceeded disk quota (EDQUOT).
//!
//! - The store accepts no more writes, and the service stops feeding the watchdog, so that systemd
//!   restarts it. RocksDB recovers by itself from ENOSPC, but not from EDQUOT.
//! - No acknowledged message is lost.
//!
//! Quotas need a kernel and rights that not every machine has. Instead, a preloaded library makes
//! the writes to the store fail with EDQUOT. The test compiles it with the C compiler that RocksDB
//! needs as well.
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

/// The source of the library: while the file `QUOTA_EXCEEDED` exists, writes to files in the folder
/// `QUOTA_FOLDER` fail.
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

ssize_t write(int fd, const void *data, size_t size) {
    REAL(write); GUARD(fd) return real(fd, data, size);
}
ssize_t writev(int fd, const struct iovec *v, int n) {
    REAL(writev); GUARD(fd) return real(fd, v, n);
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
    REAL(pwrite); GUARD(fd) return real(fd, data, size, at);
}
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    REAL(pwrite64); GUARD(fd) return real(fd, data, size, at);
}
"#;

/// Compiles the library. `None` if there is no C compiler.
fn compile_shim(dir: &Path) -> Option<PathBuf> {
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

/// The messages to systemd (`sd_notify(3)`) that have arrived since the last call.
fn receive_notifications(notify: &UnixDatagram) -> Vec<String> {
    let mut buffer = [0u8; 4096];
    let mut all = Vec::new();
    while let Ok(length) = notify.recv(&mut buffer) {
        all.push(String::from_utf8_lossy(&buffer[..length]).into_owned());
    }
    all
}

#[test]
fn exceeded_quota_stops_writes_and_watchdog_until_restart() {
    let mut bed = TestBed::new("");
    let Some(library) = compile_shim(&bed.dir) else { return };
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
    bed.wait_until("the error is logged", Duration::from_secs(20), || {
        bed.log().contains("Disk quota exceeded")
    });
    // Stored mail can still be read.
    assert_eq!(bed.list_mail(ANN).len(), 1);
    // RocksDB accepts no writes even with room again, until the process is restarted.
    fs::remove_file(&exceeded).unwrap();
    let still = deliver(&bed, "room again");
    assert_eq!(still.code / 100, 4, "{still:?}");
    receive_notifications(&socket);
    let complaints = || bed.log().matches("the store refuses writes").count();
    let before = complaints();
    bed.wait_until("the watchdog has checked twice more", Duration::from_secs(20), || {
        complaints() >= before + 2
    });
    let notified = receive_notifications(&socket);
    assert!(notified.iter().all(|text| !text.contains("WATCHDOG=1")), "fed: {notified:?}");

    // Systemd would restart the service like this.
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
