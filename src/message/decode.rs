//! The content of a part, decoded a piece at a time (RFC 2045 §6.7, §6.8), so that a large attachment needs little memory.
//!
//! What must hold: in whatever pieces the octets come, what comes out is what the parser makes of the whole at once, of
//! broken encodings too (octets outside the base64 alphabet are passed over, escapes that are none stay as written). A piece
//! of quoted-printable is held until its line ends, as far as its last white space and escape: what they are depends on what
//! follows. A part of nothing but white space without an end of line is held whole; all else in 64 KiB.

use encodify::{base64, qp};

/// Octets of a line of quoted-printable that are held before a place to cut it is looked for.
const HELD: usize = 64 * 1024;

/// Decodes one part.
#[derive(Debug)]
pub struct Decoder(State);

#[derive(Debug)]
enum State {
    Plain,
    Quoted(Vec<u8>),
    Base64(base64::Decoder),
}

impl Decoder {
    /// For an encoding as `PartOffsets` has it: 1 quoted-printable, 2 base64, else none.
    #[must_use]
    pub fn new(encoding: u8) -> Self {
        Self(match encoding {
            1 => State::Quoted(Vec::new()),
            2 => State::Base64(base64::MIME.decoder()),
            _ => State::Plain,
        })
    }

    /// Takes a piece, and appends what it comes to.
    pub fn feed(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        match &mut self.0 {
            State::Plain => out.extend_from_slice(piece),
            State::Quoted(held) => {
                held.extend_from_slice(piece);
                let cut = cut(held);
                decode_quoted(held.get(..cut).unwrap_or_default(), out);
                held.drain(..cut);
            }
            State::Base64(decoder) => {
                let mut rest = piece;
                loop {
                    let taken = decoder.decode_symbols(rest, out);
                    match rest.get(taken..).and_then(<[u8]>::split_first) {
                        None => break,
                        Some((b'=', tail)) => {
                            decoder.pad(out);
                            rest = tail;
                        }
                        Some((_, tail)) => rest = tail,
                    }
                }
            }
        }
    }

    /// What is left when there are no more pieces.
    pub fn finish(self, out: &mut Vec<u8>) {
        match self.0 {
            State::Plain => {}
            State::Quoted(held) => decode_quoted(&held, out),
            State::Base64(decoder) => decoder.finish(out),
        }
    }
}

fn decode_quoted(octets: &[u8], out: &mut Vec<u8>) {
    if !octets.is_empty() && qp::BODY.decode_append(octets, out).is_err() {
        out.extend_from_slice(octets);
    }
}

/// How many of these octets mean the same whatever follows.
fn cut(held: &[u8]) -> usize {
    if let Some(line) = memchr::memrchr(b'\n', held) {
        return line.saturating_add(1);
    }
    if held.len() < HELD {
        return 0;
    }
    let firm = |at: &usize| {
        let before = held.get(at.saturating_sub(2)..*at).unwrap_or_default();
        !before.contains(&b'=') && before.last().is_some_and(|last| !last.is_ascii_whitespace())
    };
    (1..=held.len()).rev().find(firm).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn whole(encoding: u8, octets: &[u8]) -> Vec<u8> {
        in_pieces(encoding, &[octets])
    }

    fn in_pieces(encoding: u8, pieces: &[&[u8]]) -> Vec<u8> {
        let (mut decoder, mut out) = (Decoder::new(encoding), Vec::new());
        pieces.iter().for_each(|piece| decoder.feed(piece, &mut out));
        decoder.finish(&mut out);
        out
    }

    /// As `mail_parser` decodes it.
    fn at_once(encoding: u8, octets: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        match encoding {
            1 => out = qp::BODY.decode(octets).map(std::borrow::Cow::into_owned).unwrap_or_else(|_| octets.to_vec()),
            2 if base64::MIME.decode_append(octets, &mut out).is_ok() => {}
            2 => return whole(2, octets),
            _ => out = octets.to_vec(),
        }
        out
    }

    #[test]
    fn what_is_broken_is_decoded_as_far_as_it_goes() {
        for (encoding, octets, wanted) in [
            (2, "SGVs\r\nbG8=", "Hello"),
            (2, "SGVs-bG8=", "Hello"),
            (2, "VGVzdA", "Test"),
            (2, "SGVsbG8=\r\nSGVsbG8=", "HelloHello"),
            (1, "soft=\r\nbreak =  \r\nnext \t\r\nend", "softbreak next\r\nend"),
            (1, "caf=C3=A9 a=ZZb =4", "café a=ZZb =4"),
            (0, "as is=", "as is="),
        ] {
            assert_eq!(String::from_utf8_lossy(&whole(encoding, octets.as_bytes())), wanted, "{octets}");
            assert_eq!(whole(encoding, octets.as_bytes()), at_once(encoding, octets.as_bytes()), "{octets}");
        }
    }

    #[test]
    fn a_line_without_end_is_not_held_whole() {
        let line = "abc=41 ".repeat(100_000);
        let (mut decoder, mut out) = (Decoder::new(1), Vec::new());
        for piece in line.as_bytes().chunks(1000) {
            decoder.feed(piece, &mut out);
            assert!(matches!(&decoder.0, State::Quoted(held) if held.len() < HELD.saturating_mul(2)));
        }
        decoder.finish(&mut out);
        assert_eq!(out, at_once(1, line.as_bytes()));
    }

    #[test]
    fn the_shared_corpus_in_pieces() {
        let Some(folder) = crate::needs::corpus() else { return };
        let mut files = Vec::new();
        let mut folders: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        while let Some(path) = folders.pop() {
            if path.is_dir() {
                folders.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
            } else if path.metadata().unwrap().len() < 100_000 {
                files.push(path);
            }
        }
        let (mut parts, mut seen) = (0, 0_usize);
        for file in &files {
            let raw = std::fs::read(file).unwrap();
            let message = crate::message::Message::parse(&raw);
            for part in message.parts() {
                let Some(body) = raw.get(part.body as usize..part.end as usize) else { continue };
                let wanted = at_once(part.encoding, body);
                // Few pieces where it is long, for the time that it takes; each split where it is short.
                let splits: Vec<usize> = if body.len() < 200 {
                    (0..=body.len()).collect()
                } else {
                    vec![1, body.len() / 3, body.len().saturating_sub(1)]
                };
                for split in splits {
                    let (first, rest) = body.split_at(split);
                    assert_eq!(in_pieces(part.encoding, &[first, rest]), wanted, "{} at {split}", file.display());
                }
                let octets: Vec<&[u8]> = body.chunks(1).collect();
                assert_eq!(in_pieces(part.encoding, &octets), wanted, "{} octet by octet", file.display());
                parts = usize::saturating_add(parts, usize::from(part.encoding > 0));
                seen = seen.saturating_add(body.len());
            }
        }
        assert!(parts > 100 && seen > 100_000, "{parts} encoded parts in {} files", files.len());
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same(
            encoding in 0..3_u8,
            octets in proptest::collection::vec(prop_oneof![
                4 => proptest::sample::select(b"=A4f \t\r\n+/".to_vec()), 1 => any::<u8>()
            ], 0..60),
            split in any::<proptest::sample::Index>(),
        ) {
            let wanted = at_once(encoding, &octets);
            prop_assert_eq!(&whole(encoding, &octets), &wanted);
            let (first, rest) = octets.split_at(split.index(octets.len().saturating_add(1)));
            prop_assert_eq!(&in_pieces(encoding, &[first, rest]), &wanted);
            let one: Vec<&[u8]> = octets.chunks(1).collect();
            prop_assert_eq!(&in_pieces(encoding, &one), &wanted);
        }
    }
}
