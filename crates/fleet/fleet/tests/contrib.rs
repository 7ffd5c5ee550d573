//! The files of contrib/ that start durio-fleet, and the commands of its how-to, checked against what
//! reads them: Kubernetes, Ansible, systemd, and the program itself.

#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use durio_agree::host_file;
use saphyr_parser::{Event, Parser, ScalarStyle, StrInput};
use serde::Deserialize;
use serde_json::{Map, Value};

const PROGRAM: &str = env!("CARGO_BIN_EXE_durio-fleet");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

fn text_of(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// The documents of a YAML file, with plain scalars typed by YAML's core schema.
fn documents(text: &str) -> Vec<Value> {
    let mut parser = Parser::new_from_str(text);
    let mut documents = Vec::new();
    loop {
        match pull(&mut parser) {
            Event::StreamEnd => return documents,
            Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd => {}
            event => documents.push(node(&mut parser, event)),
        }
    }
}

fn pull<'t>(parser: &mut Parser<'t, StrInput<'t>>) -> Event<'t> {
    parser.next().unwrap().unwrap().0
}

fn node<'t>(parser: &mut Parser<'t, StrInput<'t>>, event: Event<'t>) -> Value {
    match event {
        Event::Scalar(text, ScalarStyle::Plain, ..) => plain(&text),
        Event::Scalar(text, ..) => Value::String(text.into_owned()),
        Event::SequenceStart(..) => {
            let mut values = Vec::new();
            loop {
                match pull(parser) {
                    Event::SequenceEnd => return Value::Array(values),
                    event => values.push(node(parser, event)),
                }
            }
        }
        Event::MappingStart(..) => {
            let mut entries = Map::new();
            loop {
                match pull(parser) {
                    Event::MappingEnd => return Value::Object(entries),
                    Event::Scalar(key, ..) => {
                        let event = pull(parser);
                        let value = node(parser, event);
                        let before = entries.insert(key.to_string(), value);
                        assert_eq!(before, None, "{key} is there twice");
                    }
                    other => panic!("expected a key, found {other:?}"),
                }
            }
        }
        other => panic!("expected a value, found {other:?}"),
    }
}

fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" => Value::Null,
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        _ => text.parse::<i64>().map_or_else(|_| Value::String(text.to_owned()), Value::from),
    }
}

/// An excerpt of Kubernetes' OpenAPI: the models that the manifests use, each with all of its fields.
#[derive(Deserialize)]
struct KubernetesSchema {
    /// The model of each kind, by API version and kind.
    kinds: BTreeMap<String, String>,
    models: BTreeMap<String, KubernetesModel>,
}

#[derive(Deserialize)]
struct KubernetesModel {
    /// The types of the fields: `str`, `int`, `bool`, `object` (of any type), `list[T]`,
    /// `dict(str, T)`, or a model.
    fields: BTreeMap<String, String>,
    required: Vec<String>,
}

impl KubernetesSchema {
    fn read() -> Self {
        serde_json::from_str(include_str!("contrib/kubernetes-1.34.json")).unwrap()
    }

    /// The problems of an object of a manifest, a line each.
    fn problems(&self, object: &Value) -> Vec<String> {
        let word = |key: &str| object[key].as_str().unwrap_or_default().to_owned();
        let kind = format!("{} {}", word("apiVersion"), word("kind"));
        let mut problems = Vec::new();
        match self.kinds.get(&kind) {
            Some(model) => self.check(model, object, &word("kind"), &mut problems),
            None => problems.push(format!("'{kind}' is not among the kinds")),
        }
        problems
    }

    fn check(&self, expected: &str, value: &Value, place: &str, problems: &mut Vec<String>) {
        let inner = |prefix: &str| expected.strip_prefix(prefix)?.strip_suffix([']', ')']);
        let is_fine = match (expected, value) {
            ("object", _)
            | ("str" | "datetime", Value::String(_))
            | ("bool", Value::Bool(_))
            | ("int", Value::Number(_)) => true,
            (_, Value::Array(values)) => match inner("list[") {
                Some(item) => {
                    for (at, value) in values.iter().enumerate() {
                        self.check(item, value, &format!("{place}[{at}]"), problems);
                    }
                    true
                }
                None => false,
            },
            (_, Value::Object(entries)) => match (inner("dict(str, "), self.models.get(expected)) {
                (Some(item), _) => {
                    for (key, value) in entries {
                        self.check(item, value, &format!("{place}.{key}"), problems);
                    }
                    true
                }
                (None, Some(model)) => {
                    self.check_fields(model, entries, place, problems);
                    true
                }
                (None, None) => false,
            },
            _ => false,
        };
        if !is_fine {
            problems.push(format!("{place}: expected {expected}, found {value}"));
        }
    }

    fn check_fields(
        &self,
        model: &KubernetesModel,
        entries: &Map<String, Value>,
        place: &str,
        problems: &mut Vec<String>,
    ) {
        for (key, value) in entries {
            match model.fields.get(key) {
                Some(expected) => self.check(expected, value, &format!("{place}.{key}"), problems),
                None => problems.push(format!("{place}: unknown field '{key}'")),
            }
        }
        let missing = model.required.iter().filter(|key| !entries.contains_key(*key));
        problems.extend(missing.map(|key| format!("{place}: no '{key}'")));
    }
}

fn manifests() -> Vec<(String, Value)> {
    let folder = root().join("contrib/kubernetes");
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).unwrap();
        found.extend(documents(&text).into_iter().map(|object| (name.clone(), object)));
    }
    found
}

#[test]
fn every_manifest_has_the_fields_and_types_of_kubernetes() {
    let schema = KubernetesSchema::read();
    let objects = manifests();
    assert!(objects.len() >= 9, "{}", objects.len());
    for (file, object) in &objects {
        assert_eq!(schema.problems(object), Vec::<String>::new(), "{file}");
    }
}

#[test]
fn a_manifest_with_a_mistake_is_found_out() {
    let schema = KubernetesSchema::read();
    let text = text_of("contrib/kubernetes/daemonset.yml");
    let found = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        let objects = documents(&text.replacen(from, to, 1));
        objects.iter().flat_map(|object| schema.problems(object)).collect::<Vec<_>>()
    };
    assert_eq!(
        found("apps/v1", "apps/v1beta1"),
        ["'apps/v1beta1 DaemonSet' is not among the kinds"]
    );
    assert_eq!(
        found("containerPort: 9119", "containerPort: \"9119\""),
        ["DaemonSet.spec.template.spec.containers[0].ports[0].containerPort: expected int, found \
          \"9119\""]
    );
    assert_eq!(
        found("mountPath: /watched", "mountpath: /watched"),
        [
            "DaemonSet.spec.template.spec.containers[0].volumeMounts[0]: unknown field 'mountpath'",
            "DaemonSet.spec.template.spec.containers[0].volumeMounts[0]: no 'mountPath'",
        ]
    );
    assert_eq!(
        found("args: [\"watch\",", "args: [7,"),
        ["DaemonSet.spec.template.spec.containers[0].args[0]: expected str, found 7"]
    );
}

/// Whether the program knows these options.
#[track_caller]
fn assert_understood(what: &str, arguments: &[String]) {
    let output = Command::new(PROGRAM).args(arguments).arg("--help").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}: {arguments:?}: {said}");
}

#[test]
fn pods_have_the_files_that_durio_fleet_reads_and_options_that_it_knows() {
    let objects = documents(&text_of("contrib/kubernetes/fleet.yml"));
    let named = |kind: &str, name: &str| {
        let is_meant =
            |object: &&Value| object["kind"] == kind && object["metadata"]["name"] == name;
        objects.iter().find(is_meant).unwrap()
    };
    let text = named("ConfigMap", "durio-fleet-host-file")["data"]["fleet.toml"].as_str().unwrap();
    let file = host_file::parse(text, "fleet.yml").unwrap();
    let targets: Vec<&str> = file.permits.iter().map(|permit| permit.target.as_str()).collect();
    assert_eq!(targets, ["data", "log", "segment"]);
    // Its Service has the name that hosts dial.
    let bus = named("Service", "durio-fleet-bus");
    assert_eq!(file.bus.as_deref(), Some("tls://durio-fleet-bus:4222"));
    assert_eq!(bus["spec"]["ports"][0]["port"], 4222);

    let pod = |object: &Value| object["spec"]["template"]["spec"].clone();
    let agent = pod(named("DaemonSet", "durio-fleet"));
    let mounts = agent["containers"][0]["volumeMounts"].as_array().unwrap();
    let paths: Vec<&str> =
        mounts.iter().map(|mount| mount["mountPath"].as_str().unwrap()).collect();
    for path in ["/etc/durio/fleet.toml", "/etc/durio/bus.creds", "/etc/durio/bus-ca.pem"] {
        assert!(paths.contains(&path), "{paths:?}");
    }
    // Credentials that others may read are refused.
    let secrets = agent["volumes"].as_array().unwrap().iter();
    let modes: Vec<i64> =
        secrets.filter_map(|volume| volume["secret"]["defaultMode"].as_i64()).collect();
    assert_eq!(modes, [0o400]);
    let coordinator = pod(named("Job", "durio-fleet-check"));
    assert_eq!(coordinator["volumes"][0]["secret"]["defaultMode"], 0o400);
    for pod in [agent, coordinator] {
        let arguments = pod["containers"][0]["args"].as_array().unwrap();
        let arguments = arguments.iter().map(|word| word.as_str().unwrap().to_owned());
        assert_understood("fleet.yml", &arguments.collect::<Vec<_>>());
    }
}

#[test]
fn the_service_starts_a_host_that_stays() {
    let unit = text_of("contrib/systemd/durio-fleet.service");
    let value = |key: &str| {
        let mut lines = unit.lines().filter_map(|line| line.strip_prefix(&format!("{key}=")));
        let value = lines.next().unwrap_or_else(|| panic!("no {key}"));
        assert_eq!(lines.next(), None, "{key} is there twice");
        value
    };
    let (program, arguments) = value("ExecStart").split_once(' ').unwrap();
    assert_eq!(program, "/usr/bin/durio-fleet");
    assert_understood("durio-fleet.service", &words(arguments));
    // Otherwise it would wait for an invitation.
    assert_eq!(value("StandardInput"), "null");
    let state = format!("XDG_STATE_HOME=/var/lib/{}", value("StateDirectory"));
    assert_eq!(value("Environment"), state);
    for (key, expected) in
        [("NoNewPrivileges", "yes"), ("ProtectSystem", "strict"), ("User", "durio-fleet")]
    {
        assert_eq!(value(key), expected, "{key}");
    }
    // The role starts the same service, of the user that it makes.
    let tasks = text_of(&format!("{ROLE}/tasks/main.yml"));
    let defaults = documents(&text_of(&format!("{ROLE}/defaults/main.yml")));
    let unit = defaults[0]["durio_fleet_unit"].as_str().unwrap();
    let path = unit.replace("{{ role_path }}", &root().join(ROLE).display().to_string());
    assert!(Path::new(&path).is_file(), "{path}");
    assert!(tasks.contains("name: durio-fleet\n    system: true\n"), "{tasks}");
    let (_, start) = tasks.split_once("/durio-fleet join ").unwrap();
    let start = format!(
        "join {}",
        start.lines().next().unwrap().replace("{{ inventory_hostname }}", "db1")
    );
    assert_understood("the role", &words(&start));
}

const ROLE: &str = "contrib/ansible/roles/durio_fleet";

#[test]
fn each_task_of_the_role_has_a_name_and_one_module_with_its_full_name() {
    let documents = documents(&text_of(&format!("{ROLE}/tasks/main.yml")));
    let [Value::Array(tasks)] = &documents[..] else { panic!("not one list of tasks") };
    assert!(tasks.len() >= 3, "{}", tasks.len());
    for task in tasks {
        assert!(task["name"].is_string(), "{task}");
        let keys = task.as_object().unwrap().keys();
        let modules =
            keys.filter(|key| !["name", "loop", "when", "notify"].contains(&key.as_str()));
        let modules: Vec<&String> = modules.collect();
        let [module] = modules[..] else { panic!("{modules:?}") };
        assert!(module.starts_with("ansible.builtin."), "{module}");
    }
}

#[test]
fn each_variable_of_the_role_has_a_default_and_is_used() {
    let defaults = documents(&text_of(&format!("{ROLE}/defaults/main.yml")));
    let defaults = defaults[0].as_object().unwrap();
    let tasks = text_of(&format!("{ROLE}/tasks/main.yml"));
    let playbook = documents(&text_of("contrib/ansible/durio-fleet.yml"));
    let [Value::Array(plays)] = &playbook[..] else { panic!("not one list of plays") };
    let given = plays[0]["roles"][0]["vars"].as_object().unwrap();
    let words = tasks.split(|c: char| !c.is_ascii_lowercase() && c != '_');
    let used: BTreeSet<&str> = words.filter(|word| word.starts_with("durio_fleet_")).collect();
    let known: BTreeSet<&str> = defaults.keys().map(String::as_str).collect();
    assert_eq!(used, known);
    assert!(given.keys().all(|name| known.contains(name.as_str())), "{given:?}");
}

#[test]
fn the_host_files_of_examples_and_of_the_reference_are_accepted() {
    let example = text_of("contrib/ansible/fleet.toml.example");
    let file = host_file::parse(&example, "fleet.toml.example").unwrap();
    assert_eq!((file.coordinators.len(), file.permits.len()), (1, 1));
    let page = text_of("docs/formats/host-file.md");
    let (_, rest) = page.split_once("```toml\n").unwrap();
    let (reference, _) = rest.split_once("```").unwrap();
    let file = host_file::parse(reference, "host-file.md").unwrap();
    assert_eq!((file.coordinators.len(), file.permits.len()), (1, 2));
    assert_eq!(file.limits.hours.unwrap().to_string(), "20:00-06:00");
}

/// The words of a line of sh without expansions.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    for character in line.chars() {
        match (character, quote) {
            ('\'' | '"', None) => quote = Some(character),
            (end, Some(begin)) if end == begin => quote = None,
            (' ', None) => words.push(std::mem::take(&mut word)),
            _ => word.push(character),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

/// The arguments of each `durio fleet` on a line by itself, behind salloc, or behind exec.
fn fleet_commands(text: &str) -> Vec<Vec<String>> {
    let text = text.replace("\\\n", "");
    let commands = text.lines().filter_map(|line| {
        let (before, arguments) = line.split_once("durio fleet ")?;
        let before = before.trim_start_matches(['#', ' ']);
        let starts = before.is_empty() || before == "exec " || before.starts_with("salloc ");
        let words = starts.then(|| words(arguments))?;
        // durio makes the report.
        (words.first()? != "report").then_some(words)
    });
    commands.collect()
}

#[test]
fn durio_fleet_understands_each_command_of_the_examples_and_of_the_how_to() {
    for (file, count) in [
        ("contrib/slurm/durio-fleet.sbatch", 2),
        ("docs/how-to/many-hosts.md", 11),
        ("README.md", 1),
    ] {
        let commands = fleet_commands(&text_of(file));
        assert_eq!(commands.len(), count, "{file}: {commands:?}");
        for command in commands {
            assert_understood(file, &command);
        }
    }
}
