//! Which section of the results is wanted (RFC 8620 §5.5): `position`, or `anchor` and `anchorOffset`; `limit`.

use serde_json::{Map, Value};

use super::{id, int, unsigned};
use crate::query::{Start, Window};
use crate::wire::jmap::MethodError;

/// Reads a window from the arguments of a query. `most` is how many results are given at once.
///
/// # Errors
/// `invalidArguments`; `anchorNotFound` for an anchor that can be no email's id.
pub fn window(arguments: &Map<String, Value>, most: usize) -> Result<Window, MethodError> {
    let get = |name: &str| arguments.get(name).filter(|value| !value.is_null());
    let number = |name: &str| get(name).map_or(Ok(0), |value| int(name, value));
    let (position, offset) = (number("position")?, number("anchorOffset")?);
    // With an anchor the position is ignored.
    let start = match get("anchor") {
        None => Start::Position(position),
        Some(anchor) => {
            let id = id("anchor", anchor)?.parse().map_err(|_| MethodError::AnchorNotFound)?;
            Start::Anchor { id, offset }
        }
    };
    let limit = get("limit").map(|limit| unsigned("limit", limit)).transpose()?;
    let limit = limit.map_or(most, |limit| usize::try_from(limit).map_or(most, |limit| limit.min(most)));
    Ok(Window { start, limit: Some(limit) })
}
