//! Finds `notify` methods with which the sender of a message may choose who is notified (RFC 5435
//! §8).
//!
//! - Text of the message is in match variables, in variables that `extracttext` sets, and in those
//!   that are set from such variables. Variables that are not local may contain it, because other
//!   scripts may set them.
//! - The order of the commands does not count, and neither do conditions.

use std::collections::{HashMap, HashSet};

use super::strings::Text;
use super::{Checker, excerpt};
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{Modifier, Segment, StringExpr, VariableId};
use crate::span::Span;

/// How much of a text the sender of the message may have written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
enum Origin {
    /// None: the script has all of it.
    #[default]
    Script,
    /// Only what is percent-encoded, or a number.
    Encoded,
    Message,
}

/// The variables that are set, and the methods with variables.
#[derive(Default)]
pub(super) struct Origins {
    /// The variables that are set from match variables or by `extracttext`.
    known: HashMap<VariableId, Origin>,
    /// For each variable those that are set from it, and whether with `:encodeurl` or `:length`.
    copies: HashMap<VariableId, HashSet<(VariableId, bool)>>,
    /// The methods of `notify` that have variables.
    methods: Vec<(Span, Vec<Segment>)>,
}

impl Origins {
    fn add(&mut self, variable: VariableId, origin: Origin) {
        let known = self.known.entry(variable).or_default();
        *known = origin.max(*known);
    }

    /// Returns the origin of each variable that may contain text of the message. Other scripts may
    /// set those in `shared`.
    fn resolve(self, shared: impl Iterator<Item = VariableId>) -> HashMap<VariableId, Origin> {
        let mut found = self.known;
        found.extend(shared.map(|id| (id, Origin::Message)));
        // A variable comes back at most twice, since its origin only rises.
        let mut changed: Vec<VariableId> = found.keys().copied().collect();
        while let Some(id) = changed.pop() {
            let origin = found.get(&id).copied().unwrap_or_default();
            for (copy, is_encoded) in self.copies.get(&id).into_iter().flatten() {
                let origin = if *is_encoded { origin.min(Origin::Encoded) } else { origin };
                let known = found.entry(*copy).or_default();
                if origin > *known {
                    *known = origin;
                    changed.push(*copy);
                }
            }
        }
        found
    }
}

impl Checker<'_> {
    /// Notes that a variable is set to a string.
    pub(super) fn note_set(
        &mut self,
        variable: VariableId,
        value: &StringExpr,
        modifiers: &[Modifier],
    ) {
        let StringExpr::Template(segments) = value else { return };
        if self.muted > 0 {
            return;
        }
        let is_encoded = modifiers
            .iter()
            .any(|modifier| matches!(modifier, Modifier::EncodeUrl | Modifier::Length));
        for segment in segments {
            match segment {
                Segment::Literal(_) => {}
                Segment::Capture(_) if is_encoded => self.origins.add(variable, Origin::Encoded),
                Segment::Capture(_) => self.origins.add(variable, Origin::Message),
                Segment::Variable(source) => {
                    let copies = self.origins.copies.entry(*source).or_default();
                    copies.insert((variable, is_encoded));
                }
            }
        }
    }

    /// Notes that a variable is set to text of the message.
    pub(super) fn note_extracted(&mut self, variable: VariableId, modifiers: &[Modifier]) {
        self.note_set(variable, &StringExpr::Template(vec![Segment::Capture(0)]), modifiers);
    }

    /// Notes the method of a `notify`.
    pub(super) fn note_method(&mut self, method: &Text) {
        if let (0, StringExpr::Template(segments)) = (self.muted, &method.expr) {
            self.origins.methods.push((method.span(), segments.clone()));
        }
    }

    /// Warns of methods with which the sender of a message may choose who is notified.
    pub(super) fn check_methods(&mut self) {
        let mut origins = std::mem::take(&mut self.origins);
        let methods = std::mem::take(&mut origins.methods);
        let found = origins.resolve(self.variables.shared());
        for (span, segments) in methods {
            let mut position = UriPosition::default();
            for segment in &segments {
                let (name, origin) = match segment {
                    Segment::Literal(text) => {
                        position.pass(text);
                        continue;
                    }
                    Segment::Capture(number) => (number.to_string(), Origin::Message),
                    Segment::Variable(id) => (
                        self.variables.name(*id).to_owned(),
                        found.get(id).copied().unwrap_or_default(),
                    ),
                };
                let is_value = position.is_value();
                let is_safe = match is_value {
                    true => origin < Origin::Message,
                    false => origin == Origin::Script,
                };
                if is_safe {
                    continue;
                }
                let name = excerpt(&name);
                let message =
                    format!("the sender of a message may choose by `${{{name}}}` who is notified");
                let help = match is_value {
                    true => "encode it with `set :encodeurl`, so that it adds no field to the URI",
                    false => "take addresses only from what the script itself says",
                };
                let diagnostic = Diagnostic::new(Code::NotifyFromMessage, span, message);
                self.report(diagnostic.with_help(help));
                break;
            }
        }
    }
}

/// A position in a `mailto` URI (RFC 6068 §2).
#[derive(Default)]
struct UriPosition {
    is_in_query: bool,
    /// The name of the field of the query, as far as the position.
    name: String,
    is_behind_name: bool,
}

impl UriPosition {
    /// Goes behind a text.
    fn pass(&mut self, text: &str) {
        for c in text.chars() {
            match c {
                '?' if !self.is_in_query => self.is_in_query = true,
                _ if !self.is_in_query => {}
                '&' => {
                    self.name.clear();
                    self.is_behind_name = false;
                }
                '=' => self.is_behind_name = true,
                _ if self.is_behind_name => {}
                c => self.name.push(c),
            }
        }
    }

    /// Returns whether the position is in the value of a field of the query, other than the fields
    /// that name recipients.
    fn is_value(&self) -> bool {
        let names_recipients = || {
            ["to", "cc", "bcc"].iter().any(|recipients| self.name.eq_ignore_ascii_case(recipients))
        };
        self.is_in_query && self.is_behind_name && !names_recipients()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_fields_without_addresses_have_harmless_values() {
        for (uri, expected) in [
            ("mailto:", false),
            ("mailto:a@b?", false),
            ("mailto:a@b?subject", false),
            ("mailto:a@b?subject=", true),
            ("mailto:a@b?To=", false),
            ("mailto:a@b?body=x&cc=c", false),
            ("mailto:a@b?cc=c@d&body=a=b", true),
        ] {
            // In one piece, and in several.
            let mut position = UriPosition::default();
            position.pass(uri);
            assert_eq!(position.is_value(), expected, "{uri}");
            let mut position = UriPosition::default();
            uri.chars().for_each(|c| position.pass(&c.to_string()));
            assert_eq!(position.is_value(), expected, "{uri}");
        }
    }
}
