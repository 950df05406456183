//! Reads the parameters of MAIL and RCPT, and the attributes of XFORWARD and XCLIENT.

use crate::model::{
    BodyType, ClientInfo, DsnNotify, DsnReturn, Envelope, OriginalRecipient, Recipient, limits,
};
use crate::wire::smtp::Reply;
use crate::wire::smtp::path::{utf8_addr, xtext};

type EsmtpParameters = [(String, String)];

fn invalid_value(keyword: &str) -> Reply {
    Reply::new(501, [5, 5, 4], format!("{keyword}: invalid value"))
}

fn unsupported(keyword: &str) -> Reply {
    Reply::new(555, [5, 5, 4], format!("{keyword}: parameter not supported"))
}

/// Reads the parameters of MAIL: SIZE (RFC 1870), BODY (RFC 6152, 3030), SMTPUTF8 (RFC 6531), RET
/// and ENVID (RFC 3461), AUTH (RFC 4954 §5). The parser has put the keywords into upper case. Of a
/// repeated parameter the last counts.
///
/// # Errors
/// The refusal; then the envelope must not be used.
pub(super) fn mail(envelope: &mut Envelope, parameters: &EsmtpParameters) -> Result<(), Reply> {
    for (keyword, value) in parameters {
        let invalid = || invalid_value(keyword);
        match keyword.as_str() {
            "SIZE" => envelope.size = Some(value.parse().map_err(|_| invalid())?),
            "BODY" => {
                envelope.body = match value.to_ascii_uppercase().as_str() {
                    "7BIT" => BodyType::SevenBit,
                    "8BITMIME" => BodyType::EightBit,
                    "BINARYMIME" => BodyType::Binary,
                    _ => return Err(invalid()),
                }
            }
            "SMTPUTF8" if value.is_empty() => envelope.smtputf8 = true,
            "RET" => {
                envelope.ret = match value.to_ascii_uppercase().as_str() {
                    "FULL" => Some(DsnReturn::Full),
                    "HDRS" => Some(DsnReturn::Headers),
                    _ => return Err(invalid()),
                }
            }
            "ENVID" => {
                let fits = |id: &String| id.len() <= limits::MAX_ENVID_BYTES;
                envelope.envid = Some(xtext(value).ok().filter(fits).ok_or_else(invalid)?);
            }
            // AUTH names the submitter, which the last hop does not need.
            "AUTH" => drop(xtext(value).map_err(|_| invalid())?),
            _ => return Err(unsupported(keyword)),
        }
    }
    Ok(())
}

/// Reads the parameters of RCPT: NOTIFY and ORCPT (RFC 3461 §4.1, §4.2; RFC 6533 §3). Of a repeated
/// parameter the last counts.
///
/// # Errors
/// The refusal; then the recipient must not be used.
pub(super) fn rcpt(recipient: &mut Recipient, parameters: &EsmtpParameters) -> Result<(), Reply> {
    for (keyword, value) in parameters {
        let invalid = || invalid_value(keyword);
        match keyword.as_str() {
            "NOTIFY" => recipient.notify = DsnNotify::parse(value).ok_or_else(invalid)?,
            "ORCPT" => {
                let fits = value.len() <= limits::MAX_ORCPT_BYTES;
                recipient.original =
                    Some(original_recipient(value).filter(|_| fits).ok_or_else(invalid)?);
            }
            _ => return Err(unsupported(keyword)),
        }
    }
    Ok(())
}

fn original_recipient(value: &str) -> Option<OriginalRecipient> {
    let (kind, address) = value.split_once(';')?;
    let kind = kind.to_ascii_lowercase();
    let address = if kind == "utf-8" { utf8_addr(address).ok()? } else { xtext(address).ok()? };
    (!kind.is_empty() && !address.is_empty()).then_some(OriginalRecipient { kind, address })
}

/// Reads the attributes of XFORWARD or XCLIENT, which replace earlier values. Either command may
/// have the attributes of both. `DESTADDR` and `DESTPORT` are ignored. A `PORT` that is not a
/// number counts as unavailable.
///
/// # Errors
/// The refusal of an unknown attribute; then `client` must not be used.
pub(super) fn client(
    client: &mut ClientInfo,
    attributes: Vec<(String, Option<String>)>,
) -> Result<(), Reply> {
    for (name, value) in attributes {
        match name.as_str() {
            "NAME" => client.name = value,
            "ADDR" => client.addr = value.map(|addr| addr.trim_start_matches("IPV6:").to_owned()),
            "PORT" => client.port = value.and_then(|port| port.parse().ok()),
            "PROTO" => client.proto = value,
            "HELO" => client.helo = value,
            "IDENT" => client.ident = value,
            "SOURCE" => client.source = value,
            "LOGIN" => client.login = value,
            "DESTADDR" | "DESTPORT" => {}
            _ => {
                return Err(Reply::new(501, [5, 5, 4], format!("{name}: attribute not supported")));
            }
        }
    }
    Ok(())
}
