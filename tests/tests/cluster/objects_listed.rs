//! What a rank has open, as `coppice objects` lists it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use coppice_tests::Cluster;
use coppice_tests::cluster::finish_child;
use coppice_tests::guests::{Toolchain, program};
use serde_json::{Value, json};

/// The descriptors that a rank has, by number.
#[track_caller]
fn listed(cluster: &Cluster, arguments: &[&str]) -> BTreeMap<u64, Value> {
    let ran = cluster.coppice(&[&["objects", "1", "--json"], arguments].concat()).success();
    let all: Value = serde_json::from_str(&ran.text()).expect("JSON");
    let [rank] = all.as_array().expect("ranks").as_slice() else { panic!("one rank: {all}") };
    assert_eq!(rank["rank"], 0);
    let objects = rank["objects"].as_array().expect("objects");
    objects.iter().map(|object| (object["descriptor"].as_u64().expect("a number"), object.clone())).collect()
}

/// A guest says what it opened, and the list says the same; asking all the time does it no harm.
#[test]
fn what_a_program_opened_is_listed() {
    let cluster = Cluster::up(1);
    std::fs::create_dir(cluster.root().join("dir")).expect("a directory");
    std::fs::write(cluster.root().join("dir/file"), b"ten bytes!").expect("a file");
    let path = program("opens", Toolchain::Glibc);
    let mut child = cluster
        .command(&["run", "--quiet", &*path.to_string_lossy()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start");
    let mut said = BTreeMap::new();
    for line in BufReader::new(child.stdout.take().expect("piped")).lines() {
        let line = line.expect("a line");
        let Some((what, number)) = line.split_once(' ') else { break };
        said.insert(what.to_owned(), number.parse::<u64>().expect("a number"));
    }
    let objects = listed(&cluster, &[]);
    let of = |what: &str| &objects[&said[what]];
    for (what, field, expected) in [
        ("file", "kind", json!("file")),
        ("file", "path", json!("/dir/file")),
        ("file", "size", json!(10)),
        ("file", "offset", json!(3)),
        ("beside", "path", json!("/dir/file")),
        ("directory", "path", json!("/dir")),
        ("directory", "close_on_exec", json!(true)),
        ("reads", "kind", json!("pipe")),
        ("reads", "held", json!(5)),
        ("one", "kind", json!("pair")),
        ("one", "keeps", json!("sequence")),
        ("event", "value", json!(7)),
        ("timer", "interval_ns", json!(60_000_000_000_u64)),
        ("signals", "signals", json!([10, 15])),
        ("listens", "listening", json!(true)),
        ("listens", "port", json!(5000)),
        ("datagrams", "stream", json!(false)),
        ("memory", "size", json!(8192)),
        ("null", "path", json!("/dev/null")),
        ("text", "path", json!("/proc/self/maps")),
    ] {
        assert_eq!(of(what)[field], expected, "{what}: {}", of(what));
    }
    assert_eq!(of("file")["id"], of("copy")["id"], "they share an open file");
    assert_ne!(of("file")["id"], of("beside")["id"]);
    assert_eq!(of("reads")["pipe"], of("writes")["pipe"]);
    let watched = &of("epoll")["watched"][0];
    assert_eq!((&watched["descriptor"], &watched["id"]), (&json!(said["event"]), &of("event")["id"]));
    let left_ns = of("timer")["left_ns"].as_u64().expect("a time");
    assert!((1..=3_600_000_000_000).contains(&left_ns), "{left_ns}");
    // More than one answer has, each once: with the standard streams and PMI's descriptor.
    assert_eq!(objects.len(), said.len() + 200 + 4);
    for _ in 0..50 {
        assert_eq!(listed(&cluster, &["--rank", "0"]).len(), objects.len());
    }
    let table = cluster.coppice(&["objects", "1"]).success().text();
    assert!(table.contains("/dir/file, 10 B when opened") && table.contains("0.0.0.0:5000 listens"), "{table}");
    let none = cluster.coppice(&["objects", "1", "--rank", "1"]);
    assert!(none.status != 0 && none.stderr.contains("has no rank 1"), "{}", none.stderr);
    drop(child.stdin.take());
    assert_eq!(finish_child(child, "run").status, 0);
    let ended = cluster.coppice(&["objects", "1", "--rank", "0"]);
    assert!(ended.status != 0 && ended.stderr.contains("job 1 has ended already"), "{}", ended.stderr);
}
