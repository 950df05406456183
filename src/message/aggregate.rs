//! Recognises aggregate reports about the mail of a domain by their attachment: of DMARC (RFC 7489
//! §7.2.1.1) and of SMTP TLS (RFC 8460 §5). Such a report need not be a `multipart/report`: many
//! are a `multipart/mixed`, or nothing but the attachment.
//!
//! - Both RFCs define the file name: the reporter, the domain, the begin and the end in seconds,
//!   with `!` between them. The name counts only together with one of certain media types (`TYPES`,
//!   `TLS_TYPES`). One of `TLS_TYPES` counts with any file name, and without one.
//! - Only the header of the message is read, or of a `multipart/mixed` the headers of its first
//!   `limits::MAX_REPORT_PARTS` top-level parts, in the first `limits::MAX_REPORT_SEARCH_BYTES` of
//!   the body. A report within a forwarded message does not count, nor one in a message that
//!   answers or forwards another.

use super::header::{Field, Header, part_fields};
use super::parse::media;
use super::subject::is_reply_or_forward;
use crate::model::limits;

/// The media types of attachments whose file names count.
const TYPES: [&str; 10] = [
    "application/gzip",
    "application/x-gzip",
    "application/gzip-compressed",
    "application/zip",
    "application/x-zip",
    "application/x-zip-compressed",
    "application/octet-stream",
    "application/xml",
    "text/xml",
    "application/json",
];
/// Media types that only reports of SMTP TLS have (RFC 8460 §6.4 and 6.5).
const TLS_TYPES: [&str; 2] = ["application/tlsrpt+gzip", "application/tlsrpt+json"];
/// The most characters of a file name that is returned.
const MAX_EVIDENCE_CHARS: usize = 120;
const ENDINGS: [&str; 7] = [".xml", ".xml.gz", ".xml.zip", ".zip", ".gz", ".json", ".json.gz"];

/// The name or the media type of the attachment that makes a message an aggregate report; `None` if
/// it is none, or if a person passed it on.
pub(super) fn evidence(header: &Header<'_>) -> Option<String> {
    let top = BodyHeader::of(|name| header.first(name))?;
    let found = match top.boundary() {
        None => top.evidence(),
        Some(boundary) => {
            let body = header.raw().get(header.body_offset()..).unwrap_or_default();
            let body = body.get(..limits::MAX_REPORT_SEARCH_BYTES).unwrap_or(body);
            parts(body, &boundary)
                .filter_map(|part| {
                    BodyHeader::of(|name| part_fields(part).find(|one| one.is(name)))
                })
                .find_map(|part| part.evidence())
        }
    };
    found.filter(|_| !is_passed_on(header))
}

/// Whether the message answers or forwards another one, so that a person sent it: it refers to
/// another message, or its subject says so. A `[list]` in the subject is no sign of that: reporters
/// and mailing lists write such words, and neither is a person.
fn is_passed_on(header: &Header<'_>) -> bool {
    let subject = header.first("Subject").map(|field| field.decoded()).unwrap_or_default();
    let has_value = |name| header.first(name).is_some_and(|field| !field.unfolded().is_empty());
    has_value("In-Reply-To") || has_value("References") || is_reply_or_forward(&subject)
}

/// The media type and the parameters in the header of a message or part.
struct BodyHeader {
    kind: String,
    /// The parameters of Content-Type and Content-Disposition.
    params: Vec<(String, String)>,
}

impl BodyHeader {
    /// Reads a header, whose first field of a name `first` finds. `None` if it has no Content-Type
    /// that can be parsed.
    fn of<'a>(first: impl Fn(&str) -> Option<Field<'a>>) -> Option<Self> {
        let read = |field: Field<'_>| media(field.value);
        let (kind, mut params) = first("Content-Type").and_then(read)?;
        params.extend(
            first("Content-Disposition").and_then(read).into_iter().flat_map(|(_, params)| params),
        );
        Some(Self { kind, params })
    }

    /// The boundary of the parts, if this is a `multipart/mixed`.
    fn boundary(&self) -> Option<String> {
        let boundary = self
            .params
            .iter()
            .find(|(name, value)| name.eq_ignore_ascii_case("boundary") && !value.is_empty());
        boundary.filter(|_| self.kind == "multipart/mixed").map(|(_, value)| value.clone())
    }

    fn evidence(&self) -> Option<String> {
        let is_name =
            |name: &str| name.eq_ignore_ascii_case("name") || name.eq_ignore_ascii_case("filename");
        let name = self.params.iter().find(|(name, value)| is_name(name) && is_report_name(value));
        let (kind, is_tls) = (self.kind.as_str(), TLS_TYPES.contains(&self.kind.as_str()));
        match name {
            Some((_, name)) if is_tls || TYPES.contains(&kind) => {
                Some(name.chars().take(MAX_EVIDENCE_CHARS).collect())
            }
            _ => is_tls.then(|| self.kind.clone()),
        }
    }
}

/// Whether a file name is `reporter!domain!begin!end` or `reporter!domain!begin!end!unique`, with a
/// known ending. Reporter and domain have a dot and no white space. The times are seconds since
/// 1970, so they have nine digits or more.
fn is_report_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let Some(stem) =
        ENDINGS.iter().filter_map(|ending| name.strip_suffix(ending)).min_by_key(|stem| stem.len())
    else {
        return false;
    };
    let pieces: Vec<&str> = stem.split('!').collect();
    let is_domain = |text: &str| text.contains('.') && !text.contains(char::is_whitespace);
    let is_time = |text: &str| text.len() >= 9 && text.bytes().all(|byte| byte.is_ascii_digit());
    match pieces.as_slice() {
        [reporter, domain, begin, end] | [reporter, domain, begin, end, _] => {
            is_domain(reporter) && is_domain(domain) && is_time(begin) && is_time(end)
        }
        _ => false,
    }
}

/// The first `limits::MAX_REPORT_PARTS` parts of a body, each from its header to the end of the
/// body: only the headers are read.
fn parts<'a>(body: &'a [u8], boundary: &str) -> impl Iterator<Item = &'a [u8]> {
    let line = format!("--{boundary}").into_bytes();
    let starts: Vec<usize> = memchr::memmem::find_iter(body, &line)
        .filter(|at| *at == 0 || body.get(at.saturating_sub(1)) == Some(&b'\n'))
        .filter_map(|at| {
            let after = body.get(at.saturating_add(line.len())..)?;
            let end = memchr::memchr(b'\n', after)?;
            // Two hyphens follow the last boundary.
            let is_inner = after.get(..end)?.trim_ascii().is_empty();
            is_inner.then(|| {
                body.len().saturating_sub(after.len()).saturating_add(end).saturating_add(1)
            })
        })
        .take(limits::MAX_REPORT_PARTS)
        .collect();
    starts.into_iter().map(|start| body.get(start..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evidence(raw: &[u8]) -> Option<String> {
        super::evidence(&Header::split(raw))
    }

    fn mixed(header: &str, part: &str) -> String {
        format!(
            "{header}Content-Type: multipart/mixed; boundary=\"b=_1\"\r\n\r\nprolog\r\n--b=_1\r\n\
             Content-Type: text/plain\r\n\r\nhello\r\n--b=_1  \r\n{part}\r\n\r\nAAAA\r\n\
             --b=_1--\r\n"
        )
    }

    #[test]
    fn report_is_recognised_by_its_attachment() {
        let dmarc = "Content-Type: application/gzip; \
                     name=\"receiver.example!example.org!1795132800!1795219199.xml.gz\"";
        let tls = "Content-Type: application/tlsrpt+gzip\r\nContent-Disposition: attachment;\r\n \
                   filename=\"a.example!example.org!1795132800!1795219199!001.json.gz\"";
        for part in [
            dmarc,
            tls,
            "Content-Type: application/tlsrpt+json",
            "content-type: APPLICATION/ZIP\r\nContent-Disposition: attachment; \
             filename=receiver.example!example.org!1795132800!1795219199.zip",
            "Content-Type: text/xml; \
             name*=utf-8''r.example%21example.org%211795132800%211795219199%21x.xml",
        ] {
            assert!(evidence(mixed("", part).as_bytes()).is_some(), "{part}");
            assert!(evidence(format!("{part}\r\n\r\nAAAA").as_bytes()).is_some(), "{part}");
        }
        assert!(evidence(mixed("", dmarc).replace("\r\n", "\n").as_bytes()).is_some());
        for part in [
            "Content-Type: application/zip; name=report.zip",
            "Content-Type: application/zip; name=a!b!c!d.zip",
            "Content-Type: application/zip; name=\"well! example.org! 1795132800! 1795219199.zip\"",
            "Content-Type: image/png; \
             name=receiver.example!example.org!1795132800!1795219199.xml",
            "Content-Type: application/gzip; \
             name=receiver.example!example.org!1795132800!1795219199.tar",
            "Content-Type: message/rfc822\r\n\r\nContent-Type: application/tlsrpt+json",
            "Content-Type: text/plain\r\n\r\nContent-Type: application/tlsrpt+json",
            // The part has no header (RFC 2046 §5.1).
            "\r\nContent-Type: application/tlsrpt+json",
        ] {
            assert_eq!(evidence(mixed("", part).as_bytes()), None, "{part}");
        }
        for header in [
            "Subject: Fwd: Report domain: example.org\r\n",
            "Subject: [list] re[2]: Report domain: example.org\r\n",
            "Subject: [Fwd: Report domain: example.org]\r\n",
            "Subject: Report domain: example.org (fwd)\r\n",
            "In-Reply-To: <1@x>\r\n",
            "References: <1@x>\r\n",
        ] {
            assert_eq!(evidence(mixed(header, dmarc).as_bytes()), None, "{header}");
        }
        for header in [
            "Subject: Report Domain: example.org Submitter: x\r\n",
            // Some reporters write a word in brackets before the subject, as mailing lists do.
            "Subject: [Preview] Report Domain: example.org Submitter: x Report-ID: 1\r\n",
            "Subject: [dmarc] [ext] Report Domain: example.org\r\n",
        ] {
            assert!(evidence(mixed(header, dmarc).as_bytes()).is_some(), "{header}");
        }
    }

    #[test]
    fn only_the_beginning_of_a_body_is_searched() {
        let part = "Content-Type: application/tlsrpt+json";
        let long = mixed("", part).replace("hello", &"x".repeat(limits::MAX_REPORT_SEARCH_BYTES));
        assert_eq!(evidence(long.as_bytes()), None);
        let many = mixed("", part)
            .replace("hello", &"\r\n--b=_1\r\n\r\n".repeat(limits::MAX_REPORT_PARTS));
        assert_eq!(evidence(many.as_bytes()), None);
    }
}
