//! The fuzz body of HTTP header fields.

use super::{InputRng, bounded};
use crate::wire::http::{
    RangeSelection, attachment, authority, client, credentials, forwarded, media_type, range,
    x_forwarded_for,
};

/// Parses any bytes as request fields, and writes them into response fields. What is parsed is
/// within its bounds, and what is written cannot end its field.
pub fn http(data: &[u8]) {
    let data = bounded(data);
    drop(credentials(data));
    let fields: Vec<&[u8]> = data.split(|byte| *byte == b'\n').collect();
    let trusted = ["10.0.0.0/8".parse().unwrap(), "::1".parse().unwrap()];
    let peer = Some("10.1.2.3".parse().unwrap());
    for hops in [forwarded(fields.iter().copied()), x_forwarded_for(fields.iter().copied())] {
        // `forwarded::MAX_HOPS`
        assert!(hops.len() <= 32, "{hops:?}");
        let client = client(peer, &hops, &trusted);
        assert!(client == peer || hops.contains(&client), "{client:?} of {hops:?}");
    }
    if let Some(host) = authority(data) {
        assert!(
            host.bytes().all(|byte| byte.is_ascii_graphic() && !b"/?#@\"<>".contains(&byte)),
            "{host}"
        );
    }
    let mut rng = InputRng::of(data);
    // The last is a random length below 1 TiB.
    for length in [0, 1, rng.number() >> 24] {
        if let RangeSelection::Part(part) = range(data, length) {
            assert!(part.start < part.end && part.end <= length, "{part:?} of {length}");
        }
    }
    let text = String::from_utf8_lossy(data);
    let field = attachment(&text);
    assert!(field.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()), "{field:?}");
    // A file name stands in quotes.
    let quotes = if field == "attachment" { 0 } else { 2 };
    assert_eq!(field.matches('"').count(), quotes, "{field}");
    if let Some(kind) = media_type(&text) {
        assert!(!kind.contains(['\r', '\n']), "{kind:?}");
    }
}
