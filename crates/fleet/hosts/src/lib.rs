//! The runs of many hosts as one result: which hosts are slower than others like them, and what
//! storage that they share gives to all of them.

mod analyse;
mod facts;
mod findings;
mod goals;
mod pooled;
mod read;
mod report;
mod screen;
mod tally;
mod window;

pub use analyse::CONFIRMATION_NAME;
pub use findings::{
    DifferingFact, FLEET_SCHEMA, FigureKey, FleetDoubt, FleetDoubtKind, FleetFindings, GroupFigure,
    GroupFindings, HostEvidence, HostFigure, HostFindings, HostOutcome, HostRun, HostShare,
    HostStatistic, HostVerdict, JUDGED_HOSTS_MIN, PooledFindings, ROBUST_HOSTS_MIN, RateMark,
    RateMarkKind, ScreeningMethod, ScreeningPower, SharedFact, SharedStorage, UnsteadyFigure,
};
pub use goals::{FleetGoal, judge_goal};
pub use read::{ReadError, read_hosts};
pub use report::FleetReport;
pub use screen::{choose_for_confirmation, judge_hosts};
