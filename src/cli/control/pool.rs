//! A pool of connections to the control socket, for commands that send many requests.

use hyper::body::Bytes;
use hyper::{Method, StatusCode};
use parking_lot::Mutex;
use serde_json::Value;

use crate::cli::control::client::{Connection, ControlClient, refusal, request};
use crate::cli::exit::Failure;

/// Keeps connections for further requests: at most as many as were ever in use at the same time.
pub(in crate::cli) struct ControlPool {
    client: ControlClient,
    /// After a refusal, a part of the request may still be unsent. Then hyper 1.12 may not notice
    /// the next request, nor that the connection is no longer wanted. So only connections whose
    /// last response was a success are kept.
    idle: Mutex<Vec<Connection>>,
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
        if let Some(mut connection) = idle
            && connection.sender.ready().await.is_ok()
            && let Ok(response) = self.send(&mut connection, method, path, body).await
        {
            self.keep(connection, &response);
            return Ok(response);
        }
        let mut connection = self.client.connect().await?;
        let response = self.send(&mut connection, method, path, body).await?;
        self.keep(connection, &response);
        Ok(response)
    }

    fn keep(&self, connection: Connection, response: &ControlResponse) {
        if response.status.is_success() {
            self.idle.lock().push(connection);
        }
    }

    async fn send(
        &self,
        connection: &mut Connection,
        method: &Method,
        path: &str,
        body: &Bytes,
    ) -> Result<ControlResponse, Failure> {
        let request = request(method.clone(), path, "application/octet-stream", body.clone())?;
        let (status, body) = connection.send(request).await?;
        Ok(ControlResponse { status, body })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
    use tokio::net::{UnixListener, UnixStream};
    use tokio::sync::Semaphore;
    use tokio::time::timeout;

    use super::*;

    const REFUSAL: &[u8] = b"HTTP/1.1 413 Payload Too Large\r\ncontent-length: 0\r\n\r\n";
    const BODY_BYTES: usize = 1 << 20;

    /// Refuses each request after its header, and reads its body once `may_read` has a permit.
    /// Drops `open` when the client has closed the connection.
    async fn refuse(stream: UnixStream, may_read: Arc<Semaphore>, open: Arc<()>) {
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        while stream.read_line(&mut line).await.is_ok_and(|count| count > 0) {
            if line == "\r\n" {
                stream.write_all(REFUSAL).await.unwrap();
                let _permit = may_read.acquire().await.unwrap();
                let mut body = (&mut stream).take(BODY_BYTES as u64);
                drop(tokio::io::copy(&mut body, &mut tokio::io::sink()).await);
            }
            line.clear();
        }
        drop(open);
    }

    #[tokio::test]
    async fn request_after_an_early_refusal_is_sent_and_refused_connections_are_closed() {
        let dir = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join("s")).unwrap();
        let (may_read, open) = (Arc::new(Semaphore::new(0)), Arc::new(()));
        let (permits, opened) = (Arc::clone(&may_read), Arc::clone(&open));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(refuse(stream, Arc::clone(&permits), Arc::clone(&opened)));
            }
        });
        let pool = ControlPool::new(ControlClient::new(&dir.path().join("s")));
        let body = Bytes::from(vec![b'x'; BODY_BYTES]);
        let first = pool.exchange(&Method::POST, "/", &body).await.unwrap();
        let second = pool.exchange(&Method::POST, "/", &body);
        let read = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            may_read.add_permits(2);
        };
        let (second, ()) = tokio::join!(timeout(Duration::from_secs(10), second), read);
        let statuses = [first.status, second.unwrap().unwrap().status];
        assert_eq!(statuses, [StatusCode::PAYLOAD_TOO_LARGE; 2]);
        // This test and the listener have one each.
        let closed = async {
            while Arc::strong_count(&open) > 2 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(Duration::from_secs(10), closed).await.unwrap();
    }
}
