//! `EmailSubmission`/get and /changes (RFC 8621 §7.1, §7.2).

use serde_json::Value;

use super::{PROPERTIES, object};
use crate::jmap::context::{Args, Context};
use crate::jmap::standard::objects;
use crate::model::EmailSubmission;
use crate::wire::jmap::MethodError;

pub(in crate::jmap) fn get(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    objects::get(context, &context.open(arguments)?, arguments, &PROPERTIES, object)
}

pub(in crate::jmap) fn changes(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    objects::changes::<EmailSubmission>(context, &context.open(arguments)?, arguments)
}
