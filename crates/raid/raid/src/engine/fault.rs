//! Faults that are planted to test the simulator: each breaks one rule of the engine.
//!
//! The engine asks for a fault at the place of the rule; without the feature `simulate` the answer
//! is "no" at compile time.

/// A rule that is broken on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// Data is written while the mark of its region is on its way.
    MarkNotAwaited,
    /// A region is cleared while a write of it is on its way.
    ClearUnderWriter,
    /// A write is answered when the first copy has it.
    AnswerAfterOneCopy,
    /// Overlapping requests run side by side.
    NoOrder,
    /// Superblocks and map are overwritten in place.
    OneMetadataSlot,
    /// A mark is written to one copy only.
    MarkOnOneMember,
    /// A member that was away is taken as in sync.
    StaleMemberTrusted,
    /// A write that a copy failed is answered before the other superblocks say so.
    EpochNotRaised,
    /// The watermark of a rebuild is stored before the data below it.
    WatermarkBeforeCopy,
    /// A rebuild copies concurrently with writes of the same bytes.
    RebuildRacesWrite,
    /// Halves that continued without each other are taken as one array.
    SplitHalvesJoined,
    /// A dirty region is read from any copy.
    DirtyReadFromAny,
    /// Members may keep data in a volatile cache.
    FuaLeftOut,
    /// A discard is sent to one copy only.
    DiscardNotMirrored,
    /// A spare takes the place of two members.
    SpareTakenTwice,
    /// A start does not ask the base of a table that is not known to count.
    BaseNotAsked,
    /// A scrub compares concurrently with writes of the same bytes.
    ScrubRacesWrite,
    /// A replacement gets copies, and no writes.
    ReplacementNotWritten,
    /// A stripe is written without an entry in the log of its parities.
    LogLeftOut,
    /// Data of a stripe is written while its entry is on its way.
    LogNotAwaited,
    /// Two writes use a slot of the log at a time.
    LogSlotShared,
    /// A start does not make parities right by the log.
    LogNotReplayed,
    /// Entries count that a member wrote before it was away.
    StaleLogReplayed,
    /// A stripe is written before the failure of a member is in the superblocks.
    StripeWrittenUnsettled,
    /// A member becomes in sync while writes without an entry in its log are in flight.
    PromotedUnderWriter,
    /// A member that is shorter than its superblock says is trusted.
    TruncatedMemberTrusted,
    /// Superblocks at both ends of a member need not belong together.
    EndsNotCompared,
    /// A mark waits for the first page of the map, not for that of its region.
    FirstPageMarked,
    /// A page of the map holds the regions of the next one.
    NeighbourPageWritten,
    /// A start takes the first page of each map only.
    FirstPageLoaded,
    /// A start asks the first page of the map which stripes were being written.
    FirstPageDoubted,
    /// A start without all members keeps the epoch that it found.
    DegradedStartKeepsEpoch,
    /// A background copy that a member could not write counts as written.
    CopyErrorIgnored,
    /// A rebuilt member counts as in sync while its last chunks are on their way.
    PromotedBeforeLastCopy,
    /// A parity whose replay could not be carried out counts as right.
    FailedReplayCounts,
    /// A clean stop keeps the epoch of the start.
    EndKeepsEpoch,
    /// A member from an image that is older than its failure comes back by the map.
    ImageBackByMap,
}

impl Fault {
    /// All, in the order of reports.
    pub const ALL: [Self; 37] = [
        Self::MarkNotAwaited,
        Self::ClearUnderWriter,
        Self::AnswerAfterOneCopy,
        Self::NoOrder,
        Self::OneMetadataSlot,
        Self::MarkOnOneMember,
        Self::StaleMemberTrusted,
        Self::EpochNotRaised,
        Self::WatermarkBeforeCopy,
        Self::RebuildRacesWrite,
        Self::SplitHalvesJoined,
        Self::DirtyReadFromAny,
        Self::FuaLeftOut,
        Self::DiscardNotMirrored,
        Self::SpareTakenTwice,
        Self::BaseNotAsked,
        Self::ScrubRacesWrite,
        Self::ReplacementNotWritten,
        Self::LogLeftOut,
        Self::LogNotAwaited,
        Self::LogSlotShared,
        Self::LogNotReplayed,
        Self::StaleLogReplayed,
        Self::StripeWrittenUnsettled,
        Self::PromotedUnderWriter,
        Self::TruncatedMemberTrusted,
        Self::EndsNotCompared,
        Self::FirstPageMarked,
        Self::NeighbourPageWritten,
        Self::FirstPageLoaded,
        Self::FirstPageDoubted,
        Self::DegradedStartKeepsEpoch,
        Self::CopyErrorIgnored,
        Self::PromotedBeforeLastCopy,
        Self::FailedReplayCounts,
        Self::EndKeepsEpoch,
        Self::ImageBackByMap,
    ];

    /// Whether only levels 5 and 6 have the rule.
    #[cfg(any(test, feature = "simulate"))]
    pub(crate) fn is_of_stripes(self) -> bool {
        let of_stripes = Self::LogLeftOut..=Self::PromotedUnderWriter;
        of_stripes.contains(&self)
            || matches!(self, Self::FirstPageDoubted | Self::FailedReplayCounts)
    }

    /// Whether this is the fault that is planted.
    #[cfg(any(test, feature = "simulate"))]
    pub(crate) fn is_in(self, planted: Option<Self>) -> bool {
        planted == Some(self)
    }

    #[cfg(not(any(test, feature = "simulate")))]
    pub(crate) const fn is_in(self, _: Option<Self>) -> bool {
        false
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::MarkNotAwaited => "mark not awaited",
            Self::ClearUnderWriter => "region cleared under a writer",
            Self::AnswerAfterOneCopy => "write acknowledged after one copy",
            Self::NoOrder => "overlapping writes not ordered",
            Self::OneMetadataSlot => "one slot for metadata",
            Self::MarkOnOneMember => "mark on one member only",
            Self::StaleMemberTrusted => "stale member trusted",
            Self::EpochNotRaised => "epoch not raised before the acknowledgement",
            Self::WatermarkBeforeCopy => "watermark stored before the copy",
            Self::RebuildRacesWrite => "rebuild races a write",
            Self::SplitHalvesJoined => "split halves joined",
            Self::DirtyReadFromAny => "dirty region read from either copy",
            Self::FuaLeftOut => "FUA left out",
            Self::DiscardNotMirrored => "discard not mirrored",
            Self::SpareTakenTwice => "spare taken twice",
            Self::BaseNotAsked => "base of a new table not asked",
            Self::ScrubRacesWrite => "scrub races a write",
            Self::ReplacementNotWritten => "replacement not written to",
            Self::LogLeftOut => "stripe written without the log",
            Self::LogNotAwaited => "log not awaited",
            Self::LogSlotShared => "slot of the log used twice",
            Self::LogNotReplayed => "log not replayed",
            Self::StaleLogReplayed => "stale log replayed",
            Self::StripeWrittenUnsettled => "stripe written before a failure is stored",
            Self::PromotedUnderWriter => "parity taken into sync under a writer",
            Self::TruncatedMemberTrusted => "truncated member trusted",
            Self::EndsNotCompared => "ends of a member not compared",
            Self::FirstPageMarked => "mark on the first page",
            Self::NeighbourPageWritten => "neighbour page written",
            Self::FirstPageLoaded => "first page loaded only",
            Self::FirstPageDoubted => "doubts by the first page",
            Self::DegradedStartKeepsEpoch => "degraded start keeps the epoch",
            Self::CopyErrorIgnored => "error of a background copy ignored",
            Self::PromotedBeforeLastCopy => "promoted before the last copy",
            Self::FailedReplayCounts => "failed replay counts",
            Self::EndKeepsEpoch => "clean stop keeps the epoch",
            Self::ImageBackByMap => "older image back by the map",
        }
    }
}
