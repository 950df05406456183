//! `dkim keygen|show`: keys for signatures, and what the zone and the configuration must say about
//! them.
//!
//! Works on files alone, whether the service runs or not. A key file is made for its owner, and for
//! the service's group where there is one and root asks; it is never overwritten.

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

/// Where keys are made when nobody says otherwise.
const FOLDER: &str = "/etc/restante/dkim";
/// The service's group (systemd/restante.sysusers).
const GROUP: &str = "restante";

/// `dkim`
#[derive(Debug, Subcommand)]
pub enum DkimCommand {
    /// Make a key, and say what to put into the zone and into the configuration.
    Keygen(KeygenArgs),
    /// Show what the zone must say about each key of the configuration.
    Show {
        /// Of this domain alone.
        #[arg(long)]
        domain: Option<String>,
    },
}

/// `dkim keygen`
#[derive(Debug, Args)]
pub struct KeygenArgs {
    /// The domain whose mail is signed.
    #[arg(long)]
    domain: String,
    /// The key's name in the zone: a new one for each key, such as 2026a.
    #[arg(long)]
    selector: String,
    /// What the key is for.
    #[arg(long, value_enum, default_value = "rsa")]
    algorithm: AlgorithmArg,
    /// Bits of an RSA key: 2048, 3072 or 4096.
    #[arg(long, default_value_t = 2048)]
    bits: u32,
    /// The file to make [default: /etc/restante/dkim/DOMAIN.SELECTOR.pem].
    #[arg(long)]
    file: Option<PathBuf>,
}

/// What a key is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AlgorithmArg {
    /// Everybody can verify it.
    Rsa,
    /// Short and quick (RFC 8463); not everybody can verify it yet: have an RSA key beside it.
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
    let usual = || Path::new(FOLDER).join(format!("{}.{}.pem", key.domain(), key.selector()));
    let file = args.file.clone().unwrap_or_else(usual);
    let shared = write(&file, pem.as_bytes())
        .map_err(|error| Failure::new(exit::NO_INPUT, format!("{}: {error}", file.display())))?;
    if json {
        output::json(&described(&key, &file));
        return Ok(());
    }
    output::line(&format!("{}: a new {} key", file.display(), key.algorithm()));
    if !shared {
        output::line(
            "The service must be able to read it, and nobody else: see to its owner and group.",
        );
    }
    output::raw(&format!("\nInto the zone of {}:\n\n{}", key.domain(), record(&key)));
    output::raw(&format!(
        "\nInto the configuration, once the record can be found:\n\n{}",
        lines(&key, &file)
    ));
    Ok(())
}

fn show(domain: Option<&str>, config: Option<&Path>, json: bool) -> Result<(), Failure> {
    let config = load(config).map_err(|faults| Failure::new(exit::CONFIG, faults.to_string()))?;
    let wanted =
        |key: &&DkimKeySection| domain.is_none_or(|domain| key.domain.eq_ignore_ascii_case(domain));
    let mut keys = Vec::new();
    for named in config.dkim.keys.iter().filter(wanted) {
        keys.push((
            named.read().map_err(|problem| Failure::new(exit::CONFIG, problem))?,
            &named.file,
        ));
    }
    if json {
        output::json(&Value::Array(keys.iter().map(|(key, file)| described(key, file)).collect()));
        return Ok(());
    }
    if keys.is_empty() {
        return Err(Failure::new(exit::CONFIG, "no key: `restante dkim keygen` makes one"));
    }
    for (at, (key, file)) in keys.iter().enumerate() {
        let gap = if at > 0 { "\n" } else { "" };
        output::raw(&format!(
            "{gap}; {}, {}\n{}",
            key.algorithm(),
            output::clean(&file.display().to_string()),
            record(key)
        ));
    }
    Ok(())
}

fn described(key: &SigningKey, file: &Path) -> Value {
    json!({
        "domain": key.domain(), "selector": key.selector(), "algorithm": key.algorithm().to_string(),
        "file": file.display().to_string(), "name": key.name(), "record": key.record(),
    })
}

/// The record as a zone file has it: in strings of at most 255 octets (RFC 1035 §3.3), which
/// readers join (RFC 6376 §3.6.2.2).
fn record(key: &SigningKey) -> String {
    let text = key.record();
    let strings = text.as_bytes().chunks(255).filter_map(|part| std::str::from_utf8(part).ok());
    let strings: Vec<String> = strings.map(|part| format!("    \"{part}\"")).collect();
    format!("{}. IN TXT (\n{} )\n", key.name(), strings.join("\n"))
}

fn lines(key: &SigningKey, file: &Path) -> String {
    let file = Value::String(file.display().to_string());
    format!(
        "[[dkim.keys]]\ndomain = \"{}\"\nselector = \"{}\"\nfile = {file}\n",
        key.domain(),
        key.selector()
    )
}

/// Makes the file, for its owner alone; for the service's group too where root asks and there is
/// such a group. Gives whether it did the latter.
fn write(file: &Path, pem: &[u8]) -> std::io::Result<bool> {
    if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        reachable(folder)?;
    }
    let mut made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
    made.write_all(pem)?;
    made.sync_all()?;
    share(&made)
}

/// Makes a folder and those above it, each open to everybody whatever the umask: the keys in it are
/// closed, and the service must reach them.
fn reachable(folder: &Path) -> std::io::Result<()> {
    let missing: Vec<&Path> = folder.ancestors().take_while(|above| !above.exists()).collect();
    DirBuilder::new().recursive(true).mode(0o755).create(folder)?;
    missing
        .into_iter()
        .filter(|made| !made.as_os_str().is_empty())
        .try_for_each(|made| std::fs::set_permissions(made, std::fs::Permissions::from_mode(0o755)))
}

fn share(file: &File) -> std::io::Result<bool> {
    if !rustix::process::geteuid().is_root() {
        return Ok(false);
    }
    let Some(number) = group_id(GROUP) else { return Ok(false) };
    fchown(file, None, Some(number))?;
    file.set_permissions(std::fs::Permissions::from_mode(0o640))?;
    Ok(true)
}
