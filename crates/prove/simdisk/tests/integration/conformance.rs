//! The engine over a disk through the suite of all engines.

use std::cell::RefCell;
use std::collections::BTreeMap;

use durio_base::Nanos;
use durio_block::testkit::note_skip;
use durio_block::{Ticks, VirtualClock};
use durio_simdisk::{Disk, DiskRequest, Leg, Profile, SharedDisk, SimEngine};
use testkit::conformance::{EngineBody, Setup, Store, Suite, Target};

/// Contents by name, each on a disk of its own for as long as an engine is over it.
#[derive(Default)]
struct Objects(RefCell<BTreeMap<String, Vec<u8>>>);

impl Store for Objects {
    fn create(&self, name: &str, contents: &[u8]) {
        self.0.borrow_mut().insert(name.to_owned(), contents.to_owned());
    }

    fn contents(&self, name: &str) -> Vec<u8> {
        self.0.borrow()[name].clone()
    }

    fn takes_any_size(&self) -> bool {
        false
    }
}

#[test]
fn the_engine_conforms() {
    let objects = Objects::default();
    let lend = |setup: Setup, body: &mut EngineBody<'_, VirtualClock>| {
        let Target::Object { name, write } = &setup.target else { panic!("no object") };
        let mut contents = objects.contents(name);
        let mut disk = Disk::new(Profile::honest(contents.len() as u64), 1);
        let all = DiskRequest::Write { sector: 0, data: &contents, fua: true };
        disk.carry_out(0, Nanos::ZERO, all, &mut []).unwrap();
        let disk = SharedDisk::new(disk);
        let mut engine = SimEngine::new(disk.clone(), 2, Ticks(0), 1, setup.buffers);
        if !write {
            engine = engine.read_only();
        }
        body(&mut engine);
        disk.lock().read(0, &mut contents, Leg::Any).unwrap();
        objects.create(name, &contents);
    };
    let mut suite = Suite::new(&lend, &objects);
    suite.read_only_errno = libc::EPERM;
    let report = suite.run();
    report.assert_passed();
    for skipped in report.skipped {
        note_skip(&format!("the_engine_conforms: {}", skipped.body), &skipped.reason);
    }
}
