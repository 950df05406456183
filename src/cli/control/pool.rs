//! Connections to the control socket that are kept and used again, for commands that ask a hundred
//! thousand times.

use hyper::body::Bytes;
use hyper::{Method, StatusCode};
use parking_lot::Mutex;
use serde_json::Value;

use crate::cli::control::client::ControlClient;
use crate::cli::control::client::{Sender, answer, refusal, request};
use crate::cli::exit::Failure;

/// Kept connections: as many as were ever in use at once.
pub(in crate::cli) struct ControlPool {
    client: ControlClient,
    idle: Mutex<Vec<Sender>>,
}

/// What was answered, whatever it is.
pub(in crate::cli) struct ControlResponse {
    pub(in crate::cli) status: StatusCode,
    pub(in crate::cli) body: Bytes,
}

impl ControlResponse {
    /// The last word of the problem's type: `urn:restante:problem:overQuota`.
    pub(in crate::cli) fn problem(&self) -> Option<String> {
        let problem: Value = serde_json::from_slice(&self.body).ok()?;
        problem["type"].as_str()?.rsplit(':').next().map(str::to_owned)
    }

    /// The refusal as a failure of the command.
    pub(in crate::cli) fn failure(&self) -> Failure {
        refusal(self.status, &self.body)
    }
}

impl ControlPool {
    pub(in crate::cli) fn new(client: ControlClient) -> Self {
        Self { client, idle: Mutex::default() }
    }

    /// One exchange. What the service takes so may be sent twice: where a kept connection was
    /// closed meanwhile, it is.
    ///
    /// # Errors
    /// No service, or one that breaks off.
    pub(in crate::cli) async fn exchange(
        &self,
        method: &Method,
        path: &str,
        body: &Bytes,
    ) -> Result<ControlResponse, Failure> {
        let kept = self.idle.lock().pop();
        if let Some(mut sender) = kept
            && sender.ready().await.is_ok()
            && let Ok(done) = self.over(&mut sender, method, path, body).await
        {
            self.idle.lock().push(sender);
            return Ok(done);
        }
        let (mut sender, connection) = self.client.connect().await?;
        drop(tokio::spawn(connection));
        let done = self.over(&mut sender, method, path, body).await?;
        self.idle.lock().push(sender);
        Ok(done)
    }

    async fn over(
        &self,
        sender: &mut Sender,
        method: &Method,
        path: &str,
        body: &Bytes,
    ) -> Result<ControlResponse, Failure> {
        let request = request(method.clone(), path, "application/octet-stream", body.clone())?;
        let (status, body) = answer(sender, request).await?;
        Ok(ControlResponse { status, body })
    }
}
