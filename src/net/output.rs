//! Sends the output of a session, and bounds the time that the client has to read it.

use std::io;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::time::{sleep, timeout};

use super::listen::ByteStream;
use super::stop::StopSignal;

/// How long a client may take to read the output once the service stops, or if there are too many
/// connections, and how long it may take to end TLS.
pub(super) const CLOSING_TIMEOUT: Duration = Duration::from_secs(5);

/// Sends the output, and clears it.
///
/// # Errors
/// `TimedOut` if the client does not read it within `time`, or within `CLOSING_TIMEOUT` once the
/// service stops; otherwise the error of the stream.
pub(super) async fn flush(
    stream: &mut (impl ByteStream + ?Sized),
    out: &mut Vec<u8>,
    time: Duration,
    stop: &mut StopSignal,
) -> io::Result<()> {
    if out.is_empty() {
        return Ok(());
    }
    // With TLS, `write_all` may only fill a buffer, and `flush` waits for the client.
    let written = async {
        stream.write_all(out).await?;
        stream.flush().await
    };
    let closing = async {
        stop.wait().await;
        sleep(CLOSING_TIMEOUT).await;
    };
    tokio::select! {
        biased;
        written = timeout(time, written) => written??,
        () = closing => return Err(io::ErrorKind::TimedOut.into()),
    }
    out.clear();
    Ok(())
}
