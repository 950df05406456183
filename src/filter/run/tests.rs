//! Tests of runs: what their scripts see, and what they share.

use super::*;
use crate::message::header::Header;
use crate::model::clock::FixedClock;
use crate::model::{Address, Envelope, Identity, Recipient};
use crate::store::engine::memory::MemoryEngine;
use crate::store::{Options, Store};

/// Calls a function with a request to filter a message.
fn with_request(header: &Header<'_>, run: impl FnOnce(&FilterRequest<'_>)) {
    let clock = Arc::new(FixedClock::at(UtcMillis(0)));
    let store =
        Store::open_engine(Arc::new(MemoryEngine::new()), &Options::small(), clock).unwrap();
    let ann = Address::parse("ann@example.org").unwrap();
    let identity = Identity {
        primary: ann.clone(),
        name: None,
        addresses: vec![ann.clone()],
        alias_domains: Vec::new(),
        delimiter: None,
        zone: None,
    };
    run(&FilterRequest {
        settings: &Settings::default(),
        snapshot: &store.snapshot(),
        account: AccountId(1),
        identity: &identity,
        header,
        envelope: &Envelope::default(),
        recipient: &Recipient::plain(ann),
        hostname: "mail.example.org",
        now: UtcMillis(0),
        is_stored: false,
        max_versions: 0,
    });
}

#[test]
fn script_sees_the_fields_of_a_header_whose_split_panicked() {
    with_request(&Header::unsplit(b"Subject: x\r\n\r\nhello\r\n"), |request| {
        let source: Arc<[u8]> = b"if not exists \"Subject\" { discard; }".as_slice().into();
        let result = run_alone(&ScriptCache::default(), request, "test", &source);
        assert!(result.error.is_none() && result.keep.is_some());
    });
}

#[test]
fn later_script_may_use_all_that_earlier_recipients_left() {
    let header = Header::split(b"Subject: x\r\n\r\nhello\r\n");
    with_request(&header, check_that_fuel_is_shared);
}

fn check_that_fuel_is_shared(request: &FilterRequest<'_>) {
    let settings = request.settings;
    let cache = ScriptCache::default();
    let stage = |name: &str| {
        let source = "if header \"Subject\" \"y\" { discard; }\n".repeat(50);
        site_stage(&cache, settings, &SiteScript::new(name, source.as_bytes()))
    };
    let scripts = AccountScripts::of(vec![stage("first"), stage("second")], settings);
    let before = scripts.fuel.get();
    assert_eq!(scripts.run(&cache, request).error, None);
    let used = before - scripts.fuel.get();
    assert!(used > 100, "{used}");
    // The fuel of the recipients is just what one more run needs.
    scripts.fuel.set(used);
    assert_eq!(scripts.run(&cache, request).error, None);
    scripts.fuel.set(used - 1);
    let (script, _, error) = scripts.run(&cache, request).error.unwrap();
    assert!(script == "site:second" && error.contains("too much work"), "{script}: {error}");
}
