//! The fuzz bodies of the room `filter`: any message, as the Sieve engine sees it, and any script
//! of another server.

use restante_sieve::{MessageView as _, PartId};

use super::bounded;
use crate::filter::{Settings, mailto, view::View};

/// Adapts any bytes as a script: the result has no errors or is the script as it was, and is not
/// adapted again.
pub fn adapt(data: &[u8]) {
    let data = bounded(data);
    let settings = Settings::default();
    let adapted = settings.adapt(data);
    // Must not panic.
    let _notes = adapted.notes(Some(std::collections::BTreeMap::new()));
    assert_eq!(adapted.changes.is_empty(), *adapted.source == *data);
    assert!(adapted.is_valid || adapted.changes.is_empty());
    assert_eq!(settings.check(&adapted.source).script.is_some(), adapted.is_valid);
    let again = settings.adapt(&adapted.source);
    assert!(again.changes.is_empty() && again.diagnostics == adapted.diagnostics);
}

/// Reads any bytes as a message: parts and fields are within the message, a part has a higher
/// number than the part that contains it and lies in that part's body, and every value can be read.
/// The same bytes, if they are UTF-8, are read as a `mailto` URI.
pub fn view(data: &[u8]) {
    let data = bounded(data);
    let view = View::new(data);
    assert!(!view.parts().is_empty());
    for (number, part) in view.parts().iter().enumerate() {
        let id = PartId(u32::try_from(number).unwrap());
        assert!(part.header.start <= part.header.end && part.header.end <= data.len(), "{part:?}");
        assert!(part.body.start <= part.body.end && part.body.end <= data.len(), "{part:?}");
        if let Some(parent) = part.parent {
            assert!(parent < id);
            let above = &view.parts()[usize::try_from(parent.0).unwrap()];
            assert!(above.body.start <= part.header.start && part.body.end <= above.body.end);
        }
        let mut end = part.header.start;
        for field in view.fields(id) {
            assert!(end <= field.whole.start && field.whole.start == field.name.start);
            assert!(field.name.end <= field.value.start && field.value.end <= field.whole.end);
            end = field.whole.end;
            let value = &data[field.value.clone()];
            let _read = (view.decode_text(value), view.parse_parameters(value));
        }
        assert!(end <= data.len());
        let _content = (view.content(id), view.plain_text(id));
    }
    if let Ok(text) = std::str::from_utf8(data)
        && let Some(uri) = mailto::parse(text)
    {
        assert!(!uri.to.is_empty());
    }
}
