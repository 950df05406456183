//! What clients can learn about scripts, and about what scripts may do.

use restante_sieve::Extension;

use super::settings::Settings;

/// What is wrong with a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptReport {
    /// Whether the script has no errors. An empty one has none, but clients cannot store it.
    pub is_valid: bool,
    /// Errors, then warnings: a line for each, with its place, and CR LF between the lines. Empty
    /// if there are none.
    pub text: String,
}

impl Settings {
    /// Checks a script, and writes its errors and warnings for a person (RFC 5804 §2.6). A script
    /// that is to be stored or tried is checked by `check_script`.
    #[must_use]
    pub fn report(&self, source: &[u8]) -> ScriptReport {
        self.check_script(source).report()
    }

    /// Returns the names of the extensions that scripts may require, separated by spaces.
    #[must_use]
    pub fn extension_names(&self) -> String {
        self.extensions().iter().map(Extension::name).collect::<Vec<_>>().join(" ")
    }

    /// Returns the URI schemes of the notifications that scripts may send (RFC 5804 §1.7, NOTIFY),
    /// separated by spaces; `None` if the site does not offer `enotify`.
    #[must_use]
    pub fn notification_schemes(&self) -> Option<String> {
        let schemes = || self.compile_options().notify_schemes.join(" ");
        self.extensions().contains(Extension::ENotify).then(schemes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_has_all_errors_with_their_places() {
        let settings = Settings::default();
        let valid = settings.report(b"keep;\r\n");
        assert_eq!(valid, ScriptReport { is_valid: true, text: String::new() });
        let report = settings.report(b"keeep;\r\nrequire \"nothing\";\r\n");
        assert!(!report.is_valid);
        assert!(report.text.starts_with("line 1, column 1: error: "), "{}", report.text);
        assert!(report.text.contains("\r\nline 2, column 1: error: "), "{}", report.text);
    }

    #[test]
    fn names_of_extensions_are_a_list() {
        let settings = Settings::default();
        let names = settings.extension_names();
        assert!(names.split(' ').any(|name| name == "fileinto"), "{names}");
        assert!(!names.split(' ').any(|name| name == "spamtest"), "{names}");
        assert_eq!(settings.notification_schemes().as_deref(), Some("mailto"));
    }
}
