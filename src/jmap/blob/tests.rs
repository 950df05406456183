//! Tests of blobs: parts, ranges, uploads, copies, and blob management (RFC 9404).

use serde_json::{Value, json};

use crate::jmap::budget::Budget;
use crate::jmap::dispatch::run_within;
use crate::jmap::tests::{call, context, error};
use crate::jmap::{CAPABILITIES, Context};
use crate::message::rows;
use crate::model::{AccountId, BlobId, EmailId, limits};
use crate::store::{EncodedMessage, NewEmail};
use crate::wire::jmap::json::weight;
use crate::wire::jmap::parse;

const MESSAGE: &str = "From: a@example.org\r\nSubject: parts\r\nMIME-Version: 1.0\r\n\
    Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain\r\n\
    Content-Transfer-Encoding: quoted-printable\r\n\r\ncaf=C3=A9=\r\n!\r\n--b\r\n\
    Content-Type: application/x\r\n\
    Content-Transfer-Encoding: base64\r\n\r\nAAEC/w==\r\n--b--\r\n";

fn ann(context: &Context) -> AccountId {
    context.directory.find_account("ann@example.org").unwrap().unwrap().0
}

/// Files a message with a trace prefix.
fn file(context: &Context, account: AccountId, raw: &[u8]) -> EmailId {
    let message = EncodedMessage::new(&rows(raw, context.store.secrets()));
    let (mut made, ticket) = context.store.commit_message(&[account], &message, raw, |txn| {
        txn.create_email(&NewEmail {
            message: &message,
            prefix: b"Return-Path: <x@example.net>\r\n",
            mailboxes: [txn.state().inbox].into(),
            keywords: [].into(),
            received_at: txn.now(),
        })
    });
    ticket.wait_blocking().unwrap();
    made.pop().unwrap().1.unwrap().0
}

fn read_blob(context: &Context, account: AccountId, id: &BlobId) -> Option<Vec<u8>> {
    context.blob_bytes(&context.accessible_account(account).unwrap(), id, u64::MAX).unwrap()
}

#[test]
fn blobs_of_emails_parts_and_nested_parts_are_read() {
    let context = context();
    let ann = ann(&context);
    let whole = BlobId::email(file(&context, ann, MESSAGE.as_bytes()));
    let message = read_blob(&context, ann, &whole).unwrap();
    assert!(
        message.starts_with(b"Return-Path: <x@example.net>\r\nFrom: a@")
            && message.ends_with(MESSAGE.as_bytes())
    );
    assert_eq!(read_blob(&context, ann, &whole.part(1).unwrap()).unwrap(), "café!".as_bytes());
    assert_eq!(read_blob(&context, ann, &whole.part(2).unwrap()).unwrap(), [0, 1, 2, 255]);
    assert_eq!(read_blob(&context, ann, &whole.part(3).unwrap()), None);
    let part = context
        .blob(&context.accessible_account(ann).unwrap(), &whole.part(2).unwrap())
        .unwrap()
        .unwrap();
    assert_eq!(
        (part.size(&context.store).unwrap(), part.read_all(&context.store, 3).unwrap()),
        (4, None)
    );
    // Ranges of an encoded part and of the whole message.
    for (id, all) in
        [(whole.part(1).unwrap(), "café!".as_bytes().to_vec()), (whole.clone(), message)]
    {
        let blob = context.blob(&context.accessible_account(ann).unwrap(), &id).unwrap().unwrap();
        for (start, end) in [(0, 1), (1, 4), (2, 2), (3, 1000), (6, 7), (1000, 2000)] {
            let (mut reader, mut got) = (blob.clone().reader(start..end), Vec::new());
            while let Some(piece) = reader.next(&context.store).unwrap() {
                got.extend(piece);
            }
            let within = |at: u64| usize::try_from(at).unwrap().min(all.len());
            assert_eq!(got, &all[within(start)..within(end)], "{id} {start}..{end}");
        }
    }
    // A message within a message, in base64: its parts are numbered from zero again.
    let within = format!(
        "Subject: outer\r\nMIME-Version: 1.0\r\nContent-Type: message/rfc822\r\n\
         Content-Transfer-Encoding: base64\r\n\r\n{}\r\n",
        crate::wire::jmap::to_base64(MESSAGE.as_bytes())
    );
    let upload = context.keep_upload(ann, within.as_bytes(), "message/rfc822").unwrap();
    assert_eq!(read_blob(&context, ann, &upload.part(0).unwrap()).unwrap(), MESSAGE.as_bytes());
    let deep = upload.part(0).unwrap().part(2).unwrap();
    assert_eq!(read_blob(&context, ann, &deep).unwrap(), [0, 1, 2, 255]);
    // Neither the email nor the upload is found in another account.
    let bob = context.directory.find_account("bob@example.org").unwrap().unwrap().0;
    assert_eq!((read_blob(&context, bob, &whole), read_blob(&context, bob, &upload)), (None, None));
}

#[test]
fn large_part_is_read_in_pieces() {
    let context = context();
    let ann = ann(&context);
    let content: Vec<u8> = (0..3_000_000_u32).map(|n| u8::try_from(n % 251).unwrap()).collect();
    let text = crate::wire::jmap::to_base64(&content);
    let lines: String = text
        .as_bytes()
        .chunks(76)
        .map(|line| format!("{}\r\n", std::str::from_utf8(line).unwrap()))
        .collect();
    let raw = MESSAGE.replace("AAEC/w==\r\n", &lines);
    let id = BlobId::email(file(&context, ann, raw.as_bytes())).part(2).unwrap();
    let blob = context.blob(&context.accessible_account(ann).unwrap(), &id).unwrap().unwrap();
    assert_eq!(blob.size(&context.store).unwrap(), 3_000_000);
    let (mut reader, mut all) = (blob.reader(0..u64::MAX), Vec::new());
    while let Some(piece) = reader.next(&context.store).unwrap() {
        assert!(!piece.is_empty() && piece.len() as u64 <= super::READ_CHUNK, "{}", piece.len());
        all.extend(piece);
    }
    assert!(all == content);
}

#[test]
fn upload_is_visible_only_to_its_uploader() {
    let mut context = context();
    let ann = ann(&context);
    context.caller = crate::jmap::Caller { account: Some(ann), ..Default::default() };
    let id = context.keep_upload(ann, b"hello", "text/plain").unwrap();
    assert_eq!(read_blob(&context, ann, &id).unwrap(), b"hello");
    // A guest in the account does not see the owner's upload. The right 1 is mayReadItems.
    let bob = context.directory.find_account("bob@example.org").unwrap().unwrap().0;
    let open = |txn: &mut crate::store::Txn<'_>| {
        let inbox = txn.state().inbox;
        txn.update_mailbox(inbox, |row| row.shares = [(bob, 1)].into())
    };
    context.store.commit(ann, open).unwrap().1.wait_blocking().unwrap();
    context.caller = crate::jmap::Caller { account: Some(bob), ..Default::default() };
    assert_eq!(read_blob(&context, ann, &id), None);
}

#[test]
fn blobs_are_copied_between_accounts() {
    let context = context();
    let ann = ann(&context).to_string();
    let bob = context.directory.find_account("bob@example.org").unwrap().unwrap().0;
    let upload = context.keep_upload(self::ann(&context), b"hello", "text/plain").unwrap();
    let email = BlobId::email(file(&context, self::ann(&context), MESSAGE.as_bytes()));
    let (whole, part) = (email.to_string(), email.part(1).unwrap().to_string());
    let ids = [upload.to_string(), whole.clone(), part.clone(), "nonsense".into()];
    let arguments = json!({"fromAccountId": ann, "accountId": bob.to_string(), "blobIds": ids});
    let (_, answer) = call(&context, "Blob/copy", &arguments);
    assert_eq!(answer["copied"][upload.to_string()], upload.to_string());
    assert_eq!(answer["notCopied"], json!({"nonsense": {"type": "notFound"}}));
    let copied = |id: &str| {
        read_blob(&context, bob, &answer["copied"][id].as_str().unwrap().parse().unwrap()).unwrap()
    };
    assert_eq!(
        (copied(&upload.to_string()).as_slice(), copied(&part)),
        (b"hello".as_slice(), "café!".as_bytes().to_vec())
    );
    assert!(copied(&whole).ends_with(MESSAGE.as_bytes()));
    let arguments = json!({"fromAccountId": "azzz", "accountId": bob.to_string(), "blobIds": []});
    assert_eq!(error(&context, "Blob/copy", &arguments), "fromAccountNotFound");
    let arguments = json!({"fromAccountId": ann, "accountId": "azzz", "blobIds": []});
    assert_eq!(error(&context, "Blob/copy", &arguments), "accountNotFound");
    let many = vec!["x"; limits::MAX_OBJECTS_IN_SET + 1];
    let arguments = json!({"fromAccountId": ann, "accountId": ann, "blobIds": many});
    assert_eq!(error(&context, "Blob/copy", &arguments), "requestTooLarge");
}

/// Examples of RFC 9404 §4.1 and §4.2, and requests with errors.
#[test]
fn examples_of_rfc_9404_give_their_answers() {
    let context = context();
    let account = ann(&context).to_string();
    let upload = |create: Value| {
        call(&context, "Blob/upload", &json!({"accountId": account, "create": create})).1
    };
    let made = upload(json!({"1": {
        "data": [{"data:asText": "The quick brown fox jumped over the lazy dog."}],
        "type": "text/plain",
    }}));
    assert_eq!(
        (&made["created"]["1"]["size"], &made["created"]["1"]["type"]),
        (&json!(45), &json!("text/plain"))
    );
    let fox = made["created"]["1"]["id"].as_str().unwrap();
    // An upload may refer to another one of the same call, whatever their order.
    let made = upload(json!({
        "a": {"data": [
            {"data:asText": "How"},
            {"blobId": "#b4", "length": 7, "offset": 3},
            {"data:asText": "was t"},
            {"blobId": "#b4", "length": 1, "offset": 1},
            {"data:asBase64": "YXQ/"},
        ]},
        "b4": {
            "data": [{"data:asText": "The quick brown fox jumped over the lazy dog."}],
            "type": null,
        },
        "no": {"data": [{"blobId": fox, "offset": 40, "length": 6}]},
        "no2": {"data": [{"blobId": "#missing"}]},
        "no3": {"data": [{"data:asText": "x", "data:asBase64": ""}]},
        "no4": {"data": [{"blobId": "#no4"}]},
    }));
    let cat = made["created"]["a"]["id"].as_str().unwrap();
    assert_eq!(made["created"]["a"]["type"], Value::Null);
    for (name, kind) in [
        ("no", "invalidProperties"),
        ("no2", "blobNotFound"),
        ("no3", "invalidProperties"),
        ("no4", "blobNotFound"),
    ] {
        assert_eq!(made["notCreated"][name]["type"], kind, "{made}");
    }
    let get = |arguments: Value| {
        let mut arguments = arguments;
        arguments["accountId"] = account.clone().into();
        call(&context, "Blob/get", &arguments).1
    };
    let answer = get(
        json!({"ids": [fox, "not-a-blob"], "properties": ["data:asText", "digest:sha", "size"]}),
    );
    assert_eq!(
        answer["list"][0],
        json!({
            "id": fox, "data:asText": "The quick brown fox jumped over the lazy dog.",
            "digest:sha": "wIVPufsDxBzOOALLDSIFKebu+U4=", "size": 45,
        })
    );
    assert_eq!(answer["notFound"], json!(["not-a-blob"]));
    let answer = get(json!({
        "ids": [fox],
        "properties": ["data:asText", "digest:sha", "digest:sha-256", "size"],
        "offset": 4,
        "length": 9,
    }));
    assert_eq!(
        answer["list"][0],
        json!({
            "id": fox, "data:asText": "quick bro", "digest:sha": "QiRAPtfyX8K6tm1iOAtZ87Xj3Ww=",
            "digest:sha-256": "gdg9INW7lwHK6OQ9u0dwDz2ZY/gubi0En0xlFpKt0OA=", "size": 45,
        })
    );
    assert_eq!(get(json!({"ids": [cat]}))["list"][0]["data:asText"], "How quick was that?");
    // A range that ends within a character; one beyond the end; bytes that are not text.
    let made =
        upload(json!({"s": {"data": [{"data:asText": "smörgås"}, {"data:asBase64": "/w=="}]}}));
    let odd = made["created"]["s"]["id"].as_str().unwrap();
    let answer =
        get(json!({"ids": [odd], "offset": 0, "length": 3, "properties": ["data:asText"]}));
    assert_eq!(
        answer["list"][0],
        json!({"id": odd, "data:asText": null, "isEncodingProblem": true})
    );
    let answer = get(json!({"ids": [odd], "offset": 8, "length": 10}));
    assert_eq!(answer["list"][0]["isTruncated"], true, "{answer}");
    assert_eq!(get(json!({"ids": [odd]}))["list"][0]["data:asBase64"], "c23DtnJnw6Vz/w==");
    assert_eq!(
        error(
            &context,
            "Blob/get",
            &json!({"accountId": account, "ids": [odd], "properties": ["x"]})
        ),
        "invalidArguments"
    );
    assert_eq!(error(&context, "Blob/get", &json!({"accountId": account})), "invalidArguments");
}

#[test]
fn blob_lookup_finds_emails_threads_and_mailboxes() {
    let context = context();
    let ann = ann(&context);
    let email = file(&context, ann, MESSAGE.as_bytes());
    let row = context.store.snapshot().email(ann, email).unwrap().unwrap();
    let part = BlobId::email(email).part(1).unwrap().to_string();
    let same = context.keep_upload(ann, MESSAGE.as_bytes(), "message/rfc822").unwrap().to_string();
    let lone = context.keep_upload(ann, b"lone", "text/plain").unwrap().to_string();
    let arguments = json!({
        "accountId": ann.to_string(),
        "typeNames": ["Email", "Thread", "Mailbox"],
        "ids": [part, same, lone, "none"],
    });
    let (_, answer) = call(&context, "Blob/lookup", &arguments);
    let mailbox = row.mailboxes.iter().next().unwrap().to_string();
    let held = json!({
        "Email": [email.to_string()],
        "Thread": [row.thread.to_string()],
        "Mailbox": [mailbox],
    });
    assert_eq!(
        (&answer["list"][0]["matchedIds"], &answer["list"][1]["matchedIds"]),
        (&held, &held)
    );
    assert_eq!(answer["list"][2]["matchedIds"], json!({"Email": [], "Thread": [], "Mailbox": []}));
    assert_eq!(answer["notFound"], json!(["none"]));
    let unknown = json!({"accountId": ann.to_string(), "typeNames": ["Todo"], "ids": []});
    assert_eq!(error(&context, "Blob/lookup", &unknown), "unknownDataType");
}

/// The bytes of a part come in small pieces, however its messages are nested and encoded.
#[test]
fn parts_of_uploads_are_streamed_at_any_nesting() {
    let context = context();
    let ann = ann(&context);
    let text = "Sphinx of black quartz, judge my vow.\r\n".repeat(10_000);
    let inner = MESSAGE.replace("caf=C3=A9=\r\n!\r\n", &text);
    let wrap = |encoding: &str, body: &str| {
        format!(
            "Subject: o\r\nMIME-Version: 1.0\r\nContent-Type: message/rfc822\r\n\
             Content-Transfer-Encoding: {encoding}\r\n\r\n{body}"
        )
    };
    let base64 = crate::wire::jmap::to_base64(inner.as_bytes());
    let account = context.accessible_account(ann).unwrap();
    for outer in
        [wrap("7bit", &inner), wrap("base64", &base64), wrap("7bit", &wrap("base64", &base64))]
    {
        let nested = outer.matches("Subject: o").count();
        let mut id = context.keep_upload(ann, outer.as_bytes(), "message/rfc822").unwrap();
        for _ in 0..nested {
            id = id.part(0).unwrap();
        }
        let id = id.part(1).unwrap();
        assert_eq!(context.memory_to_find_blob(&account, &id).unwrap(), outer.len() as u64);
        let blob = context.blob(&account, &id).unwrap().unwrap();
        // The last line break belongs to the boundary.
        assert_eq!(blob.size(&context.store).unwrap(), text.len() as u64 - 2);
        for (start, end) in [(0, u64::MAX), (1000, 1010), (200_000, 300_000)] {
            let (mut reader, mut got) = (blob.clone().reader(start..end), Vec::new());
            while let Some(piece) = reader.next(&context.store).unwrap() {
                // Nested decoders may add bytes that they kept from the piece before.
                assert!(!piece.is_empty() && piece.len() <= 129 * 1024, "{}", piece.len());
                got.extend(piece);
            }
            let all = &text.as_bytes()[..text.len() - 2];
            let within = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(all.len());
            assert_eq!(got, &all[within(start)..within(end)], "{start}..{end}");
        }
    }
    // A whole upload takes no memory to find.
    let upload = context.keep_upload(ann, inner.as_bytes(), "message/rfc822").unwrap();
    assert_eq!(context.memory_to_find_blob(&account, &upload).unwrap(), 0);
}

/// The ids of a thousand emails for each of a thousand parts would take much memory before the
/// finished answer is refused.
#[test]
fn answer_of_blob_lookup_is_counted_while_it_grows() {
    const ROOM: usize = 1 << 20;
    let context = context();
    let ann = ann(&context);
    for _ in 0..20 {
        file(&context, ann, MESSAGE.as_bytes());
    }
    let upload = context.keep_upload(ann, MESSAGE.as_bytes(), "message/rfc822").unwrap();
    let ids = [upload.to_string(), upload.part(1).unwrap().to_string()];
    let arguments = json!({"accountId": ann.to_string(), "typeNames": ["Email"], "ids": ids});
    let calls = json!([["Blob/lookup", arguments, "c"]]);
    let request = json!({"using": CAPABILITIES, "methodCalls": calls}).to_string();
    let request = parse(request.as_bytes(), CAPABILITIES).unwrap();
    let budget =
        Budget::with(limits::MAX_READ_BYTES_PER_REQUEST, limits::MAX_FILED_BYTES_PER_REQUEST, ROOM);
    let answer = run_within(&context, budget.clone(), request).unwrap().json();
    let list = &answer["methodResponses"][0][1]["list"];
    let found = |at: usize| list[at]["matchedIds"]["Email"].as_array().unwrap().len();
    assert_eq!((found(0), found(1)), (20, 20), "{answer}");
    // The finished answer was taken from the budget, and the objects that were counted while it
    // grew are still counted: together almost twice the weight of the list. If only one of them
    // were counted, `room` would be left.
    let room = ROOM - weight(list) - weight(list) / 2;
    assert!(budget.check_answer_room(room).is_err());
}
