//! Lays out one command in lines.

/// The most characters of a line. A line that has no place to be broken at may still be longer.
const MAX_LINE_CHARS: usize = 100;
/// Blanks for each level of blocks and lists.
const INDENT: usize = 4;

/// A piece of a command.
#[derive(Debug)]
pub(super) struct Element {
    kind: ElementKind,
    /// Its characters if it stands on one line. `None` if it has several lines, or if no element
    /// can stand after it on its line.
    width: Option<usize>,
}

#[derive(Debug)]
enum ElementKind {
    Word(String),
    Tag(String),
    /// `text:` with its lines. What follows begins a line.
    MultiLine(String),
    Comment {
        text: String,
        /// Whether it begins with `#`, so that what follows begins a line.
        is_line: bool,
    },
    List {
        /// Whether it is a list of tests in parentheses, or else of strings in brackets.
        is_tests: bool,
        /// The elements of each item.
        items: Vec<Vec<Element>>,
    },
}

impl Element {
    pub(super) fn word(text: String) -> Self {
        Self { width: one_line(&text), kind: ElementKind::Word(text) }
    }

    pub(super) fn tag(text: String) -> Self {
        Self { width: one_line(&text), kind: ElementKind::Tag(text) }
    }

    pub(super) fn multi_line(text: String) -> Self {
        Self { kind: ElementKind::MultiLine(text), width: None }
    }

    pub(super) fn comment(text: &str, is_line: bool) -> Self {
        let width = one_line(text).filter(|_| !is_line);
        Self { kind: ElementKind::Comment { text: text.to_owned(), is_line }, width }
    }

    /// Makes a list of tests, or else of strings.
    pub(super) fn list(is_tests: bool, items: Vec<Vec<Self>>) -> Self {
        let inner: Option<usize> = items.iter().map(|item| flat_width(item)).sum();
        // Two characters are the brackets, and two the comma and the blank between two items.
        let width = inner.map(|inner| inner + 2 * items.len().max(1));
        Self { kind: ElementKind::List { is_tests, items }, width }
    }
}

/// Returns the characters of a text, `None` if it has several lines.
fn one_line(text: &str) -> Option<usize> {
    (!text.contains('\n')).then(|| text.chars().count())
}

/// Returns the width of elements on one line, with blanks between them, `None` if they cannot stand
/// on one.
fn flat_width(elements: &[Element]) -> Option<usize> {
    let inner: Option<usize> = elements.iter().map(|element| element.width).sum();
    inner.map(|inner| inner + elements.len().saturating_sub(1))
}

/// Returns the width up to the first element that has no width of its own, with a blank after each
/// element. The `text:` of a text of several lines is counted.
fn width_of_first_line(elements: &[Element]) -> usize {
    let mut width = 0;
    for element in elements {
        match (&element.kind, element.width) {
            (_, Some(own)) => width += own + 1,
            (ElementKind::MultiLine(_), None) => return width + "text:".len(),
            (_, None) => return width,
        }
    }
    width
}

/// Writes the lines of a formatted script.
#[derive(Debug)]
pub(super) struct Writer {
    out: String,
    line_end: &'static str,
    /// Characters of the line so far.
    column: usize,
    /// Whether nothing more can stand on the line: it ends with a `#` comment, or with the end of
    /// `text:`.
    is_closed: bool,
    /// Whether the next line must not have an empty one before it.
    forbids_empty_line: bool,
}

impl Writer {
    pub(super) const fn new(line_end: &'static str) -> Self {
        Self { out: String::new(), line_end, column: 0, is_closed: false, forbids_empty_line: true }
    }

    /// Returns the script, with a line end at its end unless it is empty.
    pub(super) fn finish(mut self) -> String {
        if !self.out.is_empty() {
            self.out.push_str(self.line_end);
        }
        self.out
    }

    /// Begins a line that is indented by `level` levels, with an empty line before it if `is_apart`
    /// and unless that is forbidden.
    pub(super) fn start_line(&mut self, level: usize, is_apart: bool) {
        if !self.out.is_empty() {
            self.out.push_str(self.line_end);
            if is_apart && !self.forbids_empty_line {
                self.out.push_str(self.line_end);
            }
        }
        self.indent(level * INDENT);
        self.forbids_empty_line = false;
    }

    /// Lets no empty line stand before the next line, as at the start of a block.
    pub(super) const fn forbid_empty_line(&mut self) {
        self.forbids_empty_line = true;
    }

    /// Notes whether nothing more can stand on the line.
    pub(super) const fn must_break(&mut self, is_closed: bool) {
        self.is_closed = is_closed;
    }

    fn indent(&mut self, blanks: usize) {
        self.out.extend(std::iter::repeat_n(' ', blanks));
        self.column = blanks;
        self.is_closed = false;
    }

    fn break_line(&mut self, blanks: usize) {
        self.out.push_str(self.line_end);
        self.indent(blanks);
    }

    /// Writes a text, which may have several lines.
    pub(super) fn push(&mut self, text: &str) {
        self.out.push_str(text);
        let last = text.rsplit('\n').next().unwrap_or_default().chars().count();
        self.column = if text.contains('\n') { last } else { self.column + last };
    }

    /// Writes a text after a blank.
    pub(super) fn push_word(&mut self, text: &str) {
        self.push(" ");
        self.push(text);
    }

    /// Writes a command with its `;`, or with the brace that opens its block. A command without a
    /// block and without tests in parentheses that is too long is broken before its tags.
    pub(super) fn statement(&mut self, elements: &[Element], level: usize, opens_block: bool) {
        let indent = level * INDENT;
        // The characters of ` {` or `;`.
        let end = if opens_block { 2 } else { 1 };
        // One character too many is counted: the blank after the last element, or the `;` after
        // `text:`, which stands on a later line.
        let is_long = self.column + width_of_first_line(elements) + end > MAX_LINE_CHARS + 1;
        let has_tests =
            elements.iter().any(|one| matches!(one.kind, ElementKind::List { is_tests: true, .. }));
        let breaks_at_tags = is_long && !opens_block && !has_tests && {
            elements.iter().any(|one| matches!(one.kind, ElementKind::Tag(_)))
        };
        self.sequence(elements, indent, end, breaks_at_tags);
        match (opens_block, self.is_closed) {
            (true, false) => self.push(" {"),
            (true, true) => {
                self.break_line(indent);
                self.push("{");
            }
            (false, is_closed) => {
                if is_closed {
                    self.break_line(indent);
                }
                self.push(";");
            }
        }
    }

    /// Writes elements with blanks between them. A list is broken if it has no room on its line
    /// with the words behind it and `after` more characters. With `at_tags` a line begins before
    /// each tag, before each `text:`, and before the last element. Lines that it begins are
    /// indented by `indent` blanks, and by one level more after the first element that is no
    /// comment.
    fn sequence(&mut self, elements: &[Element], indent: usize, after: usize, at_tags: bool) {
        let last = elements.len().saturating_sub(1);
        let mut has_begun = false;
        for (index, element) in elements.iter().enumerate() {
            let is_tag = matches!(element.kind, ElementKind::Tag(_));
            let breaks = index > 0 && at_tags && (is_tag || index == last);
            let breaks_before_text =
                matches!(element.kind, ElementKind::MultiLine(_)) && index > 0 && at_tags;
            if index > 0 && (self.is_closed || breaks || breaks_before_text) {
                self.break_line(indent + if has_begun { INDENT } else { 0 });
            } else if index > 0 {
                self.push(" ");
            }
            has_begun |= !matches!(element.kind, ElementKind::Comment { .. });
            match &element.kind {
                ElementKind::Word(text) | ElementKind::Tag(text) => self.push(text),
                ElementKind::MultiLine(text) => {
                    self.push(text);
                    self.is_closed = true;
                }
                ElementKind::Comment { text, is_line } => {
                    self.push(text);
                    self.is_closed = *is_line;
                }
                ElementKind::List { is_tests, items } => {
                    let rest = elements.get(index + 1..).unwrap_or_default();
                    let room = width_up_to_list(rest) + after;
                    let fits = element
                        .width
                        .is_some_and(|width| self.column + width + room <= MAX_LINE_CHARS);
                    let deeper = if at_tags { indent + INDENT } else { indent };
                    self.list(*is_tests, items, deeper, fits);
                }
            }
        }
    }

    /// Writes a list: with `is_flat` on one line, or else each item on a line of its own.
    fn list(&mut self, is_tests: bool, items: &[Vec<Element>], indent: usize, is_flat: bool) {
        self.push(if is_tests { "(" } else { "[" });
        for (index, item) in items.iter().enumerate() {
            let is_last = index + 1 == items.len();
            // `#` comments at the end of an item are written after its comma.
            let comments = item
                .iter()
                .rev()
                .take_while(|one| matches!(one.kind, ElementKind::Comment { is_line: true, .. }))
                .count();
            let (own, comments) = item.split_at(item.len().saturating_sub(comments));
            if !is_flat {
                self.break_line(indent + INDENT);
            }
            self.sequence(own, indent + INDENT, 1, false);
            if !is_last {
                if self.is_closed {
                    self.break_line(indent + INDENT);
                }
                self.push(",");
                if is_flat {
                    self.push(" ");
                }
            }
            for (number, comment) in comments.iter().enumerate() {
                if self.is_closed {
                    self.break_line(indent + INDENT);
                } else if number > 0 || !own.is_empty() {
                    self.push(" ");
                }
                self.sequence(std::slice::from_ref(comment), indent + INDENT, 0, false);
            }
        }
        if !is_flat {
            self.break_line(indent);
        }
        self.push(if is_tests { ")" } else { "]" });
    }
}

/// Returns the width of the words and tags up to the next other element, with a blank before each.
fn width_up_to_list(elements: &[Element]) -> usize {
    let words = elements
        .iter()
        .take_while(|element| matches!(element.kind, ElementKind::Word(_) | ElementKind::Tag(_)));
    words.map(|element| element.width.unwrap_or_default() + 1).sum()
}
