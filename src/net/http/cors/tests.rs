use super::*;
use crate::net::http::public::AllowedOrigins;

const WEBMAIL: &str = "https://webmail.example.org";
const EVIL: &str = "https://evil.example";

fn settings(url: Option<&str>, all: bool) -> HttpSettings {
    let origins = AllowedOrigins { all, named: vec![WEBMAIL.into()] };
    HttpSettings { url: url.map(str::to_owned), origins, ..HttpSettings::default() }
}

/// Whether a request to `mail.example.org` is refused.
fn refused(
    settings: &HttpSettings,
    secured: bool,
    method: &str,
    fields: &[(&'static str, &str)],
) -> bool {
    let mut headers = HeaderMap::new();
    headers.insert("host", HeaderValue::from_static("mail.example.org"));
    for (name, value) in fields {
        headers.append(*name, HeaderValue::from_str(value).unwrap());
    }
    let method = method.parse().unwrap();
    CorsRequest { secured, method: &method, uri: &Uri::from_static("/jmap"), headers: &headers }
        .is_foreign(settings)
}

#[test]
fn pages_of_other_origins_are_refused() {
    let site = settings(None, false);
    for method in ["GET", "HEAD", "POST", "OPTIONS", "CONNECT"] {
        assert!(refused(&site, true, method, &[("origin", EVIL)]), "{method}");
        assert!(refused(&site, true, method, &[("origin", "null")]), "{method}");
        assert!(refused(&site, true, method, &[("origin", WEBMAIL), ("origin", EVIL)]), "{method}");
        for good in [
            WEBMAIL,
            "HTTPS://Webmail.Example.org",
            "https://mail.example.org",
            "https://mail.example.org:443",
        ] {
            assert!(!refused(&site, true, method, &[("origin", good)]), "{method} {good}");
        }
        assert!(!refused(&site, true, method, &[]), "{method}: no browser");
    }
    for near in [
        "https://mail.example.org.evil.example",
        "https://evil.example/mail.example.org",
        "mail.example.org",
    ] {
        assert!(refused(&site, true, "POST", &[("origin", near)]), "{near}");
    }
}

#[test]
fn our_own_origin_by_url_and_by_host() {
    let (by_url, by_host) =
        (settings(Some("https://jmap.example.org:8443/base"), false), settings(None, false));
    let own = |settings: &HttpSettings, secured, origin| {
        !refused(settings, secured, "POST", &[("origin", origin)])
    };
    assert!(
        own(&by_url, true, "https://jmap.example.org:8443")
            && !own(&by_url, true, "https://jmap.example.org")
    );
    assert!(!own(&by_host, true, "https://jmap.example.org:8443"));
    // Behind a proxy that does TLS the page is `https`. Over TLS a page in the clear is another's.
    assert!(
        own(&by_host, false, "https://mail.example.org")
            && own(&by_host, false, "http://mail.example.org")
    );
    assert!(
        own(&by_host, false, "http://mail.example.org:80")
            && !own(&by_host, true, "http://mail.example.org")
    );
    assert!(!own(&by_host, true, "https://mail.example.org:8443"));
}

#[test]
fn without_an_origin_the_browser_says_whether_the_page_is_ours() {
    let site = settings(None, false);
    for other in ["cross-site", "same-site", "something new"] {
        let of = |method, mode| {
            refused(&site, true, method, &[("sec-fetch-site", other), ("sec-fetch-mode", mode)])
        };
        assert!(of("POST", "navigate") && of("POST", "no-cors"), "{other}");
        // An image of a download, or an event stream that nobody reads, would take up what its user
        // may have at once.
        assert!(of("GET", "no-cors") && !of("GET", "navigate"), "{other}");
    }
    for own in ["same-origin", "none"] {
        assert!(!refused(&site, true, "POST", &[("sec-fetch-site", own)]), "{own}");
    }
    // Node's fetch says how it asks, though it is no browser.
    assert!(!refused(&site, true, "POST", &[("sec-fetch-mode", "cors")]));
}

#[test]
fn a_token_is_never_sent_by_a_browser_alone() {
    let site = settings(None, false);
    let asked = |authorization, more: &[(&'static str, &str)]| {
        let fields = [&[("origin", EVIL), ("authorization", authorization)], more].concat();
        refused(&site, true, "GET", &fields)
    };
    assert!(!asked("Bearer 0123456789abcdef", &[]));
    assert!(asked("Basic YW5uOng=", &[]));
    assert!(asked("Bearer 0123456789abcdef", &[("upgrade", "WebSocket")]));
}

#[test]
fn every_page_may_ask_but_not_open_a_websocket() {
    let site = settings(None, true);
    assert!(!refused(&site, true, "POST", &[("origin", EVIL)]));
    assert!(!refused(&site, true, "POST", &[("sec-fetch-site", "cross-site")]));
    for (method, fields) in [
        ("GET", &[("origin", EVIL), ("upgrade", "websocket")][..]),
        ("CONNECT", &[("origin", EVIL)]),
    ] {
        assert!(refused(&site, true, method, fields));
    }
    assert!(!refused(&site, true, "GET", &[("origin", WEBMAIL), ("upgrade", "websocket")]));
}
