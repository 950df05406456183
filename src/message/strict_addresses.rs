//! Reads the addresses of a field as RFC 5322 §3.4 defines them, without groups and comments, for
//! tests. An invalid address panics.

use super::header::first;
use crate::model::Address;

/// The addresses of the first field of this name: the text in angle brackets, or else the whole
/// item.
pub(crate) fn strict_addresses(raw: &[u8], name: &str) -> Vec<Address> {
    let value = first(raw, name).unwrap().unfolded();
    let (mut items, mut item, mut angled) = (Vec::new(), String::new(), None::<String>);
    let (mut quoted, mut escaped) = (false, false);
    for c in value.chars().chain([',']) {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '<' if !quoted => {
                item.clear();
                continue;
            }
            '>' if !quoted => angled = Some(std::mem::take(&mut item)),
            ',' if !quoted => {
                items.push(angled.take().unwrap_or_else(|| std::mem::take(&mut item)));
                item.clear();
                continue;
            }
            _ => {}
        }
        item.push(c);
    }
    assert!(!quoted, "{name}: {value}");
    items.iter().map(|item| Address::parse(item).unwrap()).collect()
}
