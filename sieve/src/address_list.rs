//! Reads the value of a header field as a list of addresses (RFC 5322 §3.4).
//!
//! - Comments, folds and blanks between tokens are skipped. Groups are read; source routes are read
//!   and dropped.
//! - A display name without quotation marks may contain characters that need them, but for `,`,
//!   `;`, `:`, `<`, `(` and `"`: senders write `a@example.org <a@example.org>`. The dots of a local
//!   part may stand anywhere.
//! - An entry that is no address is left out, and reading goes on after the next comma or
//!   semicolon.
//! - Each byte is read a bounded number of times.

use std::iter::Peekable;
use std::str::CharIndices;

use crate::address::{AddressSpec, is_atext, is_domain};
use crate::message::{AddressEntry, NamedAddress};

/// Reads a value as a list of addresses, as
/// [`MessageView::parse_addresses`](crate::MessageView::parse_addresses) must. `decode` makes of a
/// display name what its reader sees: it decodes encoded words (RFC 2047).
///
/// ```
/// use restante_sieve::{AddressEntry, parse_address_list};
///
/// let entries = parse_address_list(b"\"B, A\" <a@example.org>, nobody", |name| name.to_owned());
/// let [AddressEntry::Mailbox(mailbox)] = &entries[..] else { unreachable!() };
/// assert_eq!(mailbox.name.as_deref(), Some("B, A"));
/// assert_eq!(mailbox.address.to_string(), "a@example.org");
/// ```
#[must_use]
pub fn parse_address_list(value: &[u8], decode: impl Fn(&str) -> String) -> Vec<AddressEntry> {
    let text = String::from_utf8_lossy(value);
    let mut entries = Vec::new();
    let mut group: Option<(String, Vec<NamedAddress>)> = None;
    let mut pending: Vec<Token<'_>> = Vec::new();
    let mut route = Route::None;
    // Reads the tokens as one entry, adds it to the group or to the entries, and clears the tokens.
    let add = |tokens: &mut Vec<Token<'_>>,
               group: &mut Option<(String, Vec<NamedAddress>)>,
               entries: &mut Vec<AddressEntry>| {
        let Some(mailbox) = mailbox(tokens, &decode) else { return tokens.clear() };
        tokens.clear();
        match group {
            Some((_, members)) => members.push(mailbox),
            None => entries.push(AddressEntry::Mailbox(mailbox)),
        }
    };
    for token in tokens(&text) {
        route = route.after(&token.kind);
        match token.kind {
            Kind::Special(',') if route != Route::Inside => {
                add(&mut pending, &mut group, &mut entries);
            }
            Kind::Special(':') if route == Route::None && group.is_none() => {
                group = Some((decode(&phrase(&pending)), Vec::new()));
                pending.clear();
            }
            Kind::Special(';') => {
                add(&mut pending, &mut group, &mut entries);
                if let Some((name, members)) = group.take() {
                    entries.push(AddressEntry::Group { name, members });
                }
            }
            _ => pending.push(token),
        }
    }
    add(&mut pending, &mut group, &mut entries);
    if let Some((name, members)) = group {
        entries.push(AddressEntry::Group { name, members });
    }
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
    const fn after(self, kind: &Kind<'_>) -> Self {
        match (self, kind) {
            (_, Kind::Special('<')) => Self::Opened,
            (_, Kind::Special('>' | ';')) | (Self::Past, Kind::Special(',')) => Self::None,
            (Self::Opened, Kind::Special('@')) => Self::Inside,
            (Self::Inside, Kind::Special(':')) | (Self::Opened, _) => Self::Past,
            (state, _) => state,
        }
    }
}

#[derive(Debug)]
struct Token<'t> {
    kind: Kind<'t>,
    /// Whether blanks or comments stand before it.
    is_apart: bool,
}

#[derive(Debug)]
enum Kind<'t> {
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
        let mut is_apart = false;
        loop {
            let (start, c) = chars.next()?;
            let kind = match c {
                c if c.is_whitespace() => {
                    is_apart = true;
                    continue;
                }
                '(' => {
                    skip_comment(&mut chars);
                    is_apart = true;
                    continue;
                }
                '"' => Kind::Quoted(until(&mut chars, '"').0),
                '[' => match until(&mut chars, ']') {
                    (content, true) => Kind::Literal(format!("[{content}]")),
                    (_, false) => Kind::Special('['),
                },
                '<' | '>' | '@' | ',' | ';' | ':' | ')' | ']' | '\\' => Kind::Special(c),
                _ => {
                    while chars.next_if(|(_, c)| !is_special(*c)).is_some() {}
                    let end = chars.peek().map_or(text.len(), |(end, _)| *end);
                    Kind::Atom(text.get(start..end).unwrap_or_default())
                }
            };
            return Some(Token { kind, is_apart });
        }
    })
}

/// Whether the character ends an atom.
fn is_special(c: char) -> bool {
    c.is_whitespace() || u8::try_from(c).is_ok_and(|byte| b"()<>@,;:\\\"[]".contains(&byte))
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

/// Returns the words of a display name, with one blank where blanks or comments stood.
fn phrase(tokens: &[Token<'_>]) -> String {
    let mut out = String::new();
    for Token { kind, is_apart } in tokens {
        if *is_apart && !out.is_empty() {
            out.push(' ');
        }
        match kind {
            Kind::Atom(text) => out.push_str(text),
            Kind::Quoted(text) | Kind::Literal(text) => out.push_str(text),
            Kind::Special(c) => out.push(*c),
        }
    }
    out
}

/// Reads an entry: an address, or an address in angle brackets with or without a display name.
/// `None` if it is neither.
fn mailbox(tokens: &[Token<'_>], decode: impl Fn(&str) -> String) -> Option<NamedAddress> {
    let is = |token: &Token<'_>, wanted| matches!(token.kind, Kind::Special(c) if c == wanted);
    let open = tokens.iter().position(|token| is(token, '<'));
    let Some(open) = open else { return Some(NamedAddress { name: None, address: spec(tokens)? }) };
    let (name, inner) = tokens.split_at_checked(open)?;
    let (close, inner) = inner.get(1..)?.split_last()?;
    if !is(close, '>') {
        return None;
    }
    let inner = match inner.first().is_some_and(|first| is(first, '@')) {
        true => inner.get(inner.iter().position(|token| is(token, ':'))? + 1..)?,
        false => inner,
    };
    let name = (!name.is_empty()).then(|| decode(&phrase(name)));
    Some(NamedAddress { name, address: spec(inner)? })
}

/// Reads a local part, `@` and a domain. `None` if it is no address.
fn spec(tokens: &[Token<'_>]) -> Option<AddressSpec> {
    let at = tokens.iter().position(|token| matches!(token.kind, Kind::Special('@')))?;
    let (local, domain) = (tokens.get(..at)?, tokens.get(at + 1..)?);
    let domain = match domain {
        [Token { kind: Kind::Literal(literal), .. }] => Some(literal.clone()),
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
        let (text, is_valid, dots) = match &token.kind {
            Kind::Atom(text) => {
                let is_valid = text.chars().all(|c| c == '.' || is_atext(c));
                (*text, is_valid, (text.starts_with('.'), text.ends_with('.')))
            }
            Kind::Quoted(text) => {
                let is_valid = may_be_quoted && !text.chars().any(char::is_control);
                (text.as_str(), is_valid, (false, false))
            }
            Kind::Literal(_) | Kind::Special(_) => return None,
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
        let show = |mailbox: &NamedAddress| match &mailbox.name {
            Some(name) => format!("{name} <{}>", mailbox.address),
            None => mailbox.address.to_string(),
        };
        let entries = parse_address_list(value.as_bytes(), str::to_owned);
        entries
            .iter()
            .map(|entry| match entry {
                AddressEntry::Mailbox(mailbox) => show(mailbox),
                AddressEntry::Group { name, members } => {
                    format!("{name}: {}", members.iter().map(show).collect::<Vec<_>>().join(", "))
                }
            })
            .collect()
    }

    #[test]
    fn addresses_are_read_with_names_comments_and_folds() {
        for (value, expected) in [
            ("a@b.example", "a@b.example"),
            (" <a@b.example> ", "a@b.example"),
            ("A\r\n <a@b.example>", "A <a@b.example>"),
            ("a @ b . example", "a@b.example"),
            ("(x (y) \\) z) a (b) @ (c) d", "a@d"),
            ("\"B, A\" <a@b>", "B, A <a@b>"),
            ("A. B. C <a@b>", "A. B. C <a@b>"),
            ("a@b <a@b>", "a@b <a@b>"),
            ("\"a b\"@c", "\"a b\"@c"),
            ("\"a\".b@c", "a.b@c"),
            ("\"a\\\"b\"@c", "\"a\\\"b\"@c"),
            ("\"\"@c", "\"\"@c"),
            ("a..b.@c", "\"a..b.\"@c"),
            ("a@[192.0.2.1]", "a@[192.0.2.1]"),
            ("A <@r.example,@[IPv6:::1]:a@b>", "A <a@b>"),
            ("\u{fc} <\u{fc}@b\u{fc}cher.example>", "\u{fc} <\u{fc}@b\u{fc}cher.example>"),
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
        assert_eq!(read("A B: a@b, x, C <c@d>; , e@f"), ["A B: a@b, C <c@d>", "e@f"]);
        assert_eq!(read("undisclosed-recipients:;"), ["undisclosed-recipients: "]);
        assert_eq!(read("A: a@b, c: d@e"), ["A: a@b"]);
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
