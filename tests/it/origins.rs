//! Requests of web pages over HTTP: pages of the configured origins and of the service's own may
//! send them, other pages only with a token, or by a link that the user follows.

use crate::http::{basic, bed, connect, exchange};

#[test]
fn pages_of_configured_origins_may_send_requests() {
    let bed = bed("http.origins = [\"https://webmail.example.org\"]\n");
    let ann = basic("ann@example.org", "s3cret");
    let ask = |method: &str, origin: &str, more: (&str, &str)| {
        exchange(connect(&bed), method, "/jmap/session", &[("Origin", origin), more], b"")
    };
    let first =
        ask("OPTIONS", "https://webmail.example.org", ("Access-Control-Request-Method", "POST"));
    assert_eq!(first.status, 204, "{first:?}");
    assert_eq!(
        first.field("access-control-allow-origin").as_deref(),
        Some("https://webmail.example.org")
    );
    assert!(first.field("access-control-allow-headers").unwrap().contains("authorization"));
    let then = ask("GET", "https://webmail.example.org", ("Authorization", &ann));
    assert_eq!(
        (then.status, then.field("access-control-allow-origin").as_deref()),
        (200, Some("https://webmail.example.org"))
    );
    let other = ask("OPTIONS", "https://evil.example", ("Access-Control-Request-Method", "POST"));
    assert!(
        other.status != 204 && other.field("access-control-allow-origin").is_none(),
        "{other:?}"
    );
    let other = ask("GET", "https://evil.example", ("Authorization", &ann));
    assert_eq!((other.status, other.field("access-control-allow-origin")), (403, None));
    bed.finish();
}

/// A browser adds a cached login to the requests of every page, so the origin must be checked.
#[test]
fn requests_from_pages_of_other_origins_are_refused() {
    let bed = bed("http.origins = [\"https://webmail.example.org\"]\n");
    let ann = basic("ann@example.org", "s3cret");
    let account =
        bed.json(&["account", "show", "ann@example.org"])["id"].as_str().unwrap().to_owned();
    let upload = format!("/jmap/upload/{account}/");
    let echo = r#"{"using":["urn:ietf:params:jmap:core"],"methodCalls":[["Core/echo",{},"0"]]}"#;
    let ask = |method: &str, path: &str, kind: &str, more: (&str, &str)| {
        let fields = [("Authorization", ann.as_str()), ("Content-Type", kind), more];
        let answer = exchange(
            connect(&bed),
            method,
            path,
            &fields,
            if method == "POST" { echo.as_bytes() } else { b"" },
        );
        if answer.status >= 400 {
            assert_eq!(
                answer.field("content-type").as_deref(),
                Some("application/problem+json"),
                "{answer:?}"
            );
        }
        answer.status
    };
    let (evil, form) = (("Origin", "https://evil.example"), ("Sec-Fetch-Site", "cross-site"));
    for path in [upload.as_str(), "/jmap"] {
        for (kind, foreign) in [
            ("text/plain", evil),
            ("application/json", form),
            ("application/json", ("Origin", "null")),
        ] {
            assert_eq!(ask("POST", path, kind, foreign), 403, "{path} {foreign:?}");
        }
        for own in [
            ("Origin", "https://webmail.example.org"),
            ("Origin", "http://mail.example.org"),
            ("X-Y", "z"),
        ] {
            assert_eq!(ask("POST", path, "application/json", own), 200, "{path} {own:?}");
        }
    }
    // An old browser posts a form without naming the page that it is on; but it is known by its
    // Accept. A simple client may send two of these content types.
    let page = ("Accept", "text/html,application/xhtml+xml,*/*;q=0.8");
    for (kind, simple) in [
        ("multipart/form-data; boundary=x", 415),
        ("application/x-www-form-urlencoded", 200),
        ("text/plain", 200),
    ] {
        assert_eq!(ask("POST", &upload, kind, page), 415, "{kind}");
        assert_eq!(ask("POST", &upload, kind, ("Accept", "*/*")), simple, "{kind}");
    }
    for path in
        ["/jmap/events?types=*&closeafter=state&ping=0", "/jmap/session", "/jmap/download/a/b/c"]
    {
        assert_eq!(ask("GET", path, "text/plain", evil), 403, "{path}");
        assert_eq!(ask("GET", path, "text/plain", form), 403, "{path}");
    }
    // A user may follow a link, such as one to a download.
    let follow = [("Authorization", ann.as_str()), form, ("Sec-Fetch-Mode", "navigate")];
    assert_eq!(exchange(connect(&bed), "GET", "/jmap/session", &follow, b"").status, 200);
    // A page that has a token may use it: browsers never add tokens by themselves.
    let token = bed.json(&["account", "token", "add", "ann@example.org", "--name", "page"]);
    let bearer = format!("Bearer {}", token["token"].as_str().unwrap());
    let fields = [("Authorization", bearer.as_str()), evil];
    assert_eq!(exchange(connect(&bed), "GET", "/jmap/session", &fields, b"").status, 200);
    bed.finish();
}
