//! Web pages: those of the named origins may ask and read the answers (the CORS protocol of the
//! Fetch standard); what any other page sends is refused.
//!
//! - A browser adds a login by Basic that it remembers to whatever any page sends here: to a form,
//!   to a WebSocket, to an event stream. So CORS alone, which only hides answers, is not enough.
//! - A page is known by `Origin`, and where a browser leaves that out by `Sec-Fetch-Site`. Other
//!   clients send neither.
//! - Our own pages are those of the host that the request went to, and of `[http] url`.
//! - A browser never sends a token by itself, so a request with one is not looked at; but a
//!   WebSocket always is.
//! - No cookie is ever looked at, so none needs to be allowed.

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

/// Answers for pages that may ask, and refuses the others.
pub(super) async fn guard(
    State(backend): State<Arc<Backend>>,
    request: Request,
    next: Next,
) -> Response {
    let settings = backend.http.get();
    let secured =
        request.extensions().get::<ConnectionInfo>().is_some_and(|connection| connection.secured);
    let asked = CorsRequest {
        secured,
        method: request.method(),
        uri: request.uri(),
        headers: request.headers(),
    };
    let is_foreign = asked.is_foreign(&settings);
    let origin = request.headers().get("origin").cloned();
    let allowed =
        origin.filter(|origin| settings.origins.all || is_named(&settings, origin.as_bytes()));
    let asks_first = request.method() == Method::OPTIONS
        && request.headers().contains_key("access-control-request-method");
    let mut response = match (&allowed, asks_first) {
        (Some(_), true) => StatusCode::NO_CONTENT.into_response(),
        _ if is_foreign => {
            tracing::info!(origin = ?request.headers().get("origin"), "a web page that may not ask");
            Problem::new(
                StatusCode::FORBIDDEN,
                "this web page may not ask: its origin is not configured here",
            )
            .into_response()
        }
        _ => next.run(request).await,
    };
    let headers = response.headers_mut();
    headers.append("vary", HeaderValue::from_static("origin"));
    if let Some(origin) = allowed {
        allow(headers, origin, asks_first);
    }
    response
}

/// What of a request tells which page sent it.
#[derive(Clone, Copy)]
struct CorsRequest<'a> {
    /// Whether it came by TLS.
    secured: bool,
    method: &'a Method,
    uri: &'a Uri,
    headers: &'a HeaderMap,
}

impl CorsRequest<'_> {
    /// Whether a page sent it that is neither named nor our own.
    fn is_foreign(&self, settings: &HttpSettings) -> bool {
        let is_socket = self.is_socket();
        if !is_socket && self.has_token() {
            return false;
        }
        // Only a login that the browser remembers comes with a page's WebSocket: every page is not
        // enough for that.
        let any = settings.origins.all && !is_socket;
        let mut origins = self.headers.get_all("origin").iter().map(HeaderValue::as_bytes);
        match (origins.next(), origins.next()) {
            (Some(origin), None) => {
                !any && !is_named(settings, origin) && !self.is_own(settings, origin)
            }
            (Some(_), Some(_)) => true,
            (None, _) => match self.field("sec-fetch-site") {
                None | Some(b"none" | b"same-origin") => false,
                // A link that the user followed, to a download for example.
                Some(_) if self.reads() && self.field("sec-fetch-mode") == Some(b"navigate") => {
                    false
                }
                Some(_) => !any,
            },
        }
    }

    fn field(&self, name: &str) -> Option<&[u8]> {
        self.headers.get(name).map(HeaderValue::as_bytes)
    }

    fn reads(&self) -> bool {
        [Method::GET, Method::HEAD].contains(self.method)
    }

    /// Whether it opens a WebSocket, by HTTP/1.1 (RFC 6455) or HTTP/2 (RFC 8441).
    fn is_socket(&self) -> bool {
        *self.method == Method::CONNECT
            || self.field("upgrade").is_some_and(|field| field.eq_ignore_ascii_case(b"websocket"))
    }

    fn has_token(&self) -> bool {
        matches!(self.field("authorization").and_then(credentials), Some(Credentials::Bearer(_)))
    }

    /// Whether an origin is that of `[http] url`, or of the host that the request went to. Where
    /// TLS ends at a proxy, ours may be `https` though the request came in the clear; never the
    /// other way round.
    fn is_own(&self, settings: &HttpSettings, origin: &[u8]) -> bool {
        let Some(origin) = std::str::from_utf8(origin).ok().and_then(normal) else { return false };
        if settings.url.as_deref().and_then(normal).is_some_and(|own| own == origin) {
            return true;
        }
        let said = self
            .uri
            .authority()
            .map(|said| said.as_str().as_bytes())
            .or_else(|| self.field("host"));
        let Some(host) = said.and_then(authority) else { return false };
        let schemes: &[&str] = if self.secured { &["https"] } else { &["https", "http"] };
        schemes
            .iter()
            .any(|scheme| normal(&format!("{scheme}://{host}")).is_some_and(|own| own == origin))
    }
}

/// The origin of a URL (RFC 6454 §6.2): scheme and host in lower case, the port where it is not the
/// scheme's own.
fn normal(url: &str) -> Option<String> {
    let url = url.to_ascii_lowercase();
    let (scheme, rest) = url.split_once("://")?;
    let host = rest.split('/').next().filter(|host| !host.is_empty())?;
    let usual = match scheme {
        "https" => ":443",
        "http" => ":80",
        _ => "",
    };
    Some(format!("{scheme}://{}", host.strip_suffix(usual).unwrap_or(host)))
}

fn is_named(settings: &HttpSettings, origin: &[u8]) -> bool {
    settings.origins.named.iter().any(|known| origin.eq_ignore_ascii_case(known.as_bytes()))
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

#[cfg(test)]
mod tests;
