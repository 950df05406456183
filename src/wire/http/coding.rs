//! Reads `Accept-Encoding` (RFC 9110 §12.5.3).

const MAX_CODINGS: usize = 32;

/// Whether the field gives `coding` a weight above 0, and nothing else, `*` included, a higher one.
/// `*` does not stand for `coding`. A missing weight counts as 1, a malformed one as 0. Only the
/// first `MAX_CODINGS` elements are read.
#[must_use]
pub fn prefers(accepted: &str, coding: &str) -> bool {
    let named = accepted.split(',').take(MAX_CODINGS).map(|element| {
        let mut parts = element.split(';');
        let name = parts.next().unwrap_or_default().trim();
        let weight = parts.find_map(|parameter| {
            let (name, value) = parameter.split_once('=')?;
            name.trim().eq_ignore_ascii_case("q").then(|| weight(value.trim()))
        });
        (name, weight.unwrap_or(Some(1000)).unwrap_or(0))
    });
    let named: Vec<(&str, u32)> = named.collect();
    let own = named
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case(coding))
        .map(|(_, weight)| *weight)
        .max();
    own.is_some_and(|own| own > 0 && named.iter().all(|(_, weight)| *weight <= own))
}

/// Reads a weight (RFC 9110 §12.4.2), in thousandths. Returns `None` if it is malformed.
fn weight(text: &str) -> Option<u32> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let is_short = part.len() <= 3 && part.bytes().all(|byte| byte.is_ascii_digit());
    let part = format!("{part:0<3}").parse::<u32>().ok().filter(|_| is_short)?;
    match (whole, part) {
        ("0", part) => Some(part),
        ("1", 0) => Some(1000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefers_a_named_coding_of_the_highest_weight() {
        for (accepted, expected) in [
            ("zstd", true),
            ("gzip, deflate, br, zstd", true),
            ("gzip;q=0.5, ZSTD ; Q=0.5", true),
            ("zstd;q=0.9, *;q=0.1", true),
            ("zstd;q=1.000", true),
            ("", false),
            ("*", false),
            ("gzip, br", false),
            ("br, zstd;q=0.9", false),
            ("identity, zstd;q=0.999", false),
            ("zstd;q=0", false),
            ("zstd;q=0.000", false),
            ("zstd;q=2", false),
            ("zstd;q=0.1234", false),
            ("zstd;q=x, gzip;q=0", false),
            ("zstdx", false),
        ] {
            assert_eq!(prefers(accepted, "zstd"), expected, "{accepted}");
        }
        let flood = format!("{}zstd", "gzip;q=0,".repeat(10_000));
        assert!(!prefers(&flood, "zstd"));
    }
}
