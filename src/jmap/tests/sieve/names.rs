//! Tests of updates, which give scripts other names and sources.

use super::*;

#[test]
fn scripts_are_renamed_and_get_other_sources() {
    let bed = Fixture::new();
    let (one, two) = (bed.store("one", KEEP), bed.store("two", "stop;"));
    let (blob, other) = (bed.blob_id(&one), bed.upload("discard;"));
    let done = bed.set(json!({"update": {
        &one: {"name": "uno", "blobId": other},
        // Values that do not change are accepted, those of the server too.
        &two: {"name": "two", "isActive": false, "id": two, "blobId": bed.blob_id(&two)},
    }}));
    assert_eq!(done["updated"], json!({&one: null, &two: null}), "{done}");
    assert_ne!(done["oldState"], done["newState"]);
    assert_eq!((bed.blob_id(&one), bed.data(&other)), (other.clone(), json!("discard;")));
    // The blob of the former source is gone with it.
    let gone = bed.ask("Blob/get", json!({"ids": [blob]}));
    assert_eq!(gone["notFound"], json!([blob]));

    // The name is stored in Unicode normalization form C, and is returned because the client gave
    // another form. A name that the service chooses is returned, too.
    let done = bed.set(json!({
        "update": {&one: {"name": "u\u{308}"}, &two: {"name": null}},
        "create": {"c": {"blobId": other}, "d": {"name": null, "blobId": other}},
    }));
    assert_eq!(done["updated"], json!({&one: {"name": "ü"}, &two: {"name": "Script 1"}}), "{done}");
    let name = |name: &str| done["created"][name]["name"].clone();
    assert_eq!((name("c"), name("d")), (json!("Script 2"), json!("Script 3")));
    for (patch, kind) in [
        (json!({"isActive": true}), "invalidProperties"),
        (json!({"blobId": null}), "invalidProperties"),
        (json!({"name": "Script 1"}), "alreadyExists"),
        (json!({"name": "a\nb"}), "invalidProperties"),
        (json!({"colour": "red"}), "invalidProperties"),
        (json!({"name/x": "y"}), "invalidPatch"),
        (json!({"blobId": "bx"}), "blobNotFound"),
    ] {
        let refused = bed.set(json!({"update": {&one: patch}}));
        assert_eq!(refused["notUpdated"][&one]["type"], kind, "{patch}: {refused}");
    }
    assert_eq!(bed.names().0, ["Script 1", "Script 2", "Script 3", "ü"]);
}

#[test]
fn script_gets_the_name_of_one_that_the_same_call_destroys_or_renames() {
    let bed = Fixture::new();
    let (one, two) = (bed.store("one", "keep;"), bed.store("two", "stop;"));
    let three = bed.store("three", "discard;");
    let blob = bed.upload("keep; stop;");
    let answer = bed.set(json!({
        "create": {"n": {"name": "two", "blobId": blob}},
        // The first update is tried before its name is free.
        "update": {&one: {"name": "three"}, &three: {"name": "four"}},
        "destroy": [two],
    }));
    for refused in ["notCreated", "notUpdated", "notDestroyed"] {
        assert_eq!(answer[refused], Value::Null, "{answer}");
    }
    assert_eq!(bed.names().0, ["four", "three", "two"]);
    let answer = bed.set(json!({"update": {&one: {"name": "two"}, &three: {"name": "five"}}}));
    assert_eq!(answer["notUpdated"][&one]["type"], "alreadyExists", "{answer}");
    assert_eq!(bed.names().0, ["five", "three", "two"]);
}

#[test]
fn scripts_exchange_their_names_in_one_call() {
    let bed = Fixture::new();
    let ids = ["a", "b", "c", "d"].map(|name| bed.store(name, &format!("# {name}\r\nkeep;")));
    let name = |id: &str| {
        let got = bed.ask("SieveScript/get", json!({"ids": [id]}));
        got["list"][0]["name"].as_str().unwrap().to_owned()
    };
    let names = || ids.each_ref().map(|id| name(id));
    // A circle of three, and one that wants the name of a script that keeps it.
    let new = bed.upload("stop;");
    let answer = bed.set(json!({"update": {
        &ids[0]: {"name": "b", "blobId": new},
        &ids[1]: {"name": "c"},
        &ids[2]: {"name": "a"},
    }}));
    assert_eq!(answer["notUpdated"], Value::Null, "{answer}");
    assert_eq!(answer["updated"], json!({&ids[0]: null, &ids[1]: null, &ids[2]: null}));
    assert_eq!((names(), bed.blob_id(&ids[0])), (["b", "c", "a", "d"].map(str::to_owned), new));
    let answer = bed.set(json!({"update": {
        &ids[0]: {"name": "c"},
        &ids[1]: {"name": "b"},
        &ids[2]: {"name": "d"},
    }}));
    assert_eq!(answer["updated"], json!({&ids[0]: null, &ids[1]: null}), "{answer}");
    assert_eq!(answer["notUpdated"][&ids[2]]["type"], "alreadyExists", "{answer}");
    // Of two that want one name, one gets it.
    let answer = bed.set(json!({"update": {&ids[0]: {"name": "x"}, &ids[1]: {"name": "x"}}}));
    assert_eq!(answer["updated"].as_object().unwrap().len(), 1, "{answer}");
    let mut left = names();
    left.sort_unstable();
    assert_eq!((left[0].as_str(), left[2].as_str(), left[3].as_str()), ("a", "d", "x"));
}
