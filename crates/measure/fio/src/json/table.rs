//! Structs of fio's JSON, each field with its keys, by which they are read and written.
//!
//! Reads the value at a cursor, or prints a key and value in fio's form ([`Printer`]). `null` and
//! missing keys leave the field unchanged.

use std::fmt::Write as _;

use super::cursor::{Cursor, JsonResult};

/// Options in the order given; a value is text as the user wrote it.
pub type OptionPairs = Vec<(String, String)>;

/// `(label, percent)` in fio's order.
pub type Shares = Vec<(String, f64)>;

pub(super) trait Json {
    fn load(&mut self, cursor: &mut Cursor<'_>) -> JsonResult<()>;

    fn put(&self, printer: &mut Printer, key: &str);
}

/// The contents of braces.
pub(super) trait Object: Default {
    /// Reads the value of a key, or skips it.
    fn field(&mut self, cursor: &mut Cursor<'_>, key: &str) -> JsonResult<()>;

    /// Writes all keys in fio's order.
    fn fields(&self, printer: &mut Printer);

    /// Called once all keys were read.
    fn finish(&mut self) {}

    fn read(cursor: &mut Cursor<'_>) -> JsonResult<Self> {
        let mut object = Self::default();
        // null is not a value: the field stays unchanged, as with a missing key.
        cursor.object(|cursor, key| match cursor.takes_null() {
            true => Ok(()),
            false => object.field(cursor, key),
        })?;
        object.finish();
        Ok(object)
    }
}

/// Makes a struct that is an [`Object`]. The key of a field is its name, unless keys follow after
/// `=>` in fio's order: `"key"`; `"key" .part` for a field with several keys; `"key" ?.part` for an
/// optional one; `read "key"` for a key that is read but not written so; `put method` for output
/// that is not a field; `[]` for a field that is not in the JSON. `finish f` calls `f` once all
/// keys were read.
macro_rules! object {
    ($(#[doc = $about:literal])* struct $Name:ident {
        $($(#[doc = $doc:literal])* $field:ident: $type:ty $(=> $keys:tt)?,)+
    } $(finish $finish:ident)?) => {
        $(#[doc = $about])*
        #[derive(Debug, Clone, PartialEq, Default)]
        pub struct $Name {
            $($(#[doc = $doc])* pub $field: $type,)+
        }

        impl $crate::json::table::Object for $Name {
            fn field(
                &mut self,
                cursor: &mut $crate::json::cursor::Cursor<'_>,
                key: &str,
            ) -> $crate::json::cursor::JsonResult<()> {
                use $crate::json::table::Json as _;
                $(object!(@load self cursor key $field $($keys)?);)+
                cursor.skip_value()
            }

            fn fields(&self, printer: &mut $crate::json::table::Printer) {
                use $crate::json::table::Json as _;
                $(object!(@put self printer $field $($keys)?);)+
            }

            $(fn finish(&mut self) {
                self.$finish();
            })?
        }
    };
    (@load $it:ident $cursor:ident $key:ident $field:ident) => {
        if $key == stringify!($field) {
            return $it.$field.load($cursor);
        }
    };
    (@load $it:ident $cursor:ident $key:ident $field:ident []) => {};
    (@load $it:ident $cursor:ident $key:ident $field:ident
        [put $method:ident $(, $($rest:tt)+)?]) => {
        object!(@load $it $cursor $key $field [$($($rest)+)?]);
    };
    (@load $it:ident $cursor:ident $key:ident $field:ident
        [$(read)? $name:literal $(.$part:ident)? $(?.$some:tt)? $(, $($rest:tt)+)?]) => {
        if $key == $name {
            return $it.$field $(.$part)? $(.get_or_insert_default().$some)? .load($cursor);
        }
        object!(@load $it $cursor $key $field [$($($rest)+)?]);
    };
    (@put $it:ident $printer:ident $field:ident) => {
        $it.$field.put($printer, stringify!($field));
    };
    (@put $it:ident $printer:ident $field:ident []) => {};
    (@put $it:ident $printer:ident $field:ident [put $method:ident $(, $($rest:tt)+)?]) => {
        $it.$method($printer);
        object!(@put $it $printer $field [$($($rest)+)?]);
    };
    (@put $it:ident $printer:ident $field:ident
        [read $name:literal $(?.$some:tt)? $(, $($rest:tt)+)?]) => {
        object!(@put $it $printer $field [$($($rest)+)?]);
    };
    (@put $it:ident $printer:ident $field:ident
        [$name:literal ?.$some:tt $(, $($rest:tt)+)?]) => {
        if let Some(parts) = &$it.$field {
            parts.$some.put($printer, $name);
        }
        object!(@put $it $printer $field [$($($rest)+)?]);
    };
    (@put $it:ident $printer:ident $field:ident
        [$name:literal $(.$part:ident)? $(, $($rest:tt)+)?]) => {
        $it.$field $(.$part)? .put($printer, $name);
        object!(@put $it $printer $field [$($($rest)+)?]);
    };
}
pub(super) use object;

/// Scalars: the function that reads one from the cursor, and the one that prints it.
macro_rules! scalars {
    ($($Type:ty: $read:ident, $print:ident;)+) => {$(
        impl Json for $Type {
            fn load(&mut self, cursor: &mut Cursor<'_>) -> JsonResult<()> {
                *self = cursor.$read()?;
                Ok(())
            }

            fn put(&self, printer: &mut Printer, key: &str) {
                printer.$print(key, self);
            }
        }
    )+};
}

scalars! {
    u64: u64, plain;
    i64: i64, plain;
    f64: f64, figure;
    String: string, text;
}

/// fio prints 0 and 1.
impl Json for bool {
    fn load(&mut self, cursor: &mut Cursor<'_>) -> JsonResult<()> {
        *self = cursor.i64()? != 0;
        Ok(())
    }

    fn put(&self, printer: &mut Printer, key: &str) {
        printer.plain(key, &u8::from(*self));
    }
}

impl<T: Json + Default> Json for Option<T> {
    fn load(&mut self, cursor: &mut Cursor<'_>) -> JsonResult<()> {
        self.insert(T::default()).load(cursor)
    }

    fn put(&self, printer: &mut Printer, key: &str) {
        if let Some(value) = self {
            value.put(printer, key);
        }
    }
}

impl<T: Object> Json for T {
    fn load(&mut self, cursor: &mut Cursor<'_>) -> JsonResult<()> {
        *self = T::read(cursor)?;
        Ok(())
    }

    fn put(&self, printer: &mut Printer, key: &str) {
        printer.object(Some(key), |printer| self.fields(printer));
    }
}

impl<T: Object> Json for Vec<T> {
    fn load(&mut self, cursor: &mut Cursor<'_>) -> JsonResult<()> {
        self.clear();
        cursor.array(|cursor| {
            self.push(T::read(cursor)?);
            Ok(())
        })
    }

    fn put(&self, printer: &mut Printer, key: &str) {
        printer.array(key, |printer| {
            self.iter().for_each(|one| printer.object(None, |printer| one.fields(printer)));
        });
    }
}

/// A list of counts.
impl Json for Vec<u64> {
    fn load(&mut self, cursor: &mut Cursor<'_>) -> JsonResult<()> {
        self.clear();
        cursor.array(|cursor| {
            self.push(cursor.u64()?);
            Ok(())
        })
    }

    fn put(&self, printer: &mut Printer, key: &str) {
        printer.array(key, |printer| self.iter().for_each(|count| printer.item(*count)));
    }
}

/// Percentages by label, as in `iodepth_level`.
impl Json for Shares {
    fn load(&mut self, cursor: &mut Cursor<'_>) -> JsonResult<()> {
        self.clear();
        cursor.object(|cursor, label| {
            self.push((label.to_owned(), cursor.f64()?));
            Ok(())
        })
    }

    fn put(&self, printer: &mut Printer, key: &str) {
        printer.object(Some(key), |printer| {
            self.iter().for_each(|(label, percent)| printer.figure(label, percent));
        });
    }
}

/// Options as `{name: value}`, or, as some versions wrap them, in a list.
impl Json for OptionPairs {
    fn load(&mut self, cursor: &mut Cursor<'_>) -> JsonResult<()> {
        self.clear();
        let mut add = |cursor: &mut Cursor<'_>| {
            cursor.object(|cursor, name| {
                self.push((name.to_owned(), cursor.string()?));
                Ok(())
            })
        };
        if cursor.is_array() { cursor.array(add) } else { add(cursor) }
    }

    fn put(&self, printer: &mut Printer, key: &str) {
        printer.object(Some(key), |printer| {
            self.iter().for_each(|(name, value)| printer.text(name, value));
        });
    }
}

/// Text in fio's layout: two spaces per level, blanks around the colon, and an empty line in empty
/// objects.
#[derive(Debug, Default)]
pub(super) struct Printer {
    text: String,
    level: usize,
    /// True if nothing stands yet between the innermost open brackets.
    is_first: bool,
}

impl Printer {
    pub(super) fn finish(mut self) -> String {
        self.text.push('\n');
        self.text
    }

    pub(super) fn object(&mut self, key: Option<&str>, fill: impl FnOnce(&mut Self)) {
        self.nested(key, ["{\n", "}"], fill);
    }

    pub(super) fn array(&mut self, key: &str, fill: impl FnOnce(&mut Self)) {
        self.nested(Some(key), ["[\n", "]"], fill);
    }

    pub(super) fn item(&mut self, value: u64) {
        self.entry(None);
        self.text.push_str(&value.to_string());
    }

    pub(super) fn plain(&mut self, key: &str, value: &impl ToString) {
        self.entry(Some(key));
        self.text.push_str(&value.to_string());
    }

    /// With six decimals; `nan` and `inf` would not be JSON.
    pub(super) fn figure(&mut self, key: &str, value: &f64) {
        self.entry(Some(key));
        let value = if value.is_finite() { *value } else { 0.0 };
        // Writing to a string cannot fail.
        let _ = write!(self.text, "{value:.6}");
    }

    pub(super) fn text(&mut self, key: &str, value: &str) {
        self.entry(Some(key));
        self.quoted(value);
    }

    fn nested(
        &mut self,
        key: Option<&str>,
        [open, close]: [&str; 2],
        fill: impl FnOnce(&mut Self),
    ) {
        // The document itself has no key, and no comma before it.
        if self.level > 0 {
            self.entry(key);
        }
        self.text.push_str(open);
        self.level += 1;
        self.is_first = true;
        fill(self);
        self.level -= 1;
        self.is_first = false;
        self.text.push('\n');
        self.indent();
        self.text.push_str(close);
    }

    fn entry(&mut self, key: Option<&str>) {
        if !std::mem::replace(&mut self.is_first, false) {
            self.text.push_str(",\n");
        }
        self.indent();
        if let Some(key) = key {
            self.quoted(key);
            self.text.push_str(" : ");
        }
    }

    fn indent(&mut self) {
        self.text.extend(std::iter::repeat_n("  ", self.level));
    }

    fn quoted(&mut self, value: &str) {
        self.text.push('"');
        for character in value.chars() {
            match character {
                '"' | '\\' => self.text.extend(['\\', character]),
                // Also DEL and C1, which a terminal may obey as it does C0.
                _ if character.is_control() => {
                    let _ = write!(self.text, "\\u{:04x}", u32::from(character));
                }
                _ => self.text.push(character),
            }
        }
        self.text.push('"');
    }
}
