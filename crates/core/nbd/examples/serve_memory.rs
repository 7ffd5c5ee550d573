//! Serves memory: `serve_memory ADDRESS SIZE [OPTION…]`, until its standard input ends.
//!
//! An address is a path, or HOST:PORT with the host as a number. Options: `no-flush`, `no-fua`,
//! `no-trim`, `no-zeroes`, `read-only`, and `min=BYTES` for the minimum block size.

use std::error::Error;
use std::io::{self, Read};
use std::thread;

use durio_nbd::{Address, Export, MemoryStorage, Server};

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let address = words.next().ok_or("an address is missing")?;
    let size = words.next().ok_or("a size in bytes is missing")?.parse()?;
    let mut export = Export::new("memory", size);
    for word in words {
        set(&mut export, &word)?;
    }
    let address = match address.parse() {
        Ok(address) => Address::Tcp(address),
        Err(_) => Address::Unix(address.into()),
    };
    let server = Server::bind(&address)?;
    let stop = server.stop_handle();
    thread::spawn(move || {
        // The parent process keeps the other end; end when it is gone.
        let _ = io::stdin().read_to_end(&mut Vec::new());
        stop.stop();
    });
    Ok(server.serve(&MemoryStorage::new(export))?)
}

fn set(export: &mut Export, word: &str) -> Result<(), Box<dyn Error>> {
    match (word, word.strip_prefix("min=")) {
        ("no-flush", _) => export.flush = false,
        ("no-fua", _) => export.fua = false,
        ("no-trim", _) => export.trim = false,
        ("no-zeroes", _) => export.write_zeroes = false,
        ("read-only", _) => export.read_only = true,
        (_, Some(bytes)) => export.block_size_min = bytes.parse()?,
        _ => return Err(format!("unknown option '{word}'").into()),
    }
    Ok(())
}
