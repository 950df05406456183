//! What the host tells the engine of the message.
//!
//! A host implements [`MessageView`] over its own parser. Two kinds of questions are asked:
//!
//! - What the message contains: its bytes, its tree of parts, the header fields of a part, the
//!   decoded content of a part. The answers are positions and slices: nothing need be copied.
//! - How a value of a header field is read: as text, or as a word with parameters. These methods
//!   get the bytes of a value and do not depend on the message, because a script may test fields
//!   that it added itself (RFC 5293). The engine itself reads addresses.
//!
//! The engine may call a method several times with the same arguments. A host should remember the
//! answers that are expensive.

use std::borrow::Cow;
use std::ops::Range;

/// A parsed message. Any bytes are a message, at worst one without fields.
pub trait MessageView {
    /// Returns the message as received, without the envelope. Its length is what `size` compares.
    fn raw(&self) -> &[u8];

    /// Returns the parts, depth first: each comes right before the parts in it. The first is the
    /// message itself, so that the list is never empty.
    fn parts(&self) -> &[Part];

    /// Returns the header fields of a part in their order, also those that are repeated or
    /// malformed. For a part that does not exist the list is empty.
    fn fields(&self, part: PartId) -> &[Field];

    /// Returns the body of a part with its transfer encoding undone, as far as it can be. The
    /// charset stays.
    fn content(&self, part: PartId) -> Cow<'_, [u8]>;

    /// Returns the body of a text part as UTF-8, with markup. Bytes that cannot be decoded become
    /// replacement characters. `None` if the part is no text.
    fn text(&self, part: PartId) -> Option<Cow<'_, str>>;

    /// Returns the text of a part as its reader sees it: HTML becomes plain text. It serves
    /// `body :text` (RFC 5173 §5.3) and `extracttext` (RFC 5703 §7). `None` if the part is no text,
    /// or if its charset or its transfer encoding is not known: `extracttext` then gives the empty
    /// string, and `body :text` compares what [`Self::text`] returns.
    fn plain_text(&self, part: PartId) -> Option<Cow<'_, str>>;

    /// Reads a value as unstructured text: unfolded, without blanks around it, encoded words
    /// decoded to UTF-8 (RFC 5228 §2.4.2.2). What cannot be decoded stays as written.
    fn decode_text<'a>(&self, value: &'a [u8]) -> Cow<'a, str>;

    /// Reads a value as a word with parameters, such as that of `Content-Type` or
    /// `Content-Disposition` (RFC 2045 §5.1). Continuations and charsets of parameters are decoded
    /// (RFC 2231). `None` if there is no such word.
    fn parse_parameters(&self, value: &[u8]) -> Option<ParameterisedValue>;
}

/// A part of a message: an index into [`MessageView::parts`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PartId(pub u32);

impl PartId {
    /// The message itself.
    pub const ROOT: Self = Self(0);
}

/// A part of a message. Ranges are bytes of [`MessageView::raw`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// `None` for the message. The parent of a part is a multipart or contains a message
    /// ([`Self::is_message`]); the one child of the latter is the message in it.
    pub parent: Option<PartId>,
    /// The main type in lower case. If the header has no valid Content-Type, the type is
    /// `text/plain`, or `message/rfc822` in a `multipart/digest` (RFC 2046 §5.1.5).
    pub main_type: String,
    /// The subtype in lower case.
    pub subtype: String,
    /// The fields, without the empty line after them.
    pub header: Range<usize>,
    /// What follows the empty line, encoded as it was received. The body of a multipart has the
    /// delimiter lines; the parts in it have neither these lines nor the line end before one. So
    /// the body begins with the prologue and a delimiter line, and ends with a delimiter line and
    /// the epilogue.
    pub body: Range<usize>,
}

impl Part {
    #[must_use]
    pub fn is_multipart(&self) -> bool {
        self.main_type == "multipart"
    }

    /// Returns whether the part contains a message (`message/rfc822`, `message/global`).
    #[must_use]
    pub fn is_message(&self) -> bool {
        self.main_type == "message" && matches!(self.subtype.as_str(), "rfc822" | "global")
    }
}

/// A header field. Ranges are bytes of [`MessageView::raw`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// The name, without blanks before the colon.
    pub name: Range<usize>,
    /// What follows the colon, with folds, up to the last line end, which is not part of it.
    pub value: Range<usize>,
    /// The field with its line end.
    pub whole: Range<usize>,
}

/// A word with parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParameterisedValue {
    /// As written, without blanks and comments: `text/plain`, `attachment`.
    pub value: String,
    /// Names in lower case, values decoded, in their order.
    pub parameters: Vec<(String, String)>,
}
