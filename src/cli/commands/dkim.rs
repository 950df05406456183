//! The command `dkim`: creates keys for signatures, and prints their DNS records and settings.
//!
//! - Only the owner of a key file can read it. If root creates it, the service's group can, too, if
//!   there is one.
//! - A key file is never overwritten.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use crate::cli::exit::{self, Failure};
use crate::cli::terminal::output;
use crate::config::{DkimKeySection, load};
use crate::model::address::domain_is_well_formed;
use crate::net::listen::group_id;
use crate::proof::{self, SigningKey, generate};

/// The directory of new keys, unless `--file` names another.
const FOLDER: &str = "/etc/restante/dkim";
/// The service's group (systemd/restante.sysusers).
const GROUP: &str = "restante";

#[derive(Debug, Subcommand)]
pub enum DkimCommand {
    /// Create a key, and print its DNS record and its settings for the configuration.
    Keygen(KeygenArgs),
    /// Print the DNS record of each configured key.
    Show {
        /// Only keys of this domain.
        #[arg(long)]
        domain: Option<String>,
    },
}

#[derive(Debug, Args)]
pub struct KeygenArgs {
    /// The domain whose mail is signed.
    #[arg(long)]
    domain: String,
    /// The name of the key in DNS: a new one for each key, such as 2026a.
    #[arg(long)]
    selector: String,
    /// The algorithm of the signatures.
    #[arg(long, value_enum, default_value = "rsa")]
    algorithm: AlgorithmArg,
    /// The length of an RSA key in bits: 2048, 3072 or 4096.
    #[arg(long, default_value_t = 2048)]
    bits: u32,
    /// The file to create [default: /etc/restante/dkim/DOMAIN.SELECTOR.pem].
    #[arg(long)]
    file: Option<PathBuf>,
}

/// The algorithms of `--algorithm`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AlgorithmArg {
    /// Every receiver can verify the signatures.
    Rsa,
    /// Short and fast (RFC 8463). Not every receiver can verify the signatures: use an RSA key,
    /// too.
    Ed25519,
}

pub(in crate::cli) fn run(
    command: &DkimCommand,
    config: Option<&Path>,
    json: bool,
) -> Result<(), Failure> {
    match command {
        DkimCommand::Keygen(args) => keygen(args, json),
        DkimCommand::Show { domain } => show(domain.as_deref(), config, json),
    }
}

fn keygen(args: &KeygenArgs, json: bool) -> Result<(), Failure> {
    // An address literal in brackets is well-formed, too, but has no zone.
    for (what, name) in [("domain", &args.domain), ("selector", &args.selector)] {
        if !domain_is_well_formed(name) || name.starts_with('[') {
            return Err(Failure::new(exit::USAGE, format!("`{name}` is not a {what}")));
        }
    }
    let algorithm = match args.algorithm {
        AlgorithmArg::Rsa => proof::Algorithm::Rsa,
        AlgorithmArg::Ed25519 => proof::Algorithm::Ed25519,
    };
    let pem =
        generate(algorithm, args.bits).map_err(|problem| Failure::new(exit::USAGE, problem))?;
    let key = SigningKey::new(&args.domain, &args.selector, pem.as_bytes());
    let key = key.map_err(|problem| Failure::new(exit::SOFTWARE, problem))?;
    let default = || Path::new(FOLDER).join(format!("{}.{}.pem", key.domain(), key.selector()));
    let file = args.file.clone().unwrap_or_else(default);
    let group_can_read = write(&file, pem.as_bytes())
        .map_err(|error| Failure::new(exit::NO_INPUT, format!("{}: {error}", file.display())))?;
    if json {
        output::json(&described(&key, &file));
        return Ok(());
    }
    output::line(&format!("{}: a new {} key", file.display(), key.algorithm()));
    if !group_can_read {
        output::line("Set its owner and group so that only the service can read it.");
    }
    output::raw(&format!("\nAdd to the zone of {}:\n\n{}", key.domain(), zone_record(&key)));
    output::raw(&format!(
        "\nAdd to the configuration, when the record can be found in DNS:\n\n{}",
        settings(&key, &file)
    ));
    Ok(())
}

fn show(domain: Option<&str>, config: Option<&Path>, json: bool) -> Result<(), Failure> {
    let config = load(config).map_err(|faults| Failure::new(exit::CONFIG, faults.to_string()))?;
    let selected =
        |key: &&DkimKeySection| domain.is_none_or(|domain| key.domain.eq_ignore_ascii_case(domain));
    let mut keys = Vec::new();
    for section in config.dkim.keys.iter().filter(selected) {
        let key = section.read().map_err(|problem| Failure::new(exit::CONFIG, problem))?;
        keys.push((key, &section.file));
    }
    if json {
        output::json(&Value::Array(keys.iter().map(|(key, file)| described(key, file)).collect()));
        return Ok(());
    }
    if keys.is_empty() {
        let of = domain.map_or_else(String::new, |domain| format!(" of {}", output::clean(domain)));
        let text = format!("no key{of} is configured: create one with `restante dkim keygen`");
        return Err(Failure::new(exit::CONFIG, text));
    }
    for (at, (key, file)) in keys.iter().enumerate() {
        let gap = if at > 0 { "\n" } else { "" };
        output::raw(&format!(
            "{gap}; {}, {}\n{}",
            key.algorithm(),
            output::clean(&file.display().to_string()),
            zone_record(key)
        ));
    }
    Ok(())
}

/// Returns what `--json` prints of a key.
fn described(key: &SigningKey, file: &Path) -> Value {
    json!({
        "domain": key.domain(),
        "selector": key.selector(),
        "algorithm": key.algorithm().to_string(),
        "file": file.display().to_string(), "name": key.name(), "record": key.record(),
    })
}

/// Formats the record for a zone file: as strings of at most 255 bytes (RFC 1035 §3.3, RFC 6376
/// §3.6.2.2).
fn zone_record(key: &SigningKey) -> String {
    let text = key.record();
    let strings = text.as_bytes().chunks(255).filter_map(|part| std::str::from_utf8(part).ok());
    let strings: Vec<String> = strings.map(|part| format!("    \"{part}\"")).collect();
    format!("{}. IN TXT (\n{} )\n", key.name(), strings.join("\n"))
}

/// Returns the section of the configuration for a key.
fn settings(key: &SigningKey, file: &Path) -> String {
    let file = Value::String(file.display().to_string());
    format!(
        "[[dkim.keys]]\ndomain = \"{}\"\nselector = \"{}\"\nfile = {file}\n",
        key.domain(),
        key.selector()
    )
}

/// Creates the key file. Its owner can read it, and the service's group as [`let_group_read`] says.
/// Returns whether the group can.
fn write(path: &Path, pem: &[u8]) -> std::io::Result<bool> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        create_open_folder(folder)?;
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(pem)?;
    file.sync_all()?;
    let_group_read(&file)
}

/// Creates a folder and its missing parents with mode 0755, regardless of the umask: the service
/// must be able to enter them.
fn create_open_folder(folder: &Path) -> std::io::Result<()> {
    let missing: Vec<&Path> = folder.ancestors().take_while(|above| !above.exists()).collect();
    DirBuilder::new().recursive(true).mode(0o755).create(folder)?;
    missing
        .into_iter()
        .filter(|new| !new.as_os_str().is_empty())
        .try_for_each(|new| std::fs::set_permissions(new, std::fs::Permissions::from_mode(0o755)))
}

/// Lets the service's group read a file. Does nothing, and returns false, unless root runs the
/// command and the group exists.
fn let_group_read(file: &File) -> std::io::Result<bool> {
    if !rustix::process::geteuid().is_root() {
        return Ok(false);
    }
    let Some(number) = group_id(GROUP) else { return Ok(false) };
    fchown(file, None, Some(number))?;
    file.set_permissions(std::fs::Permissions::from_mode(0o640))?;
    Ok(true)
}
