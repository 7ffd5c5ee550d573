//! The file as a whole: from TOML to a [`Profile`] whose fields are each right by themselves.

use toml::de::{DeTable, DeValue};

use super::table::{ProfileTable, TableFields, Text};
use super::values::{amount, bound, count, figure, provenance, text, texts, time};
use super::{
    LogProfile, PROFILE_SCHEMA, Profile, ProfileSource, ProfileThreshold, SoftwareProfile,
    StreamKind, StreamProfile, ThresholdBound,
};
use crate::DefinitionError;

// Larger than any profile that a person writes.
const LENGTH_MAX: usize = 1 << 20;
// More streams than a database runs at once.
const TABLES_MAX: usize = 64;
/// What [[write]] says and [[read]] does not.
const OF_WRITERS: [&str; 4] = ["file", "sync", "sync_every", "with_every_commit"];

pub(super) fn profile(name: &str, content: &str) -> Result<Profile, DefinitionError> {
    let file = Text { name, text: content };
    if content.len() > LENGTH_MAX {
        let length = content.len();
        let text = format!("a profile of {length} bytes is longer than {LENGTH_MAX}");
        return Err(file.error(0, text));
    }
    let table = DeTable::parse(content)
        .map_err(|error| file.error(error.span().map_or(0, |span| span.start), error.message()))?;
    let known = [&["schema"], Profile::keys().as_slice()].concat();
    let top = TableFields::new(file, "a profile", (0, table.get_ref()), &known)?;
    let schema = top.plain_needed("schema", count)?;
    if schema != PROFILE_SCHEMA {
        return Err(
            top.error(format!("schema {schema} is not known; this durio reads {PROFILE_SCHEMA}"))
        );
    }
    // They come first, as every other field names one of them.
    let sources = sources(top)?;
    Profile::read(&TableFields { sources: &sources, ..top })
}

fn sources(top: TableFields<'_>) -> Result<Vec<ProfileSource>, DefinitionError> {
    let none = "there are no sources: describe at least one in [sources.NAME]";
    let Some((at, table)) = top.table("sources")? else { return Err(top.error(none)) };
    let mut named: Vec<_> = table.iter().collect();
    if named.is_empty() {
        return Err(top.text.error(at, none));
    }
    // TOML's tables are sorted by name; the file's order is what its writer meant.
    named.sort_by_key(|(name, _)| name.span().start);
    let mut found = Vec::new();
    for (name, value) in named {
        let DeValue::Table(table) = value.get_ref() else {
            return Err(top.text.error(value.span().start, "a source is a table: [sources.NAME]"));
        };
        let keys = ["kind", "publisher", "document", "url"];
        let fields = TableFields::new(top.text, "a source", (name.span().start, table), &keys)?;
        found.push(source(fields, name.get_ref())?);
    }
    Ok(found)
}

fn source(fields: TableFields<'_>, name: &str) -> Result<ProfileSource, DefinitionError> {
    let kind = fields.plain_needed("kind", provenance)?;
    let publisher = fields.plain("publisher", text)?;
    let url = fields.plain("url", text)?;
    // Published documents can be looked up, so the source must say where.
    if kind.is_published() && (publisher.is_none() || url.is_none()) {
        let text = format!("a source of kind {} has a publisher and a url", kind.word());
        return Err(fields.error(text));
    }
    if url.as_ref().is_some_and(|url| !url.starts_with("https://")) {
        return Err(fields.error("a url begins with https://"));
    }
    let document = fields.plain_needed("document", text)?;
    Ok(ProfileSource { name: name.to_owned(), kind, publisher, document, url })
}

/// Readers of a whole table, or of several keys.
impl TableFields<'_> {
    fn inner<T: ProfileTable>(
        &self,
        place: &str,
        table: (usize, &DeTable<'_>),
        known: &[&str],
    ) -> Result<T, DefinitionError> {
        let fields = TableFields::new(self.text, place, table, known)?;
        T::read(&TableFields { sources: self.sources, ..fields })
    }

    pub(super) fn all_sources(&self, _: &str) -> Result<Vec<ProfileSource>, DefinitionError> {
        Ok(self.sources.to_vec())
    }

    /// Texts; none, if the key is not there.
    pub(super) fn list(&self, key: &str) -> Result<Vec<String>, DefinitionError> {
        Ok(self.plain(key, texts)?.unwrap_or_default())
    }

    pub(super) fn log(&self, key: &str) -> Result<Option<LogProfile>, DefinitionError> {
        let table = self.table(key)?;
        table.map(|table| self.inner("[log]", table, &LogProfile::keys())).transpose()
    }

    pub(super) fn software(&self, key: &str) -> Result<Option<SoftwareProfile>, DefinitionError> {
        let table = self.table(key)?;
        table.map(|it| self.inner("[software]", it, &SoftwareProfile::keys())).transpose()
    }

    /// Those that read, then those that write.
    pub(super) fn streams(&self, _: &str) -> Result<Vec<StreamProfile>, DefinitionError> {
        let mut found = Vec::new();
        for (key, place) in [("read", "[[read]]"), ("write", "[[write]]")] {
            let mut known = StreamProfile::keys();
            known.retain(|it| key == "write" || !OF_WRITERS.contains(it));
            let tables = self.tables(key)?;
            if tables.len() > TABLES_MAX {
                let count = tables.len();
                return Err(self.error(format!("{count} streams are more than {TABLES_MAX}")));
            }
            for table in tables {
                found.push(self.inner(place, table, &known)?);
            }
        }
        Ok(found)
    }

    /// The kind of a stream; a writer must have every key that only writers have.
    pub(super) fn stream_kind(&self, _: &str) -> Result<StreamKind, DefinitionError> {
        if self.place == "[[read]]" {
            return Ok(StreamKind::Read);
        }
        for key in OF_WRITERS.iter().filter(|key| **key != "with_every_commit") {
            self.plain_needed(key, |_| Ok(()))?;
        }
        Ok(StreamKind::Write)
    }

    pub(super) fn thresholds(&self, _: &str) -> Result<Vec<ProfileThreshold>, DefinitionError> {
        let keys = ProfileThreshold::keys();
        let one = |table| self.inner("[[threshold]]", table, &keys);
        self.tables("threshold")?.into_iter().map(one).collect()
    }

    /// The source of a threshold, which is required.
    pub(super) fn threshold_source(&self, key: &str) -> Result<String, DefinitionError> {
        let nobody =
            || self.error("a threshold without a source is nobody's: name one with 'from'");
        let from = self.plain(key, text)?.ok_or_else(nobody)?;
        self.check_source(self.at, "threshold", &from)?;
        Ok(from)
    }

    /// The quantity that a threshold limits, and the limit.
    pub(super) fn bound(&self, _: &str) -> Result<ThresholdBound, DefinitionError> {
        let limits = (self.plain("below", time)?, self.plain("at_least", amount)?);
        let figure = self.plain_needed("figure", figure)?;
        bound(figure, limits.0, limits.1).map_err(|reason| self.error(reason))
    }
}
