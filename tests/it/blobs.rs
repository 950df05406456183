//! Uploads and downloads over HTTP (RFC 8620 §6).

use std::io::{Read as _, Write as _};
use std::time::Duration;

use serde_json::json;

use crate::bed::TestBed;
use crate::http::{Answer, basic, bed, connect, exchange, get};
use crate::mail::Client;

fn ann() -> String {
    basic("ann@example.org", "s3cret")
}

fn account_id(bed: &TestBed) -> String {
    bed.json(&["account", "show", "ann@example.org"])["id"].as_str().unwrap().to_owned()
}

fn post(bed: &TestBed, account: &str, fields: &[(&str, &str)], body: &[u8]) -> Answer {
    let ann = ann();
    let mut all = vec![("Authorization", ann.as_str())];
    all.extend(fields);
    exchange(connect(bed), "POST", &format!("/jmap/upload/{account}/"), &all, body)
}

/// The last component of the problem type that an answer names.
fn problem_type(answer: &Answer) -> String {
    answer.json()["type"].as_str().unwrap().rsplit(':').next().unwrap().to_owned()
}

#[test]
fn upload_can_be_downloaded_whole_and_in_ranges() {
    let bed = bed("");
    let account = account_id(&bed);
    let bytes: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    let made = post(
        &bed,
        &account,
        &[("Content-Type", "image/png"), ("X-JMAP-AccountId", &account)],
        &bytes,
    );
    assert_eq!(made.status, 200, "{made:?}");
    let made = made.json();
    assert_eq!(
        (&made["accountId"], &made["type"], &made["size"]),
        (&json!(account), &json!("image/png"), &json!(300_000))
    );
    let blob = made["blobId"].as_str().unwrap();
    let path = format!("/jmap/download/{account}/{blob}/M%C3%BCll%22er.png?accept=image%2Fjpeg");
    let whole = get(&bed, &path, &ann());
    assert!(whole.status == 200 && whole.body == bytes, "{}", whole.head);
    for (name, wanted) in [
        ("content-type", "image/jpeg"),
        ("content-length", "300000"),
        (
            "content-disposition",
            "attachment; filename=\"M_ll_er.png\"; filename*=UTF-8''M%C3%BCll%22er.png",
        ),
        ("cache-control", "private, immutable, max-age=31536000"),
        ("x-content-type-options", "nosniff"),
        ("content-security-policy", "default-src 'none'; sandbox"),
        ("accept-ranges", "bytes"),
    ] {
        assert_eq!(whole.field(name).as_deref(), Some(wanted), "{name}");
    }
    let plain = get(&bed, &format!("/jmap/download/{account}/{blob}/x"), &ann());
    assert_eq!(plain.field("content-type").as_deref(), Some("image/png"));
    let named = |name: &str| {
        let answer = get(&bed, &format!("/jmap/download/{account}/{blob}/{name}"), &ann());
        assert_eq!((answer.status, answer.body.len()), (200, 300_000), "{name}");
        answer.field("content-disposition").unwrap()
    };
    assert_eq!(named("a%2Fb"), "attachment; filename=\"a/b\"; filename*=UTF-8''a%2Fb");
    assert_eq!(
        (named(""), named("?accept=image%2Fpng")),
        ("attachment".into(), "attachment".into())
    );
    let tag = whole.field("etag").unwrap();
    let ask = |method: &str, fields: &[(&str, &str)]| {
        let ann = ann();
        let mut all = vec![("Authorization", ann.as_str())];
        all.extend(fields);
        exchange(connect(&bed), method, &path, &all, b"")
    };
    let part = ask("GET", &[("Range", "bytes=1000-1999")]);
    assert!(part.status == 206 && part.body == bytes[1000..2000], "{}", part.head);
    assert_eq!(part.field("content-range").as_deref(), Some("bytes 1000-1999/300000"));
    let part = ask("GET", &[("Range", "bytes=-10"), ("If-Range", &tag)]);
    assert!(part.status == 206 && part.body == bytes[299_990..]);
    // Only the whole tag itself counts, and no weak one (RFC 9110 §13.1.5).
    for condition in ["\"other\"", "*", &format!("W/{tag}"), &format!("\"other\", {tag}")] {
        let whole = ask("GET", &[("Range", "bytes=-10"), ("If-Range", condition)]);
        assert_eq!(whole.status, 200, "{condition}");
    }
    let none = ask("GET", &[("Range", "bytes=300000-")]);
    assert_eq!(
        (none.status, none.field("content-range").as_deref()),
        (416, Some("bytes */300000"))
    );
    assert_eq!(ask("GET", &[("If-None-Match", &tag)]).status, 304);
    // Only GET has ranges (RFC 9110 §14.2).
    for fields in [&[][..], &[("Range", "bytes=0-0")], &[("Range", "bytes=300000-")]] {
        let head = ask("HEAD", fields);
        assert_eq!(
            (head.status, head.field("content-length").as_deref(), head.body.len()),
            (200, Some("300000"), 0)
        );
        assert_eq!(head.field("content-range"), None);
    }
    for wrong in ["b0", "o0000000000000", "x", &format!("{blob}-7")] {
        assert_eq!(
            get(&bed, &format!("/jmap/download/{account}/{wrong}/x"), &ann()).status,
            404,
            "{wrong}"
        );
    }
    assert_eq!(get(&bed, &format!("/jmap/download/a0000007/{blob}/x"), &ann()).status, 404);
    assert_eq!(get(&bed, &format!("{path}%0d%0aX:y"), &ann()).status, 400);
    bed.finish();
}

#[test]
fn upload_is_refused_for_bad_headers_type_size_and_concurrency() {
    let bed = bed("http.refused-types = [\"video/*\"]\nhttp.max-upload = \"100 KiB\"\n");
    let account = account_id(&bed);
    let upload =
        |fields: &[(&str, &str)], size: usize| post(&bed, &account, fields, &vec![7; size]);
    assert_eq!(upload(&[("X-JMAP-AccountId", "a0000009")], 1).status, 400);
    assert_eq!(upload(&[("X-JMAP-AccountId", "nonsense")], 1).status, 400);
    assert_eq!(upload(&[("Content-Type", "nonsense")], 1).status, 400);
    assert_eq!(upload(&[("Content-Type", "Video/mp4")], 1).status, 415);
    assert_eq!(post(&bed, "a0000009", &[], b"x").status, 404);
    let large = upload(&[], 100 * 1024 + 1);
    assert_eq!(
        (large.status, problem_type(&large), large.json()["limit"].as_str()),
        (413, "limit".into(), Some("maxSizeUpload"))
    );
    assert_eq!(upload(&[], 100 * 1024).status, 200);
    let nobody = exchange(connect(&bed), "POST", &format!("/jmap/upload/{account}/"), &[], b"x");
    assert_eq!(nobody.status, 401);

    // maxConcurrentUpload: while enough uploads do not end, another one is refused.
    let ann = ann();
    let hold = || {
        let mut stream = connect(&bed);
        let head = format!(
            "POST /jmap/upload/{account}/ HTTP/1.1\r\nHost: x\r\nAuthorization: {ann}\r\n\
             Content-Length: 10\r\n\r\nx"
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream
    };
    // The probing upload counts as well, so an unfinished upload may be refused because of it.
    let mut held = Vec::new();
    bed.wait_until("an upload is refused", Duration::from_secs(30), || {
        held.push(hold());
        upload(&[], 1).status == 429
    });
    let more = upload(&[], 1);
    assert_eq!(
        (problem_type(&more), more.json()["limit"].as_str()),
        ("limit".into(), Some("maxConcurrentUpload"))
    );
    assert!(more.field("retry-after").is_some());
    drop(held);
    let is_accepted = || upload(&[], 1).status == 200;
    bed.wait_until("uploads are accepted again", Duration::from_secs(10), is_accepted);
    bed.finish();
}

#[test]
fn upload_rate_and_refused_types_hold_for_http_and_jmap() {
    let bed = bed("http.refused-types = [\"video/*\"]\nhttp.uploads-per-minute = 4\n");
    let account = account_id(&bed);
    let upload = |kind: &str| {
        let object = json!({"type": kind, "data": [{"data:asText": "x"}]});
        let arguments = json!({"accountId": account, "create": {"x": object}});
        let request = json!({"using": ["urn:ietf:params:jmap:core", "urn:ietf:params:jmap:blob"],
            "methodCalls": [["Blob/upload", arguments, "0"]]});
        let ann = ann();
        let fields = [("Authorization", ann.as_str()), ("Content-Type", "application/json")];
        let answer =
            exchange(connect(&bed), "POST", "/jmap", &fields, request.to_string().as_bytes())
                .json();
        answer["methodResponses"][0][1].clone()
    };
    let refused = upload("Video/MP4");
    assert_eq!(refused["notCreated"]["x"]["type"], "invalidProperties", "{refused}");
    assert_eq!(refused["notCreated"]["x"]["properties"], json!(["type"]));
    for _ in 0..2 {
        assert_eq!(post(&bed, &account, &[], b"x").status, 200);
        assert!(upload("text/plain")["created"]["x"]["id"].is_string());
    }
    let more = post(&bed, &account, &[], b"x");
    assert_eq!(more.status, 429, "{more:?}");
    // With 4 a minute, the next one is allowed within 15 s.
    let wait = more.field("retry-after").unwrap().parse::<u64>().unwrap();
    assert!((1..=15).contains(&wait), "{wait}");
    assert_eq!(upload("text/plain")["notCreated"]["x"]["type"], "rateLimit");
    bed.finish();
}

/// The resident memory of a process in KiB: now, and the peak.
fn resident(pid: u32) -> (u64, u64) {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    };
    (field("VmRSS:"), field("VmHWM:"))
}

#[test]
fn large_attachment_is_downloaded_without_buffering_it() {
    let bed = bed("");
    let account = account_id(&bed);
    // 30 MB, which base64 makes a message of 41 MB.
    let content: Vec<u8> = (0..30_000_000_u32).map(|n| (n % 253) as u8).collect();
    let text = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, &content);
    let mut message = b"From: <zoe@example.net>\r\nTo: <ann@example.org>\r\nSubject: large\r\n\
        MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n\
        --b\r\n\r\nsee there\r\n--b\r\n\
        Content-Type: application/zip\r\nContent-Transfer-Encoding: base64\r\n\r\n"
        .to_vec();
    for line in text.as_bytes().chunks(76) {
        message.extend_from_slice(line);
        message.extend_from_slice(b"\r\n");
    }
    message.extend_from_slice(b"--b--\r\n");
    let mut client = Client::lmtp(&bed.lmtp()).unwrap();
    let replies = client.deliver("zoe@example.net", &["ann@example.org"], &message).unwrap();
    assert_eq!(replies[0].code, 250, "{replies:?}");
    let email = &bed.list_mail("ann@example.org")[0].id;
    let path = format!("/jmap/download/{account}/o{}-2/large.zip", &email[1..]);
    // The first download fills the store's cache, which has its own bound, so it is not measured.
    assert_eq!(get(&bed, &path, &ann()).status, 200);
    let mut after = (0, 0);
    let mut measure_growth = || {
        // Resets the peak.
        std::fs::write(format!("/proc/{}/clear_refs", bed.pid()), "5").ok();
        let before = resident(bed.pid()).0;
        let answer = get(&bed, &path, &ann());
        let length = answer.field("content-length");
        assert_eq!((answer.status, length.as_deref()), (200, Some("30000000")), "{}", answer.head);
        assert!(answer.body == content);
        after = resident(bed.pid());
        println!(
            "30 MB downloaded: {before} KiB resident before, {} at most, {} after",
            after.1, after.0
        );
        after.1.max(after.0).saturating_sub(before)
    };
    // The least growth counts: during one download the store may also flush the delivery, but a
    // download that buffers the attachment grows every time.
    let least = (0..3).map(|_| measure_growth()).min().unwrap();
    assert!(least < 16 * 1024, "{least} KiB");

    // A client that does not read its download occupies little memory.
    let held: Vec<_> = (0..8)
        .map(|_| {
            let mut stream = connect(&bed);
            let ann = ann();
            let head = format!("GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: {ann}\r\n\r\n");
            stream.write_all(head.as_bytes()).unwrap();
            stream.read_exact(&mut [0; 1]).unwrap();
            stream
        })
        .collect();
    std::thread::sleep(Duration::from_millis(500));
    let with = resident(bed.pid()).0;
    println!("8 that do not read: {with} KiB");
    assert!(with < after.0 + 16 * 1024, "{after:?} {with}");
    drop(held);
    bed.finish();
}
