//! Decides whether an email matches a filter (RFC 8621 §4.4.1).
//!
//! - A condition is true, false or not known, such as when the message may not be read. For the
//!   past (`Moment::Ever`) only conditions on immutable properties are known.
//! - A text is looked up in the search index first. The index can tell that an email does not have
//!   the text, and leads a walk past emails that cannot match (`Matcher::next`).

use crate::message::header::{fields, folded};
use crate::message::tokens;
use crate::model::{EmailId, Secrets, limits};
use crate::query::Error;
use crate::query::filter::{Condition, Filter};
use crate::query::matching::candidate::{Candidate, CandidateSource};
use crate::query::matching::threads::EmailsWithKeyword;
use crate::query::search::term::{SearchTerm, WORD_FIELDS, pieces};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::query) enum Moment {
    Now,
    /// Any time since the email was created.
    Ever,
}

/// A filter, prepared for deciding emails.
#[derive(Debug)]
pub(in crate::query) struct Matcher {
    node: Node,
    tables: FilterTables,
}

/// What the nodes of a filter refer to by number.
#[derive(Debug, Default)]
struct FilterTables {
    terms: Vec<SearchTerm>,
    /// The number of alternatives so far: the parts of all `Or` nodes.
    alternatives: usize,
}

#[derive(Debug)]
enum Node {
    And(Vec<Self>),
    /// With the number of the first part among all alternatives; the other parts follow it.
    Or(Vec<Self>, usize),
    Not(Vec<Self>),
    Is(Condition),
    /// A search term. A hit in the index is checked in the message.
    Text(usize),
    /// A search term whose hits in the index are certain.
    Indexed(usize),
    /// A header field with these pieces in its value. Every match has all `terms`.
    Header {
        name: String,
        pieces: Vec<String>,
        terms: Vec<usize>,
    },
}

impl Matcher {
    pub(in crate::query) fn new(filter: &Filter, secrets: &Secrets) -> Self {
        let mut tables = FilterTables::default();
        Self { node: Node::of(filter, secrets, &mut tables), tables }
    }

    pub(in crate::query) fn terms(&self) -> &[SearchTerm] {
        &self.tables.terms
    }

    /// Returns the number of alternatives: the parts of all `Or` nodes.
    pub(in crate::query) fn alternatives(&self) -> usize {
        self.tables.alternatives
    }

    /// Returns the first email at or after `from` that may match by the search index. `None` if
    /// there is none. If `needs_index_hit` is false, `from` itself may be returned although no
    /// email has that id.
    pub(in crate::query) fn next(
        &self,
        source: &mut CandidateSource<'_>,
        from: EmailId,
    ) -> Result<Option<EmailId>, Error> {
        self.node.next(source, from)
    }

    /// Whether every match must be a hit of the search index.
    pub(in crate::query) fn needs_index_hit(&self) -> bool {
        self.node.needs_index_hit()
    }

    /// Whether the email matches now. `None` if that is not known, because the message may not be
    /// read (`Candidate::without_reading`), or because the message or the content row is missing.
    pub(in crate::query) fn decide(
        &self,
        email: &mut Candidate<'_, '_>,
    ) -> Result<Option<bool>, Error> {
        self.node.decide(email, Moment::Now, self.terms())
    }

    /// Whether the email matches at a moment. If that is not known, the answer is no for
    /// `Moment::Now`, and yes for `Moment::Ever`: it may have matched.
    pub(in crate::query) fn matches(
        &self,
        email: &mut Candidate<'_, '_>,
        moment: Moment,
    ) -> Result<bool, Error> {
        let known = self.node.decide(email, moment, self.terms())?;
        Ok(known.unwrap_or(moment == Moment::Ever))
    }
}

impl Node {
    fn of(filter: &Filter, secrets: &Secrets, tables: &mut FilterTables) -> Self {
        let mut nodes_of = |parts: &[Filter]| {
            let mut nodes: Vec<Self> =
                parts.iter().map(|part| Self::of(part, secrets, tables)).collect();
            nodes.sort_by_key(Self::cost);
            nodes
        };
        match filter {
            Filter::And(parts) => Self::And(nodes_of(parts)),
            Filter::Or(parts) => {
                let parts = nodes_of(parts);
                let first = tables.alternatives;
                tables.alternatives += parts.len();
                Self::Or(parts, first)
            }
            Filter::Not(parts) => Self::Not(nodes_of(parts)),
            Filter::Is(condition) => Self::of_condition(condition, secrets, tables),
        }
    }

    fn of_condition(condition: &Condition, secrets: &Secrets, tables: &mut FilterTables) -> Self {
        let terms = &mut tables.terms;
        let mut text_node = |term: SearchTerm| {
            // An empty search term matches every email, as an empty AND does.
            if term.is_empty() {
                return Self::And(Vec::new());
            }
            terms.push(term);
            Self::Text(terms.len() - 1)
        };
        let text = |text: &str, fields| SearchTerm::new(text, fields, secrets);
        match condition {
            Condition::Text(what) => text_node(text(what, WORD_FIELDS)),
            Condition::From(what) => text_node(text(what, tokens::FROM)),
            Condition::To(what) => text_node(text(what, tokens::TO)),
            Condition::Cc(what) => text_node(text(what, tokens::CC)),
            Condition::Bcc(what) => text_node(text(what, tokens::BCC)),
            Condition::Subject(what) => text_node(text(what, tokens::SUBJECT)),
            Condition::Body(what) => text_node(text(what, tokens::BODY)),
            Condition::AttachmentName(what) => text_node(text(what, tokens::ATTACHMENT_NAME)),
            Condition::AttachmentType(what) => text_node(SearchTerm::of_type(what)),
            Condition::Header { name, text } => {
                let pieces: Vec<String> = pieces(text.as_deref().unwrap_or_default())
                    .iter()
                    .map(|piece| folded(piece))
                    .collect();
                if name.eq_ignore_ascii_case("Delivered-To") {
                    return Self::of_delivery(name, pieces, secrets, tables);
                }
                let ids = pieces.iter().filter_map(|piece| SearchTerm::of_id(name, piece));
                let first = terms.len();
                terms.extend(SearchTerm::of_field(name, secrets).into_iter().chain(ids));
                Self::Header { name: name.clone(), pieces, terms: (first..terms.len()).collect() }
            }
            other => Self::Is(other.clone()),
        }
    }

    /// Returns the node for a condition on Delivered-To. The search index has the field that this
    /// service wrote; for other fields of that name the header is read.
    fn of_delivery(
        name: &str,
        pieces: Vec<String>,
        secrets: &Secrets,
        tables: &mut FilterTables,
    ) -> Self {
        let own_term = tables.terms.len();
        tables.terms.push(SearchTerm::of_delivery(&pieces));
        let first_term = tables.terms.len();
        tables.terms.extend(SearchTerm::of_other_delivery(name, secrets));
        let other = Self::Header {
            name: name.to_owned(),
            pieces,
            terms: (first_term..tables.terms.len()).collect(),
        };
        let alternative = tables.alternatives;
        tables.alternatives += 2;
        Self::Or(vec![Self::Indexed(own_term), other], alternative)
    }

    fn needs_index_hit(&self) -> bool {
        match self {
            Self::And(parts) => parts.iter().any(Self::needs_index_hit),
            Self::Or(parts, _) => parts.iter().all(Self::needs_index_hit),
            Self::Text(_) | Self::Indexed(_) => true,
            Self::Header { terms, .. } => !terms.is_empty(),
            Self::Not(_) | Self::Is(_) => false,
        }
    }

    fn next(
        &self,
        source: &mut CandidateSource<'_>,
        from: EmailId,
    ) -> Result<Option<EmailId>, Error> {
        match self {
            Self::And(parts) => first_common(parts, from, |part, from| part.next(source, from)),
            Self::Or(parts, number) => {
                let mut first: Option<EmailId> = None;
                for (number, part) in (*number..).zip(parts) {
                    let found = match source.next_known(number, from) {
                        Some(found) => found,
                        None => {
                            let found = part.next(source, from)?;
                            source.remember_next(number, from, found);
                            found
                        }
                    };
                    if found == Some(from) {
                        return Ok(found);
                    }
                    first = first.into_iter().chain(found).min();
                }
                Ok(first)
            }
            Self::Text(term) | Self::Indexed(term) => source.next_hit(*term, from),
            Self::Header { terms, .. } => {
                first_common(terms, from, |term, from| source.next_hit(*term, from))
            }
            Self::Not(_) | Self::Is(_) => Ok(Some(from)),
        }
    }

    /// In which order the parts of a node are decided, the lowest first, by what deciding one reads
    /// beyond the metadata: 0 nothing, 1 rows of the thread, 2 the content row, 3 the index and
    /// perhaps the message, 4 the index and perhaps the header.
    fn cost(&self) -> u8 {
        match self {
            Self::And(parts) | Self::Or(parts, _) | Self::Not(parts) => {
                parts.iter().map(Self::cost).max().unwrap_or(0)
            }
            Self::Is(
                Condition::AllInThreadHaveKeyword(_)
                | Condition::SomeInThreadHaveKeyword(_)
                | Condition::NoneInThreadHaveKeyword(_),
            ) => 1,
            Self::Is(Condition::HasAttachment(_)) => 2,
            Self::Is(_) => 0,
            Self::Text(_) | Self::Indexed(_) => 3,
            Self::Header { .. } => 4,
        }
    }

    fn decide(
        &self,
        email: &mut Candidate<'_, '_>,
        moment: Moment,
        terms: &[SearchTerm],
    ) -> Result<Option<bool>, Error> {
        // Whether all parts are `wanted`. One part that is not decides this, even if others are not
        // known.
        let mut all_are = |parts: &[Self], wanted: bool| {
            let mut decision = Some(true);
            for part in parts {
                match part.decide(email, moment, terms)? {
                    Some(value) if value == wanted => {}
                    Some(_) => return Ok(Some(false)),
                    None => decision = None,
                }
            }
            Ok(decision)
        };
        match self {
            Self::And(parts) => all_are(parts, true),
            Self::Or(parts, _) => Ok(all_are(parts, false)?.map(|none| !none)),
            Self::Not(parts) => all_are(parts, false),
            Self::Is(condition) => decide_condition(condition, email, moment),
            // The index has only hashes of words, so the message is checked, too.
            Self::Text(at) => match (email.may_contain(*at)?, terms.get(*at)) {
                (Some(true), Some(term)) => Ok(email.received()?.map(|raw| term.confirms(raw))),
                (known, _) => Ok(known),
            },
            Self::Indexed(at) => email.may_contain(*at),
            Self::Header { name, pieces, terms } => {
                for term in terms {
                    if email.may_contain(*term)? == Some(false) {
                        return Ok(Some(false));
                    }
                }
                Ok(email.header()?.map(|(trace, header)| has_header(trace, header, name, pieces)))
            }
        }
    }
}

/// Returns the first email at or after `from` that is a hit of all parts.
fn first_common<T>(
    parts: &[T],
    from: EmailId,
    mut next: impl FnMut(&T, EmailId) -> Result<Option<EmailId>, Error>,
) -> Result<Option<EmailId>, Error> {
    let mut at = from;
    loop {
        let before = at;
        for part in parts {
            match next(part, at)? {
                Some(found) => at = found,
                None => return Ok(None),
            }
        }
        if at == before {
            return Ok(Some(at));
        }
    }
}

/// Decides a condition that `Node::Is` holds; `None` if it is not known for `moment`, or the
/// content row is gone.
fn decide_condition(
    condition: &Condition,
    email: &mut Candidate<'_, '_>,
    moment: Moment,
) -> Result<Option<bool>, Error> {
    let metadata = email.metadata;
    let if_now = |holds: bool| (moment == Moment::Now).then_some(holds);
    let mut in_thread = |word: &str, holds: fn(EmailsWithKeyword) -> bool| match moment {
        Moment::Now => email.emails_with_keyword(word).map(|emails| Some(holds(emails))),
        Moment::Ever => Ok(None),
    };
    Ok(match condition {
        Condition::InMailbox(uid) => if_now(metadata.mailboxes.contains(uid)),
        Condition::InMailboxOtherThan(uids) => {
            if_now(metadata.mailboxes.iter().any(|uid| !uids.contains(uid)))
        }
        Condition::Before(at) => Some(metadata.received_at < *at),
        Condition::After(at) => Some(metadata.received_at >= *at),
        Condition::MinSize(bytes) => Some(metadata.size >= *bytes),
        Condition::MaxSize(bytes) => Some(metadata.size < *bytes),
        Condition::AllInThreadHaveKeyword(word) => {
            in_thread(word, |emails| emails == EmailsWithKeyword::All)?
        }
        Condition::SomeInThreadHaveKeyword(word) => {
            in_thread(word, |emails| emails != EmailsWithKeyword::None)?
        }
        Condition::NoneInThreadHaveKeyword(word) => {
            in_thread(word, |emails| emails == EmailsWithKeyword::None)?
        }
        Condition::HasKeyword(word) => if_now(metadata.has(word)),
        Condition::NotKeyword(word) => if_now(!metadata.has(word)),
        Condition::HasAttachment(wanted) => {
            email.content()?.map(|content| content.has_attachment == *wanted)
        }
        // `Node::Is` holds none of these.
        Condition::Text(_)
        | Condition::From(_)
        | Condition::To(_)
        | Condition::Cc(_)
        | Condition::Bcc(_)
        | Condition::Subject(_)
        | Condition::Body(_)
        | Condition::AttachmentName(_)
        | Condition::AttachmentType(_)
        | Condition::Header { .. } => None,
    })
}

/// Whether one field with this name, of the trace prefix or the header, has a value that contains
/// every piece. Without pieces any value does. Only the first `limits::MAX_HEADER_BYTES` bytes of
/// `header` count.
fn has_header(trace: &[u8], header: &[u8], name: &str, pieces: &[String]) -> bool {
    let header = header.get(..limits::MAX_HEADER_BYTES).unwrap_or(header);
    fields(trace).chain(fields(header)).filter(|field| field.is(name)).any(|field| {
        pieces.is_empty() || {
            let value = folded(&field.decoded());
            pieces.iter().all(|piece| value.contains(piece.as_str()))
        }
    })
}
