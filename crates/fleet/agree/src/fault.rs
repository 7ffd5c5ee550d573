//! Faults that are planted to test the simulator: each breaks one rule of a host or the coordinator.
//!
//! The machines ask for a fault at the place of the rule; without the feature `simulate` the answer
//! is "no" at compile time.

durio_base::worded! {
    /// A rule that is broken on purpose.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum FleetFault {
        /// A host runs a plan that its permits refuse.
        UnpermittedRun = "start without permit",
        /// An order to run is obeyed again by a host that runs.
        RunOrderedTwice = "order to run obeyed twice",
        /// A host that was restarted does not know that it had started a run.
        RestartRepeatsRun = "restarted host repeats its steps",
        /// A run is started while it is being stored that it was.
        RunNotStored = "run started before it is stored",
        /// An order is obeyed whose time has passed.
        LateOrderObeyed = "order obeyed after its time",
        /// Orders need no signature.
        UnsignedObeyed = "order without signature obeyed",
        /// A run goes on without a coordinator.
        DeadManOff = "dead-man switch off",
        /// The lock of another campaign is ignored.
        LockIgnored = "two coordinators on one host",
        /// A host that came late takes part.
        LateJoinerMixedIn = "late joiner mixed in",
        /// The versions of hosts are not compared.
        VersionNotCompared = "other version accepted",
        /// A machine takes part under two names.
        TwinAccepted = "same machine accepted twice",
        /// A status counts for the host that it names, whoever sent it.
        ForeignResult = "result of another host accepted",
        /// Heartbeats count from their arrival.
        StaleHeartbeat = "stale heartbeat counted as new",
        /// The bound of an offset is a part of what the round trip permits.
        BoundTooSmall = "bound smaller than the truth",
        /// Steps that ran while their host was lost are pooled.
        LostLoadCounted = "load of a lost host counted",
        /// A run that was cut is pooled.
        CutRunPooled = "cut run pooled",
        /// The digest of a collected folder is not compared.
        DigestIgnored = "digest of a folder ignored",
        /// A coordinator that resumes takes final states for earlier ones.
        ResumeForgetsFinal = "final state forgotten by resume",
        /// An order to stop is sent once.
        StopSentOnce = "order to stop not repeated",
        /// A relay reports hosts as alive of which it hears nothing.
        RelayHidesLoss = "lost host reported as alive by its relay",
        /// A relay reports the clocks of its hosts without their bounds.
        RelayBoundOmitted = "bound of a relay not added",
        /// A relay's report counts for hosts of another region.
        ForeignRegion = "report of another relay accepted",
        /// A relay does not report one of its hosts.
        RelayForgetsHost = "host forgotten by its relay",
    }
}

impl FleetFault {
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
