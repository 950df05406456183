//! Reads and writes the lines of cases. A line has bare words, texts in quotation marks with the
//! escapes of JSON, and tags such as `:flags`.

use std::collections::BTreeMap;
use std::fmt;

/// A line such as `fileinto "Work" :flags "\\Seen"`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The number of the line in the file, from 1. 0 if it was not read from a file.
    pub number: usize,
    /// The first word.
    pub head: String,
    /// The words before the first tag.
    pub arguments: Vec<String>,
    /// The words after each tag.
    pub tags: BTreeMap<String, Vec<String>>,
}

impl Line {
    pub fn new(head: &str, arguments: &[&str]) -> Self {
        Self {
            number: 0,
            head: head.to_owned(),
            arguments: arguments.iter().map(|&text| text.to_owned()).collect(),
            tags: BTreeMap::new(),
        }
    }

    /// Sets the values of a tag.
    pub fn tag<S: Into<String>>(&mut self, name: &str, values: impl IntoIterator<Item = S>) {
        self.tags.insert(name.to_owned(), values.into_iter().map(Into::into).collect());
    }

    /// Parses a line that is not blank. `number` is its number in the file.
    pub fn parse(number: usize, text: &str) -> Result<Self, String> {
        let at = |what: String| format!("line {number}: {what}");
        let mut words = split(text).map_err(at)?.into_iter();
        let head = words.next().ok_or_else(|| at("a word is missing".into()))?;
        let mut line = Self::new(head.text(), &[]);
        line.number = number;
        let mut tag: Option<String> = None;
        for word in words {
            match (word, &tag) {
                (Word::Tag(name), _) => {
                    if line.tags.insert(name.clone(), Vec::new()).is_some() {
                        return Err(at(format!("`:{name}` comes twice")));
                    }
                    tag = Some(name);
                }
                (Word::Bare(text) | Word::Quoted(text), Some(tag)) => {
                    line.tags.entry(tag.clone()).or_default().push(text);
                }
                (Word::Bare(text) | Word::Quoted(text), None) => line.arguments.push(text),
            }
        }
        Ok(line)
    }

    /// Returns the first value of a tag, `None` if it has none.
    pub fn value(&self, tag: &str) -> Option<&str> {
        self.tags.get(tag).and_then(|values| values.first()).map(String::as_str)
    }

    /// Returns an argument, an error if the line has fewer.
    pub fn argument(&self, index: usize) -> Result<&str, String> {
        let missing = || format!("line {}: `{}` lacks an argument", self.number, self.head);
        self.arguments.get(index).map(String::as_str).ok_or_else(missing)
    }

    /// Returns an argument as a number.
    pub fn number_at(&self, index: usize) -> Result<u64, String> {
        let text = self.argument(index)?;
        text.parse().map_err(|_| format!("line {}: `{text}` is no number", self.number))
    }

    /// Returns the error for a line whose first word is not known.
    pub fn unknown(&self) -> String {
        format!("line {}: `{}` is not known", self.number, self.head)
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.head)?;
        self.arguments.iter().try_for_each(|text| write!(f, " {text:?}"))?;
        for (tag, values) in &self.tags {
            write!(f, " :{tag}")?;
            values.iter().try_for_each(|text| write!(f, " {text:?}"))?;
        }
        Ok(())
    }
}

enum Word {
    Bare(String),
    Quoted(String),
    Tag(String),
}

impl Word {
    fn text(&self) -> &str {
        match self {
            Self::Bare(text) | Self::Quoted(text) | Self::Tag(text) => text,
        }
    }
}

/// Splits a line into words.
fn split(text: &str) -> Result<Vec<Word>, String> {
    let mut words = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let end = if rest.starts_with('"') { end_of_quoted(rest)? } else { end_of_bare(rest) };
        let (word, after) = rest.split_at(end);
        words.push(if word.starts_with('"') {
            let text = serde_json::from_str(word).map_err(|error| format!("{word}: {error}"))?;
            Word::Quoted(text)
        } else if let Some(tag) = word.strip_prefix(':') {
            Word::Tag(tag.to_owned())
        } else {
            Word::Bare(word.to_owned())
        });
        rest = after.trim_start();
    }
    Ok(words)
}

fn end_of_bare(text: &str) -> usize {
    text.find(char::is_whitespace).unwrap_or(text.len())
}

/// Returns the offset after the closing quotation mark of a text that begins with one.
fn end_of_quoted(text: &str) -> Result<usize, String> {
    let mut is_escaped = false;
    for (index, c) in text.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return Ok(index + 1),
            _ => {}
        }
    }
    Err(format!("{text}: a quotation mark is missing"))
}
