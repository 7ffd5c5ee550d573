//! The keys that a layer has in a spec, declared by its kind.
//!
//! The fields of a kind's struct ([`spec_keys!`]), each with its type and doc comment, give the
//! [`SpecKey`]s for schema and reference, and the struct itself is read from [`SpecValues`].
//! durio-spec has TOML and positions; [`crate::check`] says which values fit together.

use std::collections::BTreeMap;

use durio_base::{Bytes, Nanos};

/// A key that layers of a kind may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpecKey {
    pub name: &'static str,
    /// What it means, and its default.
    pub help: &'static str,
    /// How its value is written.
    pub form: SpecForm,
    /// No layer can do without it.
    pub is_required: bool,
}

/// How the value of a key is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpecForm {
    Flag,
    /// A whole number from 0.
    Count,
    /// One of these numbers.
    Numbers(&'static [u32]),
    /// A size with its unit.
    Bytes,
    /// A time with its unit.
    Time,
    Text,
    /// A text or a list of texts.
    Texts,
    /// One of these words.
    Words(&'static [&'static str]),
    /// One of these words, or this prefix and an absolute path.
    WordsOrPath(&'static [&'static str], &'static str),
}

/// A value that was read by the form of its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpecValue {
    Flag(bool),
    /// A count, or one of several numbers.
    Count(u32),
    Bytes(Bytes),
    Time(Nanos),
    /// A text or word (one entry), or a list of texts.
    Texts(Vec<String>),
}

/// The values of a layer by their keys.
pub type SpecValues = BTreeMap<&'static str, SpecValue>;

/// The fault of a layer whose values all have the right form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyFault {
    /// The key whose value is wrong; without a value the whole layer is.
    pub key: &'static str,
    /// Which of its texts, from zero.
    pub index: usize,
    pub what: String,
    /// What to write instead.
    pub hint: Option<String>,
}

impl KeyFault {
    pub(crate) fn new(key: &'static str, what: impl Into<String>) -> Self {
        Self { key, index: 0, what: what.into(), hint: None }
    }

    pub(crate) fn missing(key: &'static str) -> Self {
        Self::new(key, format!("'{key}' of the layer is missing"))
    }
}

/// The field of a kind's struct: the value of a key, or a group of fields that several kinds have.
pub(crate) trait SpecField: Sized {
    /// Its key; of a group, those of its fields.
    fn keys(name: &'static str, help: &'static str, is_required: bool) -> Vec<SpecKey>;

    fn read(values: &SpecValues, key: &'static str) -> Result<Self, KeyFault>;
}

/// What a key has as its value.
pub(crate) trait SpecScalar: Sized {
    const FORM: SpecForm;

    /// Nothing if the value has another form, which a reader that goes by the keys never gives.
    fn of(value: &SpecValue) -> Option<Self>;
}

impl<T: SpecScalar> SpecField for T {
    fn keys(name: &'static str, help: &'static str, is_required: bool) -> Vec<SpecKey> {
        vec![SpecKey { name, help: help.trim_ascii(), form: T::FORM, is_required }]
    }

    fn read(values: &SpecValues, key: &'static str) -> Result<Self, KeyFault> {
        values.get(key).and_then(T::of).ok_or_else(|| KeyFault::missing(key))
    }
}

impl<T: SpecScalar> SpecField for Option<T> {
    fn keys(name: &'static str, help: &'static str, _: bool) -> Vec<SpecKey> {
        T::keys(name, help, false)
    }

    fn read(values: &SpecValues, key: &'static str) -> Result<Self, KeyFault> {
        values.contains_key(key).then(|| T::read(values, key)).transpose()
    }
}

/// The field, or its default without the key.
pub(crate) fn read_or<T: SpecField>(
    values: &SpecValues,
    key: &'static str,
    default: Option<T>,
) -> Result<T, KeyFault> {
    match default {
        Some(default) if !values.contains_key(key) => Ok(default),
        _ => T::read(values, key),
    }
}

macro_rules! scalars {
    ($($type:ty: $form:ident($variant:ident);)*) => {$(
        impl SpecScalar for $type {
            const FORM: SpecForm = SpecForm::$form;

            fn of(value: &SpecValue) -> Option<Self> {
                match value {
                    SpecValue::$variant(value) => Some(value.clone()),
                    _ => None,
                }
            }
        }
    )*};
}

scalars! {
    bool: Flag(Flag);
    u32: Count(Count);
    Bytes: Bytes(Bytes);
    Nanos: Time(Time);
    Vec<String>: Texts(Texts);
}

impl SpecScalar for String {
    const FORM: SpecForm = SpecForm::Text;

    fn of(value: &SpecValue) -> Option<Self> {
        Vec::of(value)?.into_iter().next()
    }
}

/// Makes a struct whose fields are keys of a spec, with their doc comments as what the reference says
/// of them. A key with a default behind it, or of type [`Option`], may be left out.
// Not serde's own reading of specs: its `flatten`, which groups of fields need, loses the places of
// values and the refusal of unknown keys. It still saves the struct.
macro_rules! spec_keys {
    ($(#[$about:meta])* $visible:vis struct $name:ident {
        $($(#[$($attribute:tt)+])* $seen:vis $key:ident: $type:ty $(= $default:expr)?,)*
    }) => {
        $(#[$about])*
        $visible struct $name {
            $($(#[$($attribute)+])* $seen $key: $type,)*
        }

        impl $crate::spec::SpecField for $name {
            fn keys(_: &'static str, _: &'static str, _: bool) -> Vec<$crate::spec::SpecKey> {
                [$(<$type as $crate::spec::SpecField>::keys(
                    stringify!($key),
                    concat!($($crate::spec::help!($($attribute)+)),*),
                    concat!($(stringify!($default))?).is_empty(),
                )),*].concat()
            }

            fn read(
                values: &$crate::spec::SpecValues,
                _: &'static str,
            ) -> Result<Self, $crate::spec::KeyFault> {
                Ok(Self {
                    $($key: $crate::spec::read_or(
                        values,
                        stringify!($key),
                        None$(.or(Some($default)))?,
                    )?,)*
                })
            }
        }
    };
}

/// The text of a doc comment, nothing of any other attribute.
macro_rules! help {
    (doc = $text:literal) => {
        $text
    };
    ($($other:tt)+) => {
        ""
    };
}

/// Makes an enum whose values are words of a spec, which are also those that are saved.
macro_rules! spec_words {
    ($(#[$about:meta])* $visible:vis enum $name:ident {
        $($(#[$doc:meta])* $value:ident = $word:literal,)*
    }) => {
        durio_base::worded! {
            $(#[$about])*
            #[derive(serde::Serialize, serde::Deserialize)]
            $visible enum $name {
                $($(#[$doc])* #[serde(rename = $word)] $value = $word,)*
            }
        }

        impl $crate::spec::SpecScalar for $name {
            const FORM: $crate::spec::SpecForm = $crate::spec::SpecForm::Words(&[$($word),*]);

            fn of(value: &$crate::spec::SpecValue) -> Option<Self> {
                Self::of_word(&<String as $crate::spec::SpecScalar>::of(value)?)
            }
        }
    };
}

pub(crate) use {help, spec_keys, spec_words};
