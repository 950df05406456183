//! The table of diagnostic codes.
//!
//! - S00 characters and tokens, S01 grammar, S02 extensions, S03 commands and their arguments,
//!   S04 values of constants, S05 the order and place of commands, S09 warnings.
//! - A code that is published keeps its meaning. The number of a code that is no longer used is not
//!   given to another one.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Severity;

macro_rules! codes {
    ($($variant:ident = $code:literal $severity:ident $text:literal;)*) => {
        /// What a diagnostic is about.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code {
            $(#[doc = concat!("`", $code, "`: ", $text)] $variant,)*
        }

        impl Code {
            /// Every code, in ascending order.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Returns the code, such as `S0107`.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $code),* }
            }

            /// Returns the sentence that explains the code in the reference.
            #[must_use]
            pub const fn explanation(self) -> &'static str {
                match self { $(Self::$variant => $text),* }
            }

            /// Returns the severity of the code. A diagnostic may be a warning instead of an error:
            /// [`MissingRequire::Warning`](crate::MissingRequire::Warning) makes some so, and
            /// `TooManyDiagnostics` is one if the script has no errors.
            #[must_use]
            pub const fn severity(self) -> Severity {
                match self { $(Self::$variant => Severity::$severity),* }
            }
        }
    };
}

codes! {
    // Characters and tokens.
    ScriptTooLong = "S0001" Error "The script has more bytes than the limit.";
    InvalidUtf8 = "S0002" Error "The script must be UTF-8 (RFC 5228 §2.1).";
    NulByte = "S0003" Error "A script must not contain NUL (RFC 5228 §8.1).";
    UnexpectedCharacter = "S0004" Error "The character begins no token (RFC 5228 §8.1).";
    UnterminatedString = "S0005" Error "A quoted string has no closing quotation mark.";
    UnterminatedText = "S0006" Error "A `text:` block has no line with a single dot.";
    TextNotAtLineEnd = "S0007" Error "Only blanks and a comment may follow `text:` on its line.";
    UnterminatedComment = "S0008" Error "A `/*` comment has no `*/`.";
    NumberTooLarge = "S0009" Error "A number, with its K, M or G, exceeds 64 bits.";
    BadNumber = "S0010" Error "Only K, M or G may follow the digits of a number.";
    EmptyTag = "S0011" Error "A colon must be followed by the name of a tag.";
    StringTooLong = "S0012" Error "A string has more bytes than the limit.";
    // Grammar.
    ExpectedCommand = "S0101" Error "A command must begin here.";
    ExpectedSemicolon = "S0102" Error "A command must end with `;` or a block.";
    UnclosedBlock = "S0103" Error "A block has no closing brace.";
    UnexpectedClosingBrace = "S0104" Error "A closing brace has no block.";
    UnclosedTestList = "S0105" Error "A list of tests has no closing parenthesis.";
    UnclosedStringList = "S0106" Error "A list of strings has no closing bracket.";
    ExpectedString = "S0107" Error "A list of strings may contain only strings.";
    ExpectedTest = "S0108" Error "A test must stand here.";
    MissingComma = "S0109" Error "The items of a list must be separated by commas.";
    EmptyStringList = "S0110" Error "A list of strings must not be empty (RFC 5228 §8.2).";
    TooDeeplyNested = "S0111" Error "Blocks and tests are nested more deeply than the limit.";
    TooManyCommands = "S0112" Error "The script has more commands and tests than the limit.";
    UnexpectedToken = "S0113" Error "The token cannot stand here.";
    ArgumentAfterTest = "S0114" Error "Arguments must stand before the tests.";
    // Extensions.
    UnknownExtension = "S0201" Error "`require` names an extension that the engine lacks.";
    ExtensionNotAllowed = "S0202" Error "The site does not offer the extension.";
    MissingRequire = "S0203" Error "An extension is used without `require`.";
    RequireNotFirst = "S0204" Error "`require` must precede other commands (RFC 5228 §3.2).";
    RequireNotConstant = "S0205" Error "`require` and `ihave` take constants (RFC 5229 §3).";
    ObsoleteExtension = "S0206" Error "The extension was replaced by a later one.";
    ConflictingExtensions = "S0207" Error "Two extensions cannot be used in one script.";
    // Commands and their arguments.
    UnknownCommand = "S0301" Error "No command has this name.";
    UnknownTest = "S0302" Error "No test has this name.";
    TestAsCommand = "S0303" Error "A test stands where a command is expected.";
    CommandAsTest = "S0304" Error "A command stands where a test is expected.";
    UnknownTag = "S0305" Error "The command or test takes no such tag.";
    DuplicateTag = "S0306" Error "A tag is given twice.";
    ConflictingTags = "S0307" Error "Two tags exclude each other.";
    MissingTagValue = "S0308" Error "The tag needs a value.";
    TagNeedsTag = "S0309" Error "The tag is allowed only beside another tag.";
    MissingArgument = "S0310" Error "An argument is missing.";
    ExtraArgument = "S0311" Error "The command or test takes fewer arguments.";
    WrongArgumentType = "S0312" Error "The argument has the wrong type.";
    TagAfterPositional = "S0313" Error "Tags must precede the other arguments (RFC 5228 §2.6.2).";
    WrongTestCount = "S0314" Error "The command or test takes another number of tests.";
    MissingBlock = "S0315" Error "The command needs a block.";
    UnexpectedBlock = "S0316" Error "The command takes no block.";
    MissingTag = "S0317" Error "A tag that the command or test needs is missing.";
    // Values of constants.
    UnknownComparator = "S0401" Error "No comparator has this name.";
    ComparatorLacksOperation = "S0402" Error "The comparator does not do this match (RFC 4790).";
    UnknownRelation = "S0403" Error "A relation is one of gt, ge, lt, le, eq, ne (RFC 5231 §4).";
    BadHeaderName = "S0404" Error "The text is no name of a header field (RFC 5322 §2.2).";
    NotAnAddressHeader = "S0405" Error "The field contains no addresses (RFC 5228 §5.1).";
    BadAddress = "S0406" Error "The text is no email address (RFC 5228 §2.4.2.3).";
    UnknownEnvelopePart = "S0407" Error "The envelope has no such part (RFC 5228 §5.4).";
    AddressPartNotApplicable = "S0408" Error "The envelope part is no address.";
    BadMailboxName = "S0410" Error "The text is no name of a mailbox.";
    BadSpecialUse = "S0411" Error "The text is no special-use attribute (RFC 8579 §4).";
    UnknownDatePart = "S0412" Error "No part of a date has this name (RFC 5260 §4.2).";
    BadTimeZone = "S0413" Error "A time zone is written as +hhmm or -hhmm (RFC 5260 §4.1).";
    IndexZero = "S0414" Error "Indexes count from 1 (RFC 5260 §6).";
    BadVariableName = "S0415" Error "The text is no name of a variable (RFC 5229 §3).";
    UnknownNamespace = "S0416" Error "No extension provides the namespace (RFC 5229 §3).";
    MatchVariableNotSettable = "S0417" Error "Match variables cannot be set (RFC 5229 §4).";
    ConflictingModifiers = "S0418" Error "Two modifiers are of equal rank (RFC 5229 §4.1).";
    MatchIndexTooLarge = "S0419" Error "The number of a match variable exceeds the limit.";
    TooManyVariables = "S0420" Error "The script uses more variables than the limit.";
    NotConstant = "S0421" Error "The argument must not contain variables.";
    BadEncodedCharacter = "S0422" Error "`${unicode:}` names no character (RFC 5228 §2.4.2.4).";
    EncodedBytesNotUtf8 = "S0423" Error "The bytes of `${hex:}` make no UTF-8 text.";
    BadRegex = "S0424" Error "The regular expression has an error.";
    UnsupportedRegex = "S0425" Error "The engine matches in linear time: no back-reference.";
    RegexTooLarge = "S0426" Error "Regular expressions exceed a limit of length, size or number.";
    BadMimeEntity = "S0427" Error "The `:mime` text is no MIME entity (RFC 5230 §5).";
    NumberOutOfRange = "S0428" Error "The number is outside the range that the argument allows.";
    BadImportance = "S0429" Error "The importance is one of 1, 2, 3 (RFC 5435 §3.4).";
    BadNotifyMethod = "S0430" Error "The method is no URI, or no `mailto:` with addresses.";
    BadScriptName = "S0431" Error "The text is no name of a script (RFC 5804 §1.6).";
    BadDsnValue = "S0432" Error "The value is no DSN parameter (RFC 6009 §6).";
    BadDeliverBy = "S0433" Error "The value is no parameter of Deliver By (RFC 6009 §7).";
    BadHeaderValue = "S0434" Error "The text cannot be the value of a header field.";
    BadListName = "S0435" Error "The text is no name of an external list (RFC 6134 §2.5).";
    // The order and place of commands.
    ElseWithoutIf = "S0501" Error "`elsif` and `else` must follow `if` or `elsif`.";
    BreakOutsideLoop = "S0502" Error "`break` must stand in `foreverypart` (RFC 5703 §3.2).";
    UnknownLoopName = "S0503" Error "No `foreverypart` around the command has this name.";
    OutsideLoop = "S0504" Error "The command must stand in `foreverypart` (RFC 5703).";
    GlobalAfterUse = "S0505" Error "`global` must precede `set` of the variable (RFC 6609).";
    IncompatibleActions = "S0506" Error "An action that always runs before excludes this one.";
    LoopsTooDeep = "S0507" Error "`foreverypart` is nested more deeply than the limit.";
    TooManyActions = "S0508" Error "The script has more actions of a kind than the limit.";
    TooManyDiagnostics = "S0590" Error "The limit of diagnostics is reached; more were found.";
    // Warnings.
    UnreachableCommand = "S0901" Warning "The command can never run.";
    ConstantTest = "S0902" Warning "The test always has the same result.";
    LostBackslash = "S0903" Warning "In a string a backslash is written as two.";
    VariableInHandle = "S0904" Warning "A handle is not expanded (RFC 5230 §4.2).";
    UnusedRequire = "S0905" Warning "The extension is required and not used.";
    VariableNotSet = "S0906" Warning "The variable is never set, so it is empty.";
    UndecodedEncodedCharacter = "S0907" Warning "The `${…}` is not in the form that is decoded.";
    IncludeNotFound = "S0909" Warning "The included script does not exist now.";
    FlagIgnored = "S0910" Warning "The flag is not valid and will be ignored.";
    SignatureBroken = "S0911" Warning "The edit breaks a DKIM signature.";
    NoEffect = "S0912" Warning "The command or argument has no effect.";
    AddressIgnored = "S0913" Warning "The text is no address and will be ignored.";
    ProtectedHeader = "S0914" Warning "The field must not be edited (RFC 5293 §6).";
    UnmatchableHeaderName = "S0915" Warning "No field can have this name (RFC 5228 §2.4.2.2).";
    UnsupportedNotifyMethod = "S0916" Warning "The site cannot notify by this URI (RFC 5435 §3.2).";
    UnmatchableContentType = "S0917" Warning "The text is no media type (RFC 5173 §5.2).";
    NotifyFromMessage = "S0918" Warning "The message may say who is notified (RFC 5435 §8).";
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Code {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let code = Self::ALL.iter().copied().find(|code| code.as_str() == text);
        code.ok_or_else(|| serde::de::Error::custom(format!("no code {text}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_ascend_and_are_explained_by_a_sentence() {
        for pair in Code::ALL.windows(2) {
            assert!(pair[0].as_str() < pair[1].as_str(), "{} {}", pair[0], pair[1]);
        }
        for code in Code::ALL {
            let digits = code.as_str().strip_prefix('S').unwrap();
            assert!(digits.len() == 4 && digits.bytes().all(|byte| byte.is_ascii_digit()));
            assert!(code.explanation().ends_with('.'), "{code}");
            let is_warning = code.severity() == Severity::Warning;
            assert_eq!(is_warning, code.as_str().starts_with("S09"), "{code}");
        }
    }

    #[test]
    fn a_code_is_serialised_as_its_text() {
        let json = serde_json::to_string(&Code::MissingRequire).unwrap();
        assert_eq!(json, "\"S0203\"");
        assert_eq!(serde_json::from_str::<Code>(&json).unwrap(), Code::MissingRequire);
    }
}
