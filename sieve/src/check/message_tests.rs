//! Tests of the message and its envelope, of dates, and of the items of the environment.

use super::bind::Bound;
use super::strings::{Text, expr, exprs};
use super::{Checker, excerpt};
use crate::diagnostic::{Code, Diagnostic};
use crate::extension::Comparator;
use crate::ir::{
    AddressTest, BodyTransform, Comparison, DatePart, DateTest, DateZone, DuplicateId,
    DuplicateTest, EnvelopePart, EnvelopeTest, HeaderTest, Keyword, MatchType, MimeOption,
    MimeScope, TestKind,
};
use crate::vocabulary::{Group, Tag};

/// The items of the environment that RFC 5183 §4.1 defines.
const ENVIRONMENT_ITEMS: [&str; 8] =
    ["domain", "host", "location", "name", "phase", "remote-host", "remote-ip", "version"];

impl Checker<'_> {
    pub(super) fn address_test(&mut self, bound: &Bound<'_>) -> TestKind {
        let mime = mime_scope(bound);
        // With `:mime` any field counts as one with addresses (RFC 5703 §4.2).
        let fields = match mime {
            None => self.address_field_names(bound.strings(0)),
            Some(_) => self.field_names(bound.strings(0)),
        };
        TestKind::Address(Box::new(AddressTest {
            fields,
            part: Self::address_part(bound),
            index: self.field_index(bound),
            mime,
            comparison: self.comparison_with(bound, 1),
        }))
    }

    pub(super) fn header_test(&mut self, bound: &Bound<'_>) -> TestKind {
        let option = match bound.of_group(Group::MimeOption).map(|bound| bound.tag) {
            Some(Tag::Type) => MimeOption::Type,
            Some(Tag::Subtype) => MimeOption::Subtype,
            Some(Tag::ContentType) => MimeOption::ContentType,
            Some(Tag::Param) => {
                let tokens = bound.value(Tag::Param).map_or(&[][..], |value| value.strings());
                MimeOption::Param(exprs(self.texts(tokens)))
            }
            _ => MimeOption::Value,
        };
        TestKind::Header(Box::new(HeaderTest {
            fields: self.field_names(bound.strings(0)),
            index: self.field_index(bound),
            mime: mime_scope(bound),
            option,
            comparison: self.comparison_with(bound, 1),
        }))
    }

    pub(super) fn exists_test(&mut self, bound: &Bound<'_>) -> TestKind {
        let fields = self.field_names(bound.strings(0));
        TestKind::Exists { fields, mime: mime_scope(bound) }
    }

    pub(super) fn envelope_test(&mut self, bound: &Bound<'_>) -> TestKind {
        let names = [
            "from",
            "to",
            "auth",
            "notify",
            "orcpt",
            "ret",
            "envid",
            "bytimeabsolute",
            "bytimerelative",
            "bymode",
            "bytrace",
        ];
        let address_part = Self::address_part(bound);
        let mut parts = Vec::new();
        for text in self.texts(bound.strings(0)) {
            let span = text.span();
            let name = text.constant().map(excerpt).unwrap_or_default();
            let what = "part of the envelope";
            let part =
                self.keyword(text, EnvelopePart::parse, Code::UnknownEnvelopePart, what, &names);
            if let Keyword::Known(known) = part {
                self.need(known.extension(), span, &format!("the envelope part `{name}`"));
                let tag = bound.of_group(Group::AddressPart);
                if tag.is_some() && !known.is_address() {
                    let message = format!("the envelope part `{name}` is no address");
                    let mut diagnostic =
                        Diagnostic::new(Code::AddressPartNotApplicable, span, message);
                    if let Some(tag) = tag {
                        let note = format!("`{}` needs an address", tag.tag.name());
                        diagnostic = diagnostic.with_related(tag.span, note);
                    }
                    self.report(diagnostic);
                }
            }
            parts.push(part);
        }
        let zone = self.argument(bound.value(Tag::Zone)).map(|zone| self.zone(zone));
        if let Some(tag) = bound.tag(Tag::Zone)
            && parts.iter().all(|part| {
                matches!(part, Keyword::Known(part) if *part != EnvelopePart::ByTimeAbsolute)
            })
        {
            let message = "`:zone` has an effect only on `bytimeabsolute`";
            self.complain(Code::NoEffect, tag.span, message);
        }
        let comparison = self.comparison_with(bound, 1);
        TestKind::Envelope(Box::new(EnvelopeTest { parts, address_part, zone, comparison }))
    }

    pub(super) fn body_test(&mut self, bound: &Bound<'_>) -> TestKind {
        let transform = match bound.of_group(Group::BodyTransform).map(|bound| bound.tag) {
            Some(Tag::Raw) => BodyTransform::Raw,
            Some(Tag::Content) => {
                let tokens = bound.value(Tag::Content).map_or(&[][..], |value| value.strings());
                let types = self.texts(tokens);
                types.iter().for_each(|text| self.check_content_type(text));
                BodyTransform::Content(exprs(types))
            }
            _ => BodyTransform::Text,
        };
        TestKind::Body { transform, comparison: self.comparison_with(bound, 0) }
    }

    /// Warns of a type of `:content` that is not well-formed: it matches nothing (RFC 5173 §5.2).
    fn check_content_type(&mut self, text: &Text) {
        let Some(value) = text.constant() else { return };
        let is_token = |word: &str| {
            word.bytes().all(|b| b.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?=".contains(&b))
        };
        let is_valid = match value.split_once('/') {
            None => is_token(value),
            Some((main, sub)) => {
                !main.is_empty() && !sub.is_empty() && is_token(main) && is_token(sub)
            }
        };
        if !is_valid {
            let message = format!("`{}` is no media type: it matches nothing", excerpt(value));
            let diagnostic = Diagnostic::new(Code::UnmatchableContentType, text.span(), message);
            self.report(diagnostic.with_help("write `text` or `text/html`"));
        }
    }

    pub(super) fn date_test(&mut self, bound: &Bound<'_>) -> TestKind {
        let field = self.argument(bound.positional(0));
        if let Some(field) = &field {
            self.check_tested_field(field);
        }
        let zone = match self.argument(bound.value(Tag::Zone)) {
            Some(zone) => DateZone::Offset(self.zone(zone)),
            None if bound.has(Tag::OriginalZone) => DateZone::Original,
            None => DateZone::Local,
        };
        let part = self.argument(bound.positional(1));
        let part = self.date_part(part);
        let index = self.field_index(bound);
        let comparison = self.date_comparison(bound, 2, &part);
        TestKind::Date(Box::new(DateTest { field: expr(field), index, zone, part, comparison }))
    }

    pub(super) fn current_date_test(&mut self, bound: &Bound<'_>) -> TestKind {
        let zone = self.argument(bound.value(Tag::Zone)).map(|zone| self.zone(zone));
        let part = self.argument(bound.positional(0));
        let part = self.date_part(part);
        let comparison = self.date_comparison(bound, 1, &part);
        TestKind::CurrentDate { zone, part, comparison }
    }

    /// Checks the comparison of a date. Warns of constant keys that cannot equal a value, because
    /// they have not the form of this part of a date. For `:value` a key may be the beginning of
    /// the form. `keys` is the index of the positional argument with the keys.
    fn date_comparison(
        &mut self,
        bound: &Bound<'_>,
        keys: usize,
        part: &Keyword<DatePart>,
    ) -> Comparison {
        let keys = self.texts(bound.strings(keys));
        let constants: Vec<_> =
            keys.iter().filter_map(|key| Some((key.constant()?.to_owned(), key.span()))).collect();
        let comparison = self.comparison(bound, keys);
        let is_prefix_enough = match comparison.match_type {
            MatchType::Is => false,
            MatchType::Value(_) => true,
            _ => return comparison,
        };
        let Keyword::Known(part) = part else { return comparison };
        let Some(form) = date_form(*part) else { return comparison };
        // This comparator reads only the leading digits, so a key needs no form.
        if comparison.comparator == Comparator::AsciiNumeric {
            return comparison;
        }
        for (key, span) in constants {
            if !has_form(&key, form, is_prefix_enough) {
                let message = format!("`{}` has not the form of this part: {form}", excerpt(&key));
                self.complain(Code::NoEffect, span, message);
            }
        }
        comparison
    }

    /// Warns of an item that RFC 5183 does not define and that is not one of a vendor.
    pub(super) fn check_environment_item(&mut self, item: Option<&Text>) {
        let Some(item) = item else { return };
        let Some(value) = item.constant() else { return };
        let name = value.to_ascii_lowercase();
        if ENVIRONMENT_ITEMS.contains(&name.as_str()) || name.starts_with("vnd.") {
            return;
        }
        let message = format!("the item `{}` is not defined: the test is false", excerpt(value));
        let mut diagnostic = Diagnostic::new(Code::NoEffect, item.span(), message);
        if let Some(meant) = self.closest(value, ENVIRONMENT_ITEMS) {
            diagnostic = diagnostic.with_help(format!("did you mean `{meant}`?"));
        }
        self.report(diagnostic);
    }

    pub(super) fn duplicate_test(&mut self, bound: &Bound<'_>) -> TestKind {
        let header = self.argument(bound.value(Tag::Header));
        if let Some(header) = &header {
            self.check_tested_field(header);
        }
        let unique_id = self.argument(bound.value(Tag::UniqueId));
        let id = match (header, unique_id) {
            (_, Some(value)) => DuplicateId::Value(value.expr),
            (Some(field), None) => DuplicateId::Field(field.expr),
            (None, None) => DuplicateId::Field("Message-ID".into()),
        };
        TestKind::Duplicate(Box::new(DuplicateTest {
            handle: self.argument(bound.value(Tag::Handle)).map(|handle| handle.expr),
            id,
            seconds: bound.number(Tag::Seconds).map(|(seconds, _)| seconds),
            last: bound.has(Tag::Last),
        }))
    }
}

/// Returns how a part of a date is written, with a letter for each digit (RFC 5260 §4.2). `None` if
/// its values do not all have one form.
const fn date_form(part: DatePart) -> Option<&'static str> {
    Some(match part {
        DatePart::Year => "yyyy",
        DatePart::Day => "dd",
        DatePart::Date => "yyyy-mm-dd",
        DatePart::Hour => "hh",
        DatePart::Month | DatePart::Minute => "mm",
        DatePart::Second => "ss",
        DatePart::Time => "hh:mm:ss",
        DatePart::Weekday => "n",
        DatePart::Julian | DatePart::Iso8601 | DatePart::Std11 | DatePart::Zone => return None,
    })
}

/// Returns whether a text has the form of a part of a date: a digit for each letter, and the other
/// characters as they are. With `is_prefix_enough` it may end earlier, but not be empty.
fn has_form(text: &str, form: &str, is_prefix_enough: bool) -> bool {
    let is_complete = text.len() == form.len() || (is_prefix_enough && text.len() < form.len());
    is_complete
        && !text.is_empty()
        && text.bytes().zip(form.bytes()).all(|(byte, wanted)| match wanted {
            b'a'..=b'z' => byte.is_ascii_digit(),
            separator => byte == separator,
        })
}

/// Returns which MIME headers a test compares (RFC 5703 §4), `None` without `:mime`.
fn mime_scope(bound: &Bound<'_>) -> Option<MimeScope> {
    bound.has(Tag::Mime).then(|| match bound.has(Tag::AnyChild) {
        true => MimeScope::AnyChild,
        false => MimeScope::Part,
    })
}
