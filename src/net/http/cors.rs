//! Admits requests of web pages from configured origins (the CORS protocol of the Fetch standard)
//! and refuses those of all other pages.
//!
//! - A browser adds a remembered Basic login to any request that any page sends here. So CORS
//!   alone, which only hides responses, is not enough.
//! - A page is identified by `Origin`, or by `Sec-Fetch-Site` if the browser leaves `Origin` out.
//! - Pages of `[http] url` and, with the right scheme (`is_own`), of the request's host are always
//!   admitted.
//! - A request with a token is not checked, because a browser does not add a token on its own.
//! - A request that opens a WebSocket is checked even with a token, because a page cannot add one
//!   to it.
//! - Cookies are ignored, so `Access-Control-Allow-Credentials` is not sent.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::Backend;
use super::origin::ConnectionInfo;
use super::problem::Problem;
use super::public::HttpSettings;
use crate::wire::http::{Credentials, authority, credentials};

/// Refuses requests of pages that are not admitted. Answers preflights from configured origins, and
/// adds the CORS fields to the responses to these origins.
pub(super) async fn guard(
    State(backend): State<Arc<Backend>>,
    request: Request,
    next: Next,
) -> Response {
    let settings = backend.http.get();
    let is_tls =
        request.extensions().get::<ConnectionInfo>().is_some_and(|connection| connection.is_tls);
    let cors_request = CorsRequest {
        is_tls,
        method: request.method(),
        uri: request.uri(),
        headers: request.headers(),
    };
    let is_foreign = cors_request.is_foreign(&settings);
    let origin = request.headers().get("origin").cloned();
    let allowed =
        origin.filter(|origin| settings.origins.all || is_configured(&settings, origin.as_bytes()));
    let is_preflight = request.method() == Method::OPTIONS
        && request.headers().contains_key("access-control-request-method");
    let mut response = match (&allowed, is_preflight) {
        (Some(_), true) => StatusCode::NO_CONTENT.into_response(),
        _ if is_foreign => {
            let origin = request.headers().get("origin");
            tracing::info!(?origin, "refused a request of a foreign web page");
            Problem::new(
                StatusCode::FORBIDDEN,
                "this web page may not use the API: its origin is not configured here",
            )
            .into_response()
        }
        _ => next.run(request).await,
    };
    let headers = response.headers_mut();
    headers.append("vary", HeaderValue::from_static("origin"));
    if let Some(origin) = allowed {
        allow(headers, origin, is_preflight);
    }
    response
}

#[derive(Clone, Copy)]
struct CorsRequest<'a> {
    is_tls: bool,
    method: &'a Method,
    uri: &'a Uri,
    headers: &'a HeaderMap,
}

impl CorsRequest<'_> {
    fn is_foreign(&self, settings: &HttpSettings) -> bool {
        let opens_websocket = self.opens_websocket();
        if !opens_websocket && self.has_token() {
            return false;
        }
        // A page cannot give a WebSocket a login of its own: the browser sends the one that it
        // remembers. So `*` in `[http] origins` does not admit WebSockets.
        let all_admitted = settings.origins.all && !opens_websocket;
        let mut origins = self.headers.get_all("origin").iter().map(HeaderValue::as_bytes);
        match (origins.next(), origins.next()) {
            (Some(origin), None) => {
                !all_admitted && !is_configured(settings, origin) && !self.is_own(settings, origin)
            }
            (Some(_), Some(_)) => true,
            (None, _) => match self.field("sec-fetch-site") {
                None | Some(b"none" | b"same-origin") => false,
                // The user followed a link, for example to a download.
                Some(_) if self.is_read() && self.field("sec-fetch-mode") == Some(b"navigate") => {
                    false
                }
                Some(_) => !all_admitted,
            },
        }
    }

    fn field(&self, name: &str) -> Option<&[u8]> {
        self.headers.get(name).map(HeaderValue::as_bytes)
    }

    fn is_read(&self) -> bool {
        [Method::GET, Method::HEAD].contains(self.method)
    }

    /// Whether the request opens a WebSocket, by HTTP/1.1 (RFC 6455) or HTTP/2 (RFC 8441).
    fn opens_websocket(&self) -> bool {
        *self.method == Method::CONNECT
            || self.field("upgrade").is_some_and(|field| field.eq_ignore_ascii_case(b"websocket"))
    }

    fn has_token(&self) -> bool {
        matches!(self.field("authorization").and_then(credentials), Some(Credentials::Bearer(_)))
    }

    /// Whether an origin is that of `[http] url` or of the request's host.
    ///
    /// A page of the request's host must be `https` if the request has TLS. Without TLS it may be
    /// `http` or, because a proxy may do TLS, `https`.
    fn is_own(&self, settings: &HttpSettings, origin: &[u8]) -> bool {
        let Some(origin) = std::str::from_utf8(origin).ok().and_then(origin_of_url) else {
            return false;
        };
        if settings.url.as_deref().and_then(origin_of_url).is_some_and(|own| own == origin) {
            return true;
        }
        let host = self
            .uri
            .authority()
            .map(|authority| authority.as_str().as_bytes())
            .or_else(|| self.field("host"));
        let Some(host) = host.and_then(authority) else { return false };
        let schemes: &[&str] = if self.is_tls { &["https"] } else { &["https", "http"] };
        schemes.iter().any(|scheme| {
            origin_of_url(&format!("{scheme}://{host}")).is_some_and(|own| own == origin)
        })
    }
}

/// Returns the origin of a URL (RFC 6454 §6.2): scheme and host in lower case, with the port unless
/// it is the default of the scheme.
fn origin_of_url(url: &str) -> Option<String> {
    let url = url.to_ascii_lowercase();
    let (scheme, rest) = url.split_once("://")?;
    let host = rest.split('/').next().filter(|host| !host.is_empty())?;
    let default_port = match scheme {
        "https" => ":443",
        "http" => ":80",
        _ => "",
    };
    Some(format!("{scheme}://{}", host.strip_suffix(default_port).unwrap_or(host)))
}

fn is_configured(settings: &HttpSettings, origin: &[u8]) -> bool {
    settings.origins.named.iter().any(|named| origin.eq_ignore_ascii_case(named.as_bytes()))
}

fn allow(headers: &mut HeaderMap, origin: HeaderValue, is_preflight: bool) {
    headers.insert("access-control-allow-origin", origin);
    if is_preflight {
        for (name, value) in [
            ("access-control-allow-methods", "GET, HEAD, POST, OPTIONS"),
            (
                "access-control-allow-headers",
                "authorization, content-type, range, if-range, if-none-match, last-event-id, \
                 x-jmap-accountid",
            ),
            ("access-control-max-age", "86400"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
    } else {
        let exposed = "accept-ranges, content-disposition, content-range, etag, retry-after, \
                       www-authenticate";
        headers.insert("access-control-expose-headers", HeaderValue::from_static(exposed));
    }
}

#[cfg(test)]
mod tests;
