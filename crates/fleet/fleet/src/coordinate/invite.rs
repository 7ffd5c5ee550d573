//! The sessions of a coordinator: one for each host that it reaches itself, and one for each relay.

use std::sync::Arc;

use durio_agree::host_name::SshHost;
use durio_command::CommandError;
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{Coordinator, CoordinatorEvent};
use crate::call::HostCaller;
use crate::invitation::{Invitation, RelayRegion};
use crate::launch::{LaunchVia, Launcher};
use crate::session::keep;

impl Coordinator<'_> {
    /// Starts a session for each host or relay.
    pub(super) fn invite(
        &self,
        launcher: &Arc<Launcher>,
        is_over: &watch::Receiver<bool>,
    ) -> Result<JoinSet<()>, CommandError> {
        let mut sessions = JoinSet::new();
        let (links, mut heard) = unbounded_channel();
        let bus = self.bus.for_hosts()?;
        let (mut called, is_known) = (Vec::new(), self.pass.history.is_some());
        for (host, region) in self.parties()? {
            let invitation = Invitation {
                campaign: self.pass.campaign.clone(),
                host: host.name.clone(),
                coordinator: self.pass.key.public(),
                bus: bus.clone(),
                run: self.pass.launch.run.clone(),
                targets: self.pass.launch.targets.clone(),
                is_joined: false,
                region: region.map(Box::new),
            };
            if launcher.via == LaunchVia::Joined {
                called.push(invitation);
                continue;
            }
            let host = (host, is_known);
            let session = keep(launcher.clone(), host, invitation, links.clone(), is_over.clone());
            sessions.spawn(session);
        }
        if !called.is_empty() {
            let caller =
                HostCaller { bus: self.pass.launch.bus.clone(), key: self.pass.key.clone() };
            sessions.spawn(caller.call(called, is_known, links, is_over.clone()));
        }
        let events = self.events.clone();
        tokio::spawn(async move {
            while let Some(event) = heard.recv().await {
                let _ = events.send(CoordinatorEvent::Link(event));
            }
        });
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
