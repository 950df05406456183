//! Answers in JSON are compressed for who takes that (zstd, br, gzip), if they are long enough to
//! gain by it. Blobs and event streams are not: of a blob ranges are asked for, and an event must
//! not wait for the next.
//!
//! zstd is done here, a piece at a time, by the library that the store is compressed with; the
//! others by `tower_http`, which leaves alone what has a coding already. A client that accepts all
//! codings alike gets zstd: it is the fastest.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use axum::extract::Request;
use axum::http::Response;
use axum::http::header::{
    ACCEPT_ENCODING, ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, HeaderValue,
    VARY,
};
use axum::middleware::Next;
use hyper::body::{Body as HttpBody, Bytes, Frame};
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::Predicate;
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer};

use crate::wire::http::prefers;

/// What is shorter goes as it is.
const MIN_COMPRESSED_BYTES: u64 = 1024;
/// Octets that are written at a time.
const OUTPUT_CHUNK: usize = 32 * 1024;
/// How hard zstd tries: its usual level, whose window is far below the 8 MB that a client must have
/// room for (RFC 9659 §3).
const ZSTD_LEVEL: i32 = 3;

/// JSON that is long enough.
#[derive(Debug, Clone, Copy)]
pub(super) struct LongJson;

impl Predicate for LongJson {
    fn should_compress<B: HttpBody>(&self, response: &Response<B>) -> bool {
        let kind = response.headers().get("content-type").and_then(|kind| kind.to_str().ok());
        kind == Some("application/json")
            && response.body().size_hint().lower() >= MIN_COMPRESSED_BYTES
    }
}

/// The layer that does it for br and gzip.
pub(super) fn layer() -> CompressionLayer<LongJson> {
    CompressionLayer::new().compress_when(LongJson)
}

/// The layer that does it for zstd, within the other.
pub(super) async fn zstd(request: Request, next: Next) -> Response<Body> {
    let accepted =
        request.headers().get_all(ACCEPT_ENCODING).iter().filter_map(|field| field.to_str().ok());
    let wanted = prefers(&accepted.collect::<Vec<_>>().join(","), "zstd");
    let response = next.run(request).await;
    let is_coded =
        [CONTENT_ENCODING, CONTENT_RANGE].iter().any(|name| response.headers().contains_key(name));
    if !wanted || is_coded || !LongJson.should_compress(&response) {
        return response;
    }
    let Some(pieces) = CompressedBody::level(ZSTD_LEVEL) else { return response };
    let (mut head, body) = response.into_parts();
    head.headers.remove(CONTENT_LENGTH);
    head.headers.remove(ACCEPT_RANGES);
    head.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("zstd"));
    head.headers.append(VARY, HeaderValue::from_static("accept-encoding"));
    Response::from_parts(head, Body::new(pieces.of(body)))
}

/// A body that is compressed as it is read.
struct CompressedBody {
    inner: Body,
    context: CCtx<'static>,
    /// What was read and is still to be written.
    rest: Bytes,
    stage: CompressionStage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CompressionStage {
    Reading,
    /// All was read: the end of the frame is still to be written.
    Ending,
    Over,
}

impl CompressedBody {
    fn level(level: i32) -> Option<Self> {
        let mut context = CCtx::try_create()?;
        context.set_parameter(CParameter::CompressionLevel(level)).ok()?;
        Some(Self {
            inner: Body::empty(),
            context,
            rest: Bytes::new(),
            stage: CompressionStage::Reading,
        })
    }

    fn of(self, inner: Body) -> Self {
        Self { inner, ..self }
    }

    /// Writes one piece of what there is. Nothing where more must be read first, or all is written.
    fn piece(&mut self) -> Result<Option<Bytes>, axum::Error> {
        if self.stage == CompressionStage::Over
            || (self.stage == CompressionStage::Reading && self.rest.is_empty())
        {
            return Ok(None);
        }
        let mut out = vec![0; OUTPUT_CHUNK];
        let mut output = OutBuffer::around(out.as_mut_slice());
        let mut input = InBuffer::around(&self.rest);
        let left = match self.stage {
            CompressionStage::Reading => self.context.compress_stream(&mut output, &mut input),
            CompressionStage::Ending | CompressionStage::Over => {
                self.context.end_stream(&mut output)
            }
        };
        let left = left.map_err(|code| {
            axum::Error::new(std::io::Error::other(zstd_safe::get_error_name(code)))
        })?;
        let (read, written) = (input.pos(), output.pos());
        let _read = self.rest.split_to(read.min(self.rest.len()));
        if self.stage == CompressionStage::Ending && left == 0 {
            self.stage = CompressionStage::Over;
        }
        out.truncate(written);
        Ok(Some(out.into()))
    }
}

impl HttpBody for CompressedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        loop {
            match this.piece() {
                Ok(Some(piece)) if piece.is_empty() => {}
                Ok(Some(piece)) => return Poll::Ready(Some(Ok(Frame::data(piece)))),
                Ok(None) if this.stage == CompressionStage::Over => return Poll::Ready(None),
                Ok(None) => match ready!(Pin::new(&mut this.inner).poll_frame(cx)) {
                    // JSON has no trailers.
                    Some(Ok(frame)) => this.rest = frame.into_data().unwrap_or_default(),
                    Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                    None => this.stage = CompressionStage::Ending,
                },
                Err(error) => {
                    this.stage = CompressionStage::Over;
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt as _, Full, StreamBody};

    use super::*;

    #[test]
    fn long_json_alone() {
        let of = |kind: &str, length: usize| {
            let body = Full::new(Bytes::from(vec![b'x'; length]));
            LongJson.should_compress(
                &Response::builder().header("content-type", kind).body(body).unwrap(),
            )
        };
        assert!(of("application/json", 1024));
        assert!(
            !of("application/json", 1023)
                && !of("text/event-stream", 5000)
                && !of("image/png", 5000)
        );
    }

    fn unpacked(octets: &[u8], size: usize) -> Vec<u8> {
        let mut out = vec![0; size + 1];
        let length = zstd_safe::decompress(out.as_mut_slice(), octets)
            .map_err(zstd_safe::get_error_name)
            .unwrap();
        out.truncate(length);
        out
    }

    /// However it comes, and however much: what is unpacked is what was there, and no piece is
    /// large.
    #[tokio::test]
    async fn a_body_is_compressed_a_piece_at_a_time() {
        // Some of it repeats and some does not.
        let mut seed = 7u64;
        let long: Vec<u8> = (0..1_000_000u32)
            .map(|at| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                if at % 3 == 0 { (seed >> 56) as u8 } else { b'a' }
            })
            .collect();
        for (whole, chunk) in
            [(&b""[..], 1), (b"[]", 1), (&long[..5000], 7), (&long, 100_000), (&long, 1_000_000)]
        {
            let frames = whole
                .chunks(chunk)
                .map(|piece| Ok::<_, axum::Error>(Frame::data(Bytes::copy_from_slice(piece))));
            let frames: Vec<_> = frames.collect();
            let body = Body::new(StreamBody::new(futures_util::stream::iter(frames)));
            let mut body = CompressedBody::level(ZSTD_LEVEL).unwrap().of(body);
            let mut octets = Vec::new();
            while let Some(frame) = body.frame().await {
                let data = frame.unwrap().into_data().unwrap();
                assert!((1..=OUTPUT_CHUNK).contains(&data.len()));
                octets.extend_from_slice(&data);
            }
            assert!(unpacked(&octets, whole.len()) == whole, "{} octets by {chunk}", whole.len());
            assert!(octets.len() < whole.len() * 2 / 3 + 100);
        }
    }
}
