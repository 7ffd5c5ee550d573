//! Every field of a profile in a row, as it is shown: where, what, from whom.

use durio_units::{Bytes, Nanos};
use serde::Serialize;

use super::{
    Access, CachePath, FileHandling, LogProfile, Pace, Profile, ProfileSource, Sourced,
    StreamProfile,
};
use crate::{BlockShare, Pattern, Skew, SyncMethod};

/// One field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ShownFact {
    /// `log`, the name of another stream, or empty for the profile as a whole.
    pub stream: String,
    /// The key in the file.
    pub field: &'static str,
    /// Its value, as people read it.
    pub value: String,
    /// Where it is from.
    pub source: ProfileSource,
    /// What is to be known about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A value as people read it.
trait Shown {
    fn shown(&self) -> String;
}

impl Shown for Bytes {
    fn shown(&self) -> String {
        if *self == Self::ZERO { "none".to_owned() } else { self.to_string() }
    }
}

impl Shown for Nanos {
    fn shown(&self) -> String {
        self.to_string()
    }
}

impl Shown for u32 {
    fn shown(&self) -> String {
        self.to_string()
    }
}

impl Shown for bool {
    fn shown(&self) -> String {
        if *self { "yes" } else { "no" }.to_owned()
    }
}

impl Shown for String {
    fn shown(&self) -> String {
        self.clone()
    }
}

impl Shown for SyncMethod {
    fn shown(&self) -> String {
        self.name().to_owned()
    }
}

impl Shown for FileHandling {
    fn shown(&self) -> String {
        word_of(&Self::WORDS, self)
    }
}

impl Shown for CachePath {
    fn shown(&self) -> String {
        word_of(&Self::WORDS, self)
    }
}

fn word_of<T: PartialEq>(words: &[(&str, T)], value: &T) -> String {
    words
        .iter()
        .find(|(_, it)| it == value)
        .map_or_else(String::new, |(word, _)| (*word).to_owned())
}

impl Shown for Access {
    fn shown(&self) -> String {
        match (self.pattern, &self.skew) {
            (Pattern::Sequential, _) => "sequential".to_owned(),
            (Pattern::Random, Skew::Zipf { theta_per_mille }) => {
                format!("random, zipf {}", f64::from(*theta_per_mille) / 1000.0)
            }
            (Pattern::Random, _) => "random".to_owned(),
        }
    }
}

impl Shown for Pace {
    fn shown(&self) -> String {
        match self {
            Self::Unlimited => "unlimited".to_owned(),
            Self::PerSecond(rate) => format!("{rate} per second"),
            Self::BytesPerSecond(bytes) => format!("{bytes}/s"),
        }
    }
}

impl Shown for Vec<BlockShare> {
    fn shown(&self) -> String {
        let one = |share: &BlockShare| match share.weight.0 {
            1000 => share.size.to_string(),
            weight => format!("{} {} %", share.size, f64::from(weight) / 10.0),
        };
        self.iter().map(one).collect::<Vec<_>>().join(", ")
    }
}

/// The facts of one stream, as they are gathered.
struct Gathering<'a> {
    profile: &'a Profile,
    stream: &'a str,
    facts: Vec<ShownFact>,
}

impl Gathering<'_> {
    fn take<T: Shown>(&mut self, field: &'static str, fact: &Sourced<T>) {
        let Some(source) = self.profile.source(&fact.from) else { return };
        self.facts.push(ShownFact {
            stream: self.stream.to_owned(),
            field,
            value: fact.value.shown(),
            source: source.clone(),
            note: fact.note.clone(),
        });
    }

    fn take_if<T: Shown>(&mut self, field: &'static str, fact: Option<&Sourced<T>>) {
        if let Some(fact) = fact {
            self.take(field, fact);
        }
    }
}

impl Profile {
    /// Every field with its source: the log's, then the other streams', then the profile's own.
    #[must_use]
    pub fn facts(&self) -> Vec<ShownFact> {
        let mut facts = Vec::new();
        if let Some(log) = &self.log {
            facts.extend(self.log_facts(log));
        }
        for stream in &self.streams {
            facts.extend(self.stream_facts(stream));
        }
        let mut own = Gathering { profile: self, stream: "", facts };
        own.take("check", &self.check);
        own.facts
    }

    fn log_facts(&self, log: &LogProfile) -> Vec<ShownFact> {
        let mut it = Gathering { profile: self, stream: "log", facts: Vec::new() };
        it.take("records", &log.records);
        it.take("padding", &log.padding);
        it.take("file", &log.file);
        it.take("file_size", &log.file_size);
        it.take("cache", &log.cache);
        it.take("sync", &log.sync);
        it.take("sync_every", &log.sync_every);
        it.take("logs", &log.logs);
        it.take("committers", &log.committers);
        it.take_if("batch_max", log.batch_max.as_ref());
        it.take_if("commit_delay", log.commit_delay.as_ref());
        it.take_if("commit_siblings", log.commit_siblings.as_ref());
        it.take("rate", &log.rate);
        it.facts
    }

    fn stream_facts(&self, stream: &StreamProfile) -> Vec<ShownFact> {
        let mut it = Gathering { profile: self, stream: &stream.name, facts: Vec::new() };
        it.take("access", &stream.access);
        it.take("sizes", &stream.sizes);
        it.take("cache", &stream.cache);
        it.take("jobs", &stream.jobs);
        it.take("depth", &stream.depth);
        it.take("rate", &stream.rate);
        it.take_if("file", stream.file.as_ref());
        it.take_if("sync", stream.sync.as_ref());
        it.take_if("sync_every", stream.sync_every.as_ref());
        it.take_if("with_every_commit", stream.with_every_commit.as_ref());
        it.facts
    }
}
