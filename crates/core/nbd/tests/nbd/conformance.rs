//! The client through the suite of all engines, over this server and over another.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use durio_block::testkit::note_skip;
use durio_block::{Clock, MonotonicClock};
use durio_nbd::{Address, Endpoint, Export, MemoryStorage, NbdEngine, Uri};
use testkit::conformance::{EngineBody, Lend, Setup, Store, Suite, Target};

use crate::serving::{folder, is_missing, served, served_at};

/// Contents by name, each served for as long as an engine is over it.
#[derive(Default)]
struct Objects(RefCell<BTreeMap<String, Vec<u8>>>);

impl Store for Objects {
    fn create(&self, name: &str, contents: &[u8]) {
        self.0.borrow_mut().insert(name.to_owned(), contents.to_owned());
    }

    fn contents(&self, name: &str) -> Vec<u8> {
        self.0.borrow()[name].clone()
    }
}

fn run<C: Clock>(test: &str, store: &dyn Store, lend: &Lend<'_, C>) {
    let mut suite = Suite::new(lend, store);
    suite.read_only_errno = 1;
    let report = suite.run();
    report.assert_passed();
    for skipped in report.skipped {
        note_skip(&format!("{test}: {}", skipped.body), &skipped.reason);
    }
}

/// The export of an object, and its contents.
fn storage_of(objects: &Objects, target: &Target) -> (String, MemoryStorage) {
    let Target::Object { name, write } = target else { panic!("no object") };
    let export = Export { read_only: !write, ..Export::new(name.clone(), 0) };
    (name.clone(), MemoryStorage::new(export).with_contents(objects.contents(name)))
}

#[test]
fn the_client_conforms_over_a_unix_socket() {
    let objects = Objects::default();
    let lend = |setup: Setup, body: &mut EngineBody<'_, MonotonicClock>| {
        let (name, storage) = storage_of(&objects, &setup.target);
        served(&storage, |uri| {
            body(&mut NbdEngine::connect(uri, MonotonicClock, setup.buffers).unwrap());
        });
        objects.create(&name, &storage.contents());
    };
    run("the_client_conforms_over_a_unix_socket", &objects, &lend);
}

#[test]
fn the_client_conforms_over_tcp() {
    let objects = Objects::default();
    let lend = |setup: Setup, body: &mut EngineBody<'_, MonotonicClock>| {
        let (name, storage) = storage_of(&objects, &setup.target);
        let any = Address::Tcp("127.0.0.1:0".parse().unwrap());
        served_at(&any, &storage, |uri| {
            body(&mut NbdEngine::connect(uri, MonotonicClock, setup.buffers).unwrap());
        });
        objects.create(&name, &storage.contents());
    };
    run("the_client_conforms_over_tcp", &objects, &lend);
}

/// nbdkit over a file, until it is dropped.
struct Nbdkit(Child);

impl Drop for Nbdkit {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn conforms_over_nbdkit(test: &str, options: &[&str]) {
    if is_missing("nbdkit") {
        return note_skip(test, &"nbdkit is not there");
    }
    let objects = Objects::default();
    let lend = |setup: Setup, body: &mut EngineBody<'_, MonotonicClock>| {
        let Target::Object { name, write } = &setup.target else { panic!("no object") };
        let folder = folder();
        let [file, socket, pid] = ["file", "socket", "pid"].map(|name| folder.path().join(name));
        std::fs::write(&file, objects.contents(name)).unwrap();
        let mut command = Command::new("nbdkit");
        command.args(options).args(if *write { &[][..] } else { &["-r"] });
        command.args(["-f", "-U"]).arg(&socket).arg("-P").arg(&pid).arg("file").arg(&file);
        let nbdkit = Nbdkit(command.stdin(Stdio::null()).spawn().unwrap());
        let begin = Instant::now();
        // It writes this file when it answers.
        while !pid.exists() {
            assert!(begin.elapsed() < Duration::from_secs(20), "nbdkit does not begin");
            std::thread::sleep(Duration::from_millis(2));
        }
        let uri = Uri { endpoint: Endpoint::Unix(socket), export: String::new() };
        body(&mut NbdEngine::connect(&uri, MonotonicClock, setup.buffers).unwrap());
        drop(nbdkit);
        objects.create(name, &std::fs::read(&file).unwrap());
    };
    run(test, &objects, &lend);
}

#[test]
fn the_client_conforms_over_nbdkit() {
    conforms_over_nbdkit("the_client_conforms_over_nbdkit", &[]);
}

#[test]
fn the_client_conforms_over_nbdkit_without_structured_replies() {
    let test = "the_client_conforms_over_nbdkit_without_structured_replies";
    conforms_over_nbdkit(test, &["--no-sr"]);
}
