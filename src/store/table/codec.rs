//! Encodes keys as bytes, and decodes them.
//!
//! - A key is the concatenation of its fields, big-endian and mostly of fixed width.
//! - `a < b` exactly if `encode(a) < encode(b)`, except for `FoldKey`, and for times before 1970,
//!   which are encoded as 1970.
//! - Any bytes decode to a key or to an error.
#![warn(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::cmp::Reverse;

use crate::model::{
    AccountId, ActionId, BlobHash, EmailId, Listing, ListingFilter, MailboxUid, ModSeq, ObjectId,
    ObjectKind, Shape, ThreadId, ThreadKey, Token, ToldKey, UtcMillis,
};
use crate::store::row::RowError;

/// A field of a key, or a whole key.
pub(crate) trait KeyPart: Sized {
    /// Of a field: the number of bytes of every value, or 0 if it varies. Of a key that `key!`
    /// declares: the sum of the widths of its fields.
    const WIDTH: usize;

    fn write(&self, out: &mut Vec<u8>);

    /// Removes the field from the front of `input`.
    ///
    /// # Errors
    /// The bytes do not begin with such a field.
    fn read(input: &mut &[u8]) -> Result<Self, RowError>;
}

/// A whole key: its fields in the order by which rows are sorted.
pub(crate) trait Key: KeyPart {}

/// The leading fields of a key of type `K`, or all of them.
pub(crate) trait Prefix<K> {
    fn encode(&self) -> Vec<u8>;
}

impl<K: Key> Prefix<K> for K {
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(Self::WIDTH);
        self.write(&mut out);
        out
    }
}

/// Every key of the table.
impl<K: Key> Prefix<K> for () {
    fn encode(&self) -> Vec<u8> {
        Vec::new()
    }
}

/// A time in a key, in milliseconds since 1970. Earlier times become 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct KeyTime(u64);

impl From<UtcMillis> for KeyTime {
    fn from(at: UtcMillis) -> Self {
        Self(u64::try_from(at.0).unwrap_or(0))
    }
}

impl From<KeyTime> for UtcMillis {
    fn from(at: KeyTime) -> Self {
        Self(i64::try_from(at.0).unwrap_or(i64::MAX))
    }
}

fn take_bytes<const N: usize>(input: &mut &[u8]) -> Result<[u8; N], RowError> {
    let (bytes, rest) = input.split_first_chunk::<N>().ok_or(RowError("the key is too short"))?;
    *input = rest;
    Ok(*bytes)
}

macro_rules! number {
    ($($int:ty),*) => {$(
        impl KeyPart for $int {
            const WIDTH: usize = size_of::<$int>();

            fn write(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_be_bytes());
            }

            fn read(input: &mut &[u8]) -> Result<Self, RowError> {
                take_bytes(input).map(<$int>::from_be_bytes)
            }
        }
    )*};
}

number!(u8, u32, u64);

impl<const N: usize> KeyPart for [u8; N] {
    const WIDTH: usize = N;

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    fn read(input: &mut &[u8]) -> Result<Self, RowError> {
        take_bytes(input)
    }
}

impl<T: KeyPart + Copy + Into<u64> + From<u64>> KeyPart for Reverse<T> {
    const WIDTH: usize = u64::WIDTH;

    fn write(&self, out: &mut Vec<u8>) {
        (!self.0.into()).write(out);
    }

    fn read(input: &mut &[u8]) -> Result<Self, RowError> {
        u64::read(input).map(|number| Self(T::from(!number)))
    }
}

impl From<u64> for KeyTime {
    fn from(millis: u64) -> Self {
        Self(millis)
    }
}

impl From<KeyTime> for u64 {
    fn from(at: KeyTime) -> Self {
        at.0
    }
}

macro_rules! newtype {
    ($($name:ident($inner:ty)),* $(,)?) => {$(
        impl KeyPart for $name {
            const WIDTH: usize = <$inner>::WIDTH;

            fn write(&self, out: &mut Vec<u8>) {
                self.0.write(out);
            }

            fn read(input: &mut &[u8]) -> Result<Self, RowError> {
                <$inner>::read(input).map(Self)
            }
        }
    )*};
}

newtype! {
    AccountId(u32), ActionId(u64), BlobHash([u8; 32]), EmailId(u64), KeyTime(u64), MailboxUid(u32),
    ModSeq(u64), ObjectId(u64), ThreadId(u64), ThreadKey([u8; 32]), ToldKey([u8; 32]),
}

impl KeyPart for ListingFilter {
    const WIDTH: usize = 1;

    fn write(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }

    fn read(input: &mut &[u8]) -> Result<Self, RowError> {
        Self::from_number(u8::read(input)?)
            .ok_or(RowError("the key names an unknown listing filter"))
    }
}

impl KeyPart for Listing {
    const WIDTH: usize = 6;

    fn write(&self, out: &mut Vec<u8>) {
        self.uid.write(out);
        self.filter.write(out);
        out.push(self.shape as u8);
    }

    fn read(input: &mut &[u8]) -> Result<Self, RowError> {
        let (uid, filter) = (MailboxUid::read(input)?, ListingFilter::read(input)?);
        let shape = match u8::read(input)? {
            0 => Shape::Emails,
            1 => Shape::Threads,
            _ => return Err(RowError("the key names an unknown shape")),
        };
        Ok(Self { uid, filter, shape })
    }
}

impl KeyPart for ObjectKind {
    const WIDTH: usize = 1;

    fn write(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }

    fn read(input: &mut &[u8]) -> Result<Self, RowError> {
        Self::from_number(u8::read(input)?)
            .ok_or(RowError("the key names an unknown kind of object"))
    }
}

/// A fixed byte in a key, which tells apart several kinds of rows in one table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tag<const N: u8>;

impl<const N: u8> KeyPart for Tag<N> {
    const WIDTH: usize = 1;

    fn write(&self, out: &mut Vec<u8>) {
        out.push(N);
    }

    fn read(input: &mut &[u8]) -> Result<Self, RowError> {
        if u8::read(input)? == N {
            Ok(Self)
        } else {
            Err(RowError("the key is of another kind of row"))
        }
    }
}

/// Words sort by their hash, before texts, which sort by their bytes. A NUL in a text is written as
/// 0 255, and a text ends with 0 1.
impl KeyPart for Token {
    const WIDTH: usize = 0;

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Word(hash) => {
                out.push(1);
                hash.write(out);
            }
            Self::Text(text) => {
                write_text_start(text, out);
                out.extend_from_slice(&[0, 1]);
            }
        }
    }

    fn read(input: &mut &[u8]) -> Result<Self, RowError> {
        match u8::read(input)? {
            1 => u32::read(input).map(Self::Word),
            2 => read_text(input).map(Self::Text),
            _ => Err(RowError("the key names an unknown kind of token")),
        }
    }
}

/// Appends the bytes with which the keys of all text tokens with the prefix `text` begin.
pub(crate) fn write_text_start(text: &str, out: &mut Vec<u8>) {
    out.push(2);
    for byte in text.bytes() {
        out.push(byte);
        if byte == 0 {
            out.push(0xff);
        }
    }
}

fn read_text(input: &mut &[u8]) -> Result<String, RowError> {
    let mut text = Vec::new();
    loop {
        match (u8::read(input)?, input.first()) {
            (0, Some(1)) => break,
            (0, Some(0xff)) => {
                text.push(0);
                u8::read(input)?;
            }
            (0, _) => return Err(RowError("a text in the key does not end")),
            (byte, _) => text.push(byte),
        }
    }
    u8::read(input)?;
    String::from_utf8(text).map_err(|_| RowError("a text in the key is not UTF-8"))
}

/// Declares a key as a struct. Each tuple of leading fields is a [`Prefix`] of the key.
macro_rules! key {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $part:ty),+ $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) struct $name {
            $(pub(crate) $field: $part),+
        }

        impl $crate::store::table::codec::KeyPart for $name {
            const WIDTH: usize = 0 $(+ <$part as $crate::store::table::codec::KeyPart>::WIDTH)+;

            fn write(&self, out: &mut Vec<u8>) {
                $($crate::store::table::codec::KeyPart::write(&self.$field, out);)+
            }

            fn read(input: &mut &[u8]) -> Result<Self, $crate::store::row::RowError> {
                Ok(Self { $($field: $crate::store::table::codec::KeyPart::read(input)?),+ })
            }
        }

        impl $crate::store::table::codec::Key for $name {}

        $crate::store::table::codec::prefixes!($name; ; $($field: $part),+);
    )*};
}

/// Implements [`Prefix`] for each tuple of leading fields, except for that of all fields: the key
/// itself is one.
macro_rules! prefixes {
    ($name:ident; $($done:ident: $part:ty),*; $last:ident: $end:ty) => {};
    ($name:ident; $($done:ident: $part:ty),*; $next:ident: $new:ty, $($left:ident: $rest:ty),+) => {
        impl $crate::store::table::codec::Prefix<$name> for ($($part,)* $new,) {
            fn encode(&self) -> Vec<u8> {
                let width = <$name as $crate::store::table::codec::KeyPart>::WIDTH;
                let mut out = Vec::with_capacity(width);
                let ($($done,)* $next,) = self;
                $($crate::store::table::codec::KeyPart::write($done, &mut out);)*
                $crate::store::table::codec::KeyPart::write($next, &mut out);
                out
            }
        }

        $crate::store::table::codec::prefixes!(
            $name; $($done: $part,)* $next: $new; $($left: $rest),+
        );
    };
}

pub(crate) use {key, prefixes};
