//! What may be uploaded, whichever way it comes: by the upload URL, by Blob/upload, by Blob/copy.
//!
//! - Types that the site refuses, and the largest size.
//! - A rate, by who uploads: so many uploads and so many bytes a minute, as many at once. The bytes
//!   of an upload are known only when it has come, so the last one may go beyond; the next waits
//!   for it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::model::clock::Stopwatch;
use crate::model::{AccountId, limits};

/// What a site sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadSettings {
    /// Media types that are refused, in lower case; `video/*` is all of a kind.
    pub refused_types: Vec<String>,
    /// Bytes of the largest upload.
    pub max: u64,
    /// Uploads of a user in a minute.
    pub per_minute: u32,
    /// Bytes of them.
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
    /// Whether a type is among those that the site refuses.
    #[must_use]
    pub fn refuses(&self, media_type: &str) -> bool {
        let essence = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        self.refused_types.iter().any(|known| match known.strip_suffix("/*") {
            Some(whole) => essence.split('/').next() == Some(whole),
            None => *known == essence,
        })
    }
}

/// What each user has uploaded of late.
#[derive(Debug, Clone)]
pub struct UploadRates(Arc<UploadRateState>);

#[derive(Debug)]
struct UploadRateState {
    clock: Stopwatch,
    users: Mutex<HashMap<AccountId, UploadUsage>>,
}

/// When the uploads of a user, and their bytes, are paid for; each costs its part of a minute.
#[derive(Debug, Clone, Copy, Default)]
struct UploadUsage {
    uploads: Duration,
    bytes: Duration,
}

/// Too much was uploaded of late; how long to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many uploads in a minute")]
pub struct UploadRateExceeded(pub Duration);

const MINUTE: Duration = Duration::from_secs(60);
/// Users beyond whom those who owe nothing are forgotten.
const MAX_TRACKED_USERS: usize = 10_000;

impl Default for UploadRates {
    fn default() -> Self {
        Self(Arc::new(UploadRateState { clock: Stopwatch::start(), users: Mutex::default() }))
    }
}

impl UploadRates {
    /// Counts one more upload of a user.
    ///
    /// # Errors
    /// The user must wait first.
    pub fn begin(
        &self,
        user: AccountId,
        settings: &UploadSettings,
    ) -> Result<(), UploadRateExceeded> {
        self.begin_at(self.0.clock.elapsed(), user, settings)
    }

    /// Counts what came.
    pub fn came(&self, user: AccountId, bytes: u64, settings: &UploadSettings) {
        self.came_at(self.0.clock.elapsed(), user, bytes, settings);
    }

    fn begin_at(
        &self,
        now: Duration,
        user: AccountId,
        settings: &UploadSettings,
    ) -> Result<(), UploadRateExceeded> {
        let mut users = self.0.users.lock();
        if users.len() >= MAX_TRACKED_USERS && !users.contains_key(&user) {
            users.retain(|_, spent| spent.uploads > now || spent.bytes > now);
        }
        let spent = users.entry(user).or_default();
        let due = spent.uploads.max(now) + MINUTE / settings.per_minute.max(1);
        let most = now + MINUTE;
        // A moment more than the bytes take, so that it is never zero.
        let bytes = (spent.bytes >= most)
            .then(|| spent.bytes.saturating_sub(most) + Duration::from_millis(1));
        let wait = due.saturating_sub(most).max(bytes.unwrap_or_default());
        if wait > Duration::ZERO {
            return Err(UploadRateExceeded(wait));
        }
        spent.uploads = due;
        Ok(())
    }

    fn came_at(&self, now: Duration, user: AccountId, bytes: u64, settings: &UploadSettings) {
        let nanos =
            u128::from(bytes) * MINUTE.as_nanos() / u128::from(settings.bytes_per_minute.max(1));
        let cost = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        let mut users = self.0.users.lock();
        let spent = users.entry(user).or_default();
        spent.bytes = spent.bytes.max(now).saturating_add(cost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_that_are_refused() {
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
    fn so_many_uploads_and_bytes_a_minute() {
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
        // One may go beyond; what it took must be over first.
        rates.came_at(at(2000), ann, 599, &settings);
        assert_eq!(begin(2000, ann), Ok(()));
        rates.came_at(at(2000), ann, 601, &settings);
        let wait = begin(2000, ann).unwrap_err().0;
        assert!(wait >= at(60) && wait <= at(61), "{wait:?}");
        assert_eq!((begin(2059, ann).is_err(), begin(2061, ann)), (true, Ok(())));
    }
}
