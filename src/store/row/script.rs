//! The rows of Sieve scripts beside `objects`: sources, failed runs, hits of rules, and what the
//! `duplicate` test remembers.

use super::{FieldReader, FieldWriter, Row, RowError};
use crate::model::{EmailId, FilterStep, RuleHits, ScriptError, UtcMillis};
use crate::store::engine::Table;

/// A row of `script_sources`: the source of a script as it was stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptSource(pub Vec<u8>);

impl Row for ScriptSource {
    const TABLE: Table = Table::ScriptSources;

    fn write(&self, out: &mut FieldWriter) {
        out.bytes(&self.0);
    }

    fn read(input: &mut FieldReader<'_>, _version: u8) -> Result<Self, RowError> {
        Ok(Self(input.bytes()?.to_vec()))
    }
}

/// A row of `script_errors`: the newest errors of scripts that ran for an account, oldest first, at
/// most `limits::MAX_SCRIPT_ERRORS`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScriptErrorsRow(pub Vec<ScriptError>);

impl Row for ScriptErrorsRow {
    const TABLE: Table = Table::ScriptErrors;

    fn write(&self, out: &mut FieldWriter) {
        out.list(self.0.iter(), |out, error| {
            out.signed(error.at.0);
            out.text(&error.script);
            out.num(error.line);
            out.text(&error.message);
            out.option(error.email.as_ref(), |out, email| out.num(email.0));
        });
    }

    fn read(input: &mut FieldReader<'_>, _version: u8) -> Result<Self, RowError> {
        let read = |input: &mut FieldReader<'_>| {
            Ok(ScriptError {
                at: UtcMillis(input.signed()?),
                script: input.text()?,
                line: input.num32()?,
                message: input.text()?,
                email: input.option(|input| Ok(EmailId(input.num()?)))?,
            })
        };
        Ok(Self(input.list(read)?))
    }
}

/// A row of `duplicates`: a message that the `duplicate` test remembers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DuplicateRow {
    /// From this time on, the message is forgotten.
    pub until: UtcMillis,
}

impl Row for DuplicateRow {
    const TABLE: Table = Table::Duplicates;

    fn write(&self, out: &mut FieldWriter) {
        out.signed(self.until.0);
    }

    fn read(input: &mut FieldReader<'_>, _version: u8) -> Result<Self, RowError> {
        Ok(Self { until: UtcMillis(input.signed()?) })
    }
}

impl Row for RuleHits {
    const TABLE: Table = Table::ScriptHits;

    fn write(&self, out: &mut FieldWriter) {
        out.num(self.hits);
        out.signed(self.last.0);
    }

    fn read(input: &mut FieldReader<'_>, _version: u8) -> Result<Self, RowError> {
        Ok(Self { hits: input.num()?, last: UtcMillis(input.signed()?) })
    }
}

/// Writes the steps of a decision (`row::vacation`).
pub(super) fn write_steps(out: &mut FieldWriter, steps: &[FilterStep]) {
    out.list(steps.iter(), |out, step| {
        out.text(&step.script);
        out.num(step.line);
        out.text(&step.action);
    });
}

pub(super) fn read_steps(input: &mut FieldReader<'_>) -> Result<Vec<FilterStep>, RowError> {
    input.list(|input| {
        Ok(FilterStep { script: input.text()?, line: input.num32()?, action: input.text()? })
    })
}
