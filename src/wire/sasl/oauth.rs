//! Reads the client's response of OAUTHBEARER (RFC 7628 §3.1).
//!
//! ```abnf
//! client-resp = (gs2-header kvsep *kvpair kvsep) / kvsep
//! kvpair      = key "=" value kvsep
//! kvsep       = %x01
//! ```
//!
//! A single separator is the response to the challenge of a failed login. It is not read here,
//! because any response ends such a login.

use super::scram::{Binding, gs2_header};

const SEPARATOR: char = '\u{1}';

/// The challenge that says why the login failed (RFC 7628 §3.2.2).
pub(super) const INVALID_TOKEN: &[u8] = br#"{"status":"invalid_token","schemes":"bearer"}"#;

pub(super) struct BearerResponse {
    /// The name of the account that the client wants to act as, if it said so.
    pub(super) authorization: Option<String>,
    /// `None` if `auth` is empty: the client asks how to get a token (RFC 7628 §4.3).
    pub(super) token: Option<String>,
}

/// Returns what the client sent, or `None` if it is no response of OAUTHBEARER. A response has
/// `auth` once; `host`, `port` and unknown keys are ignored.
pub(super) fn parse(response: &str) -> Option<BearerResponse> {
    let (header, rest) = gs2_header(response)?;
    if header.binding != Binding::Unsupported && header.binding != Binding::NotOffered {
        return None;
    }
    let pairs = rest.strip_prefix(SEPARATOR)?.strip_suffix(SEPARATOR)?;
    // The last pair ends with a separator of its own before the one that ends the response.
    if !pairs.is_empty() && !pairs.ends_with(SEPARATOR) {
        return None;
    }
    let mut auth_value = None;
    for pair in pairs.split_terminator(SEPARATOR) {
        let (key, value) = pair.split_once('=')?;
        let is_key = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphabetic());
        if !is_key {
            return None;
        }
        if key == "auth" && auth_value.replace(value).is_some() {
            return None;
        }
    }
    let token = match auth_value? {
        "" => None,
        value => {
            let (scheme, token) = value.split_once(' ')?;
            let token = token.trim_start_matches(' ');
            if !scheme.eq_ignore_ascii_case("bearer") || token.is_empty() {
                return None;
            }
            Some(token.to_owned())
        }
    };
    Some(BearerResponse { authorization: header.authorization, token })
}
