//! Every field of a profile in a row, as shown: place, value, source.

use durio_base::{Bytes, Nanos};
use serde::Serialize;

use super::table::{FieldFact, ProfileTable};
use super::{AccessOrderProfile, CachePath, FileHandling, Profile, ProfileSource, StreamPace};
use crate::{BlockShare, ClientThreads, LogWriter, Pattern, Skew, SyncMethod};

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
    /// A remark about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

pub(super) trait FactText {
    fn shown(&self) -> String;
}

impl FactText for Bytes {
    fn shown(&self) -> String {
        // Padding is the only size that may be zero.
        if *self == Self::ZERO { "none".to_owned() } else { self.to_string() }
    }
}

impl FactText for bool {
    fn shown(&self) -> String {
        if *self { "yes" } else { "no" }.to_owned()
    }
}

/// Values that are shown as they are printed, or by their word.
macro_rules! shown {
    ($($type:ty: |$it:ident| $text:expr;)+) => {$(
        impl FactText for $type {
            fn shown(&self) -> String {
                let $it = self;
                $text.to_string()
            }
        }
    )+};
}

shown! {
    Nanos: |it| it;
    u32: |it| it;
    String: |it| it;
    SyncMethod: |it| it;
    FileHandling: |it| word_of(&FileHandling::WORDS, it);
    CachePath: |it| word_of(&CachePath::WORDS, it);
    ClientThreads: |it| word_of(&ClientThreads::WORDS, it);
    LogWriter: |it| word_of(&LogWriter::WORDS, it);
}

/// The word of a value; every value has one.
pub(super) fn word_of<T: PartialEq>(words: &[(&'static str, T)], value: &T) -> &'static str {
    words.iter().find(|(_, it)| it == value).map_or("", |(word, _)| word)
}

impl FactText for AccessOrderProfile {
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

impl FactText for StreamPace {
    fn shown(&self) -> String {
        match self {
            Self::Unlimited => "unlimited".to_owned(),
            Self::PerSecond(rate) => format!("{rate} per second"),
            Self::BytesPerSecond(bytes) => format!("{bytes}/s"),
        }
    }
}

impl FactText for Vec<BlockShare> {
    fn shown(&self) -> String {
        let one = |share: &BlockShare| match share.weight.0 {
            1000 => share.size.to_string(),
            weight => format!("{} {} %", share.size, f64::from(weight) / 10.0),
        };
        self.iter().map(one).collect::<Vec<_>>().join(", ")
    }
}

impl Profile {
    /// Every field with its source: the log's, the software's, then the other streams', then the profile's own.
    #[must_use]
    pub fn facts(&self) -> Vec<ShownFact> {
        let log = self.log.iter().map(|log| ("log", log.facts()));
        let streams = self.streams.iter().map(|stream| (stream.name.as_str(), stream.facts()));
        let own = [("", ProfileTable::facts(self))];
        let software = self.software.iter().map(|it| ("software", it.facts()));
        let all = log.chain(software).chain(streams).chain(own);
        let shown = |(stream, facts): (&str, Vec<FieldFact<'_>>)| {
            let one = |it: FieldFact<'_>| {
                Some(ShownFact {
                    stream: stream.to_owned(),
                    field: it.field,
                    value: it.value,
                    source: self.source(it.from)?.clone(),
                    note: it.note.cloned(),
                })
            };
            facts.into_iter().filter_map(one).collect::<Vec<_>>()
        };
        all.flat_map(shown).collect()
    }
}
