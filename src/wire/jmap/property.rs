//! Properties of object types: an enum each, so that a property is one case of a `match`.

use serde::de::DeserializeOwned;

/// The properties of an object type.
pub trait Property: Clone + PartialEq + DeserializeOwned {
    /// `id`, which is given whether it is asked for or not (RFC 8620 §5.1).
    fn id() -> Self;

    /// The name in JSON.
    fn name(&self) -> &str;
}

/// Declares the properties of an object type, each with its name in JSON.
///
/// The first is `id`. A name that is not declared is refused as `invalidArguments`.
macro_rules! properties {
    ($(#[$about:meta])* $view:vis enum $name:ident { $first:ident = $id:literal, $($property:ident = $text:literal,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        $view enum $name { $first, $($property,)* }

        impl $name {
            /// All of them.
            $view const ALL: &'static [Self] = &[Self::$first, $(Self::$property,)*];

            /// The property of that name.
            $view fn from_name(name: &str) -> Option<Self> {
                match name {
                    $id => Some(Self::$first),
                    $($text => Some(Self::$property),)*
                    _ => None,
                }
            }
        }

        impl $crate::wire::jmap::Property for $name {
            fn id() -> Self {
                Self::$first
            }

            fn name(&self) -> &str {
                match self {
                    Self::$first => $id,
                    $(Self::$property => $text,)*
                }
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let name = std::borrow::Cow::<'_, str>::deserialize(from)?;
                Self::from_name(&name)
                    .ok_or_else(|| serde::de::Error::custom(format_args!("{name} is no property")))
            }
        }
    };
}

pub(crate) use properties;
