//! Watches the bytes of a table on their way to the CSV reader.
//!
//! The bytes pass unchanged, except for a byte order mark at the start. Errors report what a CSV
//! reader accepts silently: a quote that is never closed, a last row without a line end, bytes that
//! are not text. It also notes the line in which each row begins, empty lines left out: the CSV
//! reader's own count is that of the line before.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, Cursor, Read};
use std::rc::Rc;

use super::AuditError;

// Far more than a row of results has; a row is held in memory whole.
pub(super) const ROW_MAX: usize = 1 << 20;

const BYTE_ORDER_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GuardState {
    FieldStart,
    Bare,
    Quoted,
    /// After a quote within quotes: their end, or the first of two that stand for one.
    QuoteInQuoted,
}

/// First lines of rows that were passed on, the oldest first.
pub(super) type RowLines = Rc<RefCell<VecDeque<u64>>>;

/// The bytes without a byte order mark, which spreadsheets write before a table.
pub(super) fn without_byte_order_mark(mut bytes: impl Read) -> io::Result<impl Read> {
    let mut first = Vec::new();
    bytes.by_ref().take(BYTE_ORDER_MARK.len() as u64).read_to_end(&mut first)?;
    if first == BYTE_ORDER_MARK {
        first.clear();
    }
    Ok(Cursor::new(first).chain(bytes))
}

/// A reader that fails where a table is broken.
#[derive(Debug)]
pub(super) struct Guard<R> {
    inner: R,
    state: GuardState,
    line: u64,
    opened: u64,
    row_line: u64,
    row_bytes: usize,
    in_row: bool,
    after_return: bool,
    rows: RowLines,
    ended: bool,
}

impl<R: Read> Guard<R> {
    pub(super) fn new(inner: R) -> Self {
        Self {
            inner,
            state: GuardState::FieldStart,
            line: 1,
            opened: 1,
            row_line: 1,
            row_bytes: 0,
            in_row: false,
            after_return: false,
            rows: RowLines::default(),
            ended: false,
        }
    }

    /// Filled while reading; the reader of a row must take the row's line.
    pub(super) fn row_lines(&self) -> RowLines {
        Rc::clone(&self.rows)
    }

    fn watch(&mut self, byte: u8) -> Result<(), AuditError> {
        // A table that was saved as UTF-16 has a zero in every letter of ASCII.
        if byte == 0 {
            return Err(AuditError::NotText { line: self.line });
        }
        self.row_bytes += 1;
        if self.row_bytes > ROW_MAX {
            return Err(AuditError::LongRow { line: self.row_line, limit: ROW_MAX });
        }
        self.state = match (self.state, byte) {
            (GuardState::FieldStart, b'"') => {
                self.opened = self.line;
                GuardState::Quoted
            }
            (GuardState::Quoted, b'"') => GuardState::QuoteInQuoted,
            (GuardState::Quoted, _) | (GuardState::QuoteInQuoted, b'"') => GuardState::Quoted,
            (_, b',' | b'\n' | b'\r') => GuardState::FieldStart,
            _ => GuardState::Bare,
        };
        match byte {
            b'\n' | b'\r' => self.end_line(byte),
            _ if !self.in_row => {
                self.in_row = true;
                self.row_line = self.line;
                self.rows.borrow_mut().push_back(self.line);
            }
            _ => {}
        }
        self.after_return = byte == b'\r';
        Ok(())
    }

    fn end_line(&mut self, byte: u8) {
        // A carriage return ends a line as well, together with a line feed that follows.
        if !(byte == b'\n' && self.after_return) {
            self.line += 1;
        }
        if self.state != GuardState::Quoted {
            self.in_row = false;
            self.row_bytes = 0;
        }
    }
}

impl<R: Read> Read for Guard<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        if count == 0 && !buffer.is_empty() && !self.ended {
            self.ended = true;
            if self.state == GuardState::Quoted {
                return Err(io::Error::other(AuditError::OpenQuote { line: self.opened }));
            }
        }
        for &byte in buffer.iter().take(count) {
            self.watch(byte).map_err(io::Error::other)?;
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(bytes: &[u8]) -> Result<Vec<u8>, String> {
        let mut out = Vec::new();
        let read = Guard::new(without_byte_order_mark(bytes).unwrap()).read_to_end(&mut out);
        read.map(|_| out).map_err(|error| error.to_string())
    }

    #[test]
    fn sound_tables_pass_unchanged() {
        for text in ["", "a", "a,b\n", "\"a\",\"b\"\"c\"\r\n", "3.5\" disk,x\n", "\"a\nb\",c"] {
            assert_eq!(through(text.as_bytes()).unwrap(), text.as_bytes(), "{text}");
        }
    }

    #[test]
    fn a_byte_order_mark_is_dropped_at_the_start_only() {
        assert_eq!(through("\u{feff}a".as_bytes()).unwrap(), b"a");
        assert_eq!(through("a\u{feff}".as_bytes()).unwrap(), "a\u{feff}".as_bytes());
        assert_eq!(through(&[0xef, 0xbb]).unwrap(), [0xef, 0xbb]);
    }

    #[test]
    fn a_quote_that_is_never_closed_is_named_with_its_line() {
        assert!(through(b"a,b\nc,\"d\ne\nf").unwrap_err().contains("line 2"));
        assert!(through(b"a,\"d\"\"").unwrap_err().contains("line 1"));
    }

    #[test]
    fn rows_are_known_by_the_line_in_which_they_begin() {
        let text = "a,b\n\n\"c\n\nd\",e\r\nf,g\rh,i\r\n\r\nj";
        let mut guard = Guard::new(text.as_bytes());
        guard.read_to_end(&mut Vec::new()).unwrap();
        assert_eq!(*guard.row_lines().borrow(), [1, 3, 6, 7, 9]);
    }

    #[test]
    fn a_zero_byte_and_a_row_without_end_are_refused() {
        assert!(through(b"a\nb\0c").unwrap_err().contains("line 2"));
        let long = vec![b'x'; ROW_MAX + 1];
        assert!(through(&long).unwrap_err().contains("line 1"));
        assert!(through(&[b"a\n".as_slice(), &long[..ROW_MAX]].concat()).is_ok());
    }
}
