//! Limits uploads over the upload URL, Blob/upload and Blob/copy.
//!
//! - The upload URL and Blob/upload refuse some media types, and uploads beyond a size. Blob/copy
//!   does not apply these two settings.
//! - Each user but an administrator has a rate: a number of uploads and of bytes in a minute. Since
//!   the size of an upload is known only when it is complete, an upload may exceed the rate. The
//!   user must then wait longer before another one.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::model::clock::Stopwatch;
use crate::model::{AccountId, limits};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadSettings {
    /// In lower case; `video/*` stands for all video types.
    pub refused_types: Vec<String>,
    /// The size of the largest upload, in bytes.
    pub max: u64,
    /// How many uploads one user may make in a minute.
    pub per_minute: u32,
    /// How many bytes one user may upload in a minute.
    pub bytes_per_minute: u64,
}

impl Default for UploadSettings {
    fn default() -> Self {
        Self {
            refused_types: Vec::new(),
            max: limits::MAX_UPLOAD_BYTES,
            per_minute: limits::MAX_UPLOADS_PER_MINUTE,
            bytes_per_minute: limits::MAX_UPLOADED_BYTES_PER_MINUTE,
        }
    }
}

impl UploadSettings {
    #[must_use]
    pub fn refuses(&self, media_type: &str) -> bool {
        let essence = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        self.refused_types.iter().any(|refused| match refused.strip_suffix("/*") {
            Some(top_level) => essence.split('/').next() == Some(top_level),
            None => *refused == essence,
        })
    }
}

/// Clones share the counts.
#[derive(Debug, Clone)]
pub struct UploadRates(Arc<UploadRateState>);

#[derive(Debug)]
struct UploadRateState {
    clock: Stopwatch,
    users: Mutex<HashMap<AccountId, UploadUsage>>,
}

/// What a user has used of the two rates, as two times on `UploadRateState::clock`. An upload moves
/// `uploads` ahead: by ten seconds with a rate of 6 uploads a minute. Its bytes move `bytes` ahead
/// by their part of a minute. A time that has passed is moved ahead from now. A further upload is
/// refused if `uploads` would get more than a minute ahead of now, or if `bytes` is a minute ahead
/// already.
#[derive(Debug, Clone, Copy, Default)]
struct UploadUsage {
    uploads: Duration,
    bytes: Duration,
}

/// The user must wait for this long before the next upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many uploads, or uploaded bytes, in a minute")]
pub struct UploadRateExceeded(pub Duration);

const MINUTE: Duration = Duration::from_secs(60);
/// If this many users are tracked, those whose two times have passed are forgotten before another
/// user is added.
const MAX_TRACKED_USERS: usize = 10_000;

impl Default for UploadRates {
    fn default() -> Self {
        Self(Arc::new(UploadRateState { clock: Stopwatch::start(), users: Mutex::default() }))
    }
}

impl UploadRates {
    /// Counts an upload that begins against the rate of a user. Its bytes are counted by
    /// `add_bytes` afterwards.
    ///
    /// # Errors
    /// `UploadRateExceeded` if the user must wait first. The upload is not counted then.
    pub fn begin(
        &self,
        user: AccountId,
        settings: &UploadSettings,
    ) -> Result<(), UploadRateExceeded> {
        self.begin_at(self.0.clock.elapsed(), user, settings)
    }

    /// Counts the bytes of an upload that `begin` allowed. Never refuses them: if they are too
    /// many, the next `begin` is refused.
    pub fn add_bytes(&self, user: AccountId, bytes: u64, settings: &UploadSettings) {
        self.add_bytes_at(self.0.clock.elapsed(), user, bytes, settings);
    }

    fn begin_at(
        &self,
        now: Duration,
        user: AccountId,
        settings: &UploadSettings,
    ) -> Result<(), UploadRateExceeded> {
        let mut users = self.0.users.lock();
        if users.len() >= MAX_TRACKED_USERS && !users.contains_key(&user) {
            users.retain(|_, usage| usage.uploads > now || usage.bytes > now);
        }
        let usage = users.entry(user).or_default();
        let due = usage.uploads.max(now) + MINUTE / settings.per_minute.max(1);
        let latest = now + MINUTE;
        // One millisecond is added so that the wait is never zero.
        let wait_for_bytes = (usage.bytes >= latest)
            .then(|| usage.bytes.saturating_sub(latest) + Duration::from_millis(1));
        let wait = due.saturating_sub(latest).max(wait_for_bytes.unwrap_or_default());
        if wait > Duration::ZERO {
            return Err(UploadRateExceeded(wait));
        }
        usage.uploads = due;
        Ok(())
    }

    fn add_bytes_at(&self, now: Duration, user: AccountId, bytes: u64, settings: &UploadSettings) {
        let nanos =
            u128::from(bytes) * MINUTE.as_nanos() / u128::from(settings.bytes_per_minute.max(1));
        let cost = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        let mut users = self.0.users.lock();
        let usage = users.entry(user).or_default();
        usage.bytes = usage.bytes.max(now).saturating_add(cost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upload_of_a_refused_media_type_is_recognised() {
        let refused_types = vec!["application/x-msdownload".to_owned(), "video/*".to_owned()];
        let settings = UploadSettings { refused_types, ..UploadSettings::default() };
        for kind in
            ["application/x-msdownload", "Application/X-MSDownload; a=b", "video/mp4", "VIDEO/x"]
        {
            assert!(settings.refuses(kind), "{kind}");
        }
        for kind in ["application/x-msdownloads", "text/plain", "videos/mp4", ""] {
            assert!(!settings.refuses(kind), "{kind}");
        }
    }

    #[test]
    fn uploads_and_bytes_in_a_minute_are_limited() {
        let settings =
            UploadSettings { per_minute: 6, bytes_per_minute: 600, ..UploadSettings::default() };
        let (rates, ann, bob) = (UploadRates::default(), AccountId(1), AccountId(2));
        let at = Duration::from_secs;
        let begin = |now, user| rates.begin_at(at(now), user, &settings);
        assert!((0..6).all(|_| begin(1000, ann).is_ok()));
        assert_eq!((begin(1000, ann), begin(1000, bob)), (Err(UploadRateExceeded(at(10))), Ok(())));
        assert_eq!(
            (begin(1004, ann), begin(1010, ann), begin(1010, ann)),
            (Err(UploadRateExceeded(at(6))), Ok(()), Err(UploadRateExceeded(at(10))))
        );
        // One upload may exceed the rate. The next must wait then.
        rates.add_bytes_at(at(2000), ann, 599, &settings);
        assert_eq!(begin(2000, ann), Ok(()));
        rates.add_bytes_at(at(2000), ann, 601, &settings);
        let wait = begin(2000, ann).unwrap_err().0;
        assert!(wait >= at(60) && wait <= at(61), "{wait:?}");
        assert_eq!((begin(2059, ann).is_err(), begin(2061, ann)), (true, Ok(())));
    }
}
