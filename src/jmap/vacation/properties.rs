//! Reads and writes the properties of a vacation response (`docs/admin-api.md`).

use serde_json::Value;

use crate::account::OwnAddresses;
use crate::jmap::standard::email_addresses;
use crate::jmap::standard::value::utc_date;
use crate::model::address::{domain_is_well_formed, fold_domain};
use crate::model::{
    Address, Audience, Circle, Days, EmailAddress, ExcludedSender, UtcMillis, VacationResponse,
    Variant,
};
use crate::wire::jmap::admin::mail::NamedAddress;
use crate::wire::jmap::admin::vacation::{
    SINGLETON, VacationFacts, VacationProperty, VariantFacts,
};
use crate::wire::jmap::{Property as _, SetError};

pub(super) const UNKNOWN: &str = "there is no such property, or it cannot be set";

/// The most addresses of one response; also the most exceptions, and the most domains.
const MAX_ADDRESSES: usize = 1000;
/// The most variants of one response.
const MAX_VARIANTS: usize = 32;
/// The most recurring days of one response.
const MAX_DAYS: usize = 64;
/// The longest text of a property, such as a body.
const MAX_TEXT_BYTES: usize = 256 * 1024;
/// The longest language tag.
const MAX_TAG_BYTES: usize = 35;

impl VacationProperty {
    /// The properties of RFC 8621 §8.
    pub(super) const STANDARD: [Self; 7] = [
        Self::Id,
        Self::IsEnabled,
        Self::FromDate,
        Self::ToDate,
        Self::Subject,
        Self::TextBody,
        Self::HtmlBody,
    ];
}

pub(super) fn all_properties(response: &VacationResponse) -> VacationFacts {
    let date = |at: Option<UtcMillis>| Some(at.map(UtcMillis::rfc3339));
    VacationFacts {
        id: Some(SINGLETON.to_owned()),
        is_enabled: Some(response.enabled),
        from_date: date(response.from_date),
        to_date: date(response.to_date),
        subject: Some(response.subject.clone()),
        text_body: Some(response.text_body.clone()),
        html_body: Some(response.html_body.clone()),
        from: Some(response.from.as_ref().map(named_address)),
        reply_to: Some(response.reply_to.as_ref().map(named_address)),
        addresses: Some(texts(&response.addresses)),
        except: Some(texts(&response.except)),
        audience: Some(response.audience.name().to_owned()),
        organisation: Some(response.organisation.clone()),
        language: Some(response.language.clone()),
        variants: Some(response.variants.iter().map(variant).collect()),
        days: Some(texts(&response.days)),
        copies: Some(response.copies),
        report: Some(response.report),
        began: date(response.absence.began),
        ended: date(response.absence.ended),
        reported: Some(response.absence.reported),
    }
}

fn named_address(address: &EmailAddress) -> NamedAddress {
    let EmailAddress { name, email } = address.clone();
    NamedAddress { name, email }
}

fn variant(variant: &Variant) -> VariantFacts {
    VariantFacts {
        language: variant.language.clone(),
        circle: variant.circle.map(|circle| circle.name().to_owned()),
        subject: variant.subject.clone(),
        text_body: variant.text_body.clone(),
        html_body: variant.html_body.clone(),
    }
}

fn texts(all: &[impl ToString]) -> Vec<String> {
    all.iter().map(ToString::to_string).collect()
}

/// Sets one property. The From of the replies must be one of the account's `own` addresses.
///
/// # Errors
/// `InvalidProperties`; `ServerFail` if the directory cannot tell to whom an address belongs.
pub(super) fn apply(
    response: &mut VacationResponse,
    property: VacationProperty,
    value: &Value,
    own: &OwnAddresses,
) -> Result<(), SetError> {
    let invalid = |why: String| SetError::property(property.name(), why);
    if property != VacationProperty::From {
        return apply_plain(response, property, value).map_err(invalid);
    }
    let from = email_address(value).map_err(invalid)?;
    if let Some(from) = &from {
        let is_own = Address::parse(&from.email).map_or(Ok(false), |address| own.has(&address));
        if !is_own.map_err(|error| SetError::ServerFail(error.to_string()))? {
            return Err(invalid(format!("{} is not an address of the account", from.email)));
        }
    }
    response.from = from;
    Ok(())
}

/// Sets one property other than From.
fn apply_plain(
    response: &mut VacationResponse,
    property: VacationProperty,
    value: &Value,
) -> Result<(), String> {
    match property {
        VacationProperty::IsEnabled => response.enabled = flag(value)?,
        VacationProperty::FromDate => response.from_date = instant(value)?,
        VacationProperty::ToDate => response.to_date = instant(value)?,
        VacationProperty::Subject => response.subject = text(value)?,
        VacationProperty::TextBody => response.text_body = text(value)?,
        VacationProperty::HtmlBody => response.html_body = text(value)?,
        VacationProperty::ReplyTo => response.reply_to = email_address(value)?,
        VacationProperty::Addresses => {
            response.addresses = all(value, MAX_ADDRESSES, Address::parse)?;
        }
        VacationProperty::Except => {
            response.except = all(value, MAX_ADDRESSES, str::parse::<ExcludedSender>)?;
        }
        VacationProperty::Audience => {
            response.audience =
                named_value(value, Audience::from_name, "everyone, known or organisation")?;
        }
        VacationProperty::Organisation => {
            response.organisation = all(value, MAX_ADDRESSES, domain)?;
        }
        VacationProperty::Language => response.language = language(value)?,
        VacationProperty::Variants => response.variants = variants(value)?,
        VacationProperty::Days => response.days = all(value, MAX_DAYS, str::parse::<Days>)?,
        VacationProperty::Copies => response.copies = flag(value)?,
        VacationProperty::Report => response.report = flag(value)?,
        VacationProperty::Id
        | VacationProperty::From
        | VacationProperty::Began
        | VacationProperty::Ended
        | VacationProperty::Reported => return Err(UNKNOWN.into()),
    }
    Ok(())
}

fn flag(value: &Value) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| "true or false is expected".into())
}

fn named_value<T>(
    value: &Value,
    read: impl Fn(&str) -> Option<T>,
    names: &str,
) -> Result<T, String> {
    value.as_str().and_then(read).ok_or_else(|| format!("{names} is expected"))
}

fn all<T, E: ToString>(
    value: &Value,
    max: usize,
    read: impl Fn(&str) -> Result<T, E>,
) -> Result<Vec<T>, String> {
    let all = value.as_array().ok_or("an array of texts is expected")?;
    if all.len() > max {
        return Err(format!("at most {max} are allowed"));
    }
    let one = |one: &Value| {
        let text = one.as_str().ok_or("an array of texts is expected")?;
        read(text).map_err(|error| format!("`{text}`: {}", error.to_string()))
    };
    all.iter().map(one).collect()
}

/// Reads a domain, which may have an `@` before it, and folds it.
fn domain(text: &str) -> Result<String, &'static str> {
    let text = text.trim();
    let domain = text.strip_prefix('@').unwrap_or(text);
    let good = domain_is_well_formed(domain) && domain.len() <= 255 && !domain.starts_with('[');
    good.then(|| fold_domain(domain)).ok_or("not a domain")
}

fn language(value: &Value) -> Result<Option<String>, String> {
    let Some(tag) = text(value)? else { return Ok(None) };
    let subtag =
        |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if tag.len() <= MAX_TAG_BYTES && tag.split('-').all(subtag) {
        Ok(Some(tag.to_ascii_lowercase()))
    } else {
        Err("a language tag such as de or pt-BR is expected".into())
    }
}

fn variants(value: &Value) -> Result<Vec<Variant>, String> {
    let all = value.as_array().ok_or("an array of objects is expected")?;
    if all.len() > MAX_VARIANTS {
        return Err(format!("at most {MAX_VARIANTS} are allowed"));
    }
    let mut out: Vec<Variant> = Vec::with_capacity(all.len());
    for one in all {
        let one = one.as_object().ok_or("an array of objects is expected")?;
        let mut variant = Variant::default();
        for (property, value) in one {
            match property.as_str() {
                "language" => variant.language = language(value)?,
                "circle" if value.is_null() => variant.circle = None,
                "circle" => {
                    variant.circle = Some(named_value(
                        value,
                        Circle::from_name,
                        "organisation, outside or null",
                    )?);
                }
                "subject" => variant.subject = text(value)?,
                "textBody" => variant.text_body = text(value)?,
                "htmlBody" => variant.html_body = text(value)?,
                other => return Err(format!("{other}: {UNKNOWN}")),
            }
        }
        if variant.language.is_none() && variant.circle.is_none() {
            return Err("a variant needs a language, a circle, or both".into());
        }
        let is_duplicate = |other: &Variant| {
            (&other.language, other.circle) == (&variant.language, variant.circle)
        };
        if out.iter().any(is_duplicate) {
            return Err("there are two variants for the same language and circle".into());
        }
        out.push(variant);
    }
    Ok(out)
}

/// Reads a `UTCDate`, or null.
fn instant(value: &Value) -> Result<Option<UtcMillis>, String> {
    let expected = |_| "a UTCDate such as 2026-12-24T09:00:00Z is expected".to_owned();
    if value.is_null() { Ok(None) } else { utc_date("", value).map(Some).map_err(expected) }
}

/// Reads a text of at most `MAX_TEXT_BYTES`, or null.
fn text(value: &Value) -> Result<Option<String>, String> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) if text.len() <= MAX_TEXT_BYTES => Ok(Some(text.clone())),
        Value::String(_) => Err("the text is too long".into()),
        _ => Err("a text is expected".into()),
    }
}

/// Reads an `EmailAddress`, or null. Returns the address as `Address` writes it.
fn email_address(value: &Value) -> Result<Option<EmailAddress>, String> {
    if value.is_null() {
        return Ok(None);
    }
    let EmailAddress { name, email } = email_addresses::read_one(value)?;
    let address = Address::parse(&email).map_err(|error| error.to_string())?;
    Ok(Some(EmailAddress { name, email: address.to_string() }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::jmap::json::members;

    #[test]
    fn every_property_has_a_value_and_no_other_has() {
        let values =
            members(serde_json::to_value(all_properties(&VacationResponse::default())).unwrap());
        let mut names: Vec<&str> =
            VacationProperty::ALL.iter().map(crate::wire::jmap::Property::name).collect();
        names.sort_unstable();
        assert_eq!(values.keys().map(String::as_str).collect::<Vec<_>>(), names);
    }
}
