//! Past a value that nobody asked for.
//!
//! In: any JSON value. Out: the place after it. Not here: recursion; brackets are kept as bits.

use super::{Cursor, DEPTH_MAX, Read};

/// The open brackets: bit 0 is the innermost, 1 for an object.
#[derive(Default)]
struct Open {
    objects: u32,
    depth: u32,
}

impl Cursor<'_> {
    /// Past the next value, whatever it is.
    pub(in crate::json) fn skip_value(&mut self) -> Read<()> {
        let mut open = Open::default();
        loop {
            self.skip_blank();
            match self.peek() {
                Some(b'{') => self.enter(&mut open, true)?,
                Some(b'[') => self.enter(&mut open, false)?,
                Some(b'"') => drop(self.quoted_bytes("a string")?),
                _ => drop(self.word("a value")?),
            }
            if !self.leave(&mut open)? {
                return Ok(());
            }
        }
    }

    fn enter(&mut self, open: &mut Open, is_object: bool) -> Read<()> {
        if open.depth >= DEPTH_MAX {
            return Err(self.fault(format!("brackets are nested more than {DEPTH_MAX} deep")));
        }
        open.depth += 1;
        open.objects = (open.objects << 1) | u32::from(is_object);
        self.step();
        Ok(())
    }

    /// To the next value inside the open brackets; false once all are closed.
    fn leave(&mut self, open: &mut Open) -> Read<bool> {
        let mut needs_comma = !self.is_after_opening();
        while open.depth > 0 {
            let is_object = open.objects & 1 == 1;
            self.skip_blank();
            match self.peek() {
                None => return Err(self.end()),
                Some(b'}') if is_object => self.close(open),
                Some(b']') if !is_object => self.close(open),
                Some(b',') if needs_comma => {
                    self.step();
                    return self.past_key(is_object);
                }
                Some(_) if !needs_comma => return self.past_key(is_object),
                Some(_) => return Err(self.fault("there is no ',' between two values")),
            }
            needs_comma = true;
        }
        Ok(false)
    }

    fn past_key(&mut self, is_object: bool) -> Read<bool> {
        if is_object {
            self.key()?;
        }
        Ok(true)
    }

    fn close(&mut self, open: &mut Open) {
        open.depth -= 1;
        open.objects >>= 1;
        self.step();
    }

    fn is_after_opening(&self) -> bool {
        let last = self.at.checked_sub(1).and_then(|last| self.bytes.get(last));
        matches!(last, Some(b'{' | b'['))
    }
}
