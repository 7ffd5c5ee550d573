//! The programs and drivers that a guest needs to build stacks, by name.

use durio_lab::kernels::DriverState;
use durio_lab::{Kernel, find_program};
use durio_layers::{DeclaredStack, Missing, requirements};

/// Names, each once, in order.
#[derive(Debug, Default)]
pub(crate) struct GuestNeeds {
    pub(crate) tools: Vec<String>,
    pub(crate) modules: Vec<String>,
}

impl GuestNeeds {
    /// The needs of the stacks that kernel and machine can satisfy: for each other one, the bench
    /// in the guest records what is missing and continues. If no stack can be satisfied, the needs
    /// of all, so that the lab reports what is missing before it boots.
    pub(crate) fn of(stacks: &[DeclaredStack], kernel: &Kernel) -> Self {
        let states = kernel.drivers().unwrap_or_default();
        let absent: Vec<&str> = states
            .into_iter()
            .filter_map(|(name, state)| (state == DriverState::Absent).then_some(name))
            .collect();
        let can_be_had = |need: &Missing| match need {
            Missing::Program { name, .. } => find_program(name.as_ref()).is_some(),
            Missing::Driver { module, .. } => !absent.contains(module),
            Missing::Root => true,
        };
        let all: Vec<Vec<Missing>> = stacks.iter().map(requirements).collect();
        let whole = |needs: &&Vec<Missing>| needs.iter().all(can_be_had);
        match all.iter().any(|needs| whole(&needs)) {
            true => Self::named(all.iter().filter(whole).flatten()),
            false => Self::named(all.iter().flatten()),
        }
    }

    /// All that those stacks need.
    pub(crate) fn all(stacks: &[DeclaredStack]) -> Self {
        Self::named(stacks.iter().flat_map(requirements).collect::<Vec<_>>().iter())
    }

    fn named<'a>(needs: impl Iterator<Item = &'a Missing>) -> Self {
        let mut named = Self::default();
        for need in needs {
            match need {
                Missing::Program { name, .. } => named.tools.push((*name).to_owned()),
                Missing::Driver { module, .. } => named.modules.push((*module).to_owned()),
                Missing::Root => {}
            }
        }
        for names in [&mut named.tools, &mut named.modules] {
            names.sort_unstable();
            names.dedup();
        }
        named
    }
}
