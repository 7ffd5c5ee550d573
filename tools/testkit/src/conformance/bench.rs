//! What the bodies stand on: objects with a known pattern, operations, an engine, and the collector
//! of completions, which checks every exchange.

use std::cell::Cell;
use std::path::PathBuf;

use durio_block::{
    Buffers, Clock, Completion, Engine, Operation, OperationKind, Ticks, WriteFlags,
};

use super::{EngineBody, Setup, Suite, Target};

/// Bytes of a block: satisfies the direct-I/O alignment of all devices known.
pub(super) const BLOCK: usize = 4096;

/// Blocks of a slot: more than one, so that lengths tell slots apart.
pub(super) const SLOT_BLOCKS: usize = 4;

/// Operations in flight where a body does not ask for another number.
pub(super) const DEPTH: u32 = 8;

/// One body's view of the suite.
pub(super) struct Bench<'a, C> {
    pub(super) suite: &'a Suite<'a, C>,
    objects: Cell<u32>,
}

impl<'a, C: Clock> Bench<'a, C> {
    pub(super) fn new(suite: &'a Suite<'a, C>) -> Self {
        Self { suite, objects: Cell::new(0) }
    }

    /// An object that holds the pattern of blocks 0 to `blocks`, and `extra` bytes of the next.
    pub(super) fn object(&self, blocks: u64, extra: usize) -> String {
        let number = self.objects.replace(self.objects.get() + 1);
        let name = format!("conformance-{number}");
        let mut contents: Vec<u8> = (0..blocks).flat_map(pattern).collect();
        contents.extend(&pattern(blocks)[..extra]);
        self.suite.store.create(&name, &contents);
        name
    }

    pub(super) fn open(&self, name: &str) -> Target {
        self.open_as(name, true)
    }

    pub(super) fn open_as(&self, name: &str, write: bool) -> Target {
        self.suite.store.open(name, write)
    }

    /// The path of an object, for bodies that need files.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.suite.store.files().expect("a body that needs files").path(name)
    }

    /// Asserts, past the engine, that each block of an object holds the pattern of the block that
    /// `expected` names.
    pub(super) fn assert_holds(&self, name: &str, expected: &[u64]) {
        let contents = self.suite.store.contents(name);
        assert_eq!(contents.len(), expected.len() * BLOCK, "size of the object");
        for (place, (data, &block)) in contents.chunks_exact(BLOCK).zip(expected).enumerate() {
            assert!(data == pattern(block), "block {place} does not hold the pattern of {block}");
        }
    }

    /// Builds an engine of depth [`DEPTH`] over `target` for `body`.
    pub(super) fn engine(&self, target: Target, body: &mut EngineBody<'_, C>) {
        self.engine_with(Buffers::new(DEPTH as usize, SLOT_BLOCKS * BLOCK), target, body);
    }

    /// As `engine`, with these buffers.
    pub(super) fn engine_with(
        &self,
        buffers: Buffers,
        target: Target,
        body: &mut EngineBody<'_, C>,
    ) {
        let called = Cell::new(0);
        (self.suite.lend)(Setup { target, buffers, depth: DEPTH }, &mut |engine| {
            called.set(called.get() + 1);
            body(engine);
        });
        assert_eq!(called.get(), 1, "the body must be called once");
    }
}

/// The contents of a block: each 8 bytes name their block and place.
pub(super) fn pattern(block: u64) -> [u8; BLOCK] {
    /// Keeps the first words from being zero.
    const SALT: u64 = 0xa5c3_96e1_5a3c_691e;
    let mut data = [0; BLOCK];
    for (index, word) in (0_u64..).zip(data.chunks_exact_mut(8)) {
        word.copy_from_slice(&((block << 32 | index) ^ SALT).to_le_bytes());
    }
    data
}

fn transfer(kind: OperationKind, slot: u32, block: u64) -> Operation {
    Operation {
        kind,
        flags: WriteFlags::None,
        link: false,
        file: 0,
        slot,
        length: BLOCK as u64,
        offset: block * BLOCK as u64,
        intended_start: Ticks::default(),
    }
}

/// A read of one block.
pub(super) fn read(slot: u32, block: u64) -> Operation {
    transfer(OperationKind::Read, slot, block)
}

/// A write of one block.
pub(super) fn write(slot: u32, block: u64) -> Operation {
    transfer(OperationKind::Write, slot, block)
}

pub(super) fn sync(kind: OperationKind, slot: u32) -> Operation {
    Operation { length: 0, ..transfer(kind, slot, 0) }
}

/// The operation, linked to the next.
pub(super) fn linked(operation: Operation) -> Operation {
    Operation { link: true, ..operation }
}

/// Puts a block's pattern into a slot.
pub(super) fn fill<C: Clock>(engine: &mut dyn Engine<Clock = C>, slot: u32, block: u64) {
    engine.slot_mut(slot)[..BLOCK].copy_from_slice(&pattern(block));
}

/// Submits `operations` in one call and collects as many completions, `room` at a time.
///
/// Checks that each exchange gives something while something is in flight, that every operation
/// completes once with its own slot, and that nothing is left.
pub(super) fn exchange_all<C: Clock>(
    engine: &mut dyn Engine<Clock = C>,
    operations: &[Operation],
    room: usize,
) -> Vec<Completion> {
    let mut completions = Vec::new();
    let mut outstanding: Vec<u32> = operations.iter().map(|operation| operation.slot).collect();
    let mut to_submit = operations;
    while !outstanding.is_empty() {
        let given = exchange(engine, std::mem::take(&mut to_submit), room);
        assert!(!given.is_empty(), "no completion, though slots {outstanding:?} are in flight");
        for completion in given {
            let place = outstanding.iter().position(|&slot| slot == completion.slot);
            let place = place.unwrap_or_else(|| {
                panic!("slot {} completed, in flight are {outstanding:?}", completion.slot)
            });
            outstanding.swap_remove(place);
            completions.push(completion);
        }
    }
    assert_eq!(exchange(engine, &[], room), [], "a completion without an operation");
    completions
}

/// One exchange with room for `room` completions.
pub(super) fn exchange<C: Clock>(
    engine: &mut dyn Engine<Clock = C>,
    operations: &[Operation],
    room: usize,
) -> Vec<Completion> {
    let mut completions = vec![Completion::default(); room];
    let count = engine.exchange(operations, &mut completions).expect("the exchange");
    assert!(count <= room, "{count} completions in a slice of {room}");
    completions.truncate(count);
    completions
}

/// Submits one operation, waits for it and gives its result.
pub(super) fn result<C: Clock>(engine: &mut dyn Engine<Clock = C>, operation: Operation) -> i32 {
    exchange_all(engine, &[operation], 1)[0].result
}

/// The results of `operations`, in their order.
pub(super) fn results<C: Clock>(
    engine: &mut dyn Engine<Clock = C>,
    operations: &[Operation],
) -> Vec<i32> {
    let completions = exchange_all(engine, operations, operations.len());
    let of = |slot| completions.iter().find(|completion| completion.slot == slot);
    operations.iter().filter_map(|operation| of(operation.slot)).map(|c| c.result).collect()
}

/// A transfer of one block in full.
pub(super) const WHOLE: i32 = 4096;
