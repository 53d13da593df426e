//! A cluster in a home that several machines share, which another one of them brought up.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;

use coppice_tests::Cluster;
use coppice_tests::guests::BUSYBOX;

const UP: [&str; 5] = ["up", "--accel", "tcg", "--nodes", "1"];

#[test]
fn it_is_there_and_not_here() {
    let cluster = Cluster::up(1);
    let record = cluster.home_path().join("state/default/machine");
    let own: serde_json::Value = serde_json::from_slice(&fs::read(&record).expect("a record")).expect("JSON");
    let _ = cluster.coppice(&["down"]).success();
    assert!(!record.exists());
    // As the other machine leaves it, whose sockets nobody answers on here.
    let mut other = own.clone();
    (other["host"], other["boot"]) = ("elsewhere".into(), "another".into());
    fs::write(&record, other.to_string()).expect("written");
    let runtime = cluster.home_path().join("run/default");
    DirBuilder::new().recursive(true).mode(0o700).create(&runtime).expect("made");
    fs::write(runtime.join("api.sock"), "").expect("written");
    let words = ["'elsewhere'", "not here", record.to_str().expect("UTF-8")];
    let verbs: [&[&str]; 10] = [
        &UP,
        &["down"],
        &["nodes"],
        &["jobs"],
        &["ras"],
        &["programs"],
        &["kill", "1"],
        &["reboot", "0"],
        &["console", "0"],
        &["run", BUSYBOX, "true"],
    ];
    for verb in verbs {
        let _ = cluster.coppice(verb).refused(&words);
    }
    assert!(runtime.join("api.sock").exists() && cluster.processes().is_empty());
    // That machine is gone for good.
    fs::remove_file(&record).expect("removed");
    let _ = cluster.coppice(&UP).success();
    // This one crashes and comes back: what it left is its own.
    cluster.kill_process("coppiced");
    cluster.assert_no_process_left();
    let mut before = own;
    before["boot"] = "an earlier one".into();
    fs::write(&record, before.to_string()).expect("written");
    let _ = cluster.coppice(&["nodes"]).refused(&["not up", "coppice up"]);
    let _ = cluster.coppice(&UP).success();
    let _ = cluster.coppice(&["down"]).success();
    // And what is left of a service node that was killed goes with the next `down`.
    fs::write(&record, before.to_string()).expect("written");
    let _ = cluster.coppice(&["down"]).refused(&["not up"]);
    assert!(!record.exists());
}
