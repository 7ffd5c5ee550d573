//! Numbers as fio prints them.
//!
//! In: the text of a number, quoted or not. Out: the number in the type asked for. Not here: units.

use super::{Cursor, Read};

/// The longest number that is looked at; fio's longest, a large double with `%f`, has 317 bytes.
const LENGTH_MAX: usize = 400;

impl Cursor<'_> {
    /// A count. fio prints counts as signed numbers: a negative one stands for its two's complement.
    /// A fraction is cut off.
    pub(in crate::json) fn u64(&mut self) -> Read<u64> {
        let text = self.number_text()?;
        let negative = || text.parse::<i64>().ok().map(i64::cast_unsigned);
        let found = text.parse::<u64>().ok().or_else(negative).or_else(|| whole(&text));
        found.ok_or_else(|| self.fault(format!("'{text}' is not a count")))
    }

    /// A whole number that may be negative.
    pub(in crate::json) fn i64(&mut self) -> Read<i64> {
        let text = self.number_text()?;
        text.parse().map_err(|_| self.fault(format!("'{text}' is not a whole number")))
    }

    /// Any number; `nan` and `inf` too.
    pub(in crate::json) fn f64(&mut self) -> Read<f64> {
        let text = self.number_text()?;
        text.parse().map_err(|_| self.fault(format!("'{text}' is not a number")))
    }

    fn number_text(&mut self) -> Read<String> {
        self.skip_blank();
        if self.peek() == Some(b'"') {
            return Ok(self.quoted("a number")?.trim().to_owned());
        }
        let rest = self.rest();
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
        let length = rest.iter().take(LENGTH_MAX).take_while(|&byte| is_part(byte)).count();
        if length == 0 {
            return Err(self.unexpected("a number"));
        }
        if length == rest.len() {
            self.at += length;
            return Err(self.end());
        }
        self.at += length;
        Ok(String::from_utf8_lossy(rest.get(..length).unwrap_or_default()).into_owned())
    }
}

/// The whole part of a number with a fraction or an exponent that fits a count.
fn whole(text: &str) -> Option<u64> {
    let number = text.parse::<f64>().ok()?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "within the range of u64; the fraction is meant to go"
    )]
    (0.0..18_446_744_073_709_551_616.0).contains(&number).then_some(number as u64)
}
