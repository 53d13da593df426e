//! Paths, arguments and variables are bytes: whatever they are called, programs run, and get them as they are.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use coppice_tests::Cluster;
use coppice_tests::cluster::{Ran, finish};
use coppice_tests::guests::{BUSYBOX, Toolchain, program};
use serde_json::{Value, json};

/// What the names are made of; another one comes from `COPPICE_SEED`.
const SEED: u64 = 20;

/// Names of random bytes.
struct Names(u64);

impl Names {
    fn of_seed() -> Self {
        let seed = std::env::var("COPPICE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(SEED);
        println!("COPPICE_SEED={seed}");
        Self(seed)
    }

    fn byte(&mut self) -> u8 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed >> 56) as u8
    }

    /// Any bytes but zeros, slashes and `=`; never UTF-8, and never taken for an option.
    fn next(&mut self, length: usize) -> OsString {
        let mut name = vec![0xff];
        while name.len() < length {
            name.push(self.byte());
            name.retain(|byte| !matches!(byte, 0 | b'/' | b'='));
        }
        OsString::from_vec(name)
    }
}

fn hexadecimal(bytes: &OsStr) -> String {
    bytes.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// As a text that is not UTF-8 is in JSON.
fn in_json(text: &OsStr) -> Value {
    json!({ "bytes": hexadecimal(text) })
}

/// What the program said: each word with what came behind it, in hexadecimal, in order.
fn said(ran: &Ran) -> BTreeMap<String, Vec<String>> {
    let mut said: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in ran.text().lines() {
        let (word, bytes) = line.split_once(' ').unwrap_or((line, ""));
        said.entry(word.to_owned()).or_default().push(bytes.to_owned());
    }
    said.values_mut().for_each(|of_one| of_one.sort());
    said
}

fn concat(parts: &[&[u8]]) -> OsString {
    OsString::from_vec(parts.concat())
}

#[test]
fn whatever_bytes_things_are_called_by_they_reach_the_program() {
    let mut names = Names::of_seed();
    // A comma means something to QEMU, a line break and an escape to people.
    let home = concat(&[b"cop,\n\x1b", names.next(6).as_bytes()]);
    let cluster = Cluster::up_called(&home, &["--nodes", "1"]);
    let root = cluster.root().join(names.next(20));
    let cwd = names.next(30);
    let called = names.next(12);
    std::fs::create_dir_all(root.join(&cwd)).expect("directory");
    let guest = root.join(&called);
    std::fs::copy(program("bytes", Toolchain::Glibc), &guest).expect("copied");
    let there = names.next(9);
    std::fs::write(root.join(&cwd).join(&there), "123").expect("file");
    let arguments: Vec<OsString> = [255, 17, 1, 40, 200].map(|length| names.next(length)).into();
    let (set, passed) = (concat(&[names.next(7).as_bytes(), b"=", names.next(50).as_bytes()]), names.next(8));
    let value = names.next(60);

    let mut command = cluster.command(&["run", "--quiet", "--cwd"]);
    command.arg(&cwd).arg("--env").arg(&set).arg("--env").arg(&passed).env(&passed, &value);
    command.arg(Path::new(".").join(&called)).args(&arguments).current_dir(&root);
    let ran = finish(command).success();
    let said = said(&ran);
    let one = |word: &str, bytes: &[&[u8]]| assert_eq!(said[word], [hexadecimal(&concat(bytes))], "{word}");
    let name = concat(&[b"./", called.as_bytes()]);
    let mut expected: Vec<String> = [&name].into_iter().chain(&arguments).map(|text| hexadecimal(text)).collect();
    expected.sort();
    assert_eq!(said["argument"], expected);
    for variable in [set, concat(&[passed.as_bytes(), b"=", value.as_bytes()])] {
        assert!(said["variable"].contains(&hexadecimal(&variable)), "{variable:?} in {}", ran.text());
    }
    let cwd_path = concat(&[b"/", cwd.as_bytes()]);
    let [made, _, shared, renamed, link] = &arguments[..] else { panic!("five names") };
    one("execfn", &[name.as_bytes()]);
    one("directory", &[cwd_path.as_bytes()]);
    // Where its file lies in the root, wherever it was called from.
    one("exe", &[b"/", called.as_bytes()]);
    let all: Vec<u8> =
        [&name].into_iter().chain(&arguments).flat_map(|text| [text.as_bytes(), b"\0"].concat()).collect();
    one("cmdline", &[&all]);
    one("comm", &[called.as_bytes(), b"\n"]);
    one("found-f3", &[there.as_bytes()]);
    for word in ["moved", "back"] {
        one(word, &[cwd_path.as_bytes(), b"/", made.as_bytes()]);
    }
    one("link", &[renamed.as_bytes()]);
    one("made-f7", &[renamed.as_bytes()]);
    one("made-l7", &[link.as_bytes()]);
    one("shared-f0", &[shared.as_bytes()]);
    assert!(said.contains_key("done"), "{}", ran.text());

    // The same is on the host.
    let made = root.join(&cwd).join(made);
    let mut left: Vec<OsString> =
        std::fs::read_dir(&made).expect("a directory").map(|entry| entry.expect("a name").file_name()).collect();
    left.sort();
    let mut expected = [renamed.clone(), link.clone()];
    expected.sort();
    assert_eq!(left, expected);
    assert_eq!(std::fs::metadata(made.join(renamed)).expect("a file").size(), 7);
    assert_eq!(std::fs::read_link(made.join(link)).expect("a link").into_os_string(), *renamed);

    shown_to_people_and_to_programs(&cluster, (&root, &cwd_path, &name), &arguments);
    forgotten(&cluster, &guest);
}

/// JSON says which bytes, listings stay lines that do no harm.
fn shown_to_people_and_to_programs(
    cluster: &Cluster,
    (root, directory, name): (&Path, &OsStr, &OsStr),
    arguments: &[OsString],
) {
    let job = cluster.last_job();
    assert_eq!((&job["name"], &job["directory"]), (&in_json(name), &in_json(directory)), "{job}");
    let root = root.canonicalize().expect("the root");
    assert_eq!(job["root"], in_json(root.as_os_str()), "{job}");
    assert_eq!(job["arguments"], Value::from(arguments.iter().map(|text| in_json(text)).collect::<Vec<_>>()), "{job}");
    assert_eq!(cluster.json(&["nodes"])[0]["last_program"]["path"], in_json(name));
    let lines = |arguments: &[&str]| {
        let text = String::from_utf8(cluster.coppice(arguments).success().stdout).expect("UTF-8");
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
        text.lines().count()
    };
    assert_eq!(["jobs", "nodes", "programs"].map(|listing| lines(&[listing])), [2, 2, 2]);
    assert!(lines(&["job", "1"]) > 5);
}

/// A program is found by its path, too.
fn forgotten(cluster: &Cluster, guest: &Path) {
    let mut command = cluster.command(&["forget"]);
    command.arg(guest);
    let told = finish(command).success().text();
    assert!(told.starts_with("1 node gave back"), "{told}");
}

#[test]
fn a_root_may_be_called_anything_and_what_is_not_there_is_named() {
    let mut names = Names::of_seed();
    let cluster = Cluster::up(1);
    let root = cluster.root().join(names.next(15));
    std::fs::create_dir(&root).expect("directory");
    std::fs::write(root.join("a"), "in it\n").expect("file");
    let run = |arguments: &[&OsStr]| cluster.run(&[&["--root".as_ref(), root.as_os_str()], arguments].concat());
    assert_eq!(run(&[BUSYBOX.as_ref(), "cat".as_ref(), "/a".as_ref()]).success().text(), "in it\n");
    let gone = OsStr::from_bytes(b"/g\xff\n\x1b[1m");
    let shown = "/g\\xff\\n\\u{1b}[1m";
    let _ = run(&["--cwd".as_ref(), gone, BUSYBOX.as_ref(), "true".as_ref()]).refused(&[shown, "No such file"]);
    let _ = run(&[gone]).refused(&[shown, "No such file"]);
    let _ = run(&["--env".as_ref(), OsStr::from_bytes(b"\xffA"), BUSYBOX.as_ref()]).refused(&["\\xffA=VALUE"]);
    let _ = cluster.run(&["--root".as_ref(), gone, BUSYBOX.as_ref()]).refused(&[shown, "No such file"]);
    let _ = cluster.coppice(&["forget".as_ref(), gone]).refused(&[shown]);
}

#[test]
fn what_cannot_be_bytes_is_refused_in_one_line() {
    let cluster = Cluster::home();
    let odd = OsStr::from_bytes(b"\xff\n\x1b[1m");
    let mut nodes = cluster.command(&["nodes"]);
    nodes.env("COPPICE_CLUSTER", odd);
    let _ = finish(nodes).refused(&["'\\xff\\n\\u{1b}[1m' is no name for a cluster"]);
    let mut nodes = cluster.command(&["nodes"]);
    nodes.env("COPPICE_HOME", odd);
    let _ = finish(nodes).refused(&["COPPICE_HOME is '\\xff\\n\\u{1b}[1m', which is not an absolute path"]);
    for arguments in [["kill".as_ref(), odd], ["job".as_ref(), odd], ["up".as_ref(), odd], [odd, odd]] {
        let ran = cluster.coppice::<&OsStr>(&arguments).refused(&[]);
        assert!(!ran.stderr.trim_end().contains(char::is_control), "{:?}", ran.stderr);
    }
}
