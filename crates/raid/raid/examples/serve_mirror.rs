//! Serves a new mirror of two files over NBD, until stdin ends: `serve_mirror FOLDER SOCKET BYTES`.

use std::error::Error;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use durio_base::RaidLevel;
use durio_nbd::{Address, Server};
use durio_raid::server::{ArrayServer, MemberFile, find_member, write_metadata};
use durio_raid::{AssembleOptions, Config, Geometry, Id, Member, assemble, create, layout};

const CHUNK: u32 = 16 << 10;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, socket, bytes] = arguments.as_slice() else {
        return Err("usage: serve_mirror FOLDER SOCKET BYTES".into());
    };
    let array = serve(Path::new(folder), bytes.parse()?)?;
    let server = Server::bind(&Address::Unix(PathBuf::from(socket)))?;
    let (stop, storage) = (server.stop_handle(), array.handle());
    let serving = std::thread::spawn(move || server.serve(&storage));
    std::io::stdin().read_to_end(&mut Vec::new())?;
    stop.stop();
    serving.join().map_err(|_| "the server has panicked")??;
    Ok(array.stop()?)
}

fn serve(folder: &Path, member_bytes: u64) -> Result<ArrayServer, Box<dyn Error>> {
    let (level, members) = (RaidLevel::Raid1, 2);
    let geometry = Geometry { level, members, chunk: CHUNK, region: 1 << 20, member_bytes };
    let data_at = layout::data_at(&geometry, layout::DATA_ALIGNMENT);
    let device_bytes = layout::device_bytes(&geometry, data_at);
    let members = [1, 2].map(|number| Member { id: Id([number; 16]), device_bytes });
    let blocks = create(Id([9; 16]), "bench", geometry, layout::DATA_ALIGNMENT, &members)?;
    let (mut found, mut files) = (Vec::new(), Vec::new());
    for (device, blocks) in (0..).zip(&blocks) {
        let path = folder.join(device.to_string());
        let file = File::options().read(true).write(true).create_new(true).open(path)?;
        file.set_len(device_bytes)?;
        write_metadata(&file, blocks)?;
        found.push(find_member(&file, device, device_bytes)??);
        files.push(MemberFile { device, file: file.into(), claim: None });
    }
    let plan = assemble(&found, AssembleOptions::default())?;
    Ok(ArrayServer::start(plan, Config::default(), 512, &files, 1)?)
}
