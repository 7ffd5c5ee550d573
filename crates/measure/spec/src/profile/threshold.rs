//! Documented limits of a profile, and those that a plan takes from it.

use durio_base::Nanos;
use durio_plan::{Threshold, ThresholdBound};
use serde::Serialize;

use super::Profile;
use super::values::{LeastAmount, ThresholdFigure, bound};
use crate::SpecError;
use crate::table::{Faults, Field, OptionalValue, PlacedValue, SpecTable, TableEntries, table};

table! {
    /// A limit of a profile.
    #[derive(Serialize)]
    pub struct ProfileThreshold "[[threshold]]" {
        /// The name by which it is asked for, where it is not the profile's.
        #[serde(skip_serializing_if = "Option::is_none")]
        asked_as: Option<String>,
        /// The limit in a sentence, for reports.
        criterion: String,
        /// The limit, from `figure` and `below` or `at_least`.
        #[serde(flatten)]
        bound: ThresholdBound,
        /// The stream of the profile that it limits; none if only a workload of `durio check` shows it.
        #[serde(skip_serializing_if = "Option::is_none")]
        of: Option<String>,
        /// The workload of `durio check` that it is held against; none if none shows it.
        #[serde(skip_serializing_if = "Option::is_none")]
        check: Option<String>,
        /// Name of the source.
        from: String,
        /// How far results of the profile's stream can be compared with it.
        #[serde(skip_serializing_if = "Option::is_none")]
        note: Option<String>,
        /// How far results of check's workload can be compared with it.
        #[serde(skip_serializing_if = "Option::is_none")]
        check_note: Option<String>,
    }
}

table! {
    /// What of a threshold says how large.
    pub(crate) struct BoundTable "[[threshold]]" {
        /// The result that is limited: "p99 of sync".
        figure: PlacedValue<ThresholdFigure>,
        /// The limit of a latency.
        below: OptionalValue<Nanos>,
        /// The limit of a rate.
        at_least: OptionalValue<LeastAmount>,
    }
}

/// Not a key: what `figure`, `below` and `at_least` say together.
impl Field for ThresholdBound {
    fn absent(entries: &TableEntries<'_>, _: &'static str) -> Result<Self, SpecError> {
        let mut faults = Faults::default();
        let read = BoundTable::read(entries, &mut faults);
        let BoundTable { figure, below, at_least } = faults.or(read, entries)?;
        let at_least = at_least.get().map(|least| least.0);
        bound(figure.value, below.get(), at_least)
            .map_err(|reason| entries.source.error(entries.at, reason))
    }

    fn names(_: &'static str) -> Vec<&'static str> {
        BoundTable::names()
    }
}

impl Field for Vec<ProfileThreshold> {
    fn absent(entries: &TableEntries<'_>, _: &'static str) -> Result<Self, SpecError> {
        let Some(item) = entries.item("threshold") else { return Ok(Vec::new()) };
        let tables = Vec::<PlacedValue<ProfileThreshold>>::read(item)?;
        Ok(tables.into_iter().map(|table| table.value).collect())
    }

    fn names(_: &'static str) -> Vec<&'static str> {
        vec!["threshold"]
    }
}

impl Profile {
    /// The limits for a run of the profile: those of its streams, and those that a workload of
    /// `durio check` has to show.
    pub fn run_thresholds(&self) -> Vec<Threshold> {
        let one = |limit: &ProfileThreshold| {
            let (workload, note) = match (&limit.of, &limit.check) {
                // Its own stream does what the database does; the workload of check only resembles
                // it.
                (Some(stream), _) => (stream, &limit.note),
                (None, Some(check)) => (check, &limit.check_note),
                (None, None) => return None,
            };
            Some(self.threshold(limit, workload, note))
        };
        let found: Vec<Threshold> = self.thresholds.iter().filter_map(one).collect();
        match (self.log.is_some(), self.streams.first()) {
            _ if !found.is_empty() => found,
            (true, _) => vec![self.undocumented("log")],
            (false, Some(first)) => vec![self.undocumented(&first.name)],
            (false, None) => Vec::new(),
        }
    }

    /// The limits for `durio check`, or else one entry that says that the profile has none.
    pub(super) fn thresholds_of_check(&self) -> Vec<Threshold> {
        let one = |limit: &ProfileThreshold| {
            Some(self.threshold(limit, limit.check.as_ref()?, &limit.check_note))
        };
        let found: Vec<Threshold> = self.thresholds.iter().filter_map(one).collect();
        // Silence would look like a database that durio does not know.
        match found.is_empty() {
            true => vec![self.undocumented(&self.check.value)],
            false => found,
        }
    }

    fn threshold(
        &self,
        limit: &ProfileThreshold,
        workload: &str,
        note: &Option<String>,
    ) -> Threshold {
        let source = self.source(&limit.from);
        Threshold {
            database: limit.asked_as.clone().unwrap_or_else(|| self.name.clone()),
            criterion: limit.criterion.clone(),
            workload: workload.to_owned(),
            bound: limit.bound,
            kind: source.map(|source| source.kind),
            publisher: source.and_then(|source| source.publisher.clone()),
            document: source.map(|source| source.document.clone()),
            url: source.and_then(|source| source.url.clone()),
            note: note.clone(),
            asked: false,
        }
    }

    fn undocumented(&self, workload: &str) -> Threshold {
        let criterion = "its documentation gives no threshold that this run measures".to_owned();
        let none = Threshold::goal(criterion, workload.to_owned(), ThresholdBound::Undocumented);
        Threshold { database: self.name.clone(), ..none }
    }
}
