//! The shipped Sieve scripts, compiled with another implementation (Pigeonhole's `sievec`).

use std::fs;
use std::process::Command;

use crate::{program, report_missing, root};

#[test]
fn shipped_scripts_compile_without_warnings() {
    let folder = root().join("sieve/scripts");
    let Some(sievec) = program("sievec") else { return report_missing("sievec (dovecot-sieve)") };
    let out = tempfile::tempdir().unwrap();
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let script = entry.unwrap().path();
        let name = script.file_stem().unwrap().to_string_lossy().into_owned();
        // An empty configuration, because the one of the machine may restrict the extensions.
        let conf = out.path().join("dovecot.conf");
        fs::write(&conf, "").unwrap();
        let done = Command::new(&sievec)
            .arg("-c")
            .arg(&conf)
            .arg(&script)
            .arg(out.path().join(format!("{name}.svbin")))
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(
            done.status.success() && !errors.contains("warning"),
            "{}:\n{errors}",
            script.display()
        );
        names.push(name);
    }
    names.sort();
    assert_eq!(names, ["default", "junk", "lists", "vacation"]);
}
