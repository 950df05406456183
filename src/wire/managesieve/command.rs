//! Makes a command of the tokens that `reader` found (RFC 5804 §2).

use unicode_normalization::UnicodeNormalization as _;

use super::reader::CommandToken;
use super::step::Request;
use crate::model::is_script_name;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Command {
    Authenticate {
        mechanism: String,
        /// As it came, in base64. `None` if the client waits for a challenge.
        initial: Option<Vec<u8>>,
    },
    StartTls,
    Logout,
    Capability,
    /// With the tag that the response repeats, if the client sent one.
    Noop(Option<Vec<u8>>),
    Unauthenticate,
    Scripts(Request),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CommandError {
    Unknown,
    /// The arguments are not those of the command. The text says which it takes.
    Arguments(&'static str),
    /// The name of a script is not UTF-8, or not allowed (RFC 5804 §1.6).
    ScriptName,
}

/// Reads the name of the command and its arguments.
///
/// # Errors
/// `Unknown` also if there are no tokens, or the first one is not an atom.
pub(super) fn parse(tokens: Vec<CommandToken>) -> Result<Command, CommandError> {
    let mut tokens = tokens.into_iter();
    let Some(CommandToken::Atom(verb)) = tokens.next() else { return Err(CommandError::Unknown) };
    let arguments = (tokens.next(), tokens.next(), tokens.next());
    let bare = |command, arguments: CommandArguments| match arguments {
        (None, ..) => Ok(command),
        _ => Err(CommandError::Arguments("no arguments are expected")),
    };
    let scripts = |request| Ok(Command::Scripts(request));
    match verb.to_ascii_uppercase().as_str() {
        "AUTHENTICATE" => authenticate(arguments),
        "STARTTLS" => bare(Command::StartTls, arguments),
        "LOGOUT" => bare(Command::Logout, arguments),
        "CAPABILITY" => bare(Command::Capability, arguments),
        "NOOP" => match arguments {
            (None, ..) => Ok(Command::Noop(None)),
            (Some(CommandToken::Text(tag)), None, _) => Ok(Command::Noop(Some(tag))),
            _ => Err(CommandError::Arguments("no argument or one string is expected")),
        },
        "UNAUTHENTICATE" => bare(Command::Unauthenticate, arguments),
        "LISTSCRIPTS" => bare(Command::Scripts(Request::List), arguments),
        "HAVESPACE" => match arguments {
            (Some(CommandToken::Text(name)), Some(CommandToken::Number(size)), None) => {
                scripts(Request::HaveSpace { name: script_name(name)?, size: u64::from(size) })
            }
            _ => Err(CommandError::Arguments("a name and a number are expected")),
        },
        "PUTSCRIPT" => match arguments {
            (Some(CommandToken::Text(name)), Some(CommandToken::Text(script)), None) => {
                scripts(Request::Put { name: script_name(name)?, script })
            }
            _ => Err(CommandError::Arguments("a name and a script are expected")),
        },
        "CHECKSCRIPT" => match arguments {
            (Some(CommandToken::Text(script)), None, _) => scripts(Request::Check(script)),
            _ => Err(CommandError::Arguments("a script is expected")),
        },
        "SETACTIVE" => match arguments {
            (Some(CommandToken::Text(name)), None, _) if name.is_empty() => {
                scripts(Request::SetActive(None))
            }
            arguments => scripts(Request::SetActive(Some(one_name(arguments)?))),
        },
        "GETSCRIPT" => scripts(Request::Get(one_name(arguments)?)),
        "DELETESCRIPT" => scripts(Request::Delete(one_name(arguments)?)),
        "RENAMESCRIPT" => match arguments {
            (Some(CommandToken::Text(from)), Some(CommandToken::Text(to)), None) => {
                scripts(Request::Rename { from: script_name(from)?, to: script_name(to)? })
            }
            _ => Err(CommandError::Arguments("two names are expected")),
        },
        _ => Err(CommandError::Unknown),
    }
}

/// The first three arguments. No command takes three: a third one is only refused.
type CommandArguments = (Option<CommandToken>, Option<CommandToken>, Option<CommandToken>);

fn authenticate(arguments: CommandArguments) -> Result<Command, CommandError> {
    let (mechanism, initial) = match arguments {
        (Some(CommandToken::Text(mechanism)), None, _) => (mechanism, None),
        (Some(CommandToken::Text(mechanism)), Some(CommandToken::Text(initial)), None) => {
            (mechanism, Some(initial))
        }
        _ => {
            let expected = "a mechanism is expected, and perhaps an initial response";
            return Err(CommandError::Arguments(expected));
        }
    };
    let mechanism = String::from_utf8_lossy(&mechanism).into_owned();
    Ok(Command::Authenticate { mechanism, initial })
}

fn one_name(arguments: CommandArguments) -> Result<String, CommandError> {
    match arguments {
        (Some(CommandToken::Text(name)), None, _) => script_name(name),
        _ => Err(CommandError::Arguments("a name is expected")),
    }
}

/// Returns a name in NFC, so that it names the same script however a client composes characters
/// (RFC 5198 §3).
fn script_name(name: Vec<u8>) -> Result<String, CommandError> {
    let name = String::from_utf8(name).map_err(|_| CommandError::ScriptName)?;
    let name: String = name.nfc().collect();
    if is_script_name(&name) { Ok(name) } else { Err(CommandError::ScriptName) }
}
