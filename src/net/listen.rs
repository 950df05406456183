//! Listeners: `unix:PATH`, `tcp:HOST:PORT`, and sockets that systemd passes (`fd:NAME`).
//!
//! - A Unix socket that the service created is removed when its listener is dropped, or when its
//!   permissions cannot be set.
//! - A failing accept(2) never ends a listener.

use std::fmt;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use listenfd::ListenFd;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::time::sleep;

use super::stop::StopSignal;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenAddress {
    Unix(PathBuf),
    Tcp(String, u16),
    /// The name under which systemd passes a socket (`FileDescriptorName=`).
    Fd(String),
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(out, "unix:{}", path.display()),
            Self::Tcp(host, port) => write!(out, "tcp:{host}:{port}"),
            Self::Fd(name) => write!(out, "fd:{name}"),
        }
    }
}

/// Who may connect to a Unix socket that the service creates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// For a socket whose clients are identified by the kernel.
    Everybody,
    /// The service's user, and the users of one group.
    Group {
        /// By name or number. Binding fails if the socket cannot be given to this group.
        name: Option<String>,
        /// The group if `name` is `None`. If there is no such group, or the socket cannot be given
        /// to it, the socket keeps the service's own group.
        default_group: Option<&'static str>,
    },
}

impl Access {
    fn apply(&self, socket: &Path) -> io::Result<()> {
        let mode = match self {
            Self::Everybody => 0o666,
            Self::Group { name: Some(name), .. } => {
                set_group(socket, name)?;
                0o660
            }
            Self::Group { name: None, default_group } => {
                if let Some(name) = default_group.filter(|name| group_id(name).is_some())
                    && let Err(error) = set_group(socket, name)
                {
                    let socket = socket.display();
                    tracing::warn!(%socket, %error, "only the service's own group can connect");
                }
                0o660
            }
        };
        std::fs::set_permissions(socket, std::fs::Permissions::from_mode(mode))
    }
}

fn set_group(socket: &Path, group: &str) -> io::Result<()> {
    let no_group = || {
        io::Error::new(io::ErrorKind::NotFound, format!("there is no group {group} in /etc/group"))
    };
    let id = group_id(group).ok_or_else(no_group)?;
    chown(socket, None, Some(id)).map_err(|error| {
        let problem = format!(
            "cannot give the socket to the group {group}: {error}; \
             put the service's user into that group"
        );
        io::Error::new(error.kind(), problem)
    })
}

/// Returns the number of a Unix group. `group` is a name in `/etc/group` or a number.
#[must_use]
pub fn group_id(group: &str) -> Option<u32> {
    let lines = std::fs::read_to_string("/etc/group").unwrap_or_default();
    let by_name = lines.lines().find_map(|line| {
        let mut fields = line.split(':');
        let is_named = fields.next() == Some(group);
        fields.nth(1).filter(|_| is_named)?.parse().ok()
    });
    by_name.or_else(|| group.parse().ok())
}

#[derive(Debug)]
pub enum BoundListener {
    /// With the path if the service created the socket.
    Unix(
        UnixListener,
        #[expect(dead_code, reason = "removes the path when it is dropped")] Option<OwnPath>,
    ),
    Tcp(TcpListener),
}

/// The path of a Unix socket that the service created. Dropping this removes the socket.
#[derive(Debug)]
pub struct OwnPath(PathBuf);

impl Drop for OwnPath {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}

/// A connection of any kind.
pub trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> ByteStream for T {}

impl BoundListener {
    /// Listens at an address. Replaces a Unix socket that no process listens at. Returns several
    /// listeners only if systemd passes several sockets under one name. `access` does not apply to
    /// the sockets of systemd.
    ///
    /// # Errors
    /// - `AddrInUse`: another process listens at the address, or a file that is no socket is there.
    /// - `PermissionDenied`: the service may not connect to the Unix socket that is there.
    /// - `NotFound`: systemd passes no socket with this name, or there is no such group.
    /// - Any other error of the operating system.
    pub async fn bind(listen: &ListenAddress, access: &Access) -> io::Result<Vec<Self>> {
        match listen {
            ListenAddress::Unix(path) => Ok(vec![Self::unix(path, access).await?]),
            ListenAddress::Tcp(host, port) => {
                let host = host.trim_start_matches('[').trim_end_matches(']');
                Ok(vec![Self::Tcp(TcpListener::bind((host, *port)).await?)])
            }
            ListenAddress::Fd(name) => sockets_from_systemd(name),
        }
    }

    async fn unix(path: &Path, access: &Access) -> io::Result<Self> {
        if let Ok(existing) = std::fs::symlink_metadata(path)
            && existing.file_type().is_socket()
        {
            use io::ErrorKind::{AddrInUse, ConnectionRefused, WouldBlock};
            match tokio::net::UnixStream::connect(path).await.map_err(|error| error.kind()) {
                Err(ConnectionRefused) => std::fs::remove_file(path)?,
                // With `WouldBlock` too many connections wait to be accepted.
                Ok(_) | Err(WouldBlock) => {
                    let problem = "another process listens at this socket";
                    return Err(io::Error::new(AddrInUse, problem));
                }
                Err(kind) => return Err(kind.into()),
            }
        }
        let listener = UnixListener::bind(path)?;
        let own = OwnPath(path.to_owned());
        access.apply(path)?;
        Ok(Self::Unix(listener, Some(own)))
    }

    /// Returns the port at which a TCP listener listens, which the system chooses for port 0;
    /// `None` for a Unix socket.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        match self {
            Self::Tcp(listener) => listener.local_addr().ok().map(|address| address.port()),
            Self::Unix(..) => None,
        }
    }

    /// Returns the next connection with its peer, or `None` once the service stops. Errors of
    /// accept(2) are retried: at once if the client went away or a signal came, otherwise after a
    /// pause.
    pub async fn next(&self, stop: &mut StopSignal) -> Option<(Box<dyn ByteStream>, Peer)> {
        let mut failures = 0_u32;
        loop {
            let accepted = tokio::select! {
                () = stop.wait() => return None,
                accepted = self.accept() => accepted,
            };
            match accepted {
                Ok(connection) => {
                    if failures > 0 {
                        tracing::info!(failures, "accepts connections again");
                    }
                    return Some(connection);
                }
                Err(error) if is_passing(&error) => {}
                Err(error) => {
                    // Log about every ten seconds.
                    if failures.is_multiple_of(100) {
                        tracing::warn!(%error, "cannot accept connections");
                    }
                    failures = failures.saturating_add(1);
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    async fn accept(&self) -> io::Result<(Box<dyn ByteStream>, Peer)> {
        match self {
            Self::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                let user =
                    stream.peer_cred().ok().map(|peer| User { uid: peer.uid(), gid: peer.gid() });
                Ok((Box::new(stream), Peer::Unix(user)))
            }
            Self::Tcp(listener) => {
                let (stream, from) = listener.accept().await?;
                // Fails if the client is already gone; then the first read fails, too.
                stream.set_nodelay(true).ok();
                Ok((Box::new(stream), Peer::Tcp(from.ip().to_canonical())))
            }
        }
    }
}

const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Whether accept(2) failed because of one client or a signal, so that the next call may succeed.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

/// The client of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// With the user of the process if the kernel tells.
    Unix(Option<User>),
    Tcp(std::net::IpAddr),
}

/// The Unix user and group that a process had when it connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct User {
    pub uid: u32,
    pub gid: u32,
}

impl User {
    /// Whether this is root, or the service's own user.
    #[must_use]
    pub fn is_own(self) -> bool {
        self.uid == 0 || self.uid == rustix::process::geteuid().as_raw()
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(_) => out.write_str("unix"),
            Self::Tcp(address) => address.fmt(out),
        }
    }
}

/// The sockets that systemd passed and that no listener has yet. To read them from the environment
/// removes them there, so this is done once.
static PASSED_SOCKETS: LazyLock<Mutex<ListenFd>> =
    LazyLock::new(|| Mutex::new(ListenFd::from_env()));

/// Takes the sockets that systemd passes under a name (`sd_listen_fds_with_names(3)`).
fn sockets_from_systemd(name: &str) -> io::Result<Vec<BoundListener>> {
    let not_passed = || {
        io::Error::new(io::ErrorKind::NotFound, format!("systemd passes no socket named {name}"))
    };
    let names = std::env::var("LISTEN_FDNAMES").map_err(|_| not_passed())?;
    let mut fds = PASSED_SOCKETS.lock();
    let mut bound = Vec::new();
    for (index, _) in names.split(':').enumerate().filter(|(_, passed)| *passed == name) {
        if let Ok(Some(listener)) = fds.take_unix_listener(index) {
            listener.set_nonblocking(true)?;
            bound.push(BoundListener::Unix(UnixListener::from_std(listener)?, None));
        } else if let Ok(Some(listener)) = fds.take_tcp_listener(index) {
            listener.set_nonblocking(true)?;
            bound.push(BoundListener::Tcp(TcpListener::from_std(listener)?));
        }
    }
    if bound.is_empty() { Err(not_passed()) } else { Ok(bound) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    /// A listener of IPv6 sees `::ffff:127.0.0.1` for a client of IPv4.
    #[tokio::test]
    async fn client_of_ipv4_has_its_own_address_at_a_listener_of_ipv6() {
        let listen = ListenAddress::Tcp("::".into(), 0);
        let bound = BoundListener::bind(&listen, &Access::Everybody).await.unwrap().remove(0);
        let port = bound.port().unwrap();
        let client = tokio::net::TcpStream::connect(("127.0.0.1", port));
        let (accepted, client) = tokio::join!(bound.accept(), client);
        client.unwrap();
        assert_eq!(accepted.unwrap().1, Peer::Tcp("127.0.0.1".parse().unwrap()));
    }

    #[tokio::test]
    async fn replaces_an_abandoned_socket_but_not_one_in_use() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let listen = ListenAddress::Unix(path.clone());
        let bound = BoundListener::bind(&listen, &Access::Everybody).await.unwrap();
        assert!(BoundListener::bind(&listen, &Access::Everybody).await.is_err());
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o666);
        drop(bound);
        assert!(!path.exists());
    }

    /// A socket at which so many connections wait that another one is refused is in use, too.
    #[tokio::test]
    async fn does_not_replace_a_socket_whose_queue_is_full() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let busy = tokio::net::UnixSocket::new_stream().unwrap();
        busy.bind(&path).unwrap();
        let _busy = busy.listen(0).unwrap();
        let mut waiting = Vec::new();
        while let Ok(client) = tokio::net::UnixStream::connect(&path).await {
            waiting.push(client);
        }
        let listen = ListenAddress::Unix(path.clone());
        let refused = BoundListener::bind(&listen, &Access::Everybody).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse, "{refused}");
        assert!(path.exists());
    }

    #[tokio::test]
    async fn gives_a_socket_to_the_named_or_default_group() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listen = ListenAddress::Unix(path.clone());
        let own = rustix::process::getegid().as_raw();
        let named = |name: &str| Access::Group { name: Some(name.to_owned()), default_group: None };
        let by_default = |default_group| Access::Group { name: None, default_group };
        // Root may give a file to any group, such as group 1. Another user may do so to its own
        // groups only.
        let other = if rustix::process::geteuid().is_root() { 1 } else { own };
        for (access, group) in [
            (named(&other.to_string()), other),
            (by_default(None), own),
            (by_default(Some("no-such-group")), own),
            (by_default(Some("root")), if other == 1 { 0 } else { own }),
        ] {
            let bound = BoundListener::bind(&listen, &access).await.unwrap();
            let metadata = std::fs::metadata(&path).unwrap();
            assert_eq!(
                (metadata.permissions().mode() & 0o777, metadata.gid()),
                (0o660, group),
                "{access:?}"
            );
            drop(bound);
        }
        let refused = BoundListener::bind(&listen, &named("no-such-group")).await.unwrap_err();
        assert!(refused.to_string().contains("no group no-such-group"), "{refused}");
        assert!(!path.exists());
    }
}
