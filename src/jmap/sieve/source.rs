//! Reads the source of a script from a blob and checks it, and SieveScript/validate (RFC 9661
//! §2.6).
//!
//! A source goes no further than here if it is too large for the site, or has errors.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::filter::ValidScript;
use crate::jmap::context::Account;
use crate::jmap::failure::SetFailure;
use crate::jmap::method::{Call, Method};
use crate::model::{BlobId, limits};
use crate::wire::jmap::{Answer, MethodError, SetError};

/// Reads the blob with the id that a client wrote, and checks it as a script. Returns the script in
/// a form that can be stored.
///
/// # Errors
/// `BlobNotFound`; `TooLarge`; `invalidSieve` if the source is empty, or has errors: then with all
/// errors and warnings; `RateLimit` if the request reads too much; those of reading.
pub(super) fn checked_source(
    call: &Call<'_>,
    account: &Account,
    id: &str,
) -> Result<ValidScript<'static>, SetFailure> {
    let context = call.context;
    let parsed = call.resolve_id(id.to_owned()).parse::<BlobId>().ok();
    let blob = parsed.map(|id| context.blob(account, &id)).transpose()?.flatten();
    let blob = blob.ok_or_else(|| SetError::BlobNotFound(vec![id.to_owned()]))?;
    let size = context.blob_size(&blob)?;
    let max = context.filter.max_script_bytes.min(limits::MAX_SCRIPT_BYTES);
    if size > max as u64 {
        let description = format!("a script may have at most {max} bytes");
        return Err(SetError::TooLarge(description).into());
    }
    let source = context.blob_range(blob, 0..size)?;
    match context.filter.check_script(&source).valid(&context.filter) {
        Ok(valid) => Ok(valid.into_owned()),
        Err(errors) => Err(SetError::other("invalidSieve", &errors.replace("\r\n", "\n")).into()),
    }
}

/// SieveScript/validate (RFC 9661 §2.6).
pub(in crate::jmap) struct ScriptValidate;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::jmap) struct ScriptValidateArgs {
    account_id: String,
    blob_id: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::jmap) struct ScriptValidateAnswer {
    account_id: String,
    /// Null if the script can be stored.
    error: Option<Value>,
}

impl Answer for ScriptValidateAnswer {}

impl Method for ScriptValidate {
    type Args = ScriptValidateArgs;
    type Answer = ScriptValidateAnswer;

    fn call(call: &Call<'_>, args: Self::Args) -> Result<ScriptValidateAnswer, MethodError> {
        let account = call.managed_account(&args.account_id)?;
        let error = match checked_source(call, &account, &args.blob_id) {
            Ok(_) => None,
            Err(failure) => Some(failure.object()?.object()),
        };
        Ok(ScriptValidateAnswer { account_id: account.id.to_string(), error })
    }
}
