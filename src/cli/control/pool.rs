//! A pool of connections to the control socket, for commands that send many requests.

use hyper::body::Bytes;
use hyper::{Method, StatusCode};
use parking_lot::Mutex;
use serde_json::Value;

use crate::cli::control::client::{ControlClient, Sender, refusal, request, send};
use crate::cli::exit::Failure;

/// Keeps connections for further requests: at most as many as were ever in use at the same time.
pub(in crate::cli) struct ControlPool {
    client: ControlClient,
    idle: Mutex<Vec<Sender>>,
}

pub(in crate::cli) struct ControlResponse {
    pub(in crate::cli) status: StatusCode,
    pub(in crate::cli) body: Bytes,
}

impl ControlResponse {
    /// Returns the last part of the problem's type: `overQuota` of
    /// `urn:restante:problem:overQuota`. `None` if the body is not a problem (RFC 7807).
    pub(in crate::cli) fn problem(&self) -> Option<String> {
        let problem: Value = serde_json::from_slice(&self.body).ok()?;
        problem["type"].as_str()?.rsplit(':').next().map(str::to_owned)
    }

    /// Converts the response to a failure. Its status must not be a success.
    pub(in crate::cli) fn failure(&self) -> Failure {
        refusal(self.status, &self.body)
    }
}

impl ControlPool {
    pub(in crate::cli) fn new(client: ControlClient) -> Self {
        Self { client, idle: Mutex::default() }
    }

    /// Sends a request, and returns the response whatever its status is. The service may receive
    /// the request twice: if the connection is one of an earlier request, and it breaks before the
    /// response is complete, the request is sent again on a new connection.
    ///
    /// # Errors
    /// The service does not run, the connection breaks, or the response is too large.
    pub(in crate::cli) async fn exchange(
        &self,
        method: &Method,
        path: &str,
        body: &Bytes,
    ) -> Result<ControlResponse, Failure> {
        let idle = self.idle.lock().pop();
        if let Some(mut sender) = idle
            && sender.ready().await.is_ok()
            && let Ok(response) = self.send(&mut sender, method, path, body).await
        {
            self.idle.lock().push(sender);
            return Ok(response);
        }
        let (mut sender, connection) = self.client.connect().await?;
        drop(tokio::spawn(connection));
        let response = self.send(&mut sender, method, path, body).await?;
        self.idle.lock().push(sender);
        Ok(response)
    }

    async fn send(
        &self,
        sender: &mut Sender,
        method: &Method,
        path: &str,
        body: &Bytes,
    ) -> Result<ControlResponse, Failure> {
        let request = request(method.clone(), path, "application/octet-stream", body.clone())?;
        let (status, body) = send(sender, request).await?;
        Ok(ControlResponse { status, body })
    }
}
