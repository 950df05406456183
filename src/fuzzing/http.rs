//! What comes in the fields of an HTTP request, and content in a transfer encoding.

use super::{InputRng, bounded};
use crate::wire::http::{
    RangeSelection, attachment, authority, client, credentials, forwarded, media_type, range,
    x_forwarded_for,
};

/// Any octets as each field that is read: nothing that is read leads out of its bounds, and nothing
/// that is written ends the field that it stands in.
pub fn http(data: &[u8]) {
    let data = bounded(data);
    drop(credentials(data));
    let fields: Vec<&[u8]> = data.split(|octet| *octet == b'\n').collect();
    let trusted = ["10.0.0.0/8".parse().unwrap(), "::1".parse().unwrap()];
    let peer = Some("10.1.2.3".parse().unwrap());
    for hops in [forwarded(fields.iter().copied()), x_forwarded_for(fields.iter().copied())] {
        assert!(hops.len() <= 32, "{hops:?}");
        let client = client(peer, &hops, &trusted);
        // It is somebody who was named, or the peer.
        assert!(client == peer || hops.contains(&client), "{client:?} of {hops:?}");
    }
    if let Some(host) = authority(data) {
        assert!(
            host.bytes().all(|octet| octet.is_ascii_graphic() && !b"/?#@\"<>".contains(&octet)),
            "{host}"
        );
    }
    let mut dice = InputRng::of(data);
    for length in [0, 1, dice.throw() >> 24] {
        if let RangeSelection::Part(part) = range(data, length) {
            assert!(part.start < part.end && part.end <= length, "{part:?} of {length}");
        }
    }
    let text = String::from_utf8_lossy(data);
    let field = attachment(&text);
    assert!(field.bytes().all(|octet| octet == b' ' || octet.is_ascii_graphic()), "{field:?}");
    let quotes = if field == "attachment" { 0 } else { 2 };
    assert_eq!(field.matches('"').count(), quotes, "{field}");
    if let Some(kind) = media_type(&text) {
        assert!(!kind.contains(['\r', '\n']), "{kind:?}");
    }
}
