//! Values of a spec: numbers and texts of TOML to sizes, times, shares and words.
//!
//! Turns a [`TableItem`] into a value of its field's type.

use std::num::NonZeroU32;

use durio_base::{Bytes, Nanos, nearest_word};
use durio_workload::PerMille;
use serde_json::json;
use toml::de::DeValue;

use super::TableItem;
use super::reference::ValueForm;
use crate::SpecError;
use crate::written::{has_unit, time};

/// What can stand behind a key, or in a list there.
pub(crate) trait KeyedValue: Clone {
    /// An example as written; empty where no example helps a user who forgot the key.
    const EXAMPLE: &'static str = "";

    fn read(item: TableItem<'_>) -> Result<Self, SpecError>;

    /// How it is written; a text, unless the type says otherwise.
    fn form() -> ValueForm {
        ValueForm::new("text", json!({ "type": "string" }))
    }
}

/// A value that can be a level of an axis.
pub(crate) trait LevelValue: KeyedValue {
    fn label(&self) -> String;

    /// None for words and flags.
    fn coordinate(&self) -> Option<f64> {
        None
    }

    /// As it is in a shortened run.
    fn scaled(&self, _: TimeScale) -> Self {
        self.clone()
    }
}

/// A shortened run keeps steps at least this long, or as long as the spec says.
// Below it `durio check` takes no duration either: ten intervals would not hold one flush of a
// disk.
const TIME_SCALED_MIN: Nanos = Nanos::from_millis(100);
/// Scaled sizes are whole multiples of this.
// Every usual block size divides it.
const GRAIN: Bytes = Bytes::from_mib(1);

/// How far a run is shortened, in thousandths of the spec's values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimeScale {
    pub(crate) time_per_mille: u32,
    pub(crate) size_per_mille: u32,
}

impl TimeScale {
    /// As the spec says.
    pub(crate) const WHOLE: Self = Self { time_per_mille: 1000, size_per_mille: 1000 };

    pub(crate) fn time(self, span: Nanos) -> Nanos {
        let scaled = Nanos::new(part(span.get(), self.time_per_mille.into()));
        // What the spec itself has shorter stays as it is: scaling never makes longer.
        scaled.max(TIME_SCALED_MIN.min(span))
    }

    /// Whole MiB where it is not as the spec says.
    pub(crate) fn size(self, size: Bytes) -> Bytes {
        if self.size_per_mille == 1000 {
            return size;
        }
        let scaled = Bytes::new(part(size.get(), self.size_per_mille.into()));
        scaled.rounded_down_to(GRAIN).max(GRAIN.min(size))
    }

    /// A share follows `whole`, which is scaled already.
    pub(crate) fn amount(self, amount: Amount, whole: Bytes) -> Bytes {
        match amount {
            Amount::Bytes(bytes) => self.size(bytes),
            share @ Amount::Share(_) => share.of(whole),
        }
    }
}

fn part(whole: u64, per_mille: u64) -> u64 {
    u64::try_from(u128::from(whole) * u128::from(per_mille) / 1000).unwrap_or(u64::MAX)
}

/// A number or text as TOML has it.
pub(crate) enum Scalar<'a> {
    Text(&'a str),
    Integer(i128),
    Float(f64),
    Flag(bool),
}

impl TableItem<'_> {
    pub(crate) fn scalar(&self) -> Result<Scalar<'_>, SpecError> {
        match self.value.get_ref() {
            DeValue::String(text) => Ok(Scalar::Text(text)),
            DeValue::Integer(number) => i128::from_str_radix(number.as_str(), number.radix())
                .map(Scalar::Integer)
                .map_err(|_| self.fail("a number that is too large")),
            DeValue::Float(number) => {
                let number = number.as_str().parse();
                number.map(Scalar::Float).map_err(|_| self.fail("not a number"))
            }
            DeValue::Boolean(flag) => Ok(Scalar::Flag(*flag)),
            DeValue::Datetime(_) => Err(self.fail("a date is not allowed here")),
            DeValue::Array(_) => {
                let text = format!("'{}' takes one value, not a list", self.key);
                Err(self.source.error(self.at(), text))
            }
            DeValue::Table(_) => Err(self.fail("expected a single value")),
        }
    }

    /// A text that `parse` understands.
    pub(crate) fn text<T>(
        self,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<T, SpecError> {
        self.quoted("", parse)
    }

    /// A text that is a number with its unit, such as `example`.
    pub(crate) fn quoted<T>(
        self,
        example: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<T, SpecError> {
        let such_as = if example.is_empty() { "" } else { ", such as " };
        let unit = |number: &dyn std::fmt::Display| match example {
            "" => "expected a text in quotes".to_owned(),
            _ => format!("{number} needs a unit, in quotes{such_as}{example}"),
        };
        let read = match self.scalar()? {
            Scalar::Text(text) => parse(text),
            Scalar::Integer(number) => Err(unit(&number)),
            Scalar::Float(number) => Err(unit(&number)),
            Scalar::Flag(_) => Err(format!("expected a text in quotes{such_as}{example}")),
        };
        read.map_err(|reason| self.fail(reason))
    }

    #[expect(clippy::cast_precision_loss, reason = "prices and rates")]
    pub(crate) fn number(self) -> Result<f64, SpecError> {
        let number = match self.scalar()? {
            Scalar::Integer(number) => number as f64,
            Scalar::Float(number) => number,
            _ => return Err(self.fail("expected a number without quotes")),
        };
        match number.is_finite() && number >= 0.0 {
            true => Ok(number),
            false => Err(self.fail(format!("expected a number of 0 or more, not {number}"))),
        }
    }
}

impl KeyedValue for bool {
    fn read(item: TableItem<'_>) -> Result<Self, SpecError> {
        match item.scalar()? {
            Scalar::Flag(flag) => Ok(flag),
            _ => Err(item.fail("expected true or false")),
        }
    }

    fn form() -> ValueForm {
        ValueForm::new("`true`, `false`", json!({ "type": "boolean" }))
    }
}

impl LevelValue for bool {
    fn label(&self) -> String {
        self.to_string()
    }
}

/// A count from 0 (or 1, where 0 has no meaning).
impl KeyedValue for u32 {
    fn read(item: TableItem<'_>) -> Result<Self, SpecError> {
        let Scalar::Integer(number) = item.scalar()? else {
            return Err(item.fail("expected a whole number without quotes"));
        };
        Self::try_from(number)
            .map_err(|_| item.fail(format!("{number} is not between 0 and {}", Self::MAX)))
    }

    fn form() -> ValueForm {
        ValueForm::new("`16`", json!({ "type": "integer", "minimum": 0, "maximum": Self::MAX }))
    }
}

impl LevelValue for u32 {
    fn label(&self) -> String {
        self.to_string()
    }

    fn coordinate(&self) -> Option<f64> {
        Some(f64::from(*self))
    }
}

/// A count from 1.
impl KeyedValue for NonZeroU32 {
    fn read(item: TableItem<'_>) -> Result<Self, SpecError> {
        let number = match item.scalar()? {
            Scalar::Integer(number) => u32::try_from(number).ok().and_then(Self::new),
            _ => None,
        };
        number.ok_or_else(|| item.fail("expected a whole number of 1 or more"))
    }
}

/// A decimal number from 0.
impl KeyedValue for f64 {
    fn read(item: TableItem<'_>) -> Result<Self, SpecError> {
        item.number()
    }

    fn form() -> ValueForm {
        ValueForm::new("`1299.50`", json!({ "type": "number", "minimum": 0 }))
    }
}

/// The version of a format that has only this one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct FormatVersion<const N: u32>;

impl<const N: u32> KeyedValue for FormatVersion<N> {
    const EXAMPLE: &'static str = "1";

    fn read(item: TableItem<'_>) -> Result<Self, SpecError> {
        let other = u32::read(item)?;
        if other == N {
            return Ok(Self);
        }
        let text = format!("unknown schema {other}; this durio reads {N}");
        let error = item.source.error(item.at(), text);
        Err(error.hint("use the version of durio that the spec was written for"))
    }

    fn form() -> ValueForm {
        ValueForm::new(format!("`{N}`"), json!({ "const": N }))
    }
}

impl KeyedValue for String {
    fn read(item: TableItem<'_>) -> Result<Self, SpecError> {
        item.text(|text| Ok(text.to_owned()))
    }
}

impl LevelValue for String {
    fn label(&self) -> String {
        self.clone()
    }
}

/// A short name: letters, digits, `-`, `_`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Name(pub(crate) String);

impl KeyedValue for Name {
    const EXAMPLE: &'static str = "\"my-name\"";

    fn read(item: TableItem<'_>) -> Result<Self, SpecError> {
        item.text(|text| {
            let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            match !text.is_empty() && text.len() <= 60 && text.chars().all(fits) {
                true => Ok(Self(text.to_owned())),
                false => Err(format!(
                    "'{text}' is not a name: 1 to 60 letters (a to z), digits, '-' and '_'"
                )),
            }
        })
    }

    fn form() -> ValueForm {
        ValueForm::pattern("name", "^[A-Za-z0-9_-]{1,60}$")
    }
}

/// Values that are texts: the function that reads them, an example where a unit may be forgotten, how
/// they are shown, their pattern.
macro_rules! parsed {
    ($($type:ident $parse:expr, $example:literal, $shown:expr, $pattern:expr;)*) => {$(
        impl $crate::table::value::KeyedValue for $type {
            fn read(item: $crate::table::TableItem<'_>) -> Result<Self, $crate::SpecError> {
                item.quoted($example, $parse)
            }

            fn form() -> $crate::table::ValueForm {
                $crate::table::ValueForm::pattern($shown, $pattern)
            }
        }
    )*};
}

pub(crate) use parsed;

parsed! {
    Bytes bytes, "\"4KiB\"", "`\"4KiB\"`", BYTES;
    Nanos time, "\"10ms\"", "`\"10ms\"`", TIME;
    Time |text| time(text).map(SpecTime), "\"60s\"", "`\"60s\"`", TIME;
    Delay |text| time(text).map(SpecTime), "\"500us\"", "`\"500us\"`", TIME;
    PerMille share, "\"70%\"", "`\"70%\"`", SHARE;
}

const BYTES: &str = "^ *[0-9.]+ *([kKmMgGtT]i?)?[bB]? *$";
const TIME: &str = "^ *[0-9.]+ *(ns|us|µs|ms|s|m|h|d) *$";
const SHARE: &str = "^ *[0-9]+([.][0-9])? *%$";

#[expect(clippy::cast_precision_loss, clippy::unnecessary_wraps, reason = "a place on a chart")]
fn coordinate_of(value: u64) -> Option<f64> {
    Some(value as f64)
}

impl LevelValue for Bytes {
    fn label(&self) -> String {
        self.to_string()
    }

    fn coordinate(&self) -> Option<f64> {
        coordinate_of(self.get())
    }
}

/// A time; with `SCALED`, it scales with the length of the measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SpecTime<const SCALED: bool>(pub(crate) Nanos);

/// How long something is measured: "60s".
pub(crate) type Time = SpecTime<true>;

/// How long something that is measured takes: "500us".
pub(crate) type Delay = SpecTime<false>;

impl<const SCALED: bool> LevelValue for SpecTime<SCALED>
where
    Self: KeyedValue,
{
    fn label(&self) -> String {
        self.0.to_string()
    }

    fn coordinate(&self) -> Option<f64> {
        coordinate_of(self.0.get())
    }

    fn scaled(&self, scale: TimeScale) -> Self {
        if SCALED { Self(scale.time(self.0)) } else { *self }
    }
}

impl LevelValue for PerMille {
    fn label(&self) -> String {
        Amount::Share(self.0.into()).label()
    }

    fn coordinate(&self) -> Option<f64> {
        Some(f64::from(self.0) / 10.0)
    }
}

fn share(text: &str) -> Result<PerMille, String> {
    match percent(text)? {
        share if share <= 1000 => Ok(PerMille(per_mille(share))),
        _ => Err(format!("'{text}' is more than 100%")),
    }
}

pub(crate) fn per_mille(share: u64) -> u16 {
    u16::try_from(share).unwrap_or(u16::MAX)
}

pub(crate) fn bytes(text: &str) -> Result<Bytes, String> {
    let bytes = text.parse::<Bytes>().map_err(|error| error.to_string())?;
    has_unit(text, "\"4KiB\"", bytes.get() == 0).map(|()| bytes)
}

/// Thousandths of "12.5%"; nothing is rounded.
// In whole numbers throughout: 12.3 has no exact form in binary, and shares are compared for
// equality.
pub(crate) fn percent(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is not a share; write it as \"70%\", at most one decimal");
    let digits = text.trim().strip_suffix('%').ok_or_else(wrong)?.trim();
    let (whole, tenths) = digits.split_once('.').unwrap_or((digits, "0"));
    let is_number = |text: &str, most: usize| {
        !text.is_empty() && text.len() <= most && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    // Plans keep thousandths: a second decimal would be rounded, and the plan would differ from the
    // spec.
    if !is_number(whole, 7) || !is_number(tenths, 1) {
        return Err(wrong());
    }
    let whole: u64 = whole.parse().map_err(|_| wrong())?;
    let tenths: u64 = tenths.parse().map_err(|_| wrong())?;
    Ok(whole * 10 + tenths)
}

/// Bytes, or a share of a target.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Amount {
    Bytes(Bytes),
    /// In thousandths; may be more than the whole.
    Share(u64),
}

impl Amount {
    /// The bytes, where `whole` is 100 %.
    pub(crate) fn of(self, whole: Bytes) -> Bytes {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Share(per_mille) => Bytes::new(part(whole.get(), per_mille)),
        }
    }

    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match text.trim().ends_with('%') {
            true => percent(text).map(Self::Share),
            false => bytes(text).map(Self::Bytes),
        }
    }
}

impl KeyedValue for Amount {
    fn read(item: TableItem<'_>) -> Result<Self, SpecError> {
        item.quoted("\"4GiB\" or \"25%\"", Self::parse)
    }

    fn form() -> ValueForm {
        let schemas = [Bytes::form().schema, PerMille::form().schema];
        ValueForm::new("`\"4GiB\"`, `\"25%\"`", json!({ "anyOf": schemas }))
    }
}

impl LevelValue for Amount {
    fn label(&self) -> String {
        match self {
            Self::Bytes(bytes) => bytes.to_string(),
            Self::Share(share) if share % 10 == 0 => format!("{} %", share / 10),
            Self::Share(share) => format!("{}.{} %", share / 10, share % 10),
        }
    }

    fn coordinate(&self) -> Option<f64> {
        match self {
            Self::Bytes(bytes) => bytes.coordinate(),
            Self::Share(per_mille) => coordinate_of(*per_mille).map(|share| share / 10.0),
        }
    }

    fn scaled(&self, scale: TimeScale) -> Self {
        match self {
            Self::Bytes(bytes) => Self::Bytes(scale.size(*bytes)),
            share @ Self::Share(_) => *share,
        }
    }
}

/// A type whose values are words.
pub(crate) trait WordValue: Clone + PartialEq {
    fn words() -> Vec<(&'static str, Self)>;

    /// A word as a level of an axis.
    fn shown(word: &'static str) -> &'static str {
        word
    }
}

impl<T: WordValue> KeyedValue for T {
    fn read(item: TableItem<'_>) -> Result<Self, SpecError> {
        item.text(|text| {
            let words = T::words();
            let found = words.iter().find(|(word, _)| *word == text);
            let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            found.map(|(_, value)| value.clone()).ok_or_else(|| none_of(text, &known))
        })
    }

    fn form() -> ValueForm {
        let words: Vec<&str> = T::words().into_iter().map(|(word, _)| word).collect();
        ValueForm::new(words.join(", "), json!({ "enum": words }))
    }
}

/// The message for an unknown word, with the nearest known one.
pub(crate) fn none_of(text: &str, known: &[&str]) -> String {
    let meant = nearest_word(text, known.iter().copied());
    let meant = meant.map_or(String::new(), |word| format!("; did you mean '{word}'?"));
    format!("'{text}' is not one of {}{meant}", known.join(", "))
}

impl<T: WordValue> LevelValue for T {
    fn label(&self) -> String {
        let found = T::words().into_iter().find(|(_, value)| value == self);
        found.map_or("", |(word, _)| T::shown(word)).to_owned()
    }
}

/// Gives types their words.
macro_rules! words {
    ($($type:ident { $($word:literal => $variant:ident),* $(,)? })*) => {$(
        impl $crate::table::value::WordValue for $type {
            fn words() -> Vec<(&'static str, Self)> {
                vec![$(($word, Self::$variant)),*]
            }
        }
    )*};
}

/// Gives enums of `durio_base::worded` the words that they have.
macro_rules! own_words {
    ($($type:ident)*) => {$(
        impl $crate::table::value::WordValue for $type {
            fn words() -> Vec<(&'static str, Self)> {
                Self::ALL.map(|value| (value.word(), value)).into()
            }
        }
    )*};
}

/// Makes enums that have no meaning but their words.
macro_rules! word_enums {
    ($($(#[doc = $about:literal])* $type:ident { $($word:literal => $variant:ident),* })*) => {
        $($(#[doc = $about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum $type { $($variant),* })*

        $crate::table::value::words! { $($type { $($word => $variant),* })* }
    };
}

pub(crate) use {own_words, word_enums, words};
