//! The file as a whole: from text to a profile whose fields are each right by themselves.
//!
//! In: TOML. Out: a [`Profile`]. Not here: fields that contradict each other (`contradictions`).

use toml::de::{DeTable, DeValue};

use super::reader::{Fields, Text, check_source};
use super::values::{
    access, amount, bound, bytes, cache, count, figure, file, flag, mix, pace, padding, provenance,
    sync, text, texts, time,
};
use super::{
    LogProfile, PROFILE_SCHEMA, Profile, ProfileSource, ProfileThreshold, StreamKind, StreamProfile,
};
use crate::DefinitionError;

/// Larger than any profile that a person writes.
const LENGTH_MAX: usize = 1 << 20;
/// More streams than a database runs at once.
const TABLES_MAX: usize = 64;

const TOP: [&str; 11] = [
    "schema",
    "name",
    "title",
    "summary",
    "notes",
    "sources",
    "check",
    "log",
    "read",
    "write",
    "threshold",
];
const SOURCE: [&str; 4] = ["kind", "publisher", "document", "url"];
const LOG: [&str; 15] = [
    "summary",
    "records",
    "padding",
    "file",
    "file_size",
    "cache",
    "sync",
    "sync_every",
    "logs",
    "committers",
    "batch_max",
    "commit_delay",
    "commit_siblings",
    "rate",
    "fitting",
];
const READ: [&str; 8] = ["name", "summary", "access", "sizes", "cache", "jobs", "depth", "rate"];
const WRITE: [&str; 4] = ["file", "sync", "sync_every", "with_every_commit"];
const THRESHOLD: [&str; 10] = [
    "asked_as",
    "criterion",
    "figure",
    "below",
    "at_least",
    "of",
    "check",
    "from",
    "note",
    "check_note",
];

/// Reads a whole file.
pub(super) fn profile(name: &str, content: &str) -> Result<Profile, DefinitionError> {
    let file = Text { name, text: content };
    if content.len() > LENGTH_MAX {
        let length = content.len();
        return Err(
            file.error(0, format!("a profile of {length} bytes is longer than {LENGTH_MAX}"))
        );
    }
    let table = DeTable::parse(content)
        .map_err(|error| file.error(error.span().map_or(0, |span| span.start), error.message()))?;
    let top = Fields::new(file, "a profile", (0, table.get_ref()), &TOP)?;
    let schema = top.plain_needed("schema", count)?;
    if schema != PROFILE_SCHEMA {
        return Err(
            top.error(format!("schema {schema} is not known; this durio reads {PROFILE_SCHEMA}"))
        );
    }
    let sources = sources(top)?;
    let log = top.table("log")?.map(|table| log(file, table, &sources)).transpose()?;
    let mut streams = streams(top, "read", StreamKind::Read, &sources)?;
    streams.extend(self::streams(top, "write", StreamKind::Write, &sources)?);
    Ok(Profile {
        name: top.plain_needed("name", text)?,
        title: top.plain_needed("title", text)?,
        summary: top.plain_needed("summary", text)?,
        log,
        streams,
        thresholds: thresholds(top, &sources)?,
        check: top.fact_needed("check", &sources, text)?,
        notes: top.plain("notes", texts)?.unwrap_or_default(),
        sources,
    })
}

fn sources(top: Fields<'_>) -> Result<Vec<ProfileSource>, DefinitionError> {
    let Some((at, table)) = top.table("sources")? else {
        return Err(top.error("there are no sources: describe at least one in [sources.NAME]"));
    };
    let mut named: Vec<_> = table.iter().collect();
    named.sort_by_key(|(name, _)| name.span().start);
    let of = |(name, value): (
        &toml::Spanned<std::borrow::Cow<'_, str>>,
        &toml::Spanned<DeValue<'_>>,
    )| {
        let DeValue::Table(table) = value.get_ref() else {
            return Err(top.text.error(value.span().start, "a source is a table: [sources.NAME]"));
        };
        source(
            Fields::new(top.text, "a source", (name.span().start, table), &SOURCE)?,
            name.get_ref(),
        )
    };
    let found = named.into_iter().map(of).collect::<Result<Vec<_>, _>>()?;
    match found.is_empty() {
        true => {
            Err(top.text.error(at, "there are no sources: describe at least one in [sources.NAME]"))
        }
        false => Ok(found),
    }
}

fn source(fields: Fields<'_>, name: &str) -> Result<ProfileSource, DefinitionError> {
    let kind = fields.plain_needed("kind", provenance)?;
    let publisher = fields.plain("publisher", text)?;
    let url = fields.plain("url", text)?;
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

fn log(
    file_text: Text<'_>,
    table: (usize, &DeTable<'_>),
    from: &[ProfileSource],
) -> Result<LogProfile, DefinitionError> {
    let it = Fields::new(file_text, "[log]", table, &LOG)?;
    Ok(LogProfile {
        summary: it.plain_needed("summary", text)?,
        records: it.fact_needed("records", from, mix)?,
        padding: it.fact_needed("padding", from, padding)?,
        file: it.fact_needed("file", from, file)?,
        file_size: it.fact_needed("file_size", from, bytes)?,
        cache: it.fact_needed("cache", from, cache)?,
        sync: it.fact_needed("sync", from, sync)?,
        sync_every: it.fact_needed("sync_every", from, count)?,
        logs: it.fact_needed("logs", from, count)?,
        committers: it.fact_needed("committers", from, count)?,
        batch_max: it.fact("batch_max", from, bytes)?,
        commit_delay: it.fact("commit_delay", from, time)?,
        commit_siblings: it.fact("commit_siblings", from, count)?,
        rate: it.fact_needed("rate", from, pace)?,
        fitting: it.plain("fitting", text)?,
    })
}

fn streams(
    top: Fields<'_>,
    key: &str,
    kind: StreamKind,
    from: &[ProfileSource],
) -> Result<Vec<StreamProfile>, DefinitionError> {
    let tables = top.tables(key)?;
    if tables.len() > TABLES_MAX {
        return Err(top.error(format!("{} streams are more than {TABLES_MAX}", tables.len())));
    }
    let one = |table| stream(top.text, table, kind, from);
    tables.into_iter().map(one).collect()
}

fn stream(
    file_text: Text<'_>,
    table: (usize, &DeTable<'_>),
    kind: StreamKind,
    from: &[ProfileSource],
) -> Result<StreamProfile, DefinitionError> {
    let writes = kind == StreamKind::Write;
    let mut known: Vec<&str> = READ.to_vec();
    known.push("fitting");
    known.extend(WRITE.iter().filter(|_| writes));
    let it = Fields::new(file_text, if writes { "[[write]]" } else { "[[read]]" }, table, &known)?;
    let needed = |found: bool, key: &str| match found || !writes {
        true => Ok(()),
        false => Err(it.error(format!("[[write]] says nothing about '{key}'"))),
    };
    let (own_file, own_sync) = (it.fact("file", from, file)?, it.fact("sync", from, sync)?);
    let sync_every = it.fact("sync_every", from, count)?;
    needed(own_file.is_some(), "file")?;
    needed(own_sync.is_some(), "sync")?;
    needed(sync_every.is_some(), "sync_every")?;
    Ok(StreamProfile {
        name: it.plain_needed("name", text)?,
        summary: it.plain_needed("summary", text)?,
        kind,
        access: it.fact_needed("access", from, access)?,
        sizes: it.fact_needed("sizes", from, mix)?,
        cache: it.fact_needed("cache", from, cache)?,
        jobs: it.fact_needed("jobs", from, count)?,
        depth: it.fact_needed("depth", from, count)?,
        rate: it.fact_needed("rate", from, pace)?,
        file: own_file,
        sync: own_sync,
        sync_every,
        with_every_commit: it.fact("with_every_commit", from, flag)?,
        fitting: it.plain("fitting", text)?,
    })
}

fn thresholds(
    top: Fields<'_>,
    sources: &[ProfileSource],
) -> Result<Vec<ProfileThreshold>, DefinitionError> {
    let one = |(at, table)| {
        let it = Fields::new(top.text, "[[threshold]]", (at, table), &THRESHOLD)?;
        let from = it.plain("from", text)?.ok_or_else(|| {
            it.error("a threshold without a source is nobody's: name one with 'from'")
        })?;
        check_source(top.text, at, "threshold", &from, sources)?;
        let limits = (it.plain("below", time)?, it.plain("at_least", amount)?);
        let figure = it.plain_needed("figure", figure)?;
        Ok(ProfileThreshold {
            asked_as: it.plain("asked_as", text)?,
            criterion: it.plain_needed("criterion", text)?,
            bound: bound(figure, limits.0, limits.1).map_err(|reason| it.error(reason))?,
            of: it.plain("of", text)?,
            check: it.plain("check", text)?,
            from,
            note: it.plain("note", text)?,
            check_note: it.plain("check_note", text)?,
        })
    };
    top.tables("threshold")?.into_iter().map(one).collect()
}
