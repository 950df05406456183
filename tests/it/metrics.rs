//! The metrics, as the command `metrics` and the metrics listener return them. The listener serves
//! nothing else.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::bed::TestBed;
use crate::mail::{Client, letter};

/// The value of a metric. `name` includes the labels, as they stand in the text.
fn value(text: &str, name: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

fn fetch(socket: &Path, path: &str) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn deliveries_and_decisions_are_counted() {
    let mut bed = TestBed::new("");
    let socket = bed.dir.join("metrics");
    let text = fs::read_to_string(bed.config()).unwrap();
    fs::write(bed.config(), format!("{text}metrics.listen = \"unix:{}\"\n", socket.display()))
        .unwrap();
    bed.start();
    bed.add_account("ann@example.org", &[]);
    bed.run_ok(&["vacation", "set", "-a", "ann@example.org", "--text", "Away."]);
    let client = &mut Client::lmtp(&bed.lmtp()).unwrap();
    // The third message is the second one again.
    for subject in ["one", "two", "two"] {
        let message = letter("zoe@example.net", "ann@example.org", subject, "text");
        let replies = client.deliver("zoe@example.net", &["ann@example.org"], &message).unwrap();
        assert_eq!(replies[0].code, 250, "{replies:?}");
    }
    for text in [String::from_utf8(bed.run_ok(&["metrics"])).unwrap(), fetch(&socket, "/metrics")] {
        for (name, wanted) in [
            ("restante_deliveries_total{result=\"filed\"}", 2.0),
            ("restante_deliveries_total{result=\"again\"}", 1.0),
            ("restante_deliveries_total{result=\"deferred\"}", 0.0),
            ("restante_delivery_seconds_count", 3.0),
            ("restante_vacation_decisions_total{reason=\"answered\"}", 1.0),
            ("restante_vacation_decisions_total{reason=\"already-told\"}", 1.0),
            ("restante_lmtp_sessions", 1.0),
        ] {
            assert_eq!(value(&text, name), Some(wanted), "{name}\n{text}");
        }
        for of in ["syncs", "log_octets", "write_buffers_octets", "cache_octets"] {
            let name = format!("restante_store{{of=\"{of}\"}}");
            assert!(value(&text, &name).is_some_and(|number| number > 0.0), "{name}\n{text}");
        }
    }
    // Nothing else is served there.
    let refused = fetch(&socket, "/jmap");
    assert!(refused.starts_with("HTTP/1.1 404"), "{refused}");
    bed.finish();
}
