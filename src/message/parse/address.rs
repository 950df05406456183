//! Lists of addresses in header fields (RFC 5322 §3.4 and §4.4), as RFC 8621 §4.1.2.3 shows them.
//!
//! - The name is the phrase before the address, words apart as they are written; where there is
//!   none, the comment directly behind the address.
//! - Encoded words are decoded in names and comments, never in an address (RFC 2047 §5).
//! - A source route (`<@relay:a@b>`), comments and blanks within an address go; a quoted local part
//!   stays quoted where it must be, and is written as it must be.
//! - Without angle brackets, a single word is an address though it has no `@`; several words are a
//!   name.
//!
//! - Where the comma between two mailboxes lacks, each is taken: words before an address are its
//!   name, but for the comments that stand directly behind the address before it.
//! - `a@x on behalf of b@y`, as Outlook shows who wrote for whom, is one mailbox: the address that
//!   stands last, with all of the text as its name.
//!
//! Nothing is refused. Quotes and brackets that do not close end with the value, an open `<` with
//! its list item.

use std::borrow::Cow;

use super::encoded::{self, EncodedWord};
use super::value::tidy;
use crate::model::{Address, EmailAddress, limits};

/// Bytes behind an encoded word in which the `@` of an address is looked for.
const MAX_ADDRESS_BYTES: usize = 600;

/// What stands between the address of who sends and that of whom it is sent for.
const ON_BEHALF_OF: [&[&str]; 7] = [
    &["on", "behalf", "of"],
    &["im", "auftrag", "von"],
    &["de", "la", "part", "de"],
    &["en", "nombre", "de"],
    &["per", "conto", "di"],
    &["em", "nome", "de"],
    &["namens"],
];

/// A group of addresses (RFC 8621 §4.1.2.4), or a run of addresses outside of any group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Group {
    /// Its name; none of a run outside of groups.
    pub name: Option<String>,
    pub addresses: Vec<EmailAddress>,
}

/// A piece of a list item.
enum AddressPiece<'v> {
    Word(Cow<'v, str>),
    Encoded(EncodedWord),
    Quoted(String),
    Angle(&'v str),
    Comment(String),
}

/// Pieces of one list item, each with whether a blank or a comment stands before it.
type AddressItem<'v> = Vec<(AddressPiece<'v>, bool)>;

/// Reads a list in one pass.
struct List<'v> {
    rest: &'v str,
    item: AddressItem<'v>,
    groups: Vec<Group>,
    in_group: bool,
    /// Addresses and groups that may still be taken.
    left: usize,
}

/// The groups of a value that is unfolded and bounded.
pub(super) fn groups(value: &str) -> Vec<Group> {
    let mut list = List {
        rest: value,
        item: Vec::new(),
        groups: Vec::new(),
        in_group: false,
        left: limits::MAX_FIELD_ADDRESSES,
    };
    while list.left > 0 && list.step() {}
    list.end_item();
    list.groups.retain(|group| group.name.is_some() || !group.addresses.is_empty());
    list.groups
}

impl<'v> List<'v> {
    /// Takes the next piece; `false` at the end.
    fn step(&mut self) -> bool {
        let text = self.rest.trim_start_matches(is_blank);
        let is_apart = text.len() < self.rest.len();
        self.rest = text;
        let Some(first) = text.chars().next() else { return false };
        let after = text.get(first.len_utf8()..).unwrap_or_default();
        match first {
            ',' => {
                self.end_item();
                self.rest = after;
            }
            ';' => {
                self.end_item();
                self.in_group = false;
                self.rest = after;
            }
            ':' => {
                let name = tidy(&phrase(&std::mem::take(&mut self.item)));
                self.open(Some(name).filter(|name| !name.is_empty()));
                self.in_group = true;
                self.rest = after;
            }
            '"' => {
                let (quoted, rest) = quoted(after);
                self.rest = rest;
                self.push(AddressPiece::Quoted(quoted), is_apart);
            }
            '(' => {
                let (comment, rest) = comment(after);
                self.rest = rest;
                self.push(AddressPiece::Comment(comment), is_apart);
            }
            '<' => {
                let (angle, rest) = angle(after);
                self.rest = rest;
                self.push(AddressPiece::Angle(angle), is_apart);
            }
            // What closes nothing.
            '>' | ')' => self.rest = after,
            _ => self.word(text, is_apart),
        }
        true
    }

    fn word(&mut self, text: &'v str, is_apart: bool) {
        if let Some((word, length)) = encoded_word(text) {
            self.rest = text.get(length..).unwrap_or_default();
            return self.push(AddressPiece::Encoded(word), is_apart);
        }
        let mut end = word_end(text);
        // A literal in the place of a domain has colons (RFC 5321 §4.1.3).
        let open = text
            .get(..end)
            .and_then(|word| word.find("@[").or_else(|| word.starts_with('[').then_some(0)));
        let literal = open.and_then(|open| {
            text.get(
                open..text
                    .floor_char_boundary(open.saturating_add(limits::MAX_ADDRESS_LITERAL_BYTES)),
            )
        });
        if let Some(close) = literal.and_then(|literal| literal.find(']')) {
            end = end.max(open.unwrap_or(0).saturating_add(close).saturating_add(1));
        }
        let (word, rest) = text.split_at_checked(end).unwrap_or((text, ""));
        self.rest = rest;
        self.push(AddressPiece::Word(Cow::Borrowed(word)), is_apart);
    }

    fn push(&mut self, piece: AddressPiece<'v>, is_apart: bool) {
        let is_apart = is_apart || matches!(self.item.last(), Some((AddressPiece::Comment(_), _)));
        self.item.push((piece, is_apart));
    }

    fn open(&mut self, name: Option<String>) {
        self.left = self.left.saturating_sub(1);
        self.groups.push(Group { name, addresses: Vec::new() });
    }

    fn end_item(&mut self) {
        for person in people(std::mem::take(&mut self.item), self.left) {
            self.add(person);
        }
    }

    fn add(&mut self, person: EmailAddress) {
        let is_open = self.groups.last().is_some_and(|group| self.in_group || group.name.is_none());
        if !is_open {
            self.open(None);
        }
        if self.left > 0
            && let Some(group) = self.groups.last_mut()
        {
            group.addresses.push(person);
            self.left = self.left.saturating_sub(1);
        }
    }
}

/// The encoded word that a word begins with, and how long it is. Within an address it is none
/// (RFC 2047 §5).
fn encoded_word(text: &str) -> Option<(EncodedWord, usize)> {
    let found = EncodedWord::first(text).or_else(|| {
        let found = EncodedWord::lenient(text)?;
        // A broken word hides no address.
        (!text.get(..found.1)?.contains(['<', '>', '"', '@'])).then_some(found)
    });
    let (word, length) = found?;
    let rest = text.get(length..).unwrap_or_default();
    let near = rest.get(..rest.floor_char_boundary(MAX_ADDRESS_BYTES)).unwrap_or_default();
    let is_address = |at| near.get(..at).is_some_and(|local| word_end(local) == local.len());
    let is_within = !rest.starts_with("=?") && near.find('@').is_some_and(is_address);
    (!is_within).then_some((word, length))
}

/// Where a word without encoded words and literals ends.
fn word_end(text: &str) -> usize {
    text.find(|c| is_blank(c) || ",;:\"(<>)".contains(c)).unwrap_or(text.len())
}

/// The mailboxes of an item, bounded: one, except where commas are missing between several.
fn people(mut item: AddressItem<'_>, most: usize) -> Vec<EmailAddress> {
    let is_angle = |(piece, _): &(AddressPiece<'_>, bool)| matches!(piece, AddressPiece::Angle(_));
    if !item.iter().any(is_angle) {
        item = joined(item);
    }
    if let Some((words, address)) = on_behalf_of(&item) {
        return on_behalf(item, words, address).into_iter().take(most).collect();
    }
    let Some(last) = item.iter().rposition(is_angle) else { return mailboxes(&item, false, most) };
    let behind = item.iter().skip(last.saturating_add(1));
    let own = last
        .saturating_add(1)
        .saturating_add(behind.take_while(|(piece, _)| is_comment(piece)).count());
    let has_more = item.iter().skip(own).any(|(piece, _)| is_whole_address(piece));
    let more = if has_more { item.split_off(own) } else { Vec::new() };
    let mut people = mailboxes(&item, true, most);
    people.extend(mailboxes(&joined(more), false, most.saturating_sub(people.len())));
    people
}

/// Where the words `on behalf of` end that stand between two addresses, and the last address.
fn on_behalf_of(item: &[(AddressPiece<'_>, bool)]) -> Option<(usize, usize)> {
    let is_address = |(piece, _): &(AddressPiece<'_>, bool)| {
        matches!(piece, AddressPiece::Angle(_)) || is_whole_address(piece)
    };
    let first = item.iter().position(is_address)?;
    let last = item.iter().rposition(is_address).filter(|last| *last > first)?;
    let is = |(piece, _): &(AddressPiece<'_>, bool), word: &str| matches!(piece, AddressPiece::Word(own) if own.eq_ignore_ascii_case(word));
    let ends_at = |begin: usize| {
        let rest = item.get(begin..last)?;
        let found = ON_BEHALF_OF.iter().find(|words| {
            rest.len() >= words.len()
                && rest.iter().zip(words.iter()).all(|(piece, word)| is(piece, word))
        })?;
        begin.checked_add(found.len())
    };
    Some(((first..last).find_map(ends_at)?, last))
}

/// The mailbox of an item with such words that end before the piece `words`, its address the piece
/// `address`.
fn on_behalf(item: AddressItem<'_>, words: usize, address: usize) -> Option<EmailAddress> {
    let item: AddressItem<'_> = item
        .into_iter()
        .enumerate()
        .map(|(at, (piece, is_apart))| match piece {
            AddressPiece::Angle(text) if at < address => {
                (AddressPiece::Quoted(format!("<{text}>")), is_apart)
            }
            piece => (piece, is_apart),
        })
        .collect();
    let mut person = person(&item, address)?;
    if words == address
        && let Some(name) = &mut person.name
    {
        *name = format!("{name} {}", person.email);
    }
    Some(person)
}

/// The mailboxes of pieces, their addresses all in angle brackets or all without.
fn mailboxes(
    pieces: &[(AddressPiece<'_>, bool)],
    has_angle: bool,
    most: usize,
) -> Vec<EmailAddress> {
    let is_alone = pieces.iter().filter(|(piece, _)| !is_comment(piece)).count() == 1;
    let is_address = |(piece, _): &(AddressPiece<'_>, bool)| match piece {
        AddressPiece::Angle(_) => true,
        AddressPiece::Word(word) => !has_angle && (word.contains('@') || is_alone),
        _ => false,
    };
    let is_further = |(piece, _): &(AddressPiece<'_>, bool)| match piece {
        AddressPiece::Angle(_) => true,
        _ => !has_angle && is_whole_address(piece),
    };
    let Some(mut at) = pieces.iter().position(is_address) else {
        let name = tidy(&phrase(pieces));
        let person =
            (!name.is_empty()).then(|| EmailAddress { name: Some(name), email: String::new() });
        return person.into_iter().collect();
    };
    let (mut people, mut rest): (Vec<EmailAddress>, _) = (Vec::new(), pieces);
    while people.len() < most {
        let behind = rest.get(at.saturating_add(1)..).unwrap_or_default();
        let next = behind.iter().position(is_further);
        let comments = behind.iter().take_while(|(piece, _)| is_comment(piece)).count();
        let own = next.map_or(behind.len(), |_| comments);
        let (one, after) =
            rest.split_at_checked(at.saturating_add(1).saturating_add(own)).unwrap_or((rest, &[]));
        // An address that is only repeated is one.
        let is_new = |person: &EmailAddress| {
            person.name.is_some() || people.last().is_none_or(|last| last.email != person.email)
        };
        people.extend(person(one, at).filter(is_new));
        let Some(next) = next else { break };
        (rest, at) = (after, next.saturating_sub(own));
    }
    people
}

fn is_comment(piece: &AddressPiece<'_>) -> bool {
    matches!(piece, AddressPiece::Comment(_))
}

/// Whether a word is an address beyond doubt, and no part of a name.
fn is_whole_address(piece: &AddressPiece<'_>) -> bool {
    let AddressPiece::Word(word) = piece else { return false };
    let parts = word.split_once('@');
    parts.is_some_and(|(local, domain)| {
        !local.is_empty() && !local.contains('[') && !domain.is_empty()
    })
}

/// The mailbox whose address is the piece `at`.
fn person(item: &[(AddressPiece<'_>, bool)], at: usize) -> Option<EmailAddress> {
    let (before, from) = item.split_at_checked(at)?;
    let ((address, _), behind) = from.split_first()?;
    let email = match address {
        AddressPiece::Angle(text) => addr_spec(text),
        AddressPiece::Word(word) => addr_spec(word),
        _ => String::new(),
    };
    let comment = match behind.first() {
        Some((AddressPiece::Comment(comment), _)) => tidy(comment),
        _ => String::new(),
    };
    let names = [tidy(&phrase(before)), comment, tidy(&phrase(behind))];
    let name = names.into_iter().find(|name| !name.is_empty());
    (!email.is_empty() || name.is_some()).then_some(EmailAddress { name, email })
}

/// The pieces of an address without angle brackets put together: `"a b"@x`, `a @ x`, `a@x . y`.
fn joined(item: AddressItem<'_>) -> AddressItem<'_> {
    let mut out: AddressItem<'_> = Vec::with_capacity(item.len());
    for (piece, is_apart) in item {
        let whole = match (out.last(), &piece) {
            (Some((AddressPiece::Quoted(local), _)), AddressPiece::Word(next)) => next
                .strip_prefix('@')
                .filter(|domain| !domain.is_empty())
                .map(|domain| Address::from_parts(local.as_str(), domain).to_string()),
            (Some((AddressPiece::Word(word), _)), AddressPiece::Word(next))
                if word.len() <= limits::MAX_MESSAGE_ID_BYTES =>
            {
                let is_split = word.ends_with('@') || next.starts_with('@');
                let has_domain =
                    word.contains('@') && (word.ends_with('.') || next.starts_with('.'));
                (is_split || has_domain).then(|| format!("{word}{next}"))
            }
            _ => None,
        };
        match (whole, out.last_mut()) {
            (Some(whole), Some((last, _))) => *last = AddressPiece::Word(Cow::Owned(whole)),
            _ => out.push((piece, is_apart)),
        }
    }
    out
}

/// The text of words, encoded words and quoted strings, with one blank where there is any between
/// them.
fn phrase(item: &[(AddressPiece<'_>, bool)]) -> String {
    let mut out = String::new();
    let mut run: Vec<&EncodedWord> = Vec::new();
    let mut begins_apart = false;
    for (piece, is_apart) in item {
        if let AddressPiece::Encoded(word) = piece {
            if run.is_empty() {
                begins_apart = *is_apart;
            }
            run.push(word);
            continue;
        }
        let text = match piece {
            AddressPiece::Word(word) => Cow::Borrowed(word.as_ref()),
            AddressPiece::Quoted(quoted) => encoded::anywhere(quoted),
            _ => continue,
        };
        flush(&mut run, begins_apart, &mut out);
        if *is_apart && !out.is_empty() {
            out.push(' ');
        }
        out.push_str(&text);
    }
    flush(&mut run, begins_apart, &mut out);
    out
}

fn flush(run: &mut Vec<&EncodedWord>, is_apart: bool, out: &mut String) {
    if run.is_empty() {
        return;
    }
    if is_apart && !out.is_empty() {
        out.push(' ');
    }
    encoded::append(run, out);
    run.clear();
}

/// The address in what stands between angle brackets, or in a word.
fn addr_spec(text: &str) -> String {
    let text = text.trim_start_matches(|c| is_blank(c) || c == '<');
    let text = if text.starts_with('@') {
        text.split_once(':').map_or(text, |(_, after)| after)
    } else {
        text
    };
    let (mut out, mut rest, mut local) = (String::with_capacity(text.len()), text, None);
    while let Some(first) = rest.chars().next() {
        let after = rest.get(first.len_utf8()..).unwrap_or_default();
        rest = after;
        match first {
            '(' => rest = comment(after).1,
            '"' => {
                let (inner, behind) = quoted(after);
                rest = behind;
                if out.is_empty() && behind.trim_start_matches(is_blank).starts_with('@') {
                    local = Some(inner);
                } else {
                    out.push_str(&Address::from_parts(inner, "").to_string());
                }
            }
            '<' | '>' => {}
            c if c.is_control() || is_blank(c) => {}
            c => out.push(c),
        }
    }
    match (local, out.strip_prefix('@')) {
        (Some(local), Some(domain)) => Address::from_parts(local, domain).to_string(),
        _ => out,
    }
}

/// A quoted string behind its opening quote, without its escapes; and what follows it.
fn quoted(text: &str) -> (String, &str) {
    let (mut out, mut chars) = (String::new(), text.chars());
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.extend(chars.next()),
            '"' => break,
            c => out.push(c),
        }
    }
    (out, chars.as_str())
}

/// A comment behind its opening bracket, its encoded words decoded; and what follows it.
fn comment(text: &str) -> (String, &str) {
    let (mut out, mut chars, mut depth) = (String::new(), text.chars(), 1usize);
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                out.extend(chars.next());
                continue;
            }
            '(' => depth = depth.saturating_add(1),
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            break;
        }
        out.push(c);
    }
    (encoded::words(&out).into_owned(), chars.as_str())
}

/// What stands in angle brackets, behind the opening one; and what follows. Where a bracket or the
/// value's end comes before the closing one, the item's end closes it.
fn angle(text: &str) -> (&str, &str) {
    let text = text.trim_start_matches(|c| is_blank(c) || c == '<');
    let (mut separator, mut is_quoted, mut is_escaped) = (None, false, false);
    let split = |at: usize| text.split_at_checked(at).unwrap_or((text, ""));
    for (at, c) in text.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            _ if is_quoted => {}
            '>' => return (split(at).0, split(at.saturating_add(1)).1),
            '<' => return split(separator.unwrap_or(at)),
            ',' | ';' => separator = separator.or(Some(at)),
            _ => {}
        }
    }
    split(separator.unwrap_or(text.len()))
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t')
}

#[cfg(test)]
mod tests;
