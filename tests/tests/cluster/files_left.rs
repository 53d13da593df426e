//! What jobs have read of files stays on a node for jobs that come, whatever they run, and is what is in the files
//! then.

use std::fs::{self, File, FileTimes};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime};

use coppice_tests::Cluster;
use coppice_tests::guests::{BUSYBOX, Toolchain, program};
use coppice_tests::physical::{PAGE_BYTES, Pattern, memory_of};

const PYTHON: &str = "/usr/bin/python3";

/// Longer than what comes with an open.
const PAGES: usize = 64;

/// A file of the cluster's root with a pattern, which nobody has changed for a while.
fn file(cluster: &Cluster, name: &str, pattern: &Pattern) {
    let path = cluster.root().join(name);
    fs::write(&path, pattern.repeated(PAGES * PAGE_BYTES)).expect("written");
    settle(&path);
}

/// Waits until another change of a file would be told from its last one.
fn settle(path: &std::path::Path) {
    let status = fs::metadata(path).expect("there");
    let changed = Duration::new(status.ctime().unsigned_abs(), u32::try_from(status.ctime_nsec()).expect("a second"));
    while SystemTime::now() < SystemTime::UNIX_EPOCH + changed + Duration::from_millis(50) {
        std::thread::yield_now();
    }
}

/// Pages of files that the last job's rank had to have fetched, and those that it found.
fn pages(cluster: &Cluster) -> (u64, u64) {
    let rank = cluster.last_rank(0);
    (rank.count("file_pages_fetched"), rank.count("file_pages_found"))
}

/// The sum that a program of Coppice's cluster makes of a file.
fn sum(cluster: &Cluster, options: &[&str], name: &str) -> String {
    cluster.run(&[options, &[BUSYBOX, "sha256sum", name]].concat()).success().text()
}

#[test]
fn libraries_and_modules_are_not_loaded_again() {
    let cluster = Cluster::up(1);
    let run = |program: &[&str]| cluster.run(&[&["--root", "/"], program].concat()).success();
    let hello = [PYTHON, "-c", "import json, ctypes; print(json.dumps([1, 2]))"];
    assert_eq!(run(&hello).text(), "[1, 2]\n");
    let (fetched, _) = pages(&cluster);
    assert!(fetched > 300, "{fetched} pages");
    for _ in 0..2 {
        assert_eq!(run(&hello).text(), "[1, 2]\n");
        let (again, found) = pages(&cluster);
        assert!(again == 0 && found >= fetched, "{again} fetched, {found} found");
    }
    // Another program has some libraries in common with it.
    let _ = run(&["/bin/ls", "-d", "/"]);
    let (_, found) = pages(&cluster);
    assert!(found > 100, "{found} pages of the C library");
    // All is told: with the job, and of the node.
    let job = cluster.last_job()["job"].to_string();
    let told = cluster.coppice(&["job", &job]).success().text();
    assert!(told.contains(" opened, ") && told.contains(&format!("{found} pages of files found")), "{told}");
    let programs = cluster.json(&["programs"]);
    let held: u64 = programs.as_array().into_iter().flatten().filter_map(|one| one["read_pages"].as_u64()).sum();
    assert!(held >= fetched, "{programs}");
    // Who wants none of it has none, and leaves none.
    let _ = cluster.coppice(&["forget"]).success();
    for _ in 0..2 {
        let _ = cluster.run(&[&["--root", "/", "--no-retain"], &hello[..]].concat()).success();
        let (again, found) = pages(&cluster);
        assert!(again > 300 && found == 0, "{again} fetched, {found} found");
    }
}

/// Whatever is done to a file between two jobs, the second sees what is in it then.
#[test]
fn what_is_left_of_a_file_is_never_stale() {
    let cluster = Cluster::up(1);
    let (first, second, third) = (Pattern::of_seed(51_001), Pattern::of_seed(51_002), Pattern::of_seed(51_003));
    file(&cluster, "data", &first);
    let path = cluster.root().join("data");
    let of = |pattern: &Pattern| {
        file(&cluster, "other", pattern);
        sum(&cluster, &["--no-retain"], "other").replace("other", "data")
    };
    let [one, two, three] = [&first, &second, &third].map(of);
    assert_eq!(sum(&cluster, &[], "data"), one);
    assert_eq!(sum(&cluster, &[], "data"), one);
    assert_eq!(pages(&cluster), (0, PAGES as u64));
    // A job whose calls are all made neither uses it nor takes it away.
    assert_eq!(sum(&cluster, &["--io", "strict"], "data"), one);
    assert_eq!(pages(&cluster), (0, 0));
    assert_eq!(sum(&cluster, &[], "data"), one);
    assert_eq!(pages(&cluster), (0, PAGES as u64));
    // Other bytes in its place, of the same length, and of the same time as far as a program can say.
    let times = FileTimes::new().set_modified(fs::metadata(&path).and_then(|file| file.modified()).expect("a time"));
    fs::write(&path, second.repeated(PAGES * PAGE_BYTES)).expect("written");
    File::options().write(true).open(&path).and_then(|file| file.set_times(times)).expect("times");
    assert_eq!(sum(&cluster, &[], "data"), two);
    settle(&path);
    assert_eq!(sum(&cluster, &[], "data"), two);
    // Another file in its place.
    file(&cluster, "next", &third);
    fs::rename(cluster.root().join("next"), &path).expect("renamed");
    settle(&path);
    assert_eq!(sum(&cluster, &[], "data"), three);
    assert_eq!(sum(&cluster, &[], "data"), three);
    assert_eq!(pages(&cluster), (0, PAGES as u64));
    // A job that changes a part of it.
    let _ = cluster.run(&[
        BUSYBOX,
        "dd",
        "if=/other",
        "of=/data",
        "bs=4096",
        "skip=3",
        "seek=5",
        "count=2",
        "conv=notrunc",
    ]);
    let native = sum(&cluster, &["--io", "strict", "--no-retain"], "data");
    assert_eq!(sum(&cluster, &[], "data"), native);
    // Cut short, and gone.
    File::options().write(true).open(&path).and_then(|file| file.set_len(5 * 4096 + 7)).expect("cut");
    let native = sum(&cluster, &["--io", "strict", "--no-retain"], "data");
    assert_eq!(sum(&cluster, &[], "data"), native);
    fs::remove_file(&path).expect("removed");
    let _ = cluster.run(&[BUSYBOX, "sha256sum", "data"]).refused(&["No such file"]);
}

/// Of what jobs only read, all can be given back; of what they wrote nothing stays, nor of what they did to a library.
#[test]
fn what_is_left_can_be_given_back_and_is_nothing_a_job_made() {
    let cluster = Cluster::up(1);
    let read = Pattern::of_seed(52_001);
    file(&cluster, "data", &read);
    let _ = sum(&cluster, &[], "data");
    assert!(memory_of(&cluster, 0).pages_with(&read).len() >= PAGES);
    let _ = cluster.coppice(&["forget"]).success();
    memory_of(&cluster, 0).assert_none(&read, "it was forgotten");
    let _ = sum(&cluster, &["--no-retain"], "data");
    memory_of(&cluster, 0).assert_none(&read, "a job that leaves nothing");

    let _ = cluster.run(&[BUSYBOX, "cp", "data", "copy"]).success();
    let _ = cluster.coppice(&["forget"]).success();
    let _ = cluster.run(&[BUSYBOX, "sh", "-c", "read line < copy"]);
    let _ = cluster.coppice(&["forget"]).success();
    memory_of(&cluster, 0).assert_none(&read, "what was written");

    let secret = Pattern::printable(52_002);
    let directory = cluster.root().join("with_library");
    fs::create_dir(&directory).expect("directory");
    let library = directory.join("library.so");
    fs::copy(program("library", Toolchain::Library), &library).expect("copied");
    let text = String::from_utf8(secret.bytes().to_vec()).expect("printable");
    let script = "import ctypes, sys\n\
                  data = (ctypes.c_char * 8192).in_dll(ctypes.CDLL(sys.argv[1]), 'library_data')\n\
                  print(data.raw.count(b'\\1'))\n\
                  data.raw = (sys.argv[2] * 256).encode()\n\
                  print(data.raw.count(sys.argv[2].encode()))\n";
    for _ in 0..2 {
        let arguments = ["--root", "/", PYTHON, "-c", script, &*library.to_string_lossy(), &text];
        assert_eq!(cluster.run(&arguments).success().text(), "8192\n256\nlibrary: constructor\nlibrary: destructor\n");
        memory_of(&cluster, 0).assert_none(&secret, "a library's data was changed");
    }
    assert_eq!(pages(&cluster).0, 0);
}

/// A program that wants all memory has that of what is left.
#[test]
fn what_is_left_goes_when_its_memory_is_wanted() {
    let cluster = Cluster::up(1);
    let pattern = Pattern::of_seed(53_001);
    file(&cluster, "data", &pattern);
    let whole = sum(&cluster, &[], "data");
    let path = program("take_memory", Toolchain::Glibc);
    let ran = cluster.run(&[path.to_str().expect("a path"), "all"]).success();
    assert_eq!(ran.text(), "0 MiB: 0 words not zero, 0 not kept\n");
    memory_of(&cluster, 0).assert_none(&pattern, "its memory was wanted");
    assert_eq!(sum(&cluster, &[], "data"), whole);
    assert_eq!(pages(&cluster), (PAGES as u64, 0));
}

/// Look-ups that the last job's rank had to have made.
fn lookups(cluster: &Cluster) -> u64 {
    cluster.last_rank(0).count("lookups")
}

/// What a program looked up when it ran first is told to whoever runs it again, on any node, as it is then.
#[test]
fn names_that_were_looked_up_are_not_looked_up_again() {
    let cluster = Cluster::up(2);
    let [first, second] = ["first", "second"].map(|name| cluster.root().join(name));
    [&first, &second].iter().for_each(|directory| fs::create_dir(directory).expect("directory"));
    fs::write(second.join("which.py"), "print('second')\n").expect("written");
    let path = format!("PYTHONPATH={}:{}", first.display(), second.display());
    let run = |node: &str| {
        let options = ["--root", "/", "--nodes-list", node, "--env", &path, "--env", "PYTHONDONTWRITEBYTECODE=1"];
        let script = "import sys, which, json, os, email.message; print(os.path.exists(sys.argv[1]))\n\
                      assert not any(os.path.exists(f'/usr/lib/nothing{n}') for n in range(100))";
        let name = cluster.root().join("exists");
        let command = [PYTHON, "-c", script, &*name.to_string_lossy()];
        let text = cluster.run(&[&options[..], &command].concat()).success().text();
        (text, lookups(&cluster))
    };
    let (text, looked_up) = run("0");
    assert_eq!(text, "second\nFalse\n");
    assert!(looked_up > 250, "{looked_up} look-ups");
    for node in ["0", "1", "0"] {
        let (text, again) = run(node);
        assert_eq!(text, "second\nFalse\n");
        // Files are opened, and directories are listed, each by a call.
        assert!(again + 120 < looked_up, "{again} look-ups, {looked_up} before");
    }
    // What was missing is there now, and what was there is gone.
    fs::write(first.join("which.py"), "print('first')\n").expect("written");
    fs::write(cluster.root().join("exists"), "").expect("written");
    assert_eq!(run("1").0, "first\nTrue\n");
    assert_eq!(run("0").0, "first\nTrue\n");
    fs::remove_file(first.join("which.py")).expect("removed");
    fs::remove_file(cluster.root().join("exists")).expect("removed");
    assert_eq!(run("0").0, "second\nFalse\n");
    assert_eq!(run("1").0, "second\nFalse\n");
    // Whoever wants each call made has it made.
    let script = "import which";
    let environment = ["--env", &path, "--env", "PYTHONDONTWRITEBYTECODE=1"];
    let strict = [&["--root", "/", "--io", "strict"], &environment[..], &[PYTHON, "-c", script]].concat();
    assert_eq!(cluster.run(&strict).success().text(), "second\n");
    let each = lookups(&cluster);
    assert_eq!(cluster.run(&strict).success().text(), "second\n");
    assert_eq!(lookups(&cluster), each);
}
