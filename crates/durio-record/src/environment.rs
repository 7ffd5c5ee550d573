//! Where a run took place.

use durio_observe::{Host, Stack};
use serde::{Deserialize, Serialize};

/// The machine, and the layers under each location of the plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// The machine.
    pub host: Host,
    /// One stack per location, in the plan's order.
    pub stacks: Vec<Stack>,
}
