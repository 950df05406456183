//! A mailbox file, message by message, in bounded memory whatever the file is.

use std::io::{self, BufRead};

use super::{MARK_FIELD, is_from};
use crate::message::header::{self, Field};
use crate::message::parse::date;
use crate::model::{EmailId, UtcMillis};
use crate::transfer::flags::{MessageFlags, read_status};
use crate::transfer::name::ours_of;
use crate::transfer::{as_mail, lf_to_crlf};

/// Octets of a line that begins a message, of which more is not looked at.
const MAX_FROM_LINE_BYTES: usize = 1024;
/// The subject under which Dovecot, Pine and Cyclone keep their own notes as a first message.
const INTERNAL: &str = "DON'T DELETE THIS MESSAGE -- FOLDER INTERNAL DATA";

/// What stands next in a mailbox file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MboxEntry {
    Mail(Box<MboxMessage>),
    /// One that is larger than messages may be, from this octet of the file on.
    TooLarge(u64),
    /// A note of a mail program, which is no mail.
    Internal,
}

/// A message of a mailbox file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MboxMessage {
    /// Its octets.
    pub octets: Vec<u8>,
    pub marks: MessageFlags,
    /// The date of its `From ` line.
    pub from_date: Option<UtcMillis>,
    /// The email that it is of, where we wrote it.
    pub id: Option<EmailId>,
    /// Whether it is whole: all that we wrote of one of ours; of others, whether it ends as one
    /// does.
    pub whole: bool,
    /// Whether it is no more than the beginning of what we write on top: we were interrupted there.
    pub begun: bool,
    /// Where its `From ` line begins in the file.
    pub at: u64,
    /// Where the next begins, or the file ends.
    pub end: u64,
}

/// Reads a mailbox file.
#[derive(Debug)]
pub struct MboxReader<R> {
    input: R,
    most: usize,
    at: u64,
    /// The `From ` line that was read already, and where it begins.
    next: Option<(Vec<u8>, u64)>,
    begun: bool,
}

impl<R: BufRead> MboxReader<R> {
    /// Reads a mailbox file whose messages have `most` octets at most.
    pub fn new(input: R, most: usize) -> Self {
        Self { input, most, at: 0, next: None, begun: false }
    }

    /// What stands next; `None` at the end.
    ///
    /// # Errors
    /// Those of reading; `InvalidData` where the file is no mailbox file.
    pub fn read(&mut self) -> io::Result<Option<MboxEntry>> {
        if !self.begun {
            self.begin()?;
        }
        let Some((from, at)) = self.next.take() else { return Ok(None) };
        // Room for what is put on top, for quotes, and for line ends.
        let most = self.most.saturating_mul(2).saturating_add(64 * 1024);
        let (mut body, mut line, mut large) = (Vec::new(), Vec::new(), false);
        // Directly behind its `From ` line another may stand, of an empty message.
        let mut after_blank = false;
        loop {
            let start = self.at;
            line.clear();
            let left = most.saturating_sub(body.len()).max(MAX_FROM_LINE_BYTES);
            let whole = self.line(&mut line, left)?;
            if line.is_empty() {
                break;
            }
            if after_blank && begins(&line) {
                self.next = Some((line.clone(), start));
                break;
            }
            after_blank = matches!(line.as_slice(), b"\n" | b"\r\n");
            large |= !whole || body.len().saturating_add(line.len()) > most;
            if !large {
                let quoted = line.first() == Some(&b'>') && is_from(&line);
                body.extend_from_slice(line.get(usize::from(quoted)..).unwrap_or_default());
            }
        }
        if large {
            return Ok(Some(MboxEntry::TooLarge(at)));
        }
        Ok(Some(self.entry(&from, body, at)))
    }

    /// Skips empty lines before the first message.
    fn begin(&mut self) -> io::Result<()> {
        self.begun = true;
        let mut line = Vec::new();
        loop {
            let start = self.at;
            line.clear();
            self.line(&mut line, MAX_FROM_LINE_BYTES)?;
            match line.as_slice() {
                b"" => return Ok(()),
                b"\n" | b"\r\n" => {}
                from if from.starts_with(b"From ") => {
                    self.next = Some((line, start));
                    return Ok(());
                }
                _ => {
                    let what = "no mailbox file: it does not begin with a line \"From \"";
                    return Err(io::Error::new(io::ErrorKind::InvalidData, what));
                }
            }
        }
    }

    /// The next line with its end, of which `most` octets are kept; whether these are all.
    fn line(&mut self, out: &mut Vec<u8>, most: usize) -> io::Result<bool> {
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
                piece.get(..most.saturating_sub(out.len()).min(piece.len())).unwrap_or_default();
            whole &= keep.len() == piece.len();
            out.extend_from_slice(keep);
            self.input.consume(end);
            self.at = self.at.saturating_add(end as u64);
            if done {
                return Ok(whole);
            }
        }
    }

    fn entry(&self, from: &[u8], mut body: Vec<u8>, at: u64) -> MboxEntry {
        let end = self.next.as_ref().map_or(self.at, |(_, next)| *next);
        // The empty line that ends it; at the end of the file it may be missing.
        let closed = ends_blank(&body);
        if closed {
            pop_line(&mut body);
        }
        let from_date = from_date(from);
        let Some((mark, marks, top)) = our_top(&body) else {
            let mut marks = MessageFlags::default();
            for field in header::fields(&body) {
                read_status(&mut marks, &field);
            }
            if header::first(&body, "Subject").is_some_and(|field| field.unfolded() == INTERNAL) {
                return MboxEntry::Internal;
            }
            let octets = as_mail(&body).into_owned();
            if octets.len() > self.most {
                return MboxEntry::TooLarge(at);
            }
            let begun = !closed && body.split_inclusive(|octet| *octet == b'\n').all(is_ours);
            return MboxEntry::Mail(Box::new(MboxMessage {
                octets,
                marks,
                from_date,
                id: None,
                whole: closed,
                begun,
                at,
                end,
            }));
        };
        body.drain(..top);
        if mark.open {
            body.pop();
        }
        let octets = if mark.crlf { lf_to_crlf(&body).into_owned() } else { body };
        if octets.len() > self.most {
            return MboxEntry::TooLarge(at);
        }
        let whole = closed && octets.len() as u64 == mark.octets;
        MboxEntry::Mail(Box::new(MboxMessage {
            octets,
            marks,
            from_date,
            id: Some(mark.id),
            whole,
            begun: false,
            at,
            end,
        }))
    }
}

/// What our last field says.
struct ExportMark {
    id: EmailId,
    octets: u64,
    crlf: bool,
    open: bool,
}

/// Whether a line is a field that we write on top, or the beginning of one.
fn is_ours(line: &[u8]) -> bool {
    ["Status:", "X-Status:", "X-Keywords:", "X-Restante:"].iter().any(|name| {
        let name = name.as_bytes();
        line.starts_with(name) || (line.last() != Some(&b'\n') && name.starts_with(line))
    })
}

/// Our fields on top of a message, and where it begins.
fn our_top(body: &[u8]) -> Option<(ExportMark, MessageFlags, usize)> {
    let (mut marks, mut at) = (MessageFlags::default(), 0usize);
    for line in body.split_inclusive(|octet| *octet == b'\n').take(4) {
        at = at.saturating_add(line.len());
        let colon = memchr::memchr(b':', line)?;
        let (name, value) = line.split_at_checked(colon)?;
        let field = Field::new(name, value.get(1..)?);
        if field.is(MARK_FIELD) {
            return mark(&field).map(|mark| (mark, marks, at));
        }
        if !read_status(&mut marks, &field) {
            return None;
        }
    }
    None
}

fn mark(field: &Field<'_>) -> Option<ExportMark> {
    let value = std::str::from_utf8(field.value).ok()?.strip_prefix(" 1 ")?.strip_suffix('\n')?;
    let mut words = value.split(' ');
    let id = ours_of(words.next()?)?;
    let octets = words.next()?.parse().ok()?;
    let rest: Vec<&str> = words.collect();
    let known = matches!(rest.as_slice(), [] | ["crlf"] | ["open"] | ["crlf", "open"]);
    known.then(|| ExportMark {
        id,
        octets,
        crlf: rest.contains(&"crlf"),
        open: rest.contains(&"open"),
    })
}

/// Whether a line begins a message: by its date, for not every program quotes.
fn begins(line: &[u8]) -> bool {
    line.starts_with(b"From ") && from_date(line).is_some()
}

/// The date of a `From ` line: all behind the sender, who may hold spaces in files of old.
fn from_date(line: &[u8]) -> Option<UtcMillis> {
    let rest = line.strip_prefix(b"From ")?.trim_ascii();
    let at = memchr::memchr(b' ', rest)?;
    let own = |text: &[u8]| date(text).map(|sent| sent.at);
    own(rest.get(at..)?).and_then(crate::transfer::date::sound)
}

fn ends_blank(body: &[u8]) -> bool {
    matches!(body, b"\n" | b"\r\n") || body.ends_with(b"\n\n") || body.ends_with(b"\n\r\n")
}

/// Takes the last line end away.
fn pop_line(body: &mut Vec<u8>) {
    if body.last() == Some(&b'\n') {
        body.pop();
        // Only an empty line's own CR goes with it.
        if body.last() == Some(&b'\r')
            && (body.len() == 1 || body.get(body.len().saturating_sub(2)) == Some(&b'\n'))
        {
            body.pop();
        }
    }
}
