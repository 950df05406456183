//! Reads the value of a header field as a list of addresses (RFC 5322 §3.4).
//!
//! - Comments, folds and blanks between tokens are skipped. Groups are read; source routes are read
//!   and dropped.
//! - A display name without quotation marks may contain any characters but `,`, `;`, `:`, `<`, `(`,
//!   `"` and an unclosed `[`, since senders write `a@example.org <a@example.org>`. The dots of a
//!   local part may stand anywhere.
//! - An entry that is no address is left out, and reading goes on after the next comma or
//!   semicolon. A comment, a quoted string or a `[` that is not closed takes the rest of the value.
//! - Each byte is read a bounded number of times.

use std::iter::Peekable;
use std::str::CharIndices;

use crate::address::{AddressSpec, is_atext, is_domain};

/// An entry of a list of addresses, without its display name or the name of the group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AddressEntry {
    Mailbox(AddressSpec),
    Group(Vec<AddressSpec>),
}

/// Reads a value as a list of addresses. Display names are read over.
pub(crate) fn parse_address_list(value: &[u8]) -> Vec<AddressEntry> {
    let text = String::from_utf8_lossy(value);
    let mut entries = Vec::new();
    let mut group: Option<Vec<AddressSpec>> = None;
    let mut pending: Vec<Token<'_>> = Vec::new();
    let mut route = Route::None;
    // Reads the tokens as one entry, adds it to the group or to the entries, and clears the tokens.
    let add = |tokens: &mut Vec<Token<'_>>,
               group: &mut Option<Vec<AddressSpec>>,
               entries: &mut Vec<AddressEntry>| {
        let Some(mailbox) = mailbox(tokens) else { return tokens.clear() };
        tokens.clear();
        match group {
            Some(members) => members.push(mailbox),
            None => entries.push(AddressEntry::Mailbox(mailbox)),
        }
    };
    for token in tokens(&text) {
        route = route.after(&token);
        match token {
            Token::Special(',') if route != Route::Inside => {
                add(&mut pending, &mut group, &mut entries);
            }
            Token::Special(':') if route == Route::None && group.is_none() => {
                group = Some(Vec::new());
                pending.clear();
            }
            Token::Special(';') => {
                add(&mut pending, &mut group, &mut entries);
                entries.extend(group.take().map(AddressEntry::Group));
            }
            _ => pending.push(token),
        }
    }
    add(&mut pending, &mut group, &mut entries);
    entries.extend(group.map(AddressEntry::Group));
    entries
}

/// Returns an address without its source route (RFC 5321 appendix C): `c@d.example` for
/// `@a.example,@b.example:c@d.example`. A text that does not begin with a whole route is returned
/// as it is.
pub(crate) fn without_route(address: &str) -> &str {
    let mut rest = address;
    loop {
        let Some(domain) = rest.strip_prefix('@') else { return address };
        let literal = domain.starts_with('[').then(|| domain.find(']')).flatten().unwrap_or(0);
        let tail = domain.get(literal..).unwrap_or_default();
        let Some(end) = tail.find([',', ':']) else { return address };
        let after = tail.get(end + 1..).unwrap_or_default();
        if tail.as_bytes().get(end) == Some(&b':') {
            return after;
        }
        rest = after;
    }
}

/// Whether the current token is in the source route of an address in angle brackets, whose commas
/// separate nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Route {
    /// Outside of angle brackets. A semicolon ends brackets that are not closed, and so does a
    /// comma after [`Self::Past`].
    None,
    /// Right after the opening bracket.
    Opened,
    /// In the route: an `@` followed the bracket.
    Inside,
    /// In angle brackets, after the route or without one.
    Past,
}

impl Route {
    const fn after(self, token: &Token<'_>) -> Self {
        match (self, token) {
            (_, Token::Special('<')) => Self::Opened,
            (_, Token::Special('>' | ';')) | (Self::Past, Token::Special(',')) => Self::None,
            (Self::Opened, Token::Special('@')) => Self::Inside,
            (Self::Inside, Token::Special(':')) | (Self::Opened, _) => Self::Past,
            (state, _) => state,
        }
    }
}

#[derive(Debug)]
enum Token<'t> {
    /// Letters, digits, dots, and whatever is neither special nor blank.
    Atom(&'t str),
    /// The content of a quoted string.
    Quoted(String),
    /// A domain literal with its brackets.
    Literal(String),
    Special(char),
}

fn tokens(text: &str) -> impl Iterator<Item = Token<'_>> {
    let mut chars = text.char_indices().peekable();
    std::iter::from_fn(move || {
        loop {
            let (start, c) = chars.next()?;
            return Some(match c {
                '(' => {
                    skip_comment(&mut chars);
                    continue;
                }
                '"' => Token::Quoted(until(&mut chars, '"').0),
                '[' => match until(&mut chars, ']') {
                    (content, true) => Token::Literal(format!("[{content}]")),
                    (_, false) => Token::Special('['),
                },
                '<' | '>' | '@' | ',' | ';' | ':' | ')' | ']' | '\\' => Token::Special(c),
                c if c.is_whitespace() => continue,
                _ => {
                    while chars.next_if(|(_, c)| !ends_atom(*c)).is_some() {}
                    let end = chars.peek().map_or(text.len(), |(end, _)| *end);
                    Token::Atom(text.get(start..end).unwrap_or_default())
                }
            });
        }
    })
}

const fn ends_atom(c: char) -> bool {
    let is_special =
        matches!(c, '(' | ')' | '<' | '>' | '@' | ',' | ';' | ':' | '\\' | '"' | '[' | ']');
    is_special || c.is_whitespace()
}

/// Reads up to a closing character, or to the end if there is none. Returns what was read before
/// it, without escapes and line ends, and whether it was found.
fn until(chars: &mut Peekable<CharIndices<'_>>, close: char) -> (String, bool) {
    let mut content = String::new();
    while let Some((_, c)) = chars.next() {
        match c {
            c if c == close => return (content, true),
            '\\' => content.extend(chars.next().map(|(_, c)| c)),
            '\r' | '\n' => {}
            c => content.push(c),
        }
    }
    (content, false)
}

/// Skips the rest of a comment, which may contain others.
fn skip_comment(chars: &mut Peekable<CharIndices<'_>>) {
    let mut depth = 1_usize;
    while depth > 0 {
        match chars.next() {
            Some((_, '(')) => depth += 1,
            Some((_, ')')) => depth -= 1,
            Some((_, '\\')) => {
                chars.next();
            }
            Some(_) => {}
            None => return,
        }
    }
}

/// Reads an entry: an address, or an address in angle brackets with or without a display name.
/// `None` if it is neither.
fn mailbox(tokens: &[Token<'_>]) -> Option<AddressSpec> {
    let is = |token: &Token<'_>, wanted| matches!(token, Token::Special(c) if *c == wanted);
    let Some(open) = tokens.iter().position(|token| is(token, '<')) else { return spec(tokens) };
    let (close, inner) = tokens.get(open + 1..)?.split_last()?;
    if !is(close, '>') {
        return None;
    }
    let inner = match inner.first().is_some_and(|first| is(first, '@')) {
        true => inner.get(inner.iter().position(|token| is(token, ':'))? + 1..)?,
        false => inner,
    };
    spec(inner)
}

/// Reads a local part, `@` and a domain. `None` if it is no address.
fn spec(tokens: &[Token<'_>]) -> Option<AddressSpec> {
    let at = tokens.iter().position(|token| matches!(token, Token::Special('@')))?;
    let (local, domain) = (tokens.get(..at)?, tokens.get(at + 1..)?);
    let domain = match domain {
        [Token::Literal(literal)] => Some(literal.clone()),
        atoms => joined(atoms, false),
    };
    let domain = domain.filter(|domain| is_domain(domain))?;
    Some(AddressSpec::new(joined(local, true)?, domain))
}

/// Joins words, with the dots that stand between them. `None` if two words have no dot between
/// them, if a word is not allowed here, or if there is no word.
fn joined(tokens: &[Token<'_>], may_be_quoted: bool) -> Option<String> {
    let mut out = String::new();
    let mut ends_with_dot = true;
    for token in tokens {
        let (text, is_valid, dots) = match token {
            Token::Atom(text) => {
                let is_valid = text.chars().all(|c| c == '.' || is_atext(c));
                (*text, is_valid, (text.starts_with('.'), text.ends_with('.')))
            }
            Token::Quoted(text) => {
                let is_valid = may_be_quoted && !text.chars().any(char::is_control);
                (text.as_str(), is_valid, (false, false))
            }
            Token::Literal(_) | Token::Special(_) => return None,
        };
        if !is_valid || !(ends_with_dot || dots.0) {
            return None;
        }
        out.push_str(text);
        ends_with_dot = dots.1;
    }
    (!tokens.is_empty()).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &str) -> Vec<String> {
        let entries = parse_address_list(value.as_bytes());
        entries
            .iter()
            .map(|entry| match entry {
                AddressEntry::Mailbox(mailbox) => mailbox.to_string(),
                AddressEntry::Group(members) => {
                    let members = members.iter().map(ToString::to_string);
                    format!("({})", members.collect::<Vec<_>>().join(", "))
                }
            })
            .collect()
    }

    #[test]
    fn addresses_are_read_beside_names_comments_and_folds() {
        for (value, expected) in [
            ("a@b.example", "a@b.example"),
            (" <a@b.example> ", "a@b.example"),
            ("A\r\n <a@b.example>", "a@b.example"),
            ("a @ b . example", "a@b.example"),
            ("(x (y) \\) z) a (b) @ (c) d", "a@d"),
            ("\"B, A\" <a@b>", "a@b"),
            ("A. B. C <a@b>", "a@b"),
            ("c@d <a@b>", "a@b"),
            ("\"a b\"@c", "\"a b\"@c"),
            ("\"a\".b@c", "a.b@c"),
            ("\"a\\\"b\"@c", "\"a\\\"b\"@c"),
            ("\"\"@c", "\"\"@c"),
            ("a..b.@c", "\"a..b.\"@c"),
            ("a@[192.0.2.1]", "a@[192.0.2.1]"),
            ("A <@r.example,@[IPv6:::1]:a@b>", "a@b"),
            ("\u{fc} <\u{fc}@b\u{fc}cher.example>", "\u{fc}@b\u{fc}cher.example"),
        ] {
            assert_eq!(read(value), [expected], "{value}");
        }
    }

    #[test]
    fn what_is_no_address_is_left_out() {
        for value in [
            "",
            ",",
            "undisclosed",
            "a b@example.com",
            "a@",
            "@b",
            "a@b@c",
            "a@b c",
            "a@.b",
            "<a>",
            "A <a@b",
            "A <a@b> c",
            "a@[",
            "\"a",
            "(a@b",
            "\\a@b",
            "<@a,b@c>",
            "a@\"b\"",
            "a@[b].c",
            "()@b",
            "a)@b",
        ] {
            assert_eq!(read(value), [""; 0], "{value}");
        }
        assert_eq!(read("x, a@b, y z, <c@d>, , e@f"), ["a@b", "c@d", "e@f"]);
    }

    #[test]
    fn groups_have_members() {
        assert_eq!(read("A B: a@b, x, C <c@d>; , e@f"), ["(a@b, c@d)", "e@f"]);
        assert_eq!(read("undisclosed-recipients:;"), ["()"]);
        assert_eq!(read("A: a@b, c: d@e"), ["(a@b)"]);
    }

    #[test]
    fn routes_end_at_their_colon() {
        assert_eq!(without_route("@a,@b:c@d"), "c@d");
        assert_eq!(without_route("@[IPv6:::1]:c@d"), "c@d");
        for address in ["a@b", "", "@a", "@a b"] {
            assert_eq!(without_route(address), address);
        }
    }
}
