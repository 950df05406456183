//! Reads an mbox file message by message, in bounded memory.

use std::io::{self, BufRead};

use super::{MARK_FIELD, is_from};
use crate::message::header::{self, Field};
use crate::message::parse::date;
use crate::model::{EmailId, UtcMillis};
use crate::transfer::flags::{MessageFlags, read_mbox_field};
use crate::transfer::name::parse_id;
use crate::transfer::{lf_to_crlf, normalize_line_ends};

/// So many bytes of a `From ` line are read in any case. The rest of a longer line may be ignored.
const FROM_LINE_BYTES: usize = 1024;
/// The first message of a file is data of the program that wrote it (c-client, that is Pine and UW
/// IMAP, or Dovecot) if it has this subject and one of `INTERNAL_FIELDS`, but no X-Restante. Any
/// other message, and any further one, is mail.
const INTERNAL_SUBJECT: &str = "DON'T DELETE THIS MESSAGE -- FOLDER INTERNAL DATA";
const INTERNAL_FIELDS: [&str; 2] = ["X-IMAP", "X-IMAPbase"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MboxEntry {
    Mail(Box<MboxMessage>),
    /// A message that exceeds the limit, with the offset in the file of its `From ` line.
    TooLarge(u64),
    /// Data of the mail program that wrote the file, and no mail.
    Internal,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MboxMessage {
    pub bytes: Vec<u8>,
    pub flags: MessageFlags,
    /// The date of the `From ` line; `None` if it has none that is plausible.
    pub from_date: Option<UtcMillis>,
    /// The id of the email, if an export wrote the message.
    pub id: Option<EmailId>,
    /// Whether the message is complete: an empty line follows it, and an exported one has the size
    /// that X-Restante states.
    pub whole: bool,
    /// Whether an exported message has fewer bytes than X-Restante states: an export was
    /// interrupted while it wrote the message, or another program changed it.
    pub short: bool,
    /// Whether the message may be the rest of an interrupted export: nothing but some of the added
    /// fields, or part of the `From ` line. Such a message is the last one of the file.
    pub begun: bool,
    /// The offset in the file of the `From ` line.
    pub at: u64,
    /// The offset of the next message, or of the end of the file.
    pub end: u64,
}

#[derive(Debug)]
pub struct MboxReader<R> {
    input: R,
    max_bytes: usize,
    /// How many bytes were read.
    at: u64,
    /// The `From ` line of the message that `read` returns next, and its offset. `None` before the
    /// first call, and if no message is left.
    next: Option<(Vec<u8>, u64)>,
    /// Whether `begin` was called.
    is_started: bool,
    /// Whether no message was read yet.
    is_first: bool,
}

impl<R: BufRead> MboxReader<R> {
    /// Messages larger than `max_bytes` are read as `MboxEntry::TooLarge`.
    pub fn new(input: R, max_bytes: usize) -> Self {
        Self { input, max_bytes, at: 0, next: None, is_started: false, is_first: true }
    }

    /// Returns the next entry; `None` at the end, and for a file of empty lines.
    ///
    /// # Errors
    /// `InvalidData` if the file is no mbox file, and those of the reader.
    pub fn read(&mut self) -> io::Result<Option<MboxEntry>> {
        if !self.is_started {
            self.begin()?;
        }
        let Some((from, at)) = self.next.take() else { return Ok(None) };
        let is_first = std::mem::take(&mut self.is_first);
        // In the file a message may have more bytes: added fields, and a `>` in each line. `entry`
        // checks the size of the message itself.
        let max_body = self.max_bytes.saturating_mul(2).saturating_add(64 * 1024);
        let (mut body, mut line, mut large) = (Vec::new(), Vec::new(), false);
        let mut after_blank = false;
        loop {
            let start = self.at;
            line.clear();
            let left = max_body.saturating_sub(body.len()).max(FROM_LINE_BYTES);
            let whole = self.line(&mut line, left)?;
            if line.is_empty() {
                break;
            }
            if after_blank && (begins(&line) || (whole && is_cut_from(&line, &body))) {
                self.next = Some((line.clone(), start));
                break;
            }
            after_blank = matches!(line.as_slice(), b"\n" | b"\r\n");
            large |= !whole || body.len().saturating_add(line.len()) > max_body;
            if !large {
                let quoted = line.first() == Some(&b'>') && is_from(&line);
                body.extend_from_slice(line.get(usize::from(quoted)..).unwrap_or_default());
            }
        }
        if large {
            return Ok(Some(MboxEntry::TooLarge(at)));
        }
        if is_first && is_internal(&body) {
            return Ok(Some(MboxEntry::Internal));
        }
        Ok(Some(self.entry(&from, body, at)))
    }

    /// Finds the first `From ` line.
    fn begin(&mut self) -> io::Result<()> {
        self.is_started = true;
        let mut line = Vec::new();
        loop {
            let start = self.at;
            line.clear();
            self.line(&mut line, FROM_LINE_BYTES)?;
            match line.as_slice() {
                b"" => return Ok(()),
                b"\n" | b"\r\n" => {}
                from if from.starts_with(b"From ") => {
                    self.next = Some((line, start));
                    return Ok(());
                }
                _ => {
                    let text = "not an mbox file: it does not begin with a line \"From \"";
                    return Err(io::Error::new(io::ErrorKind::InvalidData, text));
                }
            }
        }
    }

    /// Reads a line with its ending, and appends it to `out` until that has `max` bytes. Returns
    /// whether the whole line was appended. At the end of the file, appends nothing.
    fn line(&mut self, out: &mut Vec<u8>, max: usize) -> io::Result<bool> {
        let mut whole = true;
        loop {
            let piece = match self.input.fill_buf() {
                Ok(piece) => piece,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let end = memchr::memchr(b'\n', piece).map_or(piece.len(), |at| at.saturating_add(1));
            let piece = piece.get(..end).unwrap_or_default();
            let done = piece.is_empty() || piece.last() == Some(&b'\n');
            let keep =
                piece.get(..max.saturating_sub(out.len()).min(piece.len())).unwrap_or_default();
            whole &= keep.len() == piece.len();
            out.extend_from_slice(keep);
            self.input.consume(end);
            self.at = self.at.saturating_add(end as u64);
            if done {
                return Ok(whole);
            }
        }
    }

    /// Makes an entry of a `From ` line at the offset `at` and of the lines up to the next one.
    fn entry(&self, from: &[u8], mut body: Vec<u8>, at: u64) -> MboxEntry {
        let end = self.next.as_ref().map_or(self.at, |(_, next)| *next);
        // The empty line may be missing at the end of the file.
        let closed = ends_blank(&body);
        if closed {
            remove_line_ending(&mut body);
        }
        let from_date = from_date(from);
        let Some((mark, flags, message_start)) = added_fields(&body) else {
            let mut flags = MessageFlags::default();
            for field in header::fields(&body) {
                read_mbox_field(&mut flags, &field);
            }
            let bytes = normalize_line_ends(&body).into_owned();
            if bytes.len() > self.max_bytes {
                return MboxEntry::TooLarge(at);
            }
            let begun = !closed && body.split_inclusive(|byte| *byte == b'\n').all(is_added);
            return MboxEntry::Mail(Box::new(MboxMessage {
                bytes,
                flags,
                from_date,
                id: None,
                whole: closed,
                short: false,
                begun,
                at,
                end,
            }));
        };
        body.drain(..message_start);
        // `write` ended the message with a line ending of its own.
        if mark.open {
            body.pop();
        }
        let bytes = if mark.crlf { lf_to_crlf(&body).into_owned() } else { body };
        if bytes.len() > self.max_bytes {
            return MboxEntry::TooLarge(at);
        }
        let size = bytes.len() as u64;
        MboxEntry::Mail(Box::new(MboxMessage {
            bytes,
            flags,
            from_date,
            id: Some(mark.id),
            whole: closed && size == mark.bytes,
            short: size < mark.bytes,
            begun: false,
            at,
            end,
        }))
    }
}

fn is_internal(message: &[u8]) -> bool {
    header::first(message, "Subject").is_some_and(|field| field.unfolded() == INTERNAL_SUBJECT)
        && INTERNAL_FIELDS.iter().any(|name| header::first(message, name).is_some())
        // An export may begin with such a message, which is mail.
        && header::first(message, MARK_FIELD).is_none()
}

/// The value of the field X-Restante, which the head of `mbox/mod.rs` describes.
struct ExportMark {
    id: EmailId,
    bytes: u64,
    crlf: bool,
    open: bool,
}

/// Whether a line is a field that an export adds (see `mbox/mod.rs`), or the beginning of one.
fn is_added(line: &[u8]) -> bool {
    ["Status:", "X-Status:", "X-Keywords:", "X-Restante:"].iter().any(|name| {
        let name = name.as_bytes();
        line.starts_with(name) || (line.last() != Some(&b'\n') && name.starts_with(line))
    })
}

/// Reads the fields that an export adds, of which X-Restante is the last. Returns the mark, the
/// flags, and where the message begins; `None` if no export wrote the message.
fn added_fields(body: &[u8]) -> Option<(ExportMark, MessageFlags, usize)> {
    let (mut flags, mut at) = (MessageFlags::default(), 0usize);
    // An export adds at most four fields, of one line each.
    for line in body.split_inclusive(|byte| *byte == b'\n').take(4) {
        at = at.saturating_add(line.len());
        let colon = memchr::memchr(b':', line)?;
        let (name, value) = line.split_at_checked(colon)?;
        let field = Field::new(name, value.get(1..)?);
        if field.is(MARK_FIELD) {
            return mark(&field).map(|mark| (mark, flags, at));
        }
        if !read_mbox_field(&mut flags, &field) {
            return None;
        }
    }
    None
}

/// Reads the value of X-Restante; `None` if it is malformed.
fn mark(field: &Field<'_>) -> Option<ExportMark> {
    let value = std::str::from_utf8(field.value).ok()?.strip_prefix(" 1 ")?.strip_suffix('\n')?;
    let mut words = value.split(' ');
    let id = parse_id(words.next()?)?;
    let bytes = words.next()?.parse().ok()?;
    let rest: Vec<&str> = words.collect();
    let is_valid = matches!(rest.as_slice(), [] | ["crlf"] | ["open"] | ["crlf", "open"]);
    is_valid.then(|| ExportMark {
        id,
        bytes,
        crlf: rest.contains(&"crlf"),
        open: rest.contains(&"open"),
    })
}

/// Whether a line after an empty line begins another message. It must have a date, because some
/// programs write other lines with `From ` unquoted. The first line of a file needs none.
fn begins(line: &[u8]) -> bool {
    line.starts_with(b"From ") && from_date(line).is_some()
}

/// Whether a line after an empty line is the beginning of a `From ` line that an interrupted export
/// wrote: the last line of the file, without its end, after a message of an export. A line of such
/// a message has a `>` before `From `.
fn is_cut_from(line: &[u8], body: &[u8]) -> bool {
    line.last() != Some(&b'\n')
        && (line.starts_with(b"From ") || (!line.is_empty() && b"From ".starts_with(line)))
        && added_fields(body).is_some()
}

/// Whether an interrupted export may have left `part` of `entry`, which `write` makes of the same
/// email. The fields that an export adds may differ, and `part` may have line ends after it.
pub fn is_beginning(part: &[u8], entry: &[u8]) -> bool {
    let (Some(part), Some(text)) = (entry_text(part), entry_text(entry)) else { return false };
    let end = part.iter().rposition(|byte| *byte != b'\n').map_or(0, |at| at.saturating_add(1));
    text.starts_with(part.get(..end).unwrap_or_default())
}

/// Returns what follows the added fields of an entry, which begins with its `From ` line; `None` if
/// no export wrote the entry.
fn entry_text(entry: &[u8]) -> Option<&[u8]> {
    let body = entry.get(memchr::memchr(b'\n', entry)?.saturating_add(1)..)?;
    let (_, _, start) = added_fields(body)?;
    body.get(start..)
}

/// Returns the date of a `From ` line; `None` if it has none, or one that is not plausible.
fn from_date(line: &[u8]) -> Option<UtcMillis> {
    let rest = line.strip_prefix(b"From ")?.trim_ascii();
    let at = memchr::memchr(b' ', rest)?;
    let parsed = date(rest.get(at..)?).map(|sent| sent.at);
    parsed.and_then(crate::transfer::date::plausible)
}

/// Whether the last line is empty.
fn ends_blank(body: &[u8]) -> bool {
    matches!(body, b"\n" | b"\r\n") || body.ends_with(b"\n\n") || body.ends_with(b"\n\r\n")
}

/// Removes the last line, which is empty.
fn remove_line_ending(body: &mut Vec<u8>) {
    if body.last() == Some(&b'\n') {
        body.pop();
        // A CR belongs to the empty line only if it is all of that line.
        if body.last() == Some(&b'\r')
            && (body.len() == 1 || body.get(body.len().saturating_sub(2)) == Some(&b'\n'))
        {
            body.pop();
        }
    }
}
