//! Finds the rules of a script. Deliveries count how often each fires.
//!
//! - A rule is a block of `if`, `elsif` or `else` that contains a command other than another `if`.
//!   A command that acts on the message and is in no rule is a rule of its own.
//! - A rule that is a command fires for a message if this command runs.
//! - A rule that is a block fires if one of its commands other than `if` runs. Commands in a loop
//!   belong to the block around the loop; those of an inner `if` do not belong to the outer block.
//! - The place where a rule begins identifies it: the `if`; after `elsif`, the test; of an `else`,
//!   its first command other than `if`; or the command that it is. No two rules of a script begin
//!   at the same byte.

use std::collections::BTreeMap;

use restante_sieve::ir::{Command, CommandKind};
use restante_sieve::{LineIndex, Script, Span};

use super::settings::Settings;

/// The longest name and the longest text of a rule, in characters.
const MAX_RULE_TEXT_CHARS: usize = 128;

/// A rule of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptRule {
    /// The byte of the source at which the rule begins, from 0.
    pub start: u32,
    /// The line in which the rule begins, from 1.
    pub line: u32,
    /// The name in the comment `# rule:[name]` before the rule, which clients write; `None` if no
    /// such comment stands in the `NEAR_BYTES` before the rule.
    pub name: Option<String>,
    /// The source from the beginning of the rule to the end of that line, or less of a long line
    /// (`NEAR_BYTES`, `MAX_RULE_TEXT_CHARS`).
    pub text: String,
}

/// Where the rules of a script begin.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct RuleIndex {
    /// By the start of each command that belongs to a rule, the start of the rule. No `if` is here.
    by_command: BTreeMap<u32, u32>,
}

impl RuleIndex {
    pub(super) fn new(script: &Script) -> Self {
        let mut index = Self::default();
        index.add(script.commands(), None);
        index
    }

    /// Returns the start of the rule to which the command with this start belongs; `None` if it
    /// belongs to none.
    pub(super) fn rule(&self, command: u32) -> Option<u32> {
        self.by_command.get(&command).copied()
    }

    /// Adds the commands of a block, and those of the blocks in it. `rule` is the start of the rule
    /// that the block is. With `None`, the block is no rule, and each command in it that acts is.
    fn add(&mut self, block: &[Command], rule: Option<u32>) {
        for command in block {
            let start = command.span.start;
            match &command.kind {
                CommandKind::If(chain) => {
                    let own = |block: &[Command], start| has_commands(block).then_some(start);
                    for (number, branch) in chain.branches.iter().enumerate() {
                        let start = if number == 0 { start } else { branch.test.span.start };
                        self.add(&branch.block, own(&branch.block, start));
                    }
                    if let Some(block) = &chain.otherwise {
                        let first = block.iter().find(|one| is_no_if(one));
                        self.add(block, first.map(|first| first.span.start));
                    }
                }
                CommandKind::ForEveryPart { block } => {
                    if let Some(rule) = rule {
                        self.by_command.insert(start, rule);
                    }
                    self.add(block, rule);
                }
                kind => {
                    let rule = rule.or_else(|| acts(kind).then_some(start));
                    if let Some(rule) = rule {
                        self.by_command.insert(start, rule);
                    }
                }
            }
        }
    }
}

/// Whether a block has a command other than `if`.
fn has_commands(block: &[Command]) -> bool {
    block.iter().any(is_no_if)
}

const fn is_no_if(command: &Command) -> bool {
    !matches!(command.kind, CommandKind::If(_))
}

/// Whether a command is a rule of its own outside of blocks: whether it acts on the message, or on
/// the flags with which it is stored.
const fn acts(kind: &CommandKind) -> bool {
    match kind {
        CommandKind::Keep { .. }
        | CommandKind::Discard
        | CommandKind::Redirect(_)
        | CommandKind::FileInto(_)
        | CommandKind::Reject { .. }
        | CommandKind::Vacation(_)
        | CommandKind::Flags { .. }
        | CommandKind::Notify(_)
        | CommandKind::AddHeader { .. }
        | CommandKind::DeleteHeader(_)
        | CommandKind::Replace(_)
        | CommandKind::Enclose(_) => true,
        CommandKind::If(_)
        | CommandKind::Stop
        | CommandKind::Set { .. }
        | CommandKind::Include(_)
        | CommandKind::Return
        | CommandKind::Global { .. }
        | CommandKind::ForEveryPart { .. }
        | CommandKind::Break { .. }
        | CommandKind::ExtractText(_)
        | CommandKind::Error { .. } => false,
    }
}

impl Settings {
    /// Returns the rules of a script in the order of the source; `None` if the script has errors.
    #[must_use]
    pub fn rules(&self, source: &[u8]) -> Option<Vec<ScriptRule>> {
        self.check(source).script.map(|script| rules(&script, source))
    }
}

/// The most bytes after the beginning of a rule that are read for its text, and before it for its
/// name. Scripts may have thousands of rules in one line: without a bound, the whole line would be
/// read for each of them.
const NEAR_BYTES: u32 = 512;

/// Returns the rules of a script in the order of the source.
fn rules(script: &Script, source: &[u8]) -> Vec<ScriptRule> {
    let index = LineIndex::new(source);
    let mut starts: Vec<u32> = RuleIndex::new(script).by_command.into_values().collect();
    starts.sort_unstable();
    starts.dedup();
    let rule = |start: u32| {
        let end = start.saturating_add(NEAR_BYTES);
        let rest = Span::new(start, end).of(source);
        let text = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
        ScriptRule {
            start,
            line: index.position(start).line,
            name: name_before(Span::new(start.saturating_sub(NEAR_BYTES), start).of(source)),
            text: shown(text),
        }
    };
    starts.into_iter().map(rule).collect()
}

/// Returns the name of a rule from the last comment `# rule:[name]` in `before`, which is the
/// source before the rule. Only comments and blank lines may stand between comment and rule.
fn name_before(before: &[u8]) -> Option<String> {
    let mut lines = before.split(|byte| *byte == b'\n').rev();
    // The first one is the part of the rule's own line before the rule.
    if !lines.next()?.trim_ascii().is_empty() {
        return None;
    }
    let comments =
        lines.map(<[u8]>::trim_ascii).take_while(|line| line.is_empty() || line.starts_with(b"#"));
    for line in comments {
        let comment = line.strip_prefix(b"#").unwrap_or_default().trim_ascii();
        if let Some(name) = comment.strip_prefix(b"rule:[").and_then(|rest| rest.strip_suffix(b"]"))
        {
            return Some(shown(name));
        }
    }
    None
}

/// Returns the beginning of a source or a name as a text to show.
fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.trim_ascii()).chars().take(MAX_RULE_TEXT_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules_of(source: &str) -> Vec<(u32, Option<String>, String)> {
        let rules = Settings::default().rules(source.as_bytes()).expect("a script without errors");
        rules.into_iter().map(|rule| (rule.line, rule.name, rule.text)).collect()
    }

    fn lines_of(source: &str) -> Vec<u32> {
        rules_of(source).into_iter().map(|(line, ..)| line).collect()
    }

    #[test]
    fn rules_are_blocks_and_commands_outside_of_blocks() {
        let source = "require [\"fileinto\", \"imap4flags\", \"variables\"];\n\
                      set \"a\" \"b\";\n\
                      addflag \"x\";\n\
                      if true {\n\
                        if false { discard; stop; }\n\
                        else {\n\
                          if true { keep; }\n\
                          stop; }\n\
                      }\n\
                      elsif header \"a\" \"b\" { stop; } else { keep; }\n\
                      if false {}\n";
        // No rules are: `set`, which does not act on the message; the block of the `if` in line 4,
        // which contains only another `if`; the block of line 11, which is empty. The `else` of
        // line 6 begins at its `stop` in line 8.
        assert_eq!(lines_of(source), [3, 5, 7, 8, 10, 10]);
        assert!(lines_of("stop;").is_empty());
    }

    #[test]
    fn loops_belong_to_the_rule_around_them() {
        let source = "require [\"foreverypart\", \"mime\"];\n\
                      if true {\n\
                        foreverypart { if header \"a\" \"b\" { break; } discard; }\n\
                      }\n\
                      foreverypart { keep; }\n";
        let checked = Settings::default().check(source.as_bytes());
        let index = RuleIndex::new(&checked.script.unwrap());
        let at = |text: &str| u32::try_from(source.find(text).unwrap()).unwrap();
        let rule = |text: &str| index.rule(at(text));
        assert_eq!(rule("discard"), Some(at("if true")));
        assert_eq!(rule("foreverypart {"), Some(at("if true")));
        assert_eq!(rule("break"), Some(at("if header")));
        assert_eq!(rule("keep"), Some(at("keep")));
        assert_eq!(rule("require"), None);
    }

    #[test]
    fn many_rules_in_one_line_are_all_read() {
        let source = "keep; ".repeat(9_000);
        let rules = rules_of(&source);
        assert_eq!(rules.len(), 9_000);
        assert!(rules.iter().all(|(line, name, _)| (*line, name) == (1, &None)));
    }

    #[test]
    fn names_are_those_of_comments_that_clients_write() {
        let source = "require \"fileinto\";\r\n\
                      # rule:[Spam [all]]\r\n\
                      if header :contains \"subject\" \"spam\"\r\n\
                      {\r\n\tfileinto \"Junk\";\r\n\tstop;\r\n}\r\n\
                      # rule:[Zwei]\r\n\r\n# more\r\n\
                      keep;\r\n\
                      discard; keep;\r\n";
        let named =
            |line, name: Option<&str>, text: &str| (line, name.map(str::to_owned), text.to_owned());
        assert_eq!(
            rules_of(source),
            [
                named(3, Some("Spam [all]"), "if header :contains \"subject\" \"spam\""),
                named(11, Some("Zwei"), "keep;"),
                named(12, None, "discard; keep;"),
                named(12, None, "keep;"),
            ]
        );
    }
}
