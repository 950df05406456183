//! Parses lists of addresses in header fields (RFC 5322 §3.4 and §4.4), with the results of RFC
//! 8621 §4.1.2.3.
//!
//! - The name is the phrase before the address, or else the comment directly after the address, or
//!   else the phrase after it.
//! - Encoded words are decoded in names and comments, not in an address (RFC 2047 §5).
//! - In angle brackets, a source route (`<@relay:a@b>`), comments and unquoted blanks are dropped.
//!   Without angle brackets, blanks around an `@`, or around a dot of the domain, are dropped.
//! - Without angle brackets, a word with `@` is an address; or a single word, even without `@`.
//!   Anything else is a name without an address.
//! - If the comma between two mailboxes is missing, both are read: a phrase between two addresses
//!   is the name of the second one, and a comment directly after the first belongs to the first. An
//!   address without a name that repeats the one before it is dropped, if both are in angle
//!   brackets or both are not.
//! - Before an address in angle brackets, a word with `@` belongs to the name.
//! - `a@x on behalf of b@y`, as Outlook writes it, is one mailbox: the last address. Its name is
//!   the text before this address, with the address itself if it directly follows these words.
//! - Nothing is refused, but what follows `limits::MAX_FIELD_ADDRESSES` addresses and groups is
//!   left out. A run of addresses outside of groups is not counted as a group.

mod delimited;

use std::borrow::Cow;

use self::delimited::{angle, comment, is_blank, quoted};
use super::encoded::{self, EncodedWord};
use super::value::tidy;
use crate::model::{Address, EmailAddress, limits};

/// Bytes after an encoded word in which the `@` of an address is looked for. The bound keeps the
/// time linear if there are many encoded words.
const AT_SIGN_SEARCH_BYTES: usize = 600;

/// `on behalf of` in several languages.
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
    /// `None` outside of groups, and if the name is empty.
    pub name: Option<String>,
    pub addresses: Vec<EmailAddress>,
}

enum AddressPiece<'v> {
    Word(Cow<'v, str>),
    Encoded(EncodedWord),
    Quoted(String),
    Angle(&'v str),
    Comment(String),
}

/// The pieces of one list item, each with whether a blank or a comment stands before it.
type AddressItem<'v> = Vec<(AddressPiece<'v>, bool)>;

struct ListParser<'v> {
    rest: &'v str,
    item: AddressItem<'v>,
    groups: Vec<Group>,
    in_group: bool,
    /// How many more addresses and groups may be added.
    left: usize,
    /// Whether there is one more than may be added.
    is_cut: bool,
}

/// Also returns whether the list is read whole: nothing of it was left out.
pub(super) fn groups(value: &str) -> (Vec<Group>, bool) {
    let mut list = ListParser {
        rest: value,
        item: Vec::new(),
        groups: Vec::new(),
        in_group: false,
        left: limits::MAX_FIELD_ADDRESSES,
        is_cut: false,
    };
    while !list.is_cut && list.next_piece() {}
    list.end_item();
    list.groups.retain(|group| group.name.is_some() || !group.addresses.is_empty());
    (list.groups, !list.is_cut)
}

impl<'v> ListParser<'v> {
    /// Parses the next piece. Returns `false` at the end.
    fn next_piece(&mut self) -> bool {
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
        // An address literal has colons (RFC 5321 §4.1.3).
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

    /// Begins a group, if one more may be added.
    fn open(&mut self, name: Option<String>) {
        if self.take_room() {
            self.groups.push(Group { name, addresses: Vec::new() });
        }
    }

    fn end_item(&mut self) {
        // One more than may be added shows that the list is cut.
        for person in people(std::mem::take(&mut self.item), self.left.saturating_add(1)) {
            self.add(person);
        }
    }

    fn add(&mut self, person: EmailAddress) {
        if !self.take_room() {
            return;
        }
        match self.groups.last_mut() {
            Some(group) if self.in_group || group.name.is_none() => group.addresses.push(person),
            _ => self.groups.push(Group { name: None, addresses: vec![person] }),
        }
    }

    /// Takes the room of one address or group. Notes that the list is cut if there is none.
    fn take_room(&mut self) -> bool {
        self.is_cut |= self.left == 0;
        self.left = self.left.saturating_sub(1);
        !self.is_cut
    }
}

/// Parses the encoded word at the beginning of a text, and returns its length. `None` also if it
/// would be part of an address (RFC 2047 §5).
fn encoded_word(text: &str) -> Option<(EncodedWord, usize)> {
    let found = EncodedWord::first(text).or_else(|| {
        let found = EncodedWord::lenient(text)?;
        // A broken encoded word must not hide an address.
        (!text.get(..found.1)?.contains(['<', '>', '"', '@'])).then_some(found)
    });
    let (word, length) = found?;
    let rest = text.get(length..).unwrap_or_default();
    let near = rest.get(..rest.floor_char_boundary(AT_SIGN_SEARCH_BYTES)).unwrap_or_default();
    let is_address = |at| near.get(..at).is_some_and(|local| word_end(local) == local.len());
    let is_within = !rest.starts_with("=?") && near.find('@').is_some_and(is_address);
    (!is_within).then_some((word, length))
}

/// Returns where a word of an address list ends: at a blank or a special character.
fn word_end(text: &str) -> usize {
    text.find(|c| is_blank(c) || ",;:\"(<>)".contains(c)).unwrap_or(text.len())
}

/// Returns the mailboxes of an item, at most `max`: one or none, unless commas are missing.
fn people(mut item: AddressItem<'_>, max: usize) -> Vec<EmailAddress> {
    let is_angle = |(piece, _): &(AddressPiece<'_>, bool)| matches!(piece, AddressPiece::Angle(_));
    if !item.iter().any(is_angle) {
        item = joined(item);
    }
    if let Some((words, address)) = on_behalf_of(&item) {
        return on_behalf(item, words, address).into_iter().take(max).collect();
    }
    let Some(last) = item.iter().rposition(is_angle) else { return mailboxes(&item, false, max) };
    let after = item.iter().skip(last.saturating_add(1));
    let own_end = last
        .saturating_add(1)
        .saturating_add(after.take_while(|(piece, _)| is_comment(piece)).count());
    let has_more = item.iter().skip(own_end).any(|(piece, _)| is_whole_address(piece));
    let others = if has_more { item.split_off(own_end) } else { Vec::new() };
    let mut people = mailboxes(&item, true, max);
    people.extend(mailboxes(&joined(others), false, max.saturating_sub(people.len())));
    people
}

/// Finds `ON_BEHALF_OF` between the first and the last address. Returns the index after these
/// words, and the index of the last address.
fn on_behalf_of(item: &[(AddressPiece<'_>, bool)]) -> Option<(usize, usize)> {
    let is_address = |(piece, _): &(AddressPiece<'_>, bool)| {
        matches!(piece, AddressPiece::Angle(_)) || is_whole_address(piece)
    };
    let first = item.iter().position(is_address)?;
    let last = item.iter().rposition(is_address).filter(|last| *last > first)?;
    let is = |(piece, _): &(AddressPiece<'_>, bool), wanted: &str| match piece {
        AddressPiece::Word(word) => word.eq_ignore_ascii_case(wanted),
        _ => false,
    };
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

/// Returns the mailbox of an `on behalf of` item; the indexes are those of `on_behalf_of`.
fn on_behalf(item: AddressItem<'_>, words_end: usize, address: usize) -> Option<EmailAddress> {
    // The addresses before the last one become part of the name.
    let item: AddressItem<'_> = item
        .into_iter()
        .enumerate()
        .map(|(index, (piece, is_apart))| match piece {
            AddressPiece::Angle(text) if index < address => {
                (AddressPiece::Quoted(format!("<{text}>")), is_apart)
            }
            piece => (piece, is_apart),
        })
        .collect();
    let mut person = person(&item, address)?;
    if words_end == address
        && let Some(name) = &mut person.name
    {
        *name = format!("{name} {}", person.email);
    }
    Some(person)
}

/// Returns the mailboxes of pieces. With `has_angle`, only what is in angle brackets is an address;
/// otherwise nothing may be in angle brackets.
fn mailboxes(
    pieces: &[(AddressPiece<'_>, bool)],
    has_angle: bool,
    max: usize,
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
    while people.len() < max {
        let after_address = rest.get(at.saturating_add(1)..).unwrap_or_default();
        let next = after_address.iter().position(is_further);
        let comments = after_address.iter().take_while(|(piece, _)| is_comment(piece)).count();
        // The last mailbox has all that follows its address, any other only the comments.
        let own_length = if next.is_some() { comments } else { after_address.len() };
        let (one, after) = rest
            .split_at_checked(at.saturating_add(1).saturating_add(own_length))
            .unwrap_or((rest, &[]));
        let is_new = |person: &EmailAddress| {
            person.name.is_some() || people.last().is_none_or(|last| last.email != person.email)
        };
        people.extend(person(one, at).filter(is_new));
        let Some(next) = next else { break };
        (rest, at) = (after, next.saturating_sub(own_length));
    }
    people
}

fn is_comment(piece: &AddressPiece<'_>) -> bool {
    matches!(piece, AddressPiece::Comment(_))
}

fn is_whole_address(piece: &AddressPiece<'_>) -> bool {
    let AddressPiece::Word(word) = piece else { return false };
    let parts = word.split_once('@');
    parts.is_some_and(|(local, domain)| {
        !local.is_empty() && !local.contains('[') && !domain.is_empty()
    })
}

/// Returns the mailbox whose address is the piece at index `at`. `None` if the address is empty and
/// there is no name.
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

/// Joins the pieces of an address without angle brackets: `"a b"@x`, `a @ x`, `a@x . y`. A word
/// that is longer than a line of 998 bytes (which is also `limits::MAX_MESSAGE_ID_BYTES`) is not
/// joined with what follows, since each joining copies it.
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

/// Returns the text of words, encoded words and quoted strings, with one blank wherever blanks or
/// comments separate them, except between two encoded words (RFC 2047 §6.2).
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
        append_run(&mut run, begins_apart, &mut out);
        if *is_apart && !out.is_empty() {
            out.push(' ');
        }
        out.push_str(&text);
    }
    append_run(&mut run, begins_apart, &mut out);
    out
}

fn append_run(run: &mut Vec<&EncodedWord>, is_apart: bool, out: &mut String) {
    if run.is_empty() {
        return;
    }
    if is_apart && !out.is_empty() {
        out.push(' ');
    }
    encoded::append(run, out);
    run.clear();
}

/// Returns an address without a source route, comments, unquoted blanks and needless quotes.
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

#[cfg(test)]
mod tests;
