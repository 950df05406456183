//! Reads the private keys of `[dkim]` from their files.
//!
//! The mode is read from the opened file, so that nobody can exchange the file between the check of
//! its mode and the reading of its key.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use super::{Config, DkimKeySection};
use crate::proof::{Signer, SigningKey};

const MAX_KEY_BYTES: u64 = 64 * 1024;

impl Config {
    /// Reads the keys of `[dkim]`. Returns `None` if none is configured.
    ///
    /// # Errors
    /// The problem of the first key that cannot be used, with a remedy.
    pub(super) fn signer(&self) -> Result<Option<Arc<Signer>>, String> {
        let keys =
            self.dkim.keys.iter().map(DkimKeySection::read).collect::<Result<Vec<_>, _>>()?;
        Ok((!keys.is_empty()).then(|| Arc::new(Signer::new(keys))))
    }
}

impl DkimKeySection {
    /// Reads the private key from its file.
    ///
    /// # Errors
    /// The problem of the file or the key, with a remedy.
    pub fn read(&self) -> Result<SigningKey, String> {
        let describe = |problem: &str, remedy: &str| {
            format!("[dkim] keys: {}: {problem}\n  {remedy}", self.file.display())
        };
        let pem = read_private_file(&self.file)
            .map_err(|(problem, remedy)| describe(&problem, &remedy))?;
        SigningKey::new(&self.domain, &self.selector, &pem).map_err(|problem| {
            describe(&problem, "make one by `restante dkim keygen`, or name another file")
        })
    }
}

/// Reads a regular file of at most `MAX_KEY_BYTES`. Its mode must give no rights to others than the
/// owner and the group.
///
/// # Errors
/// The problem and the remedy.
fn read_private_file(path: &Path) -> Result<Vec<u8>, (String, String)> {
    let unreadable = |error: std::io::Error| {
        (error.to_string(), "name a PEM file that the service's user can read".to_owned())
    };
    let mut file = File::open(path).map_err(unreadable)?;
    let meta = file.metadata().map_err(unreadable)?;
    if !meta.is_file() || meta.len() > MAX_KEY_BYTES {
        return Err((
            "not a key file: not a regular file, or too large".into(),
            "name a PEM file".into(),
        ));
    }
    let mode = meta.mode() & 0o777;
    if mode & 0o007 != 0 {
        let problem = format!("everybody may use this private key (mode {mode:04o})");
        return Err((
            problem,
            format!("chmod 0640 {}, and make a new key if others may have read it", path.display()),
        ));
    }
    let mut bytes = Vec::new();
    file.by_ref().take(MAX_KEY_BYTES).read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::proof::{Algorithm, generate};

    #[test]
    fn reads_only_private_key_files() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("key.pem");
        let key = DkimKeySection {
            domain: "Example.ORG".into(),
            selector: "S1".into(),
            file: file.clone(),
        };
        let problem = || key.read().unwrap_err();
        assert!(problem().contains("key.pem: No such file"), "{}", problem());
        fs::write(&file, generate(Algorithm::Ed25519, 0).unwrap()).unwrap();
        for (mode, fine) in [
            (0o600, true),
            (0o640, true),
            (0o660, true),
            (0o644, false),
            (0o604, false),
            (0o602, false),
        ] {
            fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            assert_eq!(key.read().is_ok(), fine, "{mode:o}");
        }
        assert!(
            problem().contains("everybody may use this private key (mode 0602)"),
            "{}",
            problem()
        );
        assert!(problem().contains("chmod 0640"), "{}", problem());
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        assert_eq!(key.read().unwrap().name(), "s1._domainkey.example.org");
        fs::write(&file, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
        assert!(
            problem().contains("no private key in PEM") && problem().contains("keygen"),
            "{}",
            problem()
        );
        let folder = DkimKeySection { file: dir.path().to_owned(), ..key.clone() };
        assert!(folder.read().unwrap_err().contains("not a key file"));
    }
}
