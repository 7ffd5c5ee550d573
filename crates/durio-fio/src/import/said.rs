//! What is said while jobs are imported: notes and refusals, each once.
//!
//! In: options with their places. Out: lists in order. Not here: what is worth saying.

use crate::job_file::{Given, Note, Place, Refusal, ResolvedJob};

/// Notes and refusals so far.
#[derive(Debug, Default)]
pub(super) struct Said {
    pub(super) notes: Vec<Note>,
    pub(super) refusals: Vec<Refusal>,
}

impl Said {
    /// Takes over what was said when the job was resolved.
    pub(super) fn begin(&mut self, job: &ResolvedJob) {
        for note in &job.notes {
            self.push_note(note.clone());
        }
        for refusal in &job.refusals {
            self.push_refusal(refusal.clone());
        }
    }

    fn push_note(&mut self, note: Note) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    fn push_refusal(&mut self, refusal: Refusal) {
        if !self.refusals.contains(&refusal) {
            self.refusals.push(refusal);
        }
    }

    /// Refuses an option that was given.
    pub(super) fn refuse<T>(&mut self, given: &Given<T>, reason: &str) {
        self.refuse_at(&given.at, given.option, reason);
    }

    /// Refuses what stands, or is missing, at a place.
    pub(super) fn refuse_at(&mut self, at: &Place, option: &str, reason: &str) {
        let (option, reason) = (option.to_owned(), reason.to_owned());
        self.push_refusal(Refusal { option, value: None, at: at.clone(), reason });
    }

    /// Refuses an option unless its value is one that changes nothing.
    pub(super) fn refuse_unless<T>(
        &mut self,
        given: Option<&Given<T>>,
        is_neutral: impl Fn(&T) -> bool,
        reason: &str,
    ) {
        if let Some(given) = given.filter(|given| !is_neutral(&given.value)) {
            self.refuse(given, reason);
        }
    }

    /// Notes something of an option that was given.
    pub(super) fn note<T>(&mut self, given: &Given<T>, what: &str) {
        self.note_at(&given.at, given.option, what);
    }

    /// Notes something about a place.
    pub(super) fn note_at(&mut self, at: &Place, option: &str, what: &str) {
        let (option, what) = (option.to_owned(), what.to_owned());
        self.push_note(Note { option, value: None, at: at.clone(), what });
    }
}

/// The value that was given, or fio's default.
pub(super) fn or<T: Copy>(given: Option<&Given<T>>, default: T) -> T {
    given.map_or(default, |given| given.value)
}
