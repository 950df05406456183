//! The client of the control socket: JMAP (RFC 8620 §3.3) in HTTP/1.1 over a Unix socket.

use std::path::{Path, PathBuf};

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::UnixStream;
use tokio::task::JoinHandle;

use crate::cli::exit::{self, Failure};
use crate::jmap::CAPABILITIES;
use crate::wire::jmap::admin::VendorMethod;

/// The most bytes of the body of a response.
const MAX_ANSWER_BYTES: usize = 256 * 1024 * 1024;

type Sender = hyper::client::conn::http1::SendRequest<Full<Bytes>>;

/// A connection to the control socket. Dropping this closes it.
pub(in crate::cli) struct Connection {
    pub(in crate::cli) sender: Sender,
    driver: JoinHandle<hyper::Result<()>>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// Sends each request on a connection of its own. `pool` keeps connections.
#[derive(Debug, Clone)]
pub struct ControlClient {
    socket: PathBuf,
}

impl ControlClient {
    #[must_use]
    pub fn new(socket: &Path) -> Self {
        Self { socket: socket.to_owned() }
    }

    /// Whether a service accepts connections.
    pub async fn is_up(&self) -> bool {
        UnixStream::connect(&self.socket).await.is_ok()
    }

    /// Calls a vendor method.
    ///
    /// # Errors
    /// As for `call_by_name`, or the answer cannot be decoded (the service has another version).
    pub async fn call<M: VendorMethod>(&self, args: M::Args) -> Result<M::Answer, Failure> {
        let failure = |error| {
            let text = format!(
                "the answer to {} cannot be read: {error}; has the service another version?",
                M::NAME
            );
            Failure::new(exit::SOFTWARE, text)
        };
        let arguments = serde_json::to_value(args).map_err(failure)?;
        serde_json::from_value(self.call_by_name(M::NAME, arguments).await?).map_err(failure)
    }

    /// Calls a method and returns the arguments of its response.
    ///
    /// # Errors
    /// As for `exchange`, the method returns an error, or the answer is not one of JMAP.
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
                Err(Failure::from_jmap_error(text("type"), text("description")))
            }
            Some(_) => Ok(reply[1].clone()),
            None => Err(Failure::new(
                exit::SOFTWARE,
                format!("the service's answer has no method response: {answer}"),
            )),
        }
    }

    /// Sends one HTTP request on a connection of its own, and returns the body of the response.
    ///
    /// # Errors
    /// The service does not run, the connection breaks, the response has more than
    /// `MAX_ANSWER_BYTES`, or its status is not a success.
    pub async fn exchange(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Bytes,
    ) -> Result<Bytes, Failure> {
        let mut connection = self.connect().await?;
        let request = request(method, path, content_type, body)?;
        let (status, bytes) = connection.send(request).await?;
        if status.is_success() { Ok(bytes) } else { Err(refusal(status, &bytes)) }
    }

    pub(in crate::cli) async fn connect(&self) -> Result<Connection, Failure> {
        let stream =
            UnixStream::connect(&self.socket).await.map_err(|error| self.unreachable(&error))?;
        let (sender, driver) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| broken(&error))?;
        Ok(Connection { sender, driver: tokio::spawn(driver) })
    }

    fn unreachable(&self, error: &std::io::Error) -> Failure {
        let socket = self.socket.display();
        match error.kind() {
            std::io::ErrorKind::PermissionDenied => Failure::new(
                exit::NO_PERMISSION,
                format!(
                    "{socket}: permission denied: run this as root or as a member of the \
                     service's group"
                ),
            ),
            std::io::ErrorKind::NotFound | std::io::ErrorKind::ConnectionRefused => Failure::new(
                exit::UNAVAILABLE,
                format!(
                    "no service answers at {socket}: start it (systemctl start restante), or name \
                     its configuration with --config"
                ),
            ),
            _ => Failure::new(exit::UNAVAILABLE, format!("{socket}: {error}")),
        }
    }
}

/// Builds a request for `send`.
pub(in crate::cli) fn request(
    method: Method,
    path: &str,
    content_type: &str,
    body: Bytes,
) -> Result<Request<Full<Bytes>>, Failure> {
    Request::builder()
        .method(method)
        .uri(path)
        .header("host", "localhost")
        .header("content-type", content_type)
        .body(Full::new(body))
        .map_err(|error| Failure::new(exit::SOFTWARE, error.to_string()))
}

impl Connection {
    /// Sends a request, and returns status and body of the response, whatever the status is.
    ///
    /// # Errors
    /// The connection breaks, or the body has more than `MAX_ANSWER_BYTES`.
    pub(in crate::cli) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<(StatusCode, Bytes), Failure> {
        let response = self.sender.send_request(request).await.map_err(|error| broken(&error))?;
        let status = response.status();
        let bytes = Limited::new(response.into_body(), MAX_ANSWER_BYTES)
            .collect()
            .await
            .map_err(|error| {
                let text = format!("the service's answer is incomplete: {error}");
                Failure::new(exit::TEMPORARY, text)
            })?
            .to_bytes();
        Ok((status, bytes))
    }
}

fn broken(error: &hyper::Error) -> Failure {
    Failure::new(exit::TEMPORARY, format!("the connection to the service broke: {error}"))
}

/// Converts an error response to a failure. The body may be problem details (RFC 7807,
/// RFC 8620 §3.6.1).
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
    Failure::new(code, format!("the service refused this ({status}): {detail}"))
}
