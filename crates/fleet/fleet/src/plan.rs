//! `durio fleet plan`: hosts join and plan, and nothing is run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use durio_agree::message::{PlanSummary, PlannedWrite, WritePlace};
use durio_agree::sign::SigningKey;
use durio_base::{Nanos, counted, visible};
use durio_command::{CommandError, CommandErrorKind, random_token};
use durio_record::fleet::{Barrier, CampaignFolder, CampaignPolicy, HostState, LostPolicy};
use serde_json::{Value, json};

use crate::FleetExit;
use crate::campaign::{HostStates, last_states, launch_settings, manifest, named_hosts, spec_text};
use crate::coordinate::{Pass, coordinate};
use crate::launch::LaunchSettings;
use crate::options::{AnswerFormat, FleetPlanArguments, RehearsalOptions};
use crate::passes::{RehearsedHost, plan_groups};
use crate::programs::runtime;
use crate::secrets::signing_key;
use crate::terminal::ProgressTerminal;
use crate::words::{answer, plan_text, word};

/// Version of the JSON document.
const PLANS_SCHEMA: &str = "durio-fleet-plan-1";

/// Hosts without a plan, by state and reason.
pub(crate) type Refusals = BTreeMap<(HostState, String), Vec<String>>;

/// What the hosts would do.
struct FleetPlan {
    name: String,
    /// The largest group first.
    groups: Vec<(PlanSummary, Vec<String>)>,
    refusals: Refusals,
}

pub(crate) fn plan(arguments: &FleetPlanArguments) -> Result<FleetExit, CommandError> {
    let text = spec_text(&arguments.spec)?;
    let options = &arguments.rehearsal;
    let hosts = named_hosts(&options.hosts)?;
    let launch = launch_settings(&arguments.spec, &options.hosts, &hosts)?;
    let name = arguments.spec.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let rehearsed = rehearse((name.clone(), text), &launch, options)?;
    let Some((hosts, refusals)) = rehearsed else {
        return Ok(FleetExit::Failed(CommandErrorKind::Interrupted));
    };
    let plans = hosts.into_iter().map(|host| (host.name, host.plan));
    let plan = FleetPlan { name, groups: plan_groups(plans), refusals };
    answer(&match options.format {
        AnswerFormat::Text => plan.text(),
        AnswerFormat::Json => format!("{:#}\n", plan.json()),
    })?;
    Ok(if plan.refusals.is_empty() { FleetExit::Fine } else { FleetExit::Negative })
}

/// Lets all hosts join and plan; `None` if the user stopped it.
pub(crate) fn rehearse(
    spec: (String, String),
    launch: &LaunchSettings,
    options: &RehearsalOptions,
) -> Result<Option<(Vec<RehearsedHost>, Refusals)>, CommandError> {
    let key = signing_key(options.key.as_deref(), launch)?;
    // For the bus and the record of the rehearsal.
    let folder = std::env::temp_dir().join(format!("durio-fleet-{}", random_token()));
    let made = DirBuilder::new().mode(0o700).create(&folder);
    made.map_err(|error| CommandError::io("make", &folder, error))?;
    let rehearsed = rehearse_in(&folder, spec, (launch, &key), options.quiet);
    let _ = std::fs::remove_dir_all(&folder);
    rehearsed
}

fn rehearse_in(
    folder: &Path,
    spec: (String, String),
    (launch, key): (&LaunchSettings, &SigningKey),
    is_quiet: bool,
) -> Result<Option<(Vec<RehearsedHost>, Refusals)>, CommandError> {
    let policy = CampaignPolicy {
        barrier: Barrier::Start,
        lost: LostPolicy::GoOn,
        hosts_min: 1,
        repeats: 1,
        shared: false,
    };
    let names: Vec<String> = launch.hosts.iter().map(|host| host.name.clone()).collect();
    let manifest = manifest(spec, &names, policy.clone(), key);
    let record = CampaignFolder::create(&folder.join("campaign"), manifest)?;
    let pass = Pass {
        folder: &record,
        launch,
        campaign: record.manifest.campaign.clone(),
        hosts: names.clone(),
        policy,
        history: None,
        offset: Nanos::ZERO,
        key,
        is_first: true,
        is_rehearsal: true,
        is_agreed: true,
    };
    let end = runtime()?.block_on(coordinate(pass, &mut ProgressTerminal::new(is_quiet)))?;
    let states = last_states(&record)?;
    let refusals = refusals(&names, &end.rehearsed, &states);
    Ok((!end.is_interrupted).then_some((end.rehearsed, refusals)))
}

fn refusals(names: &[String], hosts: &[RehearsedHost], states: &HostStates) -> Refusals {
    let planned: BTreeSet<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
    let mut refusals = Refusals::new();
    for name in names.iter().filter(|name| !planned.contains(name.as_str())) {
        let (state, reason) = states.get(name).cloned().unwrap_or((HostState::Asked, None));
        let reason = reason.unwrap_or_else(|| "no reason is known".to_owned());
        refusals.entry((state, reason)).or_default().push(name.clone());
    }
    refusals
}

impl FleetPlan {
    fn text(&self) -> String {
        let hosts: usize = self.groups.iter().map(|(_, hosts)| hosts.len()).sum();
        let missing: usize = self.refusals.values().map(Vec::len).sum();
        let all = counted((hosts + missing) as u64, "host");
        let mut text = format!("Plan of {} on {hosts} of {all}; nothing was run\n", self.name);
        for (plan, hosts) in &self.groups {
            text.push_str(&format!("\n{}\n", plan_text(Some(plan), hosts)));
            for write in &plan.writes {
                text.push_str(&format!("  {}\n", write_text(write)));
            }
            if plan.writes.is_empty() {
                text.push_str("  writes nothing\n");
            }
        }
        if missing > 0 {
            text.push_str(&format!("\n{} without a plan\n", counted(missing as u64, "host")));
        }
        for ((state, reason), hosts) in &self.refusals {
            let line = format!("  {}  {}: {reason}", plan_text(None, hosts), word(*state));
            text.push_str(&visible(&line));
            text.push('\n');
        }
        text
    }

    fn json(&self) -> Value {
        let group = |(plan, hosts): &(PlanSummary, Vec<String>)| {
            let writes: Vec<Value> = plan.writes.iter().map(write_json).collect();
            json!({
                "hosts": hosts,
                "plan_digest": plan.plan_digest,
                "steps": plan.steps,
                "writes": writes,
            })
        };
        json!({
            "schema": PLANS_SCHEMA,
            "name": self.name,
            "groups": self.groups.iter().map(group).collect::<Vec<_>>(),
            "without_plan": self.refusals.iter().map(refusal_json).collect::<Vec<_>>(),
        })
    }
}

pub(crate) fn refusal_json(
    ((state, reason), hosts): (&(HostState, String), &Vec<String>),
) -> Value {
    json!({ "hosts": hosts, "state": state, "reason": reason })
}

/// `data: new files of 4 MiB in /srv/x; writes 12 MiB at most`
fn write_text(write: &PlannedWrite) -> String {
    let PlannedWrite { target, place, size, written, .. } = write;
    let place = match place {
        WritePlace::Folder(path) if write.destroys => format!("overwrites {}", path.display()),
        WritePlace::Folder(path) => format!("new files of {size} in {}", path.display()),
        WritePlace::Device { path, serial } => {
            format!("overwrites the device {} with serial {serial}", path.display())
        }
    };
    let written = match written {
        Some(written) => format!("writes {written} at most"),
        None => "its steps end by time, not by the bytes written".to_owned(),
    };
    visible(&format!("{target}: {place}; {written}"))
}

fn write_json(write: &PlannedWrite) -> Value {
    let (path, serial) = match &write.place {
        WritePlace::Folder(path) => (path, None),
        WritePlace::Device { path, serial } => (path, Some(serial)),
    };
    json!({
        "target": write.target,
        "path": path,
        "serial": serial,
        "size_bytes": write.size,
        "written_max_bytes": write.written,
        "destroys": write.destroys,
    })
}

#[cfg(test)]
mod tests {
    use durio_base::Bytes;

    use super::*;

    fn summary(size: u64) -> PlanSummary {
        let write = PlannedWrite {
            target: "data".to_owned(),
            place: WritePlace::Folder("/srv/x".into()),
            size: Bytes::from_mib(size),
            written: (size > 4).then(|| Bytes::from_mib(3 * size)),
            rate: None,
            destroys: false,
        };
        PlanSummary { writes: vec![write], ..PlanSummary::new("p", Vec::new()) }
    }

    fn rehearsed(name: &str, size: u64) -> RehearsedHost {
        RehearsedHost { name: name.to_owned(), plan: summary(size), clock: None }
    }

    #[test]
    fn hosts_with_the_same_plan_are_one_group_and_refusals_are_listed_by_reason() {
        // The same digest does not make two plans one.
        let hosts = [("db1", 8), ("db2", 4), ("db3", 4)];
        let hosts = hosts.map(|(host, size)| rehearsed(host, size));
        let names = ["db1", "db2", "db3", "db4", "db5"].map(str::to_owned);
        let refused = |reason: &str| (HostState::Refused, Some(reason.to_owned()));
        let states: HostStates = [
            ("db2".to_owned(), (HostState::Stopped, None)),
            ("db4".to_owned(), refused("no \u{1b}permit")),
            ("db5".to_owned(), refused("no \u{1b}permit")),
        ]
        .into();
        let refusals = refusals(&names, &hosts, &states);
        let plans = hosts.into_iter().map(|host| (host.name, host.plan));
        let plan = FleetPlan { name: "tiny".to_owned(), groups: plan_groups(plans), refusals };
        let expected = "\
Plan of tiny on 3 of 5 hosts; nothing was run

db2, db3: 0 measured steps
  data: new files of 4 MiB in /srv/x; its steps end by time, not by the bytes written

db1: 0 measured steps
  data: new files of 8 MiB in /srv/x; writes 24 MiB at most

2 hosts without a plan
  db4, db5  refused: no \\u{1b}permit
";
        assert_eq!(plan.text(), expected);
        let json = plan.json();
        assert_eq!(json["groups"][1]["writes"][0]["written_max_bytes"], 25_165_824);
        assert_eq!(json["groups"][0]["writes"][0]["size_bytes"], 4_194_304);
        assert_eq!(json["without_plan"][0]["hosts"], json!(["db4", "db5"]));
        assert_eq!(json["without_plan"][0]["state"], "refused");
    }

    #[test]
    fn a_write_is_told_with_its_place_its_amounts_and_what_it_overwrites() {
        let device = PlannedWrite {
            target: "raw".to_owned(),
            place: WritePlace::Device { path: "/dev/sdx".into(), serial: "S1".to_owned() },
            size: Bytes::from_gib(2),
            written: Some(Bytes::from_gib(3)),
            rate: Some(Bytes::from_mib(5)),
            destroys: true,
        };
        let text = "raw: overwrites the device /dev/sdx with serial S1; writes 3 GiB at most";
        assert_eq!(write_text(&device), text);
        let place = WritePlace::Folder("/srv/x".into());
        let folder = PlannedWrite { place, written: None, ..device.clone() };
        let text = "raw: overwrites /srv/x; its steps end by time, not by the bytes written";
        assert_eq!(write_text(&folder), text);
        let expected = json!({
            "target": "raw",
            "path": "/dev/sdx",
            "serial": "S1",
            "size_bytes": 2_147_483_648_u64,
            "written_max_bytes": 3_221_225_472_u64,
            "destroys": true,
        });
        assert_eq!(write_json(&device), expected);
        assert!(write_json(&folder)["serial"].is_null());
    }

    #[test]
    fn a_host_without_a_word_is_refused_for_no_known_reason() {
        let names = ["a", "b"].map(str::to_owned);
        let found = refusals(&names, &[rehearsed("b", 8)], &HostStates::new());
        let expected = ((HostState::Asked, "no reason is known".to_owned()), vec!["a".to_owned()]);
        assert_eq!(found, Refusals::from([expected]));
    }
}
