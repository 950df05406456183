//! The properties of an object type as an enum, so that a `match` handles all of them.

use serde::de::DeserializeOwned;

/// A property of an object type. `properties!` implements it for most types; others, whose names
/// are not all fixed, implement it themselves.
pub trait Property: Clone + PartialEq + DeserializeOwned {
    /// The property `id`, which is always returned (RFC 8620 §5.1).
    fn id() -> Self;

    /// The name in JSON.
    fn name(&self) -> &str;
}

/// Declares an enum of names, each variant with its name in JSON. It can list, find and write them
/// (`ALL`, `from_name`, `as_str`).
macro_rules! names {
    ($(#[$about:meta])* $view:vis enum $name:ident { $($variant:ident = $text:literal,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        $view enum $name { $($variant,)* }

        impl $name {
            $view const ALL: &'static [Self] = &[$(Self::$variant,)*];

            $view fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|variant| variant.as_str() == name)
            }

            $view const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }
    };
}

/// Declares the properties of an object type, each with its name in JSON, as an enum of `names!`
/// that is a `Property` and can be read from JSON. The first is `id`.
macro_rules! properties {
    (
        $(#[$about:meta])*
        $view:vis enum $name:ident {
            $first:ident = $id:literal,
            $($property:ident = $text:literal,)*
        }
    ) => {
        $crate::wire::jmap::names! {
            $(#[$about])*
            $view enum $name { $first = $id, $($property = $text,)* }
        }

        impl $crate::wire::jmap::Property for $name {
            fn id() -> Self {
                Self::$first
            }

            fn name(&self) -> &str {
                self.as_str()
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let name = std::borrow::Cow::<'_, str>::deserialize(from)?;
                Self::from_name(&name).ok_or_else(|| {
                    serde::de::Error::custom(format_args!("there is no property {name}"))
                })
            }
        }
    };
}

pub(crate) use {names, properties};
