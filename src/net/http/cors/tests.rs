use super::*;
use crate::net::http::public::AllowedOrigins;

const WEBMAIL: &str = "https://webmail.example.org";
const EVIL: &str = "https://evil.example";

/// Settings with `[http] url`, if it is given. They admit pages of `WEBMAIL`, and with `all` also
/// those of any other origin.
fn settings(url: Option<&str>, all: bool) -> HttpSettings {
    let origins = AllowedOrigins { all, named: vec![WEBMAIL.into()] };
    HttpSettings { url: url.map(str::to_owned), origins, ..HttpSettings::default() }
}

/// Whether a request to the host mail.example.org with these fields is refused.
fn is_refused(
    settings: &HttpSettings,
    is_tls: bool,
    method: &str,
    fields: &[(&'static str, &str)],
) -> bool {
    let mut headers = HeaderMap::new();
    headers.insert("host", HeaderValue::from_static("mail.example.org"));
    for (name, value) in fields {
        headers.append(*name, HeaderValue::from_str(value).unwrap());
    }
    let method = method.parse().unwrap();
    CorsRequest { is_tls, method: &method, uri: &Uri::from_static("/jmap"), headers: &headers }
        .is_foreign(settings)
}

#[test]
fn refuses_pages_of_other_origins() {
    let site = settings(None, false);
    for method in ["GET", "HEAD", "POST", "OPTIONS", "CONNECT"] {
        assert!(is_refused(&site, true, method, &[("origin", EVIL)]), "{method}");
        assert!(is_refused(&site, true, method, &[("origin", "null")]), "{method}");
        assert!(
            is_refused(&site, true, method, &[("origin", WEBMAIL), ("origin", EVIL)]),
            "{method}"
        );
        for good in [
            WEBMAIL,
            "HTTPS://Webmail.Example.org",
            "https://mail.example.org",
            "https://mail.example.org:443",
        ] {
            assert!(!is_refused(&site, true, method, &[("origin", good)]), "{method} {good}");
        }
        assert!(!is_refused(&site, true, method, &[]), "{method}: no browser");
    }
    for similar in [
        "https://mail.example.org.evil.example",
        "https://evil.example/mail.example.org",
        "mail.example.org",
    ] {
        assert!(is_refused(&site, true, "POST", &[("origin", similar)]), "{similar}");
    }
}

#[test]
fn admits_the_origins_of_url_and_host() {
    let (by_url, by_host) =
        (settings(Some("https://jmap.example.org:8443/base"), false), settings(None, false));
    let own = |settings: &HttpSettings, is_tls, origin| {
        !is_refused(settings, is_tls, "POST", &[("origin", origin)])
    };
    assert!(
        own(&by_url, true, "https://jmap.example.org:8443")
            && !own(&by_url, true, "https://jmap.example.org")
    );
    assert!(!own(&by_host, true, "https://jmap.example.org:8443"));
    // Behind a proxy that does TLS the page is `https`. With TLS here, a page cannot be `http`.
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
fn sec_fetch_site_identifies_a_page_without_origin() {
    let site = settings(None, false);
    for other in ["cross-site", "same-site", "something new"] {
        let refused = |method, mode| {
            is_refused(&site, true, method, &[("sec-fetch-site", other), ("sec-fetch-mode", mode)])
        };
        assert!(refused("POST", "navigate") && refused("POST", "no-cors"), "{other}");
        // A foreign page could use up the user's concurrent downloads or event streams.
        assert!(refused("GET", "no-cors") && !refused("GET", "navigate"), "{other}");
    }
    for own in ["same-origin", "none"] {
        assert!(!is_refused(&site, true, "POST", &[("sec-fetch-site", own)]), "{own}");
    }
    // Node's fetch sends Sec-Fetch-Mode and no Sec-Fetch-Site, although it is not a browser.
    assert!(!is_refused(&site, true, "POST", &[("sec-fetch-mode", "cors")]));
}

#[test]
fn requests_with_a_token_are_admitted_except_websockets() {
    let site = settings(None, false);
    let refused = |authorization, more: &[(&'static str, &str)]| {
        let fields = [&[("origin", EVIL), ("authorization", authorization)], more].concat();
        is_refused(&site, true, "GET", &fields)
    };
    assert!(!refused("Bearer 0123456789abcdef", &[]));
    assert!(refused("Basic YW5uOng=", &[]));
    assert!(refused("Bearer 0123456789abcdef", &[("upgrade", "WebSocket")]));
}

#[test]
fn wildcard_admits_requests_but_not_websockets() {
    let site = settings(None, true);
    assert!(!is_refused(&site, true, "POST", &[("origin", EVIL)]));
    assert!(!is_refused(&site, true, "POST", &[("sec-fetch-site", "cross-site")]));
    for (method, fields) in [
        ("GET", &[("origin", EVIL), ("upgrade", "websocket")][..]),
        ("CONNECT", &[("origin", EVIL)]),
    ] {
        assert!(is_refused(&site, true, method, fields));
    }
    assert!(!is_refused(&site, true, "GET", &[("origin", WEBMAIL), ("upgrade", "websocket")]));
}
