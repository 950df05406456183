//! Listeners: `unix:PATH`, `tcp:HOST:PORT`, and sockets passed by systemd (`fd:NAME`).

use std::fmt;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::time::sleep;

use super::stop::StopSignal;

/// Where to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenAddress {
    /// A Unix socket.
    Unix(PathBuf),
    /// A TCP port.
    Tcp(String, u16),
    /// A socket that systemd passes under this name (`FileDescriptorName=`).
    Fd(String),
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("`{text}` is no listener: write unix:PATH, tcp:HOST:PORT or fd:NAME");
        match text.split_once(':').ok_or_else(bad)? {
            ("unix", path) if path.starts_with('/') || path.starts_with('.') => {
                Ok(Self::Unix(path.into()))
            }
            ("tcp", place) => {
                let (host, port) = place.rsplit_once(':').ok_or_else(bad)?;
                Ok(Self::Tcp(host.to_owned(), port.parse().map_err(|_| bad())?))
            }
            ("fd", name) if !name.is_empty() => Ok(Self::Fd(name.to_owned())),
            _ => Err(bad()),
        }
    }
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

/// Who may connect to a Unix socket that the service makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// Everybody on this machine: for a socket whose peers are known by their credentials.
    Everybody,
    /// The service's user, and the users of one group.
    Group {
        /// The group, by name or number; it is an error if the socket cannot be given to it.
        name: Option<String>,
        /// The group that is taken where none is named, if there is such a group.
        usual: Option<&'static str>,
    },
}

impl Access {
    /// Gives a socket to its group, and sets its permissions.
    fn apply(&self, socket: &Path) -> io::Result<()> {
        let mode = match self {
            Self::Everybody => 0o666,
            Self::Group { name: Some(name), .. } => {
                set_group(socket, name)?;
                0o660
            }
            Self::Group { name: None, usual } => {
                if let Some(name) = usual.filter(|name| group_id(name).is_some())
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
    let none = || {
        io::Error::new(io::ErrorKind::NotFound, format!("there is no group {group} in /etc/group"))
    };
    let id = group_id(group).ok_or_else(none)?;
    chown(socket, None, Some(id)).map_err(|error| {
        let why =
            format!("cannot give the socket to the group {group}: {error}; put the service's user into that group");
        io::Error::new(error.kind(), why)
    })
}

/// The number of a Unix group, by its name in `/etc/group` or its number.
#[must_use]
pub fn group_id(group: &str) -> Option<u32> {
    let lines = std::fs::read_to_string("/etc/group").unwrap_or_default();
    let known = lines.lines().find_map(|line| {
        let mut fields = line.split(':');
        let named = fields.next() == Some(group);
        fields.nth(1).filter(|_| named)?.parse().ok()
    });
    known.or_else(|| group.parse().ok())
}

/// A bound listener.
#[derive(Debug)]
pub enum BoundListener {
    /// Of a Unix socket.
    Unix(
        UnixListener,
        #[expect(dead_code, reason = "removes the path when it is dropped")] Option<OwnPath>,
    ),
    /// Of a TCP port.
    Tcp(TcpListener),
}

/// The path of a Unix socket of our own making; it goes with the listener.
#[derive(Debug)]
pub struct OwnPath(PathBuf);

impl Drop for OwnPath {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}

/// Anything that octets go through both ways.
pub trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> ByteStream for T {}

impl BoundListener {
    /// Binds. A socket file that nobody answers at is a leftover, and is replaced.
    ///
    /// # Errors
    /// Those of the operating system, and that systemd passed no such socket.
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
        if let Ok(there) = std::fs::symlink_metadata(path)
            && there.file_type().is_socket()
        {
            if tokio::net::UnixStream::connect(path).await.is_ok() {
                return Err(io::Error::new(
                    io::ErrorKind::AddrInUse,
                    "another process listens there",
                ));
            }
            std::fs::remove_file(path)?;
        }
        let listener = UnixListener::bind(path)?;
        let own = OwnPath(path.to_owned());
        access.apply(path)?;
        Ok(Self::Unix(listener, Some(own)))
    }

    /// The TCP port that it was given, where it is one.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        match self {
            Self::Tcp(listener) => listener.local_addr().ok().map(|at| at.port()),
            Self::Unix(..) => None,
        }
    }

    /// The next connection, and whom it is from. `None` once the service stops.
    ///
    /// What the operating system refuses is tried again: at once where one client went away, after
    /// a pause where the service is out of descriptors or memory, which passes.
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
                Err(error) if is_of_the_client(&error) => {}
                Err(error) => {
                    // Once every ten seconds or so is enough for the log.
                    if failures.is_multiple_of(100) {
                        tracing::warn!(%error, "cannot accept");
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
                // Refused for a client that is gone already: the connection ends at its first read.
                stream.set_nodelay(true).ok();
                Ok((Box::new(stream), Peer::Tcp(from.ip())))
            }
        }
    }
}

/// The pause after the operating system refused to accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Whether accepting failed because of one client, which says nothing about the next (accept(2)).
fn is_of_the_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

/// Whom a connection is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// Someone on this machine who may open the socket; as which user, where the kernel tells.
    Unix(Option<User>),
    Tcp(std::net::IpAddr),
}

/// The Unix user and group that a process had when it connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct User {
    /// The user's number.
    pub uid: u32,
    /// The group's number.
    pub gid: u32,
}

impl User {
    /// Whether this is root, or the user that the service runs as.
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

/// The sockets that systemd passes under a name (`sd_listen_fds_with_names(3)`).
fn sockets_from_systemd(name: &str) -> io::Result<Vec<BoundListener>> {
    let none = || {
        io::Error::new(io::ErrorKind::NotFound, format!("systemd passes no socket named {name}"))
    };
    let names = std::env::var("LISTEN_FDNAMES").map_err(|_| none())?;
    let mut fds = listenfd::ListenFd::from_env();
    let mut bound = Vec::new();
    for (at, _) in names.split(':').enumerate().filter(|(_, given)| *given == name) {
        if let Ok(Some(listener)) = fds.take_unix_listener(at) {
            listener.set_nonblocking(true)?;
            bound.push(BoundListener::Unix(UnixListener::from_std(listener)?, None));
        } else if let Ok(Some(listener)) = fds.take_tcp_listener(at) {
            listener.set_nonblocking(true)?;
            bound.push(BoundListener::Tcp(TcpListener::from_std(listener)?));
        }
    }
    if bound.is_empty() { Err(none()) } else { Ok(bound) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn listeners_as_text() {
        for text in ["unix:/run/x", "tcp:127.0.0.1:24", "tcp:[::1]:24", "fd:lmtp"] {
            assert_eq!(text.parse::<ListenAddress>().unwrap().to_string(), text);
        }
        for text in ["", "x", "unix:", "tcp:24", "tcp:h:x", "fd:", "udp:h:1"] {
            assert!(text.parse::<ListenAddress>().is_err(), "{text}");
        }
    }

    #[tokio::test]
    async fn a_leftover_socket_is_replaced_and_a_live_one_is_not() {
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

    #[tokio::test]
    async fn a_socket_is_open_to_one_group() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listen = ListenAddress::Unix(path.clone());
        let own = rustix::process::getegid().as_raw();
        let named = |name: &str| Access::Group { name: Some(name.to_owned()), usual: None };
        let usual = |usual| Access::Group { name: None, usual };
        // Root may give a file to any group, another user to its own groups.
        let other = if rustix::process::geteuid().is_root() { 1 } else { own };
        for (access, group) in [
            (named(&other.to_string()), other),
            (usual(None), own),
            (usual(Some("no-such-group")), own),
            (usual(Some("root")), if other == 1 { 0 } else { own }),
        ] {
            let bound = BoundListener::bind(&listen, &access).await.unwrap();
            let about = std::fs::metadata(&path).unwrap();
            assert_eq!(
                (about.permissions().mode() & 0o777, about.gid()),
                (0o660, group),
                "{access:?}"
            );
            drop(bound);
        }
        // It is not left behind, open or not, where the group cannot have it.
        let refused = BoundListener::bind(&listen, &named("no-such-group")).await.unwrap_err();
        assert!(refused.to_string().contains("no group no-such-group"), "{refused}");
        assert!(!path.exists());
    }
}
