//! The sessions of a coordinator: one for each host that it reaches itself, and one for each relay.

use durio_agree::host_name::SshHost;
use durio_command::CommandError;

use super::{Coordinator, CoordinatorEvent};
use crate::call::HostCaller;
use crate::invitation::{Invitation, RelayRegion};
use crate::launch::{LaunchVia, Launcher};
use crate::session::Sessions;

impl Coordinator<'_> {
    /// Starts a session for each host or relay.
    pub(super) fn invite(&self, launcher: Launcher) -> Result<Sessions, CommandError> {
        let events = self.events.clone();
        let mut sessions = Sessions::new(launcher, move |answer| {
            let _ = events.send(CoordinatorEvent::Answer(answer));
        });
        let (bus, launch) = (self.bus.for_hosts()?, self.pass.launch);
        let (mut called, is_known) = (Vec::new(), self.pass.history.is_some());
        for (host, region) in self.parties()? {
            let invitation = Invitation {
                campaign: self.pass.campaign.clone(),
                host: host.name.clone(),
                coordinator: self.pass.key.public(),
                bus: bus.clone(),
                run: launch.run.clone(),
                targets: launch.targets.clone(),
                is_joined: false,
                region: region.map(Box::new),
            };
            match launch.via {
                LaunchVia::Joined => called.push(invitation),
                LaunchVia::Ssh | LaunchVia::Slurm => sessions.invite((host, is_known), invitation),
            }
        }
        if !called.is_empty() {
            let caller = HostCaller { bus: launch.bus.clone(), key: self.pass.key.clone() };
            sessions.spawn(|hear, over| caller.call(called, is_known, hear, over));
        }
        Ok(sessions)
    }

    /// The hosts that are asked and have no relay, and the relays with their regions.
    fn parties(&self) -> Result<Vec<(SshHost, Option<RelayRegion>)>, CommandError> {
        let (launch, is_known) = (self.pass.launch, self.pass.history.is_some());
        let own =
            launch.own_hosts()?.into_iter().filter(|host| self.pass.hosts.contains(&host.name));
        let mut parties: Vec<(SshHost, Option<RelayRegion>)> =
            own.map(|host| (host, None)).collect();
        for one in &self.regions {
            let region = RelayRegion { launch: launch.of_region(&one.hosts), is_known };
            parties.push((one.relay.ssh_host()?, Some(region)));
        }
        Ok(parties)
    }
}
