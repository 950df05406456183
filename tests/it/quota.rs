//! An exceeded disk quota (EDQUOT), and a sync that fails (EIO).
//!
//! - While the quota is exceeded, mail is deferred. When there is room again, mail is accepted.
//! - After a failed sync the store accepts no more writes, and the service stops feeding the
//!   watchdog, so that systemd restarts it.
//! - No acknowledged message is lost.
//!
//! Quotas need a kernel and rights that not every machine has. Instead, a preloaded library makes
//! the writes to the store fail with EDQUOT, or its syncs with EIO. The tests compile it with the C
//! compiler that RocksDB needs as well.
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

/// The source of the library. Its environment variables name paths: while the file `QUOTA_EXCEEDED`
/// exists, writes to files in the folder `QUOTA_FOLDER` fail; while the file `SYNC_FAILS` exists,
/// syncs of these files fail.
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

static int fails(int fd, const char *variable) {
    const char *mark = getenv(variable), *folder = getenv("QUOTA_FOLDER");
    char link[64], path[4096];
    if (!mark || !folder || access(mark, F_OK) != 0) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return strncmp(path, folder, strlen(folder)) == 0;
}

#define GUARD(fd) if (fails(fd, "QUOTA_EXCEEDED")) { errno = EDQUOT; return -1; }
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
int fdatasync(int fd) {
    REAL(fdatasync);
    if (fails(fd, "SYNC_FAILS")) { errno = EIO; return -1; }
    return real(fd);
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

/// Delivers a message to Ann on a new connection.
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

/// Starts the service with the library and an account. Returns also the path of the file that
/// `variable` names, and the socket of `sd_notify(3)`. `None` without a C compiler.
fn start(variable: &'static str) -> Option<(TestBed, PathBuf, UnixDatagram)> {
    let mut bed = TestBed::new("");
    let library = compile_shim(&bed.dir)?;
    let (mark, notify) = (bed.dir.join("mark"), bed.dir.join("notify"));
    let socket = UnixDatagram::bind(&notify).unwrap();
    socket.set_nonblocking(true).unwrap();
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    bed.env = vec![
        ("LD_PRELOAD", text(&library)),
        ("QUOTA_FOLDER", text(&bed.dir.join("data"))),
        (variable, text(&mark)),
        ("NOTIFY_SOCKET", text(&notify)),
        ("WATCHDOG_USEC", "200000".into()),
    ];
    bed.start();
    bed.add_account(ANN, &[]);
    assert!(deliver(&bed, "before").ok());
    Some((bed, mark, socket))
}

fn subjects(bed: &TestBed) -> Vec<String> {
    let mut subjects: Vec<String> =
        bed.list_mail(ANN).into_iter().map(|mail| mail.subject).collect();
    subjects.sort();
    subjects
}

#[test]
fn mail_is_refused_while_a_quota_is_exceeded_and_accepted_afterwards() {
    let Some((mut bed, exceeded, _socket)) = start("QUOTA_EXCEEDED") else { return };
    fs::write(&exceeded, "").unwrap();
    for _ in 0..2 {
        let refused = deliver(&bed, "exceeded");
        assert_eq!(refused.code, 452, "{refused:?}");
    }
    // Stored mail can still be read.
    assert_eq!(subjects(&bed), ["before"]);
    fs::remove_file(&exceeded).unwrap();
    assert!(deliver(&bed, "room again").ok());
    bed.kill();
    bed.start();
    assert!(deliver(&bed, "after").ok());
    assert_eq!(subjects(&bed), ["after", "before", "room again"]);
    bed.env.clear();
    bed.finish();
}

#[test]
fn failed_sync_stops_writes_and_watchdog_until_restart() {
    let Some((mut bed, failing, socket)) = start("SYNC_FAILS") else { return };
    fs::write(&failing, "").unwrap();
    let refused = deliver(&bed, "not synced");
    assert_eq!(refused.code / 100, 4, "{refused:?}");
    bed.wait_until("the error is logged", Duration::from_secs(20), || {
        bed.log().contains("Input/output error")
    });
    assert_eq!(subjects(&bed), ["before"]);
    // It is not known what is on the disk, so no write is accepted until the process is restarted.
    fs::remove_file(&failing).unwrap();
    let still = deliver(&bed, "syncs again");
    assert_eq!(still.code / 100, 4, "{still:?}");
    // Earlier notifications do not count.
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
    // What was not synced may have reached the disk.
    let found = subjects(&bed);
    let certain: Vec<&str> =
        found.iter().map(String::as_str).filter(|subject| *subject != "not synced").collect();
    assert_eq!(certain, ["after", "before"]);
    bed.env.clear();
    bed.finish();
}
