//! Faults that are planted to test the simulator: each breaks one rule of the engine.
//!
//! The engine asks for a fault at the place of the rule; without the feature `simulate` the answer
//! is "no" at compile time.

durio_base::worded! {
    /// A rule that is broken on purpose.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Fault {
        /// Data is written while the mark of its region is on its way.
        MarkNotAwaited = "mark not awaited",
        /// A region is cleared while a write of it is on its way.
        ClearUnderWriter = "region cleared under a writer",
        /// A write is answered when the first copy has it.
        AnswerAfterOneCopy = "write acknowledged after one copy",
        /// Overlapping requests run side by side.
        NoOrder = "overlapping writes not ordered",
        /// Superblocks and map are overwritten in place.
        OneMetadataSlot = "one slot for metadata",
        /// A mark is written to one copy only.
        MarkOnOneMember = "mark on one member only",
        /// A member that was away is taken as in sync.
        StaleMemberTrusted = "stale member trusted",
        /// A write that a copy failed is answered before the other superblocks say so.
        EpochNotRaised = "epoch not raised before the acknowledgement",
        /// The watermark of a rebuild is stored before the data below it.
        WatermarkBeforeCopy = "watermark stored before the copy",
        /// A rebuild copies concurrently with writes of the same bytes.
        RebuildRacesWrite = "rebuild races a write",
        /// Halves that continued without each other are taken as one array.
        SplitHalvesJoined = "split halves joined",
        /// A dirty region is read from any copy.
        DirtyReadFromAny = "dirty region read from either copy",
        /// Members may keep data in a volatile cache.
        FuaLeftOut = "FUA left out",
        /// A discard is sent to one copy only.
        DiscardNotMirrored = "discard not mirrored",
        /// A spare takes the place of two members.
        SpareTakenTwice = "spare taken twice",
        /// A start does not ask the base of a table that is not known to count.
        BaseNotAsked = "base of a new table not asked",
        /// A scrub compares concurrently with writes of the same bytes.
        ScrubRacesWrite = "scrub races a write",
        /// A replacement gets copies, and no writes.
        ReplacementNotWritten = "replacement not written to",
        /// A stripe is written without an entry in the log of its parities.
        LogLeftOut = "stripe written without the log",
        /// Data of a stripe is written while its entry is on its way.
        LogNotAwaited = "log not awaited",
        /// Two writes use a slot of the log at a time.
        LogSlotShared = "slot of the log used twice",
        /// A start does not make parities right by the log.
        LogNotReplayed = "log not replayed",
        /// Entries count that a member wrote before it was away.
        StaleLogReplayed = "stale log replayed",
        /// A stripe is written before the failure of a member is in the superblocks.
        StripeWrittenUnsettled = "stripe written before a failure is stored",
        /// A member becomes in sync while writes without an entry in its log are in flight.
        PromotedUnderWriter = "parity marked in sync during a write",
        /// A member that is shorter than its superblock says is trusted.
        TruncatedMemberTrusted = "truncated member trusted",
        /// Superblocks at both ends of a member need not belong together.
        EndsNotCompared = "ends of a member not compared",
        /// A mark waits for the first page of the map, not for that of its region.
        FirstPageMarked = "mark on the first page",
        /// A page of the map holds the regions of the next one.
        NeighbourPageWritten = "neighbour page written",
        /// A start takes the first page of each map only.
        FirstPageLoaded = "first page loaded only",
        /// A start asks the first page of the map which stripes were being written.
        FirstPageDoubted = "doubts by the first page",
        /// A start without all members keeps the epoch that it found.
        DegradedStartKeepsEpoch = "degraded start keeps the epoch",
        /// A background copy that a member could not write counts as written.
        CopyErrorIgnored = "error of a background copy ignored",
        /// A rebuilt member counts as in sync while its last chunks are on their way.
        PromotedBeforeLastCopy = "promoted before the last copy",
        /// A parity whose replay could not be carried out counts as right.
        FailedReplayCounts = "failed replay counts",
        /// A clean stop keeps the epoch of the start.
        EndKeepsEpoch = "clean stop keeps the epoch",
        /// A member from an image that is older than its failure comes back by the map.
        ImageBackByMap = "older image back by the map",
        /// A member that owes a superblock for too long takes those with it that owe the next table.
        NextTableLate = "next table is late at once",
    }
}

impl Fault {
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
}
