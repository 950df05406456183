//! Which arguments a method takes. One that it does not know is wrong, as one of the wrong type is (RFC 8620 §3.9): who
//! wrote `porperties` must not get all of them, nor `ifInstate` lose what another wrote.
//!
//! The vendor's methods see to theirs by themselves, and methods with types by their types.

use serde_json::{Map, Value};

use crate::wire::jmap::MethodError;

/// Arguments of the standard methods, by the last word of their names (RFC 8620 §5).
const STANDARD: [(&str, &[&str]); 5] = [
    ("get", &["accountId", "ids", "properties"]),
    ("changes", &["accountId", "sinceState", "maxChanges"]),
    ("set", &["accountId", "ifInState", "create", "update", "destroy"]),
    ("query", &["accountId", "filter", "sort", "position", "anchor", "anchorOffset", "limit", "calculateTotal"]),
    ("queryChanges", &["accountId", "filter", "sort", "sinceQueryState", "maxChanges", "upToId", "calculateTotal"]),
];

/// Methods that are not standard though their names end so, and those of names of their own: all that they take.
const WHOLE: [(&str, &[&str]); 2] = [
    ("MDN/send", &["accountId", "identityId", "send", "onSuccessUpdateEmail"]),
    ("MDN/parse", &["accountId", "blobIds"]),
];

/// Looks for arguments that a method does not take.
///
/// # Errors
/// `invalidArguments`, with the first of them.
pub(super) fn prove(method: &str, arguments: &Map<String, Value>) -> Result<(), MethodError> {
    let of = |table: &[(&str, &'static [&'static str])], name: &str| {
        table.iter().find(|(known, _)| *known == name).map(|(_, arguments)| *arguments)
    };
    let last = method.rsplit('/').next().unwrap_or_default();
    let Some(known) = of(&WHOLE, method).or_else(|| of(&STANDARD, last)) else { return Ok(()) };
    match arguments.keys().find(|name| !known.contains(&name.as_str())) {
        Some(unknown) => Err(MethodError::InvalidArguments(format!("{method} has no argument {unknown}"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::jmap::tests::{account_of, call, context, error};

    /// RFC 8620 §3.9.
    #[test]
    fn an_argument_that_is_not_known_is_invalid() {
        let context = context();
        let ann = account_of(&context);
        for method in [
            "Mailbox/get",
            "Mailbox/changes",
            "Mailbox/query",
            "Mailbox/queryChanges",
            "Mailbox/set",
            "Thread/get",
            "Email/get",
            "Email/query",
            "Email/set",
            "Email/import",
            "Email/parse",
            "Email/copy",
            "SearchSnippet/get",
            "Identity/set",
            "EmailSubmission/set",
            "VacationResponse/set",
            "Quota/get",
            "Blob/get",
            "Blob/copy",
            "Blob/upload",
            "MDN/send",
        ] {
            let wrong = json!({"accountId": ann, "colour": "red"});
            let (_, refused) = call(&context, method, &wrong);
            assert_eq!(refused["type"], "invalidArguments", "{method}");
            assert!(refused["description"].as_str().unwrap().ends_with(" has no argument colour"), "{refused}");
        }
        let set = json!({"accountId": ann, "create": {"x": {"name": "Colours"}}, "ifInstate": "y"});
        assert_eq!(error(&context, "Mailbox/set", &set), "invalidArguments");
        assert_eq!(
            call(&context, "Mailbox/query", &json!({"accountId": ann, "filter": {"name": "Colours"}})).1["ids"],
            json!([])
        );
        // An echo takes whatever it is given, and those of others are the others'.
        assert_eq!(call(&context, "Core/echo", &json!({"colour": "red"})).1, json!({"colour": "red"}));
        assert_eq!(error(&context, "PushSubscription/set", &json!({"ifInState": "x"})), "invalidArguments");
        let asked = json!({"accountId": ann, "collapseThreads": true, "sort": null, "calculateTotal": false});
        assert_eq!(call(&context, "Email/query", &asked).0, "Email/query");
        assert_eq!(error(&context, "Mailbox/query", &asked), "invalidArguments");
    }
}
