//! Compresses long JSON responses with zstd, br or gzip, as the client accepts.
//!
//! - Blobs are not compressed, because clients ask for ranges of them. Event streams are not,
//!   because an event must not wait for the next.
//! - A client that accepts all codings equally gets zstd, which is the fastest.
//! - The memory of an encoder is kept while the client reads, so a zstd encoder is made for the
//!   size of the response if that is known, and is freed with the last bytes.
//! - zstd is implemented here; `tower_http` implements the others, and skips responses that have a
//!   coding already.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use axum::extract::Request;
use axum::http::Response;
use axum::http::header::{
    ACCEPT_ENCODING, ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_LENGTH, HeaderValue, VARY,
};
use axum::middleware::Next;
use hyper::body::{Body as HttpBody, Bytes, Frame};
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::Predicate;
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer};

use crate::wire::http::prefers;

/// Shorter responses are not compressed.
const MIN_COMPRESSED_BYTES: u64 = 1024;
/// The most bytes of a compressed chunk.
const OUTPUT_CHUNK: usize = 32 * 1024;
/// The window of this level is far below the 8 MB that a client must support (RFC 9659 §3).
const ZSTD_LEVEL: i32 = 3;

/// Selects the responses that are compressed: long JSON that is no blob. Only blobs have
/// Accept-Ranges.
#[derive(Debug, Clone, Copy)]
pub(super) struct LongJson;

impl Predicate for LongJson {
    fn should_compress<B: HttpBody>(&self, response: &Response<B>) -> bool {
        let media_type =
            response.headers().get("content-type").and_then(|value| value.to_str().ok());
        media_type == Some("application/json")
            && !response.headers().contains_key(ACCEPT_RANGES)
            && response.body().size_hint().lower() >= MIN_COMPRESSED_BYTES
    }
}

/// Compresses with br and gzip what `zstd` left.
pub(super) fn layer() -> CompressionLayer<LongJson> {
    CompressionLayer::new().compress_when(LongJson)
}

/// Compresses with zstd. This layer must be inside the one that `layer` returns.
pub(super) async fn zstd(request: Request, next: Next) -> Response<Body> {
    let accepted =
        request.headers().get_all(ACCEPT_ENCODING).iter().filter_map(|field| field.to_str().ok());
    let prefers_zstd = prefers(&accepted.collect::<Vec<_>>().join(","), "zstd");
    let response = next.run(request).await;
    let is_coded = response.headers().contains_key(CONTENT_ENCODING);
    if !prefers_zstd || is_coded || !LongJson.should_compress(&response) {
        return response;
    }
    let size = response.body().size_hint().exact();
    let Some(context) = encoder(size) else { return response };
    let (mut head, body) = response.into_parts();
    head.headers.remove(CONTENT_LENGTH);
    head.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("zstd"));
    head.headers.append(VARY, HeaderValue::from_static("accept-encoding"));
    Response::from_parts(head, Body::new(CompressedBody::new(body, context)))
}

/// Returns an encoder for a body of `size` bytes, if that is known. Returns `None` if the library
/// has no memory.
fn encoder(size: Option<u64>) -> Option<CCtx<'static>> {
    let mut context = CCtx::try_create()?;
    context.set_parameter(CParameter::CompressionLevel(ZSTD_LEVEL)).ok()?;
    context.set_pledged_src_size(size).ok()?;
    Some(context)
}

struct CompressedBody {
    inner: Body,
    /// `None` when all is written, or after an error of the encoder.
    context: Option<CCtx<'static>>,
    /// Input that is not compressed yet.
    rest: Bytes,
    stage: CompressionStage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CompressionStage {
    Reading,
    /// All input was read; the end of the zstd frame is still to be written.
    Ending,
}

impl CompressedBody {
    fn new(inner: Body, context: CCtx<'static>) -> Self {
        let stage = CompressionStage::Reading;
        Self { inner, context: Some(context), rest: Bytes::new(), stage }
    }

    /// Returns the next compressed bytes, which may be none yet. Returns `None` if input must be
    /// read first, or at the end.
    fn next_chunk(&mut self) -> Result<Option<Bytes>, axum::Error> {
        let Some(context) = &mut self.context else { return Ok(None) };
        if self.stage == CompressionStage::Reading && self.rest.is_empty() {
            return Ok(None);
        }
        let mut out = vec![0; OUTPUT_CHUNK];
        let mut output = OutBuffer::around(out.as_mut_slice());
        let mut input = InBuffer::around(&self.rest);
        let pending = match self.stage {
            CompressionStage::Reading => context.compress_stream(&mut output, &mut input),
            CompressionStage::Ending => context.end_stream(&mut output),
        };
        let pending = pending.map_err(|code| {
            axum::Error::new(std::io::Error::other(zstd_safe::get_error_name(code)))
        })?;
        let (read, written) = (input.pos(), output.pos());
        let _consumed = self.rest.split_to(read.min(self.rest.len()));
        if self.stage == CompressionStage::Ending && pending == 0 {
            self.context = None;
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
            match this.next_chunk() {
                Ok(Some(chunk)) if chunk.is_empty() => {}
                Ok(Some(chunk)) => return Poll::Ready(Some(Ok(Frame::data(chunk)))),
                Ok(None) if this.context.is_none() => return Poll::Ready(None),
                Ok(None) => match ready!(Pin::new(&mut this.inner).poll_frame(cx)) {
                    // JSON has no trailers.
                    Some(Ok(frame)) => this.rest = frame.into_data().unwrap_or_default(),
                    Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                    None => this.stage = CompressionStage::Ending,
                },
                Err(error) => {
                    this.context = None;
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.context.is_none()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt as _, Full, StreamBody};

    use super::*;

    #[test]
    fn only_long_json_is_compressed() {
        let response = |kind: &str, length: usize| {
            let body = Full::new(Bytes::from(vec![b'x'; length]));
            Response::builder().header("content-type", kind).body(body).unwrap()
        };
        let is_compressed =
            |kind: &str, length: usize| LongJson.should_compress(&response(kind, length));
        assert!(is_compressed("application/json", 1024));
        assert!(
            !is_compressed("application/json", 1023)
                && !is_compressed("text/event-stream", 5000)
                && !is_compressed("image/png", 5000)
        );
        let mut blob = response("application/json", 5000);
        blob.headers_mut().insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        assert!(!LongJson.should_compress(&blob));
    }

    fn decompress(bytes: &[u8], size: usize) -> Vec<u8> {
        let mut out = vec![0; size + 1];
        let length = zstd_safe::decompress(out.as_mut_slice(), bytes)
            .map_err(zstd_safe::get_error_name)
            .unwrap();
        out.truncate(length);
        out
    }

    #[tokio::test]
    async fn compresses_bodies_of_any_size_in_small_frames() {
        // A third of the bytes is random, so that the output is long, too.
        let mut seed = 7u64;
        let long: Vec<u8> = (0..1_000_000u32)
            .map(|index| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                if index % 3 == 0 { (seed >> 56) as u8 } else { b'a' }
            })
            .collect();
        for (plain, chunk) in
            [(&b""[..], 1), (b"[]", 1), (&long[..5000], 7), (&long, 100_000), (&long, 1_000_000)]
        {
            let frames: Vec<_> = plain.chunks(chunk).map(Bytes::copy_from_slice).collect();
            for size in [None, Some(plain.len() as u64)] {
                let body =
                    frames.clone().into_iter().map(|data| Ok::<_, axum::Error>(Frame::data(data)));
                let body = Body::new(StreamBody::new(futures_util::stream::iter(body)));
                let mut body = CompressedBody::new(body, encoder(size).unwrap());
                let mut compressed = Vec::new();
                while let Some(frame) = body.frame().await {
                    let data = frame.unwrap().into_data().unwrap();
                    assert!((1..=OUTPUT_CHUNK).contains(&data.len()));
                    compressed.extend_from_slice(&data);
                }
                assert!(body.is_end_stream());
                let decompressed = decompress(&compressed, plain.len());
                assert!(decompressed == plain, "{} bytes by {chunk}", plain.len());
                assert!(compressed.len() < plain.len() * 2 / 3 + 100);
            }
        }
    }

    #[tokio::test]
    async fn encoder_of_a_short_body_is_small_and_ends_with_the_last_bytes() {
        let plain = vec![b'x'; 2048];
        let mut body = CompressedBody::new(Body::empty(), encoder(Some(2048)).unwrap());
        // Begins the frame, for which the encoder takes its memory.
        body.rest = Bytes::from(plain);
        assert!(body.next_chunk().unwrap().is_some());
        let used = body.context.as_ref().unwrap().sizeof();
        assert!(used < 128 * 1024, "{used} bytes");
        assert!(body.frame().await.is_some() && body.is_end_stream());
    }
}
