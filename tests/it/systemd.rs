//! The units, judged by systemd's own tools.

use std::fs;
use std::process::Command;

use crate::{lacking, program, root};

fn unit(name: &str) -> String {
    fs::read_to_string(root().join("systemd").join(name)).unwrap()
}

#[test]
fn the_service_is_confined() {
    let service = unit("restante.service");
    // With it the control socket could not tell one user from another.
    assert!(!service.lines().any(|line| line.starts_with("PrivateUsers")));
    for line in ["Type=notify", "WatchdogSec=60s", "StateDirectory=restante", "RuntimeDirectory=restante"] {
        assert!(service.lines().any(|known| known == line), "{line}");
    }
    let Some(analyze) = program("systemd-analyze") else { return lacking("systemd-analyze") };
    let done = Command::new(analyze)
        .args(["security", "--offline=true", "--no-pager"])
        .arg(root().join("systemd/restante.service"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    let level = said
        .lines()
        .find_map(|line| line.split_once("Overall exposure level for restante.service: "))
        .and_then(|(_, rest)| rest.split_whitespace().next()?.parse::<f64>().ok())
        .unwrap_or_else(|| panic!("no level in:\n{said}{}", String::from_utf8_lossy(&done.stderr)));
    assert!(level <= 1.5, "exposure {level}:\n{said}");
}

#[test]
fn the_socket_stands_where_postfix_sees_it() {
    let socket = unit("restante.socket");
    for line in [
        "ListenStream=/var/spool/postfix/private/restante",
        "SocketUser=postfix",
        "SocketMode=0600",
        "FileDescriptorName=lmtp",
    ] {
        assert!(socket.lines().any(|known| known == line), "{line}");
    }
}

#[test]
fn users_and_folders_are_as_the_service_wants_them() {
    assert!(unit("restante.sysusers").lines().any(|line| line.starts_with("u ") && line.contains("restante")));
    let folders = unit("restante.tmpfiles");
    for folder in ["/etc/restante", "/var/lib/restante", "/run/restante"] {
        assert!(folders.lines().any(|line| line.split_whitespace().nth(1) == Some(folder)), "{folder}");
    }
}
