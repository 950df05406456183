//! The client of the control socket: HTTP/1.1 over a Unix socket, JMAP envelopes (RFC 8620 §3.3) in
//! it.

use std::path::{Path, PathBuf};

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::UnixStream;

use crate::cli::exit::{self, Failure};
use crate::jmap::CAPABILITIES;
use crate::wire::jmap::admin::VendorMethod;

/// The largest answer that is read.
const MAX_ANSWER_BYTES: usize = 256 * 1024 * 1024;

/// What requests go into.
pub(in crate::cli) type Sender = hyper::client::conn::http1::SendRequest<Full<Bytes>>;
/// What makes them go.
pub(in crate::cli) type ConnectionDriver =
    hyper::client::conn::http1::Connection<TokioIo<UnixStream>, Full<Bytes>>;

/// A way to the service.
#[derive(Debug, Clone)]
pub struct ControlClient {
    socket: PathBuf,
}

impl ControlClient {
    /// The service behind this socket.
    #[must_use]
    pub fn new(socket: &Path) -> Self {
        Self { socket: socket.to_owned() }
    }

    /// Whether anyone listens there.
    pub async fn is_up(&self) -> bool {
        UnixStream::connect(&self.socket).await.is_ok()
    }

    /// Calls a vendor method.
    ///
    /// # Errors
    /// No service, what the method refused, or an answer of another form (a service of another
    /// version).
    pub async fn call<M: VendorMethod>(&self, args: M::Args) -> Result<M::Answer, Failure> {
        let strange = |error| {
            Failure::new(
                exit::SOFTWARE,
                format!("the service's answer to {} is strange: {error}", M::NAME),
            )
        };
        let arguments = serde_json::to_value(args).map_err(strange)?;
        serde_json::from_value(self.call_by_name(M::NAME, arguments).await?).map_err(strange)
    }

    /// One method call.
    ///
    /// # Errors
    /// No service, or what the method refused.
    pub async fn call_by_name(&self, method: &str, arguments: Value) -> Result<Value, Failure> {
        let request = json!({
            "using": CAPABILITIES,
            "methodCalls": [[method, arguments, "0"]],
        });
        let answer = self
            .exchange(Method::POST, "/jmap", "application/json", request.to_string().into())
            .await?;
        let answer: Value = serde_json::from_slice(&answer).map_err(|error| {
            Failure::new(exit::SOFTWARE, format!("the service's answer is not JSON: {error}"))
        })?;
        let reply = &answer["methodResponses"][0];
        match reply[0].as_str() {
            Some("error") => {
                let text = |key: &str| reply[1][key].as_str().unwrap_or_default();
                Err(Failure::of_method(text("type"), text("description")))
            }
            Some(_) => Ok(reply[1].clone()),
            None => Err(Failure::new(
                exit::SOFTWARE,
                format!("the service's answer holds no method response: {answer}"),
            )),
        }
    }

    /// One HTTP exchange.
    ///
    /// # Errors
    /// No service, or a refusal.
    pub async fn exchange(
        &self,
        method: Method,
        path: &str,
        kind: &str,
        body: Bytes,
    ) -> Result<Bytes, Failure> {
        let (mut sender, connection) = self.connect().await?;
        let driver = tokio::spawn(connection);
        let (status, bytes) = answer(&mut sender, request(method, path, kind, body)?).await?;
        driver.abort();
        if status.is_success() { Ok(bytes) } else { Err(refusal(status, &bytes)) }
    }

    /// A connection, and what must be spawned for it to live.
    pub(in crate::cli) async fn connect(&self) -> Result<(Sender, ConnectionDriver), Failure> {
        let stream =
            UnixStream::connect(&self.socket).await.map_err(|error| self.unreachable(&error))?;
        hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| broken(&error))
    }

    fn unreachable(&self, error: &std::io::Error) -> Failure {
        let socket = self.socket.display();
        match error.kind() {
            std::io::ErrorKind::PermissionDenied => Failure::new(
                exit::NO_PERMISSION,
                format!("{socket}: permission denied: be root, or a member of the service's group"),
            ),
            std::io::ErrorKind::NotFound | std::io::ErrorKind::ConnectionRefused => Failure::new(
                exit::UNAVAILABLE,
                format!(
                    "no service answers at {socket}: start it (systemctl start restante), or name its configuration with \
                     --config"
                ),
            ),
            _ => Failure::new(exit::UNAVAILABLE, format!("{socket}: {error}")),
        }
    }
}

/// A request of these octets.
pub(in crate::cli) fn request(
    method: Method,
    path: &str,
    kind: &str,
    body: Bytes,
) -> Result<Request<Full<Bytes>>, Failure> {
    Request::builder()
        .method(method)
        .uri(path)
        .header("host", "localhost")
        .header("content-type", kind)
        .body(Full::new(body))
        .map_err(|error| Failure::new(exit::SOFTWARE, error.to_string()))
}

/// Sends a request; the whole answer, whatever it is.
pub(in crate::cli) async fn answer(
    sender: &mut Sender,
    request: Request<Full<Bytes>>,
) -> Result<(StatusCode, Bytes), Failure> {
    let response = sender.send_request(request).await.map_err(|error| broken(&error))?;
    let status = response.status();
    let bytes = Limited::new(response.into_body(), MAX_ANSWER_BYTES)
        .collect()
        .await
        .map_err(|error| {
            Failure::new(exit::TEMPORARY, format!("the service's answer broke off: {error}"))
        })?
        .to_bytes();
    Ok((status, bytes))
}

fn broken(error: &hyper::Error) -> Failure {
    Failure::new(exit::TEMPORARY, format!("the service broke off the conversation: {error}"))
}

/// An HTTP status that is no success; the body may be problem details (RFC 7807, as RFC 8620 §3.6.1
/// has it).
pub(in crate::cli) fn refusal(status: StatusCode, body: &[u8]) -> Failure {
    let detail = serde_json::from_slice::<Value>(body)
        .ok()
        .and_then(|problem| problem["detail"].as_str().map(str::to_owned))
        .unwrap_or_else(|| {
            String::from_utf8_lossy(body.get(..body.len().min(500)).unwrap_or_default())
                .trim()
                .to_owned()
        });
    let code = match status {
        StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED => exit::NO_PERMISSION,
        StatusCode::NOT_FOUND => exit::NO_USER,
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => exit::TEMPORARY,
        status if status.is_client_error() => exit::USAGE,
        _ => exit::SOFTWARE,
    };
    Failure::new(code, format!("the service refused ({status}): {detail}"))
}
