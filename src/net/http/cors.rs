//! Scripts of web pages (the CORS protocol of the Fetch standard): those of the named origins may ask, and read the answers.
//! No cookie is ever looked at, so none needs to be allowed.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::Backend;
use super::public::Origins;

pub(super) async fn guard(State(backend): State<Arc<Backend>>, request: Request, next: Next) -> Response {
    let origin = request.headers().get("origin").cloned();
    let allowed = origin.filter(|origin| is_allowed(&backend.http.get().origins, origin));
    let asks_first =
        request.method() == Method::OPTIONS && request.headers().contains_key("access-control-request-method");
    let mut response = match (&allowed, asks_first) {
        (Some(_), true) => StatusCode::NO_CONTENT.into_response(),
        _ => next.run(request).await,
    };
    let headers = response.headers_mut();
    headers.append("vary", HeaderValue::from_static("origin"));
    if let Some(origin) = allowed {
        allow(headers, origin, asks_first);
    }
    response
}

fn is_allowed(origins: &Origins, origin: &HeaderValue) -> bool {
    match origins {
        Origins::All => true,
        Origins::These(known) => known.iter().any(|known| origin.as_bytes().eq_ignore_ascii_case(known.as_bytes())),
    }
}

fn allow(headers: &mut HeaderMap, origin: HeaderValue, asks_first: bool) {
    headers.insert("access-control-allow-origin", origin);
    if asks_first {
        for (name, value) in [
            ("access-control-allow-methods", "GET, HEAD, POST, OPTIONS"),
            (
                "access-control-allow-headers",
                "authorization, content-type, range, if-range, if-none-match, last-event-id, x-jmap-accountid",
            ),
            ("access-control-max-age", "86400"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
    } else {
        let exposed = "accept-ranges, content-disposition, content-range, etag, retry-after, www-authenticate";
        headers.insert("access-control-expose-headers", HeaderValue::from_static(exposed));
    }
}
