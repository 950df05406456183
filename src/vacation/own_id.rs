//! The Message-IDs of replies, by which an answer to a reply is recognised without a look-up.

/// Makes the Message-ID of a reply, without angle brackets: `r.NONCE.HASH@DOMAIN`. The hash is a
/// keyed one of the nonce, and both have 16 hexadecimal digits. The domain is not hashed.
pub(super) fn own_id(nonce: u64, domain: &str, secret: &[u8; 32]) -> String {
    let nonce = format!("{nonce:016x}");
    format!("r.{nonce}.{}@{domain}", mac(&nonce, secret))
}

fn mac(nonce: &str, secret: &[u8; 32]) -> String {
    let mut hasher = blake3::Hasher::new_keyed(secret);
    hasher.update(b"reply id\0");
    hasher.update(nonce.as_bytes());
    hasher.finalize().to_hex().chars().take(16).collect()
}

/// Whether a Message-ID, without angle brackets, was made by `own_id` with this secret.
#[must_use]
pub fn is_own_id(id: &str, secret: &[u8; 32]) -> bool {
    let parts =
        id.split_once('@').map(|(local, _)| local).and_then(|local| local.strip_prefix("r."));
    parts
        .and_then(|parts| parts.split_once('.'))
        .is_some_and(|(nonce, given)| nonce.len() == 16 && mac(nonce, secret) == given)
}
