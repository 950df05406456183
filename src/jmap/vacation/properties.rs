//! The properties of a response: those of RFC 8621 §8, and ours.
//!
//! Ours are described in `docs/admin-api.md`.

use serde_json::{Map, Value, json};

use crate::account::OwnAddresses;
use crate::jmap::context::date;
use crate::jmap::standard::value::utc_date;
use crate::model::address::{domain_is_well_formed, fold_domain};
use crate::model::{
    Address, Audience, Circle, Days, EmailAddress, ExcludedSender, UtcMillis, VacationResponse, Variant,
};
use crate::wire::jmap::SetError;
use crate::wire::jmap::json::members;

/// Those of RFC 8621 §8.
pub(super) const STANDARD: [&str; 7] = ["id", "isEnabled", "fromDate", "toDate", "subject", "textBody", "htmlBody"];
/// All.
pub(super) const ALL: [&str; 21] = [
    "id",
    "isEnabled",
    "fromDate",
    "toDate",
    "subject",
    "textBody",
    "htmlBody",
    "from",
    "replyTo",
    "addresses",
    "except",
    "audience",
    "organisation",
    "language",
    "variants",
    "days",
    "copies",
    "report",
    "began",
    "ended",
    "reported",
];
/// What is said of any other.
pub(super) const UNKNOWN: &str = "there is no such property, or it cannot be set";

/// Addresses, exceptions or domains of one response.
const MAX_ADDRESSES: usize = 1000;
/// Its variants.
const MAX_VARIANTS: usize = 32;
/// Its days.
const MAX_DAYS: usize = 64;
/// Octets of a text that is stored.
const MAX_TEXT_BYTES: usize = 256 * 1024;
/// Octets of a language tag.
const MAX_TAG_BYTES: usize = 35;

/// The whole object.
pub(super) fn object(response: &VacationResponse, id: &str) -> Map<String, Value> {
    let person = |person: &Option<EmailAddress>| {
        person.as_ref().map_or(Value::Null, |person| json!({"name": person.name, "email": person.email}))
    };
    let variant = |variant: &Variant| {
        json!({
            "language": variant.language, "circle": variant.circle.map(Circle::name), "subject": variant.subject,
            "textBody": variant.text_body, "htmlBody": variant.html_body,
        })
    };
    members(json!({
        "id": id, "isEnabled": response.enabled, "fromDate": date(response.from_date), "toDate": date(response.to_date),
        "subject": response.subject, "textBody": response.text_body, "htmlBody": response.html_body,
        "from": person(&response.from), "replyTo": person(&response.reply_to),
        "addresses": texts(&response.addresses), "except": texts(&response.except),
        "audience": response.audience.name(), "organisation": response.organisation, "language": response.language,
        "variants": response.variants.iter().map(variant).collect::<Vec<Value>>(), "days": texts(&response.days),
        "copies": response.copies, "report": response.report, "began": date(response.absence.began),
        "ended": date(response.absence.ended), "reported": response.absence.reported,
    }))
}

fn texts(all: &[impl ToString]) -> Vec<String> {
    all.iter().map(ToString::to_string).collect()
}

/// Sets one property. The reply's From is one of the account's `own` addresses, or none.
///
/// # Errors
/// `invalidProperties`; `serverFail` where the directory cannot tell whose an address is.
pub(super) fn apply(
    response: &mut VacationResponse,
    property: &str,
    value: &Value,
    own: &OwnAddresses,
) -> Result<(), SetError> {
    let bad = |why: String| SetError::property(property, why);
    if property != "from" {
        return apply_plain(response, property, value).map_err(bad);
    }
    let from = person(value).map_err(bad)?;
    if let Some(from) = &from {
        let is_own = Address::parse(&from.email).map_or(Ok(false), |address| own.has(&address));
        if !is_own.map_err(|error| SetError::ServerFail(error.to_string()))? {
            return Err(bad(format!("{} is none of the account's addresses", from.email)));
        }
    }
    response.from = from;
    Ok(())
}

/// Sets one property that does not depend on whose an address is.
fn apply_plain(response: &mut VacationResponse, property: &str, value: &Value) -> Result<(), String> {
    match property {
        "isEnabled" => response.enabled = flag(value)?,
        "fromDate" => response.from_date = instant(value)?,
        "toDate" => response.to_date = instant(value)?,
        "subject" => response.subject = text(value)?,
        "textBody" => response.text_body = text(value)?,
        "htmlBody" => response.html_body = text(value)?,
        "replyTo" => response.reply_to = person(value)?,
        "addresses" => response.addresses = all(value, MAX_ADDRESSES, Address::parse)?,
        "except" => response.except = all(value, MAX_ADDRESSES, str::parse::<ExcludedSender>)?,
        "audience" => response.audience = named(value, Audience::from_name, "everyone, known or organisation")?,
        "organisation" => response.organisation = all(value, MAX_ADDRESSES, domain)?,
        "language" => response.language = language(value)?,
        "variants" => response.variants = variants(value)?,
        "days" => response.days = all(value, MAX_DAYS, str::parse::<Days>)?,
        "copies" => response.copies = flag(value)?,
        "report" => response.report = flag(value)?,
        _ => return Err(UNKNOWN.into()),
    }
    Ok(())
}

fn flag(value: &Value) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| "true or false is wanted".into())
}

fn named<T>(value: &Value, read: impl Fn(&str) -> Option<T>, names: &str) -> Result<T, String> {
    value.as_str().and_then(read).ok_or_else(|| format!("{names} is wanted"))
}

/// Every text of an array, read.
fn all<T, E: ToString>(value: &Value, most: usize, read: impl Fn(&str) -> Result<T, E>) -> Result<Vec<T>, String> {
    let all = value.as_array().ok_or("an array of texts is wanted")?;
    if all.len() > most {
        return Err(format!("more than {most}"));
    }
    let one = |one: &Value| {
        let text = one.as_str().ok_or("an array of texts is wanted")?;
        read(text).map_err(|error| format!("`{text}`: {}", error.to_string()))
    };
    all.iter().map(one).collect()
}

fn domain(text: &str) -> Result<String, &'static str> {
    let text = text.trim();
    let domain = text.strip_prefix('@').unwrap_or(text);
    let good = domain_is_well_formed(domain) && domain.len() <= 255 && !domain.starts_with('[');
    good.then(|| fold_domain(domain)).ok_or("not a domain")
}

fn language(value: &Value) -> Result<Option<String>, String> {
    let Some(tag) = text(value)? else { return Ok(None) };
    let subtag = |part: &str| !part.is_empty() && part.bytes().all(|octet| octet.is_ascii_alphanumeric());
    if tag.len() <= MAX_TAG_BYTES && tag.split('-').all(subtag) {
        Ok(Some(tag.to_ascii_lowercase()))
    } else {
        Err("a language tag such as de or pt-BR is wanted".into())
    }
}

fn variants(value: &Value) -> Result<Vec<Variant>, String> {
    let all = value.as_array().ok_or("an array of objects is wanted")?;
    if all.len() > MAX_VARIANTS {
        return Err(format!("more than {MAX_VARIANTS}"));
    }
    let mut out: Vec<Variant> = Vec::with_capacity(all.len());
    for one in all {
        let one = one.as_object().ok_or("an array of objects is wanted")?;
        let mut variant = Variant::default();
        for (property, value) in one {
            match property.as_str() {
                "language" => variant.language = language(value)?,
                "circle" if value.is_null() => variant.circle = None,
                "circle" => variant.circle = Some(named(value, Circle::from_name, "organisation, outside or null")?),
                "subject" => variant.subject = text(value)?,
                "textBody" => variant.text_body = text(value)?,
                "htmlBody" => variant.html_body = text(value)?,
                other => return Err(format!("{other}: {UNKNOWN}")),
            }
        }
        if variant.language.is_none() && variant.circle.is_none() {
            return Err("a variant is for a language, a circle, or both".into());
        }
        let same = |known: &Variant| (&known.language, known.circle) == (&variant.language, variant.circle);
        if out.iter().any(same) {
            return Err("two variants for the same language and circle".into());
        }
        out.push(variant);
    }
    Ok(out)
}

fn instant(value: &Value) -> Result<Option<UtcMillis>, String> {
    let wanted = |_| "a UTCDate such as 2026-12-24T09:00:00Z is wanted".to_owned();
    if value.is_null() { Ok(None) } else { utc_date("", value).map(Some).map_err(wanted) }
}

fn text(value: &Value) -> Result<Option<String>, String> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) if text.len() <= MAX_TEXT_BYTES => Ok(Some(text.clone())),
        Value::String(_) => Err("the text is too long".into()),
        _ => Err("a text is wanted".into()),
    }
}

fn person(value: &Value) -> Result<Option<EmailAddress>, String> {
    if value.is_null() {
        return Ok(None);
    }
    let email = value.get("email").and_then(Value::as_str).ok_or("an object with email is wanted")?;
    let address = Address::parse(email).map_err(|error| error.to_string())?;
    let name = value.get("name").and_then(Value::as_str).map(str::to_owned);
    Ok(Some(EmailAddress { name, email: address.to_string() }))
}
