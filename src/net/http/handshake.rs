//! The handshake of a WebSocket (RFC 6455 §4.2, over HTTP/2 RFC 8441).

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{
    ALLOW, CONNECTION, HeaderName, HeaderValue, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use axum::http::{HeaderMap, Method, StatusCode, Version};
use axum::response::{IntoResponse as _, Response};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use super::in_flight::Reservation;
use super::problem::Problem;
use super::websocket::Socket;
use crate::model::limits;

#[derive(Debug)]
pub(super) struct Handshake {
    /// `Sec-WebSocket-Key`; `None` over HTTP/2.
    key: Option<HeaderValue>,
    upgrade: OnUpgrade,
    protocols: Vec<HeaderValue>,
}

impl Handshake {
    /// Reads the handshake of a client (RFC 6455 §4.2.1, RFC 8441 §5).
    ///
    /// # Errors
    /// - 400: the handshake is malformed.
    /// - 405 with Allow: the method is neither GET nor CONNECT.
    /// - 426 with Sec-WebSocket-Version, and below HTTP/2 with Upgrade: the request does not ask
    ///   for a WebSocket of version 13.
    pub(super) fn parse(request: &mut Request) -> Result<Self, Problem> {
        let bad_request = |detail: &str| Problem::new(StatusCode::BAD_REQUEST, detail);
        let contains = |headers: &HeaderMap, name: &str, token: &str| {
            let fields = headers.get_all(name).iter().filter_map(|field| field.to_str().ok());
            fields
                .flat_map(|field| field.split(','))
                .any(|word| word.trim().eq_ignore_ascii_case(token))
        };
        let headers = request.headers();
        let key = if *request.method() == Method::CONNECT {
            let protocol = request.extensions().get::<hyper::ext::Protocol>();
            if protocol.is_none_or(|protocol| protocol.as_str() != "websocket") {
                return Err(bad_request(":protocol is not websocket"));
            }
            None
        } else {
            if *request.method() != Method::GET {
                return Err(Problem::new(
                    StatusCode::METHOD_NOT_ALLOWED,
                    "a WebSocket must be opened by GET or CONNECT",
                )
                .with_field(ALLOW, "GET, CONNECT"));
            }
            if !contains(headers, "connection", "upgrade")
                || !contains(headers, "upgrade", "websocket")
            {
                let detail = "this URL must be used with a WebSocket";
                return Err(upgrade_required(request.version(), detail));
            }
            Some(
                headers
                    .get("sec-websocket-key")
                    .cloned()
                    .ok_or_else(|| bad_request("Sec-WebSocket-Key is missing"))?,
            )
        };
        if headers.get("sec-websocket-version").is_none_or(|version| version != "13") {
            let detail = "only version 13 of the WebSocket protocol is supported";
            return Err(upgrade_required(request.version(), detail));
        }
        let protocols = headers.get_all("sec-websocket-protocol").iter().cloned().collect();
        let upgrade = request.extensions_mut().remove::<OnUpgrade>();
        Ok(Self {
            key,
            upgrade: upgrade.ok_or_else(|| bad_request("this connection cannot be upgraded"))?,
            protocols,
        })
    }

    /// Whether the client offers this subprotocol.
    pub(super) fn offers(&self, protocol: &str) -> bool {
        let offered = self.protocols.iter().filter_map(|field| field.to_str().ok());
        offered.flat_map(|field| field.split(',')).any(|offer| offer.trim() == protocol)
    }

    /// Answers the handshake. `serve` is called when the connection has become a WebSocket.
    /// `reservation` is empty, and grows with each message.
    pub(super) fn accept<F>(
        self,
        protocol: &'static str,
        reservation: Reservation,
        serve: impl FnOnce(Socket) -> F + Send + 'static,
    ) -> Response
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let upgrade = self.upgrade;
        tokio::spawn(async move {
            match upgrade.await {
                Ok(upgraded) => {
                    let stream = TokioIo::new(upgraded);
                    serve(Socket::new(stream, reservation, limits::HTTP_WRITE_TIMEOUT).await).await;
                }
                Err(error) => tracing::debug!(%error, "a WebSocket was not opened"),
            }
        });
        let mut response = Response::new(Body::empty());
        let mut set =
            |name, value| drop(response.headers_mut().insert(HeaderName::from_static(name), value));
        set("sec-websocket-protocol", HeaderValue::from_static(protocol));
        let Some(key) = self.key else { return response };
        let Ok(accepted) = HeaderValue::from_str(&derive_accept_key(key.as_bytes())) else {
            let detail = "Sec-WebSocket-Key is invalid";
            return Problem::new(StatusCode::BAD_REQUEST, detail).into_response();
        };
        set("connection", HeaderValue::from_static("upgrade"));
        set("upgrade", HeaderValue::from_static("websocket"));
        set("sec-websocket-accept", accepted);
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        response
    }
}

/// Returns the refusal of a request that does not ask for a WebSocket of version 13. It names the
/// protocol (RFC 9110 §15.5.22), except over HTTP/2, where fields of the connection are forbidden
/// (RFC 9113 §8.2.2), and the version (RFC 6455 §4.4).
fn upgrade_required(http: Version, detail: &str) -> Problem {
    let problem =
        Problem::new(StatusCode::UPGRADE_REQUIRED, detail).with_field(SEC_WEBSOCKET_VERSION, "13");
    if http >= Version::HTTP_2 {
        return problem;
    }
    problem.with_field(UPGRADE, "websocket").with_field(CONNECTION, "upgrade")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the refusal of a request with these fields.
    fn refused(method: Method, http: Version, fields: &[(&str, &str)]) -> Response {
        let mut request = Request::builder().method(method).version(http).uri("/jmap/ws");
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let mut request = request.body(Body::empty()).unwrap();
        Handshake::parse(&mut request).unwrap_err().into_response()
    }

    #[test]
    fn refusal_names_the_methods_and_the_protocol_with_its_version() {
        let refusal = refused(Method::PUT, Version::HTTP_11, &[]);
        assert_eq!(refusal.status().as_u16(), 405);
        assert_eq!(refusal.headers()[ALLOW].to_str().unwrap(), "GET, CONNECT");
        let old = [
            ("connection", "Upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-key", "eA=="),
            ("sec-websocket-version", "8"),
        ];
        for (http, fields) in
            [(Version::HTTP_11, &[][..]), (Version::HTTP_11, &old), (Version::HTTP_2, &[])]
        {
            let refusal = refused(Method::GET, http, fields);
            let field = |name| refusal.headers().get(name).map(|value| value.to_str().unwrap());
            assert_eq!(
                (refusal.status().as_u16(), field(SEC_WEBSOCKET_VERSION)),
                (426, Some("13"))
            );
            let is_old_http = http == Version::HTTP_11;
            assert_eq!(field(UPGRADE), is_old_http.then_some("websocket"));
            assert_eq!(field(CONNECTION), is_old_http.then_some("upgrade"));
        }
    }
}
