//! Reads from the machine what a start and a reload of the service need, for all rooms together.
//! `config check` reads the same.

use super::Config;
use crate::net::http::HttpSettings;
use crate::net::listen::{Access, ListenAddress, group_id};
use crate::net::lmtp::LmtpSettings;
use crate::net::managesieve::ManageSieveSettings;
use crate::{deliver, queue};

/// The settings for which files are read: certificates, keys, passwords and scripts.
#[derive(Debug)]
pub struct RoomSettings {
    pub lmtp: LmtpSettings,
    pub http: HttpSettings,
    pub managesieve: ManageSieveSettings,
    pub queue: queue::Settings,
    pub deliver: deliver::Settings,
}

impl Config {
    /// Reads all files that the configuration names.
    ///
    /// # Errors
    /// The first problem, with a remedy.
    pub fn room_settings(&self) -> Result<RoomSettings, String> {
        Ok(RoomSettings {
            lmtp: self.lmtp_settings()?,
            http: self.http_settings()?,
            managesieve: self.managesieve_settings()?,
            queue: self.queue_settings()?,
            deliver: self.deliver_settings()?,
        })
    }

    /// For `config check`: checks that the groups exist which are to own the Unix sockets. A start
    /// finds out when it binds a socket, and a reload binds none.
    ///
    /// # Errors
    /// The first group that does not exist, with a remedy.
    pub fn check_groups(&self) -> Result<(), String> {
        // systemd may pass the socket for LMTP if none is configured, and gives it its group then.
        let lmtp = self.lmtp_addresses(|_| true);
        let metrics = self.metrics_address().into_iter().collect();
        for (table, addresses, access) in [
            ("lmtp", lmtp, self.lmtp_access()),
            ("http", self.http_addresses(), self.http_access()),
            ("managesieve", self.managesieve_addresses(), self.managesieve_access()),
            ("metrics", metrics, self.metrics_access()),
        ] {
            if let Access::Group { name: Some(group), .. } = access
                && addresses.iter().any(|address| matches!(address, ListenAddress::Unix(_)))
                && group_id(&group).is_none()
            {
                return Err(format!(
                    "[{table}] socket-group: there is no group `{group}` in /etc/group\n  \
                     name a group that exists, or create this one"
                ));
            }
        }
        Ok(())
    }
}
