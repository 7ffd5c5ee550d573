//! A server from its address to its end: sockets, clients that are silent, many clients.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use std::{fs, thread};

use durio_block::{Buffers, Clock, Completion, Engine, MonotonicClock};
use durio_nbd::{
    Address, Export, MemoryStorage, NbdEngine, NbdErrorKind, Server, Socket, serve_stream,
};

use crate::engine::read;
use crate::serving::{engine, folder, served, socket_of};
use crate::storages::Watched;
use crate::wire::{CLIENT_FLAGS, DISCONNECT, READ, Script, WRITE, go, request, structured};

fn unix(path: &Path) -> Address {
    Address::Unix(path.to_owned())
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(20), "{what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// A client of the default export, past the handshake.
fn client(socket: &Path) -> UnixStream {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(&[&CLIENT_FLAGS[..], &go("")].concat()).unwrap();
    // Greeting, two pieces of information, and the acknowledgement.
    stream.read_exact(&mut [0; 18 + 32 + 34 + 20]).unwrap();
    stream
}

/// One that has asked for something.
fn at_work(socket: &Path) -> UnixStream {
    let mut stream = client(socket);
    read_16(&mut stream);
    stream
}

fn read_16(stream: &mut UnixStream) {
    stream.write_all(&request(0, READ, 1, 0, 16)).unwrap();
    stream.read_exact(&mut [0; 32]).unwrap();
}

/// True if the server has closed it.
fn is_closed(stream: &mut UnixStream) -> bool {
    matches!(stream.read(&mut [0; 1]), Ok(0))
}

#[test]
fn clients_that_say_nothing_take_no_place_of_others() {
    let storage = Watched::new(Export::new("", 1 << 20));
    served(&storage, |uri| {
        let mut working: Vec<_> = (0..3).map(|_| at_work(&socket_of(uri))).collect();
        let silent: Vec<_> =
            (0..200).map(|_| UnixStream::connect(socket_of(uri)).unwrap()).collect();
        working.push(at_work(&socket_of(uri)));
        // These have chosen an export, and ask for nothing.
        let mut idle: Vec<_> = (4..64).map(|_| client(&socket_of(uri))).collect();
        working.push(at_work(&socket_of(uri)));
        assert!(is_closed(&mut idle[0]), "the first makes room");
        read_16(&mut idle[1]);
        working.iter_mut().for_each(read_16);
        drop(silent);
    });
}

#[test]
fn large_requests_that_do_not_arrive_hold_up_no_small_ones_and_a_bounded_memory() {
    let storage = Watched::new(Export::new("", 64 << 20));
    served(&storage, |uri| {
        let begun = |_| {
            let mut stream = client(&socket_of(uri));
            stream.write_all(&request(0, WRITE, 1, 0, 32 << 20)).unwrap();
            stream
        };
        // More than there is memory for.
        let mut halves: Vec<_> = (0..12).map(begun).collect();
        until("all are there", || storage.connections.load(Ordering::SeqCst) == 12);
        at_work(&socket_of(uri));
        let whole = |stream: &mut UnixStream, length: u32| {
            let data = vec![5; length as usize];
            stream.write_all(&[&request(0, WRITE, 1, 0, length)[..], &data].concat()).unwrap();
            stream.read_exact(&mut [0; 16]).unwrap();
        };
        whole(&mut client(&socket_of(uri)), 1 << 20);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| whole(&mut client(&socket_of(uri)), 8 << 20));
            thread::sleep(Duration::from_millis(100));
            assert!(!waiting.is_finished(), "there is memory for all of them");
            halves.clear();
            waiting.join().unwrap();
        });
    });
}

#[test]
fn a_server_has_30_seconds_for_each_word_of_the_handshake_and_any_time_after_it() {
    let storage = Watched::new(Export::new("", 1 << 20));
    let timeouts =
        |stream: &UnixStream| (stream.read_timeout().unwrap(), stream.write_timeout().unwrap());
    for answers in [false, true] {
        let (mine, server) = UnixStream::pair().unwrap();
        let seen = mine.try_clone().unwrap();
        thread::scope(|scope| {
            let engine = scope.spawn(|| {
                let buffers = Buffers::new(1, 4096);
                NbdEngine::over(Socket::from(mine), "", MonotonicClock, buffers).map(|engine| {
                    assert_eq!(timeouts(&seen), (None, None));
                    drop(engine);
                })
            });
            let time = Some(Duration::from_secs(30));
            until("no timeout is set", || timeouts(&seen) == (time, time));
            if answers {
                serve_stream(&mut &server, &storage).unwrap();
            }
            drop(server);
            assert_eq!(engine.join().unwrap().is_ok(), answers);
        });
    }
}

#[test]
fn a_socket_at_which_somebody_answers_is_left_alone() {
    let folder = folder();
    let path = folder.path().join("socket");
    let server = Server::bind(&unix(&path)).unwrap();
    let error = Server::bind(&unix(&path)).unwrap_err();
    assert_eq!(error.kind, NbdErrorKind::Busy);
    let words = format!("{error}: {}", error.source);
    let expected =
        format!("cannot serve at '{}': a server is listening there already", path.display());
    assert_eq!(words, expected);
    drop(server);
    assert!(!path.exists());
}

#[test]
fn a_dead_socket_is_replaced_and_what_is_no_socket_is_not() {
    let folder = folder();
    let path = folder.path().join("socket");
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    drop(Server::bind(&unix(&path)).unwrap());
    fs::write(&path, "mine").unwrap();
    assert_eq!(Server::bind(&unix(&path)).unwrap_err().kind, NbdErrorKind::Busy);
    assert_eq!(fs::read(&path).unwrap(), b"mine");
}

#[test]
fn a_server_removes_no_socket_but_its_own() {
    let folder = folder();
    let path = folder.path().join("socket");
    let server = Server::bind(&unix(&path)).unwrap();
    fs::remove_file(&path).unwrap();
    let _other = UnixListener::bind(&path).unwrap();
    drop(server);
    assert!(path.exists());
}

#[test]
fn half_a_request_and_then_nothing_holds_up_nobody_and_ends_with_the_server() {
    let storage = Watched::new(Export::new("", 1 << 20));
    served(&storage, |uri| {
        let mut half = client(&socket_of(uri));
        half.write_all(&request(0, WRITE, 1, 0, 4096)[..20]).unwrap();
        let mut without_data = client(&socket_of(uri));
        without_data.write_all(&request(0, WRITE, 1, 0, 4096)).unwrap();
        let mut silent = UnixStream::connect(socket_of(uri)).unwrap();
        silent.write_all(&[0]).unwrap();
        let mut other = client(&socket_of(uri));
        other.write_all(&request(0, READ, 1, 0, 16)).unwrap();
        other.read_exact(&mut [0; 32]).unwrap();
        until("three are connected", || storage.connections.load(Ordering::SeqCst) == 3);
    });
    // Served to its end: all threads are gone.
    assert_eq!(storage.connections.load(Ordering::SeqCst), 0);
}

#[test]
fn a_client_that_does_not_take_its_answers_does_not_hold_up_the_end() {
    let storage = Watched::new(Export::new("", 64 << 20));
    served(&storage, |uri| {
        let mut stream = client(&socket_of(uri));
        for _ in 0..8 {
            stream.write_all(&request(0, READ, 1, 0, 32 << 20)).unwrap();
        }
        until("it reads", || !storage.seen().is_empty());
    });
}

#[test]
fn a_client_that_leaves_in_order_or_not_is_gone() {
    let storage = Watched::new(Export::new("", 1 << 20));
    served(&storage, |uri| {
        let mut orderly = client(&socket_of(uri));
        let sudden = client(&socket_of(uri));
        until("both are there", || storage.connections.load(Ordering::SeqCst) == 2);
        drop(sudden);
        until("one is gone", || storage.connections.load(Ordering::SeqCst) == 1);
        orderly.write_all(&request(0, DISCONNECT, 0, 0, 0)).unwrap();
        assert_eq!(orderly.read(&mut [0; 1]).unwrap(), 0);
        until("both are gone", || storage.connections.load(Ordering::SeqCst) == 0);
        drop(engine(uri));
        until("so is an engine", || storage.connections.load(Ordering::SeqCst) == 0);
    });
}

#[test]
fn one_client_too_many_is_turned_away_and_the_others_stay() {
    let storage = Watched::new(Export::new("", 1 << 20));
    served(&storage, |uri| {
        let mut clients: Vec<_> = (0..64).map(|_| at_work(&socket_of(uri))).collect();
        let mut late = UnixStream::connect(socket_of(uri)).unwrap();
        // The end of the stream, or a reset if the client was quick to speak.
        assert!(matches!(late.read(&mut [0; 18]), Ok(0) | Err(_)));
        clients[0].write_all(&request(0, READ, 1, 0, 16)).unwrap();
        clients[0].read_exact(&mut [0; 32]).unwrap();
        drop(clients);
        until("room is made", || storage.connections.load(Ordering::SeqCst) == 0);
        client(&socket_of(uri));
    });
}

#[test]
fn answers_that_are_ready_together_leave_in_one_call() {
    /// Counts calls.
    struct Counted<'s>(&'s mut crate::wire::Script, usize);
    impl Read for Counted<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            self.0.read(buffer)
        }
    }
    impl Write for Counted<'_> {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.1 += 1;
            self.0.write(bytes)
        }
        fn write_vectored(&mut self, all: &[std::io::IoSlice<'_>]) -> std::io::Result<usize> {
            self.1 += 1;
            self.0.output.write_vectored(all)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let storage = MemoryStorage::new(Export::new("", 1 << 20));
    let reads = vec![request(0, READ, 1, 0, 4096); 30].concat();
    let words: [&[u8]; 3] = [&CLIENT_FLAGS, &go(""), &reads];
    let mut script = Script::new(&words);
    let mut stream = Counted(&mut script, 0);
    serve_stream(&mut stream, &storage).unwrap();
    // The greeting, the answer to the option, and all that was read.
    assert_eq!(stream.1, 3);
    assert_eq!(script.output.len(), 18 + 32 + 34 + 20 + 30 * (16 + 4096));
}

#[test]
fn a_dropped_engine_waits_10_seconds_for_what_is_in_flight() {
    let storage = Watched::new(Export::new("", 1 << 20));
    let (mine, server) = UnixStream::pair().unwrap();
    thread::scope(|scope| {
        // It answers the handshake and then nothing.
        let served = scope.spawn(|| {
            let mut script = Script::new(&[&CLIENT_FLAGS, &structured(), &go("")]);
            serve_stream(&mut script, &storage).unwrap();
            (&server).write_all(&script.output).unwrap();
        });
        let buffers = Buffers::new(1, 4096);
        let mut engine = NbdEngine::over(Socket::from(mine), "", MonotonicClock, buffers).unwrap();
        served.join().unwrap();
        let now = engine.clock().now();
        let mut completions = [Completion::default()];
        assert_eq!(engine.exchange_until(&[read(0, 0)], &mut completions, now).unwrap(), 0);
        let begin = Instant::now();
        drop(engine);
        let waited = begin.elapsed();
        assert!((10..20).contains(&waited.as_secs()), "{waited:?}");
    });
}

#[test]
fn a_stop_before_the_service_ends_it_at_once() {
    let folder = folder();
    let server = Server::bind(&unix(&folder.path().join("socket"))).unwrap();
    server.stop_handle().stop();
    server.stop_handle().stop();
    server.serve(&MemoryStorage::new(Export::new("", 1 << 20))).unwrap();
}
