//! Encrypts a push message so that only the client can read it (RFC 8291): aes128gcm (RFC 8188)
//! with one record.

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{ECDH_P256, PrivateKey, UnparsedPublicKey, agree};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};

use crate::model::PushKeys;

/// The record size that the header of a body says (RFC 8188 §2.1). The one record may be shorter.
const RECORD_BYTES: u32 = 4096;
/// The longest message. A header of 86 bytes, a delimiter of 1 and a tag of 16 are added, and the
/// whole body may have 4096 bytes (RFC 8291 §4).
pub(super) const MAX_MESSAGE_BYTES: usize = 3993;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the message is too long, or cannot be encrypted with the client's keys")]
pub(super) struct EncryptionError;

/// Returns the body of a push: the message, encrypted with a new key of this server.
///
/// # Errors
/// The message is too long, a key of the client is invalid, or the machine has no randomness.
pub(super) fn encrypt(plain: &[u8], keys: &PushKeys) -> Result<Vec<u8>, EncryptionError> {
    let mut salt = [0; 16];
    getrandom::fill(&mut salt).map_err(|_| EncryptionError)?;
    let private = PrivateKey::generate(&ECDH_P256).map_err(|_| EncryptionError)?;
    encrypt_with(plain, keys, &private, &salt)
}

/// Does what `encrypt` does, with this key and salt of the server, which a test can give.
fn encrypt_with(
    plain: &[u8],
    keys: &PushKeys,
    private: &PrivateKey,
    salt: &[u8; 16],
) -> Result<Vec<u8>, EncryptionError> {
    if plain.len() > MAX_MESSAGE_BYTES {
        return Err(EncryptionError);
    }
    let public_key = private.compute_public_key().map_err(|_| EncryptionError)?;
    let client_key = UnparsedPublicKey::new(&ECDH_P256, &keys.p256dh);
    // The input keying material (RFC 8291 §3.4).
    let input: [u8; 32] = agree(private, client_key, EncryptionError, |secret| {
        let key = Salt::new(HKDF_SHA256, &keys.auth).extract(secret);
        expand(&key, &[b"WebPush: info\0", &keys.p256dh, public_key.as_ref()])
    })?;
    let key = Salt::new(HKDF_SHA256, salt).extract(&input);
    let content_key: [u8; 16] = expand(&key, &[b"Content-Encoding: aes128gcm\0"])?;
    let nonce: [u8; 12] = expand(&key, &[b"Content-Encoding: nonce\0"])?;

    let mut sealed = plain.to_vec();
    // The delimiter of the last record (RFC 8188 §2).
    sealed.push(2);
    let content_key = UnboundKey::new(&AES_128_GCM, &content_key).map_err(|_| EncryptionError)?;
    let nonce = Nonce::assume_unique_for_key(nonce);
    let content_key = LessSafeKey::new(content_key);
    content_key
        .seal_in_place_append_tag(nonce, Aad::empty(), &mut sealed)
        .map_err(|_| EncryptionError)?;

    // The header: 16 bytes of salt, 4 of the record size, 1 of the length of the key id, and the
    // key id, which is this server's public key.
    let key_id = public_key.as_ref();
    let mut body = Vec::with_capacity(16 + 4 + 1 + key_id.len() + sealed.len());
    body.extend_from_slice(salt);
    body.extend_from_slice(&RECORD_BYTES.to_be_bytes());
    body.push(u8::try_from(key_id.len()).map_err(|_| EncryptionError)?);
    body.extend_from_slice(key_id);
    body.extend_from_slice(&sealed);
    Ok(body)
}

/// How many bytes HKDF derives.
#[derive(Clone, Copy)]
struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// Derives `N` bytes with HKDF-Expand.
fn expand<const N: usize>(
    key: &aws_lc_rs::hkdf::Prk,
    info: &[&[u8]],
) -> Result<[u8; N], EncryptionError> {
    let mut out = [0; N];
    let material = key.expand(info, Length(N)).map_err(|_| EncryptionError)?;
    material.fill(&mut out).map_err(|_| EncryptionError)?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    use super::*;

    const P256DH: &str = concat!(
        "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AY",
        "WXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
    );

    fn decode(text: &str) -> Vec<u8> {
        URL_SAFE_NO_PAD.decode(text).unwrap()
    }

    /// The example of RFC 8291 §5, with the values of its Appendix A.
    #[test]
    fn encrypts_the_example_of_rfc_8291() {
        let keys = PushKeys { p256dh: decode(P256DH), auth: decode("BTBZMqHH6r4Tts7J_aSIgg") };
        let private = decode("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw");
        let private = PrivateKey::from_private_key(&ECDH_P256, &private).unwrap();
        let salt = decode("DGv6ra1nlYgDCS1FRnbzlw").try_into().unwrap();
        let body =
            encrypt_with(b"When I grow up, I want to be a watermelon", &keys, &private, &salt)
                .unwrap();
        let expected = concat!(
            "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLoc",
            "InmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLV",
            "WGNWQexSgSxsj_Qulcy4a-fN"
        );
        assert_eq!(URL_SAFE_NO_PAD.encode(body), expected);
    }

    #[test]
    fn refuses_an_invalid_key_and_a_message_that_is_too_long() {
        let keys = PushKeys { p256dh: decode(P256DH), auth: vec![0; 16] };
        // The header, the byte and its delimiter, and the tag.
        let (first, second) = (encrypt(b"x", &keys).unwrap(), encrypt(b"x", &keys).unwrap());
        assert!(first != second && first.len() == 86 + 2 + 16);
        assert!(encrypt(&[0; MAX_MESSAGE_BYTES], &keys).unwrap().len() <= RECORD_BYTES as usize);
        assert_eq!(encrypt(&[0; MAX_MESSAGE_BYTES + 1], &keys), Err(EncryptionError));
        assert_eq!(
            encrypt(b"x", &PushKeys { p256dh: vec![4; 65], auth: vec![0; 16] }),
            Err(EncryptionError)
        );
    }
}
