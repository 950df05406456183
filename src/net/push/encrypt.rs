//! Encryption of a push message for the client alone (RFC 8291): aes128gcm (RFC 8188) of one
//! record.

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{ECDH_P256, PrivateKey, UnparsedPublicKey, agree};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};

use crate::model::PushKeys;

/// The size of a record (RFC 8188 §2.1): ours are one, and smaller.
const RECORD_BYTES: u32 = 4096;
/// Octets of a message that fit into it: the tag takes 16, the delimiter one, the header 86.
pub(super) const MAX_MESSAGE_BYTES: usize = 3993;

/// It could not be encrypted: the client's key is no point of the curve, or the message is too
/// long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the message cannot be encrypted with the client's keys")]
pub(super) struct EncryptionError;

/// The body of a request that only the client can read.
pub(super) fn encrypt(plain: &[u8], keys: &PushKeys) -> Result<Vec<u8>, EncryptionError> {
    let mut salt = [0; 16];
    getrandom::fill(&mut salt).map_err(|_| EncryptionError)?;
    let private = PrivateKey::generate(&ECDH_P256).map_err(|_| EncryptionError)?;
    encrypt_with(plain, keys, &private, &salt)
}

fn encrypt_with(
    plain: &[u8],
    keys: &PushKeys,
    private: &PrivateKey,
    salt: &[u8; 16],
) -> Result<Vec<u8>, EncryptionError> {
    if plain.len() > MAX_MESSAGE_BYTES {
        return Err(EncryptionError);
    }
    let public = private.compute_public_key().map_err(|_| EncryptionError)?;
    let peer = UnparsedPublicKey::new(&ECDH_P256, &keys.p256dh);
    // RFC 8291 §3.4.
    let input: [u8; 32] = agree(private, peer, EncryptionError, |secret| {
        let key = Salt::new(HKDF_SHA256, &keys.auth).extract(secret);
        fill(&key, &[b"WebPush: info\0", &keys.p256dh, public.as_ref()])
    })?;
    let key = Salt::new(HKDF_SHA256, salt).extract(&input);
    let content: [u8; 16] = fill(&key, &[b"Content-Encoding: aes128gcm\0"])?;
    let nonce: [u8; 12] = fill(&key, &[b"Content-Encoding: nonce\0"])?;

    let mut sealed = plain.to_vec();
    // The delimiter of the last record (RFC 8188 §2).
    sealed.push(2);
    let content = UnboundKey::new(&AES_128_GCM, &content).map_err(|_| EncryptionError)?;
    let nonce = Nonce::assume_unique_for_key(nonce);
    let done = LessSafeKey::new(content).seal_in_place_append_tag(nonce, Aad::empty(), &mut sealed);
    done.map_err(|_| EncryptionError)?;

    let id = public.as_ref();
    let mut body = Vec::with_capacity(21 + id.len() + sealed.len());
    body.extend_from_slice(salt);
    body.extend_from_slice(&RECORD_BYTES.to_be_bytes());
    body.push(u8::try_from(id.len()).map_err(|_| EncryptionError)?);
    body.extend_from_slice(id);
    body.extend_from_slice(&sealed);
    Ok(body)
}

/// Length of key material, in bytes.
#[derive(Clone, Copy)]
struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

fn fill<const N: usize>(
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

    fn octets(text: &str) -> Vec<u8> {
        URL_SAFE_NO_PAD.decode(text).unwrap()
    }

    /// The example of RFC 8291 §5, with the values of its Appendix A.
    #[test]
    fn the_example_of_rfc_8291() {
        let keys = PushKeys {
            p256dh: octets(
                "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
            ),
            auth: octets("BTBZMqHH6r4Tts7J_aSIgg"),
        };
        let private = octets("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw");
        let private = PrivateKey::from_private_key(&ECDH_P256, &private).unwrap();
        let salt = octets("DGv6ra1nlYgDCS1FRnbzlw").try_into().unwrap();
        let body =
            encrypt_with(b"When I grow up, I want to be a watermelon", &keys, &private, &salt)
                .unwrap();
        let wanted = "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8\
            wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN";
        assert_eq!(URL_SAFE_NO_PAD.encode(body), wanted);
    }

    #[test]
    fn what_is_no_key_or_too_long_is_refused() {
        let point = octets(
            "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
        );
        let keys = PushKeys { p256dh: point, auth: vec![0; 16] };
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
