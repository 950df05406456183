//! Answers in JSON are compressed for who takes that (br, gzip), if they are long enough to gain by it. Blobs and event
//! streams are not: of a blob ranges are asked for, and an event must not wait for the next.

use axum::http::Response;
use hyper::body::Body;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::Predicate;

/// What is shorter goes as it is.
const LEAST: u64 = 1024;

/// JSON that is long enough.
#[derive(Debug, Clone, Copy)]
pub(super) struct LongJson;

impl Predicate for LongJson {
    fn should_compress<B: Body>(&self, response: &Response<B>) -> bool {
        let kind = response.headers().get("content-type").and_then(|kind| kind.to_str().ok());
        kind == Some("application/json") && response.body().size_hint().lower() >= LEAST
    }
}

/// The layer that does it.
pub(super) fn layer() -> CompressionLayer<LongJson> {
    CompressionLayer::new().compress_when(LongJson)
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;
    use hyper::body::Bytes;

    use super::*;

    #[test]
    fn long_json_alone() {
        let of = |kind: &str, length: usize| {
            let body = Full::new(Bytes::from(vec![b'x'; length]));
            LongJson.should_compress(&Response::builder().header("content-type", kind).body(body).unwrap())
        };
        assert!(of("application/json", 1024));
        assert!(!of("application/json", 1023) && !of("text/event-stream", 5000) && !of("image/png", 5000));
    }
}
