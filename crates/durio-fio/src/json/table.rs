//! Tables of keys, by which objects of fio's JSON are read and written.
//!
//! In: a cursor before a value, or a printer and a key. Out: the value, or its text in fio's form.
//! `null` and missing keys leave what was there. Not here: which keys an object has.

use super::cursor::{Cursor, Read};
use super::output::Options;
use super::shares::Shares;
use super::write::Printer;

/// A value that can be read.
pub(super) trait FromJson {
    fn load(&mut self, cursor: &mut Cursor<'_>) -> Read<()>;
}

/// A value that can be written.
pub(super) trait ToJson {
    fn put(&self, printer: &mut Printer, key: &str);
}

/// What stands between braces.
pub(super) trait Object: Default {
    /// Reads the value of a key, or skips it.
    fn field(&mut self, cursor: &mut Cursor<'_>, key: &str) -> Read<()>;

    /// Writes all keys in fio's order.
    fn fields(&self, printer: &mut Printer);

    /// What is known once all keys were read.
    fn finish(&mut self) {}

    fn read(cursor: &mut Cursor<'_>) -> Read<Self> {
        let mut object = Self::default();
        cursor.object(|cursor, key| match cursor.takes_null() {
            true => Ok(()),
            false => object.field(cursor, key),
        })?;
        object.finish();
        Ok(object)
    }
}

/// Keys in fio's order: `"key" => field`, or `"key" => field?.part` of an optional field with several
/// keys. `then f` calls `f` after the key was written, for what is no field; keys after `reading` are
/// read alone; `finish f` calls `f` once all keys were read.
macro_rules! object {
    ($Type:ty {
        $($key:literal => $field:ident $(.$sub:ident)* $(?.$part:tt)? $(then $then:ident)?,)+
    }
    $(reading { $($other:literal => $read:ident $(?.$read_part:tt)?,)+ })?
    $(finish $finish:ident)?) => {
        impl $crate::json::table::Object for $Type {
            fn field(
                &mut self,
                cursor: &mut $crate::json::cursor::Cursor<'_>,
                key: &str,
            ) -> $crate::json::cursor::Read<()> {
                use $crate::json::table::FromJson as _;
                match key {
                    $($key => self.$field $(.$sub)* $(.get_or_insert_default().$part)?.load(cursor),)+
                    $($($other => self.$read $(.get_or_insert_default().$read_part)?.load(cursor),)+)?
                    _ => cursor.skip_value(),
                }
            }

            fn fields(&self, printer: &mut $crate::json::write::Printer) {
                use $crate::json::table::ToJson as _;
                $(
                    object!(@put self printer $key $field $(.$sub)* $(?.$part)?);
                    $(self.$then(printer);)?
                )+
            }

            $(fn finish(&mut self) {
                self.$finish();
            })?
        }
    };
    (@put $object:ident $printer:ident $key:literal $field:ident ?.$part:tt) => {
        if let Some(parts) = &$object.$field {
            parts.$part.put($printer, $key);
        }
    };
    (@put $object:ident $printer:ident $key:literal $field:ident $(.$sub:ident)*) => {
        $object.$field$(.$sub)*.put($printer, $key);
    };
}
pub(super) use object;

/// Scalars: what reads one from the cursor, and what prints it.
macro_rules! scalars {
    ($($Type:ty: $read:ident, $print:ident;)+) => {$(
        impl FromJson for $Type {
            fn load(&mut self, cursor: &mut Cursor<'_>) -> Read<()> {
                *self = cursor.$read()?;
                Ok(())
            }
        }

        impl ToJson for $Type {
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
impl FromJson for bool {
    fn load(&mut self, cursor: &mut Cursor<'_>) -> Read<()> {
        *self = cursor.i64()? != 0;
        Ok(())
    }
}

impl ToJson for bool {
    fn put(&self, printer: &mut Printer, key: &str) {
        printer.plain(key, &u8::from(*self));
    }
}

impl<T: FromJson + Default> FromJson for Option<T> {
    fn load(&mut self, cursor: &mut Cursor<'_>) -> Read<()> {
        let mut value = T::default();
        value.load(cursor)?;
        *self = Some(value);
        Ok(())
    }
}

impl<T: ToJson> ToJson for Option<T> {
    fn put(&self, printer: &mut Printer, key: &str) {
        if let Some(value) = self {
            value.put(printer, key);
        }
    }
}

impl<T: Object> FromJson for T {
    fn load(&mut self, cursor: &mut Cursor<'_>) -> Read<()> {
        *self = T::read(cursor)?;
        Ok(())
    }
}

impl<T: Object> ToJson for T {
    fn put(&self, printer: &mut Printer, key: &str) {
        printer.object(Some(key), |printer| self.fields(printer));
    }
}

impl<T: Object> FromJson for Vec<T> {
    fn load(&mut self, cursor: &mut Cursor<'_>) -> Read<()> {
        self.clear();
        cursor.array(|cursor| {
            self.push(T::read(cursor)?);
            Ok(())
        })
    }
}

impl<T: Object> ToJson for Vec<T> {
    fn put(&self, printer: &mut Printer, key: &str) {
        printer.array(key, |printer| {
            self.iter().for_each(|one| printer.object(None, |printer| one.fields(printer)));
        });
    }
}

/// A list of counts.
impl FromJson for Vec<u64> {
    fn load(&mut self, cursor: &mut Cursor<'_>) -> Read<()> {
        self.clear();
        cursor.array(|cursor| {
            self.push(cursor.u64()?);
            Ok(())
        })
    }
}

impl ToJson for Vec<u64> {
    fn put(&self, printer: &mut Printer, key: &str) {
        printer.array(key, |printer| self.iter().for_each(|count| printer.item(*count)));
    }
}

/// Percentages by label, as in `iodepth_level`.
impl FromJson for Shares {
    fn load(&mut self, cursor: &mut Cursor<'_>) -> Read<()> {
        self.clear();
        cursor.object(|cursor, label| {
            self.push((label.to_owned(), cursor.f64()?));
            Ok(())
        })
    }
}

impl ToJson for Shares {
    fn put(&self, printer: &mut Printer, key: &str) {
        printer.object(Some(key), |printer| {
            self.iter().for_each(|(label, percent)| printer.figure(label, percent));
        });
    }
}

/// Options as `{name: value}`, or, as some versions wrap them, in a list.
impl FromJson for Options {
    fn load(&mut self, cursor: &mut Cursor<'_>) -> Read<()> {
        self.clear();
        let mut add = |cursor: &mut Cursor<'_>| {
            cursor.object(|cursor, name| {
                self.push((name.to_owned(), cursor.string()?));
                Ok(())
            })
        };
        if cursor.is_array() { cursor.array(add) } else { add(cursor) }
    }
}

impl ToJson for Options {
    fn put(&self, printer: &mut Printer, key: &str) {
        printer.object(Some(key), |printer| {
            self.iter().for_each(|(name, value)| printer.text(name, value));
        });
    }
}
