//! The cost of a write in the engine: COUNT 4 KiB writes to level 10 of four members that complete
//! at once. Run it under callgrind with two counts; the difference is the cost of the writes
//! between.

#![expect(clippy::print_stdout, reason = "what it did is its output")]

use durio_base::RaidLevel;
use durio_raid::{
    ArrayRequest, AssembleOptions, Config, Engine, EngineOutput, Geometry, Id, Member, OpOutcome,
    RequestKind, assemble, create, layout,
};

const MEMBER_BYTES: u64 = 1 << 30;
const WRITE_BYTES: u32 = 4096;

/// An engine on newly created members.
fn start(out: &mut EngineOutput) -> Result<Engine, Box<dyn std::error::Error>> {
    let geometry = Geometry {
        level: RaidLevel::Raid10,
        members: 4,
        chunk: 16 << 10,
        region: 64 << 20,
        member_bytes: MEMBER_BYTES,
    };
    let data_at = layout::data_at(&geometry, layout::DATA_ALIGNMENT);
    let device_bytes = layout::device_bytes(&geometry, data_at);
    let members: Vec<Member> =
        (0..4).map(|number| Member { id: Id([number; 16]), device_bytes }).collect();
    let written = create(Id([9; 16]), "null", geometry, layout::DATA_ALIGNMENT, &members)?;
    let mut found = Vec::new();
    for (device, blocks) in (0..).zip(&written) {
        let read = |place: Option<u64>| {
            blocks.iter().find(|(at, _)| Some(*at) == place).map_or(&[][..], |(_, block)| block)
        };
        let slot = |slot| read(layout::superblock_slot(device_bytes, slot));
        let (superblock, slot) = durio_raid::newest([slot(0), slot(1), slot(2), slot(3)])?;
        let pages = 0..layout::map_pages(&geometry);
        let map =
            pages.flat_map(|page| [0, 1].map(|slot| read(Some(layout::map_slot(page, slot)))));
        let map = map.flatten().copied().collect();
        found.push(durio_raid::FoundDevice::without_log(device, superblock, slot, map));
    }
    let plan = assemble(&found, AssembleOptions::default())?;
    Ok(Engine::start(plan, &Config::default(), out))
}

/// Completes the requested operations and their successors; returns how many there were.
fn complete(engine: &mut Engine, out: &mut EngineOutput, tags: &mut Vec<durio_raid::OpTag>) -> u64 {
    let mut count = 0;
    while !out.ops.is_empty() {
        tags.extend(out.ops.drain(..).map(|op| op.tag));
        for tag in tags.drain(..) {
            count += 1;
            engine.completed(tag, OpOutcome::Done, out);
        }
    }
    count
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let count: u64 = std::env::args().nth(1).ok_or("how many writes?")?.parse()?;
    let (mut out, mut tags) = (EngineOutput::default(), Vec::new());
    let mut engine = start(&mut out)?;
    complete(&mut engine, &mut out, &mut tags);
    let blocks = engine.size() / u64::from(WRITE_BYTES);
    let (mut answers, mut operations) = (0, 0);
    for number in 0..count {
        // Every region is dirty after the first few; the step is prime to the number of blocks.
        let offset = number.wrapping_mul(7_368_787) % blocks * u64::from(WRITE_BYTES);
        let kind = RequestKind::Write;
        let request = ArrayRequest { tag: number, kind, offset, length: WRITE_BYTES, buffer: 0 };
        engine.submit(request, &mut out)?;
        operations += complete(&mut engine, &mut out, &mut tags);
        answers += out.answers.drain(..).len() as u64;
    }
    if answers != count {
        return Err(format!("{answers} of {count} writes were answered").into());
    }
    println!("{operations} operations on members for {count} writes");
    Ok(())
}
