//! What Landlock takes from the threads of the I/O node, shown by calls that it never makes. Each test takes it from a
//! thread of its own.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{File, OpenOptions};
use std::io::ErrorKind::PermissionDenied;
use std::io::{Read, Result, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::FileExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};

use coppice_io_node::wall::{Wall, confine_to_nothing, confine_to_objects, confine_to_root};
use coppice_storage::{Named, Storage};
use rustix::fs::{FallocateFlags, Mode, OFlags};
use tempfile::TempDir;

/// Runs a test on a thread, which goes behind a wall in it. The test gets the version of Landlock, at least 2; where
/// there is none that is said, and it is not run.
fn behind_a_wall(raise: impl FnOnce() -> Wall + Send, test: impl FnOnce(i32) + Send) {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| match raise() {
            Wall::Stands(version) => test(version),
            Wall::Missing => eprintln!("not tried: this kernel has no Landlock"),
        });
        thread.join().unwrap();
    });
}

#[track_caller]
fn refused<T>(result: Result<T>) {
    match result {
        Ok(_) => panic!("was allowed"),
        Err(error) => assert_eq!(error.kind(), PermissionDenied, "{error}"),
    }
}

#[test]
fn the_event_loop_opens_and_changes_no_file() {
    let dir = TempDir::new().unwrap();
    let path = dir.path();
    let sockets = path.join("sockets");
    std::fs::create_dir(&sockets).unwrap();
    std::fs::write(sockets.join("own.sock"), "").unwrap();
    std::fs::write(path.join("file"), "text").unwrap();
    let mut open = OpenOptions::new().read(true).write(true).open(path.join("file")).unwrap();
    behind_a_wall(
        || confine_to_nothing(&sockets).unwrap(),
        |version| {
            refused(File::open(path.join("file")));
            refused(File::open("/etc/passwd"));
            refused(File::open("/proc/self/status"));
            refused(File::open(format!("/proc/self/fd/{}", open.as_raw_fd())));
            refused(std::fs::read_dir("/"));
            refused(std::fs::write(path.join("file"), ""));
            refused(std::fs::write(sockets.join("new"), ""));
            refused(std::fs::create_dir(path.join("new")));
            refused(std::fs::remove_file(path.join("file")));
            refused(std::fs::rename(path.join("file"), path.join("new")));
            refused(UnixListener::bind(path.join("new")));
            refused(Command::new("/bin/true").status());
            // A thread that it starts is behind the wall, too.
            refused(std::thread::scope(|scope| scope.spawn(|| File::open("/etc/passwd")).join().unwrap()));
            // What is open stays so, what only looks is let be, and its own socket can go.
            open.write_all(b"TEXT").unwrap();
            if version >= 3 {
                open.set_len(6).unwrap();
            }
            assert_eq!(std::fs::metadata(path.join("file")).unwrap().len(), 6);
            rustix::fs::open(path, OFlags::PATH, Mode::empty()).unwrap();
            std::fs::remove_file(sockets.join("own.sock")).unwrap();
        },
    );
    // Others are as free as ever.
    assert_eq!(std::fs::read(path.join("file")).unwrap(), b"TEXT\0\0");
}

#[test]
fn nobody_is_reached_outside() {
    let dir = TempDir::new().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let name = format!("coppice wall {}", std::process::id());
    let abstract_name = SocketAddr::from_abstract_name(&name).unwrap();
    let _abstract_listener = UnixListener::bind_addr(&abstract_name).unwrap();
    let named = UnixDatagram::bind(dir.path().join("fabric")).unwrap();
    // A process that ends with its input, and so with this test however that ends.
    let mut other = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let pid = rustix::process::Pid::from_child(&other);
    behind_a_wall(
        || confine_to_nothing(dir.path()).unwrap(),
        |version| {
            if version >= 4 {
                refused(TcpStream::connect(address));
                refused(TcpListener::bind("127.0.0.1:0"));
            }
            if version >= 6 {
                refused(UnixStream::connect_addr(&abstract_name));
                refused(rustix::process::kill_process(pid, rustix::process::Signal::KILL).map_err(Into::into));
            }
            // The way to the fabric stays open.
            let socket = UnixDatagram::unbound().unwrap();
            socket.connect(dir.path().join("fabric")).unwrap();
            socket.send(b"frame").unwrap();
            assert_eq!(named.recv(&mut [0; 16]).unwrap(), 5);
        },
    );
    other.kill().unwrap();
    other.wait().unwrap();
}

#[test]
fn a_jobs_thread_stays_in_its_root() {
    let dir = TempDir::new().unwrap();
    let (root, outside) = (dir.path().join("root"), dir.path().join("outside"));
    for directory in [&root, &root.join("a"), &root.join("b"), &outside] {
        std::fs::create_dir(directory).unwrap();
    }
    std::fs::write(root.join("a/file"), "inside").unwrap();
    std::fs::write(outside.join("secret"), "secret").unwrap();
    std::os::unix::fs::symlink(outside.join("secret"), root.join("link")).unwrap();
    let found = rustix::fs::open(outside.join("secret"), OFlags::PATH, Mode::empty()).unwrap();
    let opened = File::open(&root).unwrap();
    let read = |path: &Path| {
        let mut text = String::new();
        File::open(path)?.read_to_string(&mut text).map(|_| text)
    };
    behind_a_wall(
        || confine_to_root(&opened).unwrap(),
        |version| {
            assert_eq!(read(&root.join("a/file")).unwrap(), "inside");
            refused(read(&root.join("link")));
            refused(read(&root.join("../outside/secret")));
            refused(read(Path::new(&format!("/proc/self/fd/{}", found.as_raw_fd()))));
            refused(std::fs::write(outside.join("new"), ""));
            if version >= 3 {
                refused(OpenOptions::new().append(true).open(outside.join("secret")));
            }
            refused(UnixListener::bind(root.join("new")));
            refused(Command::new("/bin/true").status());
            std::fs::rename(root.join("a/file"), root.join("b/file")).unwrap();
            std::fs::write(root.join("b/file"), "new").unwrap();
            // Wherever its root is now, it is there, and also when that has no name any more.
            std::fs::rename(&root, dir.path().join("moved")).unwrap_err();
        },
    );
    std::fs::rename(&root, dir.path().join("moved")).unwrap();
    behind_a_wall(
        || confine_to_root(&opened).unwrap(),
        |_| assert_eq!(read(&dir.path().join("moved/b/file")).unwrap(), "new"),
    );
    let held = rustix::fs::open(dir.path().join("moved/b/file"), OFlags::PATH, Mode::empty()).unwrap();
    std::fs::remove_dir_all(dir.path().join("moved")).unwrap();
    behind_a_wall(
        || confine_to_root(&opened).unwrap(),
        |_| assert_eq!(read(Path::new(&format!("/proc/self/fd/{}", held.as_raw_fd()))).unwrap(), "new"),
    );
    assert_eq!(std::fs::read_to_string(outside.join("secret")).unwrap(), "secret");
}

#[test]
fn a_thread_of_objects_reads_and_writes_regions_and_makes_none() {
    let dir = TempDir::new().unwrap();
    let storage = Storage::open(dir.path().join("storage")).unwrap();
    let regions = dir.path().join("regions");
    std::fs::create_dir(&regions).unwrap();
    std::fs::write(regions.join("0"), [1; 8192]).unwrap();
    let opened = File::open(&regions).unwrap();
    behind_a_wall(
        || confine_to_objects(storage.work_directories(), Some(opened.as_fd())).unwrap(),
        |_| {
            let region = OpenOptions::new().read(true).write(true).open(regions.join("0")).unwrap();
            region.write_all_at(b"index", 0).unwrap();
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            rustix::fs::fallocate(&region, flags, 4096, 4096).unwrap();
            refused(std::fs::write(regions.join("1"), ""));
            refused(std::fs::create_dir(regions.join("1")));
            refused(std::fs::remove_file(regions.join("0")));
            refused(std::fs::rename(regions.join("0"), dir.path().join("storage/temporary/0")));
            storage.put(b"as ever").unwrap();
        },
    );
}

#[test]
fn a_thread_of_objects_reaches_no_manifest() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("storage");
    let storage = Storage::open(&path).unwrap();
    let before = storage.put(b"before").unwrap();
    std::fs::create_dir(path.join("jobs/1")).unwrap();
    std::fs::write(path.join("jobs/1/1.json"), "manifest").unwrap();
    std::fs::write(dir.path().join("outside"), "").unwrap();
    behind_a_wall(
        || confine_to_objects(storage.work_directories(), None).unwrap(),
        |_| {
            // New directories among them.
            for number in 0..20_u8 {
                let id = storage.put(&[number]).unwrap();
                assert_eq!(storage.get(id).unwrap(), [number]);
            }
            let (packing, packed) = (storage.packing().unwrap(), Named::new(b"packed"));
            packing.put(&packed).unwrap();
            packing.finish().unwrap();
            assert_eq!(storage.get(packed.id()).unwrap(), b"packed");
            assert_eq!(storage.get(before).unwrap(), b"before");
            storage.settle().unwrap();
            refused(std::fs::read(path.join("jobs/1/1.json")));
            refused(std::fs::remove_file(path.join("jobs/1/1.json")));
            refused(std::fs::rename(path.join("jobs/1/1.json"), path.join("temporary/1.json")));
            refused(std::fs::write(path.join("jobs/1/2.json"), ""));
            refused(std::fs::write(path.join("format"), ""));
            refused(std::fs::write(dir.path().join("outside"), ""));
            refused(std::fs::rename(path.join("objects"), path.join("other")));
            refused(std::os::unix::fs::symlink("/etc", path.join("temporary/link")));
            refused(UnixListener::bind(path.join("temporary/socket")));
            refused(Command::new("/bin/true").status());
        },
    );
}
