//! The systemd units, checked with systemd's own tools, and the service as systemd runs it.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::bed::{PROGRAM, TestBed};
use crate::mail::Client;
use crate::{program, report_missing, root};

fn unit(name: &str) -> String {
    fs::read_to_string(root().join("systemd").join(name)).unwrap()
}

/// The mode that `restante.tmpfiles` gives a folder.
pub(crate) fn folder_mode(folder: &str) -> String {
    let folders = unit("restante.tmpfiles");
    let mut rows = folders.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.find(|row| row.get(1) == Some(&folder)).unwrap_or_else(|| panic!("no {folder}"))[2]
        .to_owned()
}

#[test]
fn service_unit_is_sandboxed() {
    let service = unit("restante.service");
    // With PrivateUsers the control socket could not tell users apart.
    assert!(!service.lines().any(|line| line.starts_with("PrivateUsers")));
    for line in
        ["Type=notify", "WatchdogSec=60s", "StateDirectory=restante", "RuntimeDirectory=restante"]
    {
        assert!(service.lines().any(|other| other == line), "{line}");
    }
    // Filters apply in order: this one allows again what ~@privileged has removed.
    let filters: Vec<&str> =
        service.lines().filter_map(|line| line.strip_prefix("SystemCallFilter=")).collect();
    assert_eq!(
        filters.last(),
        Some(&"@chown"),
        "a socket could not be given to the group of its clients"
    );
    let Some(analyze) = program("systemd-analyze") else {
        return report_missing("systemd-analyze");
    };
    let done = Command::new(analyze)
        .args(["security", "--offline=true", "--no-pager"])
        .arg(root().join("systemd/restante.service"))
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&done.stdout).into_owned();
    let level = output
        .lines()
        .find_map(|line| line.split_once("Overall exposure level for restante.service: "))
        .and_then(|(_, rest)| rest.split_whitespace().next()?.parse::<f64>().ok())
        .unwrap_or_else(|| {
            panic!("no level in:\n{output}{}", String::from_utf8_lossy(&done.stderr))
        });
    assert!(level <= 1.5, "exposure {level}:\n{output}");
}

#[test]
fn socket_unit_listens_in_the_chroot_of_postfix() {
    let socket = unit("restante.socket");
    for line in [
        "ListenStream=/var/spool/postfix/private/restante",
        "SocketUser=postfix",
        "SocketMode=0600",
        "FileDescriptorName=lmtp",
    ] {
        assert!(socket.lines().any(|other| other == line), "{line}");
    }
}

#[test]
fn users_and_folders_have_the_rights_that_the_service_needs() {
    assert!(
        unit("restante.sysusers")
            .lines()
            .any(|line| line.starts_with("u ") && line.contains("restante"))
    );
    // The service can give its socket to the group of the proxies only if it is a member.
    assert!(unit("restante.sysusers").lines().any(|line| line == "m     restante restante-http"));
    // Every user's commands read the configuration and connect to the socket. Only the service can
    // read the mail.
    for (folder, mode) in
        [("/etc/restante", "0755"), ("/var/lib/restante", "0700"), ("/run/restante", "0755")]
    {
        assert_eq!(folder_mode(folder), mode, "{folder}");
    }
    assert!(unit("restante.service").lines().any(|line| line == "ConfigurationDirectoryMode=0755"));
}

/// Waits for a message of `sd_notify(3)` with a line that begins with `wanted`. Returns false when
/// no message at all has come for the socket's timeout.
fn wait_for_notification(socket: &UnixDatagram, wanted: &str) -> bool {
    let mut buffer = [0u8; 4096];
    while let Ok(length) = socket.recv(&mut buffer) {
        let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
        if text.lines().any(|line| line.starts_with(wanted)) {
            return true;
        }
    }
    false
}

#[test]
fn service_notifies_systemd_of_ready_watchdog_and_stop() {
    let bed = TestBed::new("");
    let notify = bed.dir.join("notify");
    let socket = UnixDatagram::bind(&notify).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut service = bed
        .command(&["serve"])
        .env("NOTIFY_SOCKET", &notify)
        .env("WATCHDOG_USEC", "400000")
        .stdin(Stdio::null())
        .stderr(fs::File::create(bed.dir.join("log")).unwrap())
        .spawn()
        .unwrap();
    assert!(wait_for_notification(&socket, "READY=1"), "{}", bed.log());
    // Ready means that mail is accepted.
    assert!(Client::lmtp(&bed.lmtp()).is_ok());
    assert!(wait_for_notification(&socket, "WATCHDOG=1"), "{}", bed.log());
    // A reload does not end the service.
    kill_process(Pid::from_child(&service), Signal::HUP).unwrap();
    assert!(Client::lmtp(&bed.lmtp()).is_ok());
    kill_process(Pid::from_child(&service), Signal::TERM).unwrap();
    assert!(wait_for_notification(&socket, "STOPPING=1"), "{}", bed.log());
    assert!(service.wait().unwrap().success());
    bed.finish();
}

#[test]
fn service_serves_sockets_passed_by_systemd() {
    let Some(activate) = program("systemd-socket-activate") else {
        return report_missing("systemd-socket-activate");
    };
    let bed = TestBed::new("");
    let (passed, other) = (bed.dir.join("passed"), bed.dir.join("other"));
    let text = fs::read_to_string(bed.config()).unwrap();
    let unix = format!("\"unix:{}\"", bed.lmtp().display());
    fs::write(bed.config(), text.replace(&unix, "\"fd:lmtp\", \"fd:other\"")).unwrap();
    let log = fs::File::create(bed.dir.join("log")).unwrap();
    let mut service = Command::new(activate)
        .arg(format!("--listen={}", passed.display()))
        .arg(format!("--listen={}", other.display()))
        .args(["--fdname=lmtp:other", PROGRAM, "--config"])
        .arg(bed.config())
        .arg("serve")
        .stdin(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap();
    bed.wait_until("the sockets exist", Duration::from_secs(10), || {
        passed.exists() && other.exists()
    });
    // The first client starts the service, as with a socket unit, and waits for it.
    for socket in [&passed, &other] {
        assert!(Client::lmtp(socket).is_ok(), "{}", bed.log());
    }
    kill_process(Pid::from_child(&service), Signal::TERM).unwrap();
    assert!(service.wait().unwrap().success(), "{}", bed.log());
    bed.finish();
}
