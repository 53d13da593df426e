//! Every request is made, done and refused.

use std::collections::BTreeSet;

use coppice_api::job::Submission;
use coppice_api::stream::{JobEvent, StreamFrame};
use coppice_protocol::control::Exit;
use coppice_protocol::ids::{JobId, NodeId, Rank};
use coppice_protocol::inspect::{Answer, Question};
use coppice_protocol::pset::FromPset;
use coppice_protocol::ship::Stream;
use serde_json::{Value, json};

use crate::caller::Caller;
use crate::support::served::Served;
use crate::support::{self, Cluster};
use crate::values;

/// The description is there whatever becomes of the cluster.
const NEVER_REFUSED: [&str; 1] = ["openapi"];

/// A cluster, and who asks it.
async fn served(cluster: Cluster) -> (Served, Caller) {
    let served = Served::new(cluster);
    let description = served.client.description().await.expect("answered");
    let caller = Caller::new(served.client.paths().api_socket(), &description);
    (served, caller)
}

fn submission(served: &Served, ranks: u32) -> Value {
    let job = Submission { program: served.program.clone(), ..support::job(ranks) };
    serde_json::to_value(job).expect("plain data")
}

fn with(mut order: Value, fields: &Value) -> Value {
    let fields = fields.as_object().expect("fields").clone();
    order.as_object_mut().expect("an order").extend(fields);
    order
}

async fn submitted(caller: &mut Caller, order: &Value) -> u64 {
    caller.post("/v1/jobs", order).await["job"].as_u64().expect("a number")
}

/// What every node answers that is asked about a rank.
fn told(question: &Question) -> Option<Answer> {
    Some(match question {
        Question::Objects { .. } => values::objects(),
        Question::Hold => values::held(),
        _ => return None,
    })
}

#[tokio::test]
async fn every_request_is_answered_as_is_described() {
    let mut cluster = Cluster::up(4, 2);
    cluster.behaviour.cutting.told = Some(told);
    let (served, mut caller) = served(cluster).await;
    the_cluster(&mut caller).await;
    links(&mut caller).await;
    jobs(&served, &mut caller).await;
    streams(&served, &mut caller).await;
    ranks(&served, &mut caller).await;
    checkpoints(&served, &mut caller).await;
    overlays(&served, &mut caller).await;
    programs(&served, &mut caller).await;
    let watched = caller.open("/v1/cluster/watch").await;
    assert_eq!(caller.post_nothing("/v1/cluster/down").await, Value::Null);
    // Its last words, and then nothing more but refusals.
    let _home = served.ended().await.home;
    assert!(!caller.lines(watched).await.is_empty());
    for path in ["/v1/cluster", "/v1/cluster/watch", "/v1/nodes", "/v1/programs", "/metrics"] {
        caller.get_refused(path, 409).await;
    }
    caller.post_refused("/v1/cluster/down", &Value::Null, 409).await;

    let all = caller.description.operations();
    let missing = |asked: &BTreeSet<String>| all.difference(asked).cloned().collect::<Vec<_>>();
    assert_eq!(missing(&caller.done), Vec::<String>::new(), "never done");
    assert_eq!(missing(&caller.refused), NEVER_REFUSED, "never refused");
}

async fn the_cluster(caller: &mut Caller) {
    assert_eq!(caller.get("/v1/cluster").await["state"], "up");
    assert_eq!(caller.get("/v1/nodes").await.as_array().map(Vec::len), Some(4));
    caller.post_nothing("/v1/nodes/3/reboot").await;
    caller.post_refused("/v1/nodes/9/reboot", &Value::Null, 404).await;
    caller.post_refused("/v1/nodes/x/reboot", &Value::Null, 400).await;
    assert!(!caller.get("/v1/ras?limit=5").await.as_array().expect("events").is_empty());
    caller.get("/v1/ras?node=3&job=1").await;
    caller.get_refused("/v1/ras?limit=many", 400).await;
    let metrics = caller.open("/metrics").await.bytes().await;
    assert!(metrics.starts_with(b"# HELP"));
    assert_eq!(caller.get("/openapi.json").await["info"]["version"], "1.0");
}

async fn links(caller: &mut Caller) {
    assert_eq!(caller.get("/v1/links?links=0,io1").await["links"][1]["link"], "io1");
    let recorded = json!({ "links": "2", "change": { "direction": "to", "bandwidth": { "bits-per-second": 1000 },
        "latency_ns": 5, "loss_ppm": 1, "cut": true }, "recording": { "start": { "file": { "bytes": "2fff" } } } });
    let changed = caller.post("/v1/links", &recorded).await;
    assert_eq!(changed["links"][0]["recording"]["file"], json!({ "bytes": "2fff" }));
    caller
        .post("/v1/links", &json!({ "links": "2", "recording": "stop", "change": { "bandwidth": "unlimited" } }))
        .await;
    caller.get_refused("/v1/links?links=99", 404).await;
    caller.get_refused("/v1/links?links=x", 400).await;
    caller.post_refused("/v1/links", &json!({ "links": "99" }), 404).await;
    caller.post_refused("/v1/links", &json!({ "links": "1", "change": { "loss_ppm": 2_000_000 } }), 400).await;
    caller.post_refused("/v1/links", &json!({}), 400).await;
}

async fn jobs(served: &Served, caller: &mut Caller) {
    let order = with(submission(served, 2), &json!({ "detached": true, "keep_output": 4096 }));
    let job = submitted(caller, &order).await;
    let running = caller.get(&format!("/v1/jobs/{job}")).await;
    assert_eq!((&running["state"], &running["placement"]["nodes"][0]["node"]), (&json!("running"), &json!(0)));
    caller.get("/v1/jobs?limit=3").await;
    caller.get_refused("/v1/jobs?limit=few", 400).await;
    caller.get_refused("/v1/jobs/99", 404).await;
    caller.get_refused("/v1/jobs/first", 400).await;
    let wrongs =
        [json!({ "ranks": 0 }), json!({ "ranks": 1000 }), json!({ "program": "/no/such" }), json!({ "root": 7 })];
    for wrong in wrongs {
        caller.post_refused("/v1/jobs", &with(submission(served, 1), &wrong), 400).await;
    }
    let kill = format!("/v1/jobs/{job}/kill");
    caller.post_refused(&kill, &json!({ "signal": 0 }), 400).await;
    caller.post_refused(&kill, &json!({ "signal": "KILL" }), 400).await;
    caller.post(&kill, &json!({ "signal": 15 })).await;
    caller.post_refused(&kill, &json!({ "signal": 15 }), 409).await;
    caller.post_refused("/v1/jobs/99/kill", &json!({ "signal": 9 }), 404).await;
    let ended = caller.get(&format!("/v1/jobs/{job}/wait")).await;
    assert_eq!((&ended["state"], &ended["exit_status"]), (&json!("ended"), &json!(143)));
    let detail = caller.get(&format!("/v1/jobs/{job}")).await;
    assert_eq!(detail["rank_reports"][1]["signal"], 15);
    caller.get_refused("/v1/jobs/99/wait", 404).await;
}

async fn streams(served: &Served, caller: &mut Caller) {
    let job = submitted(caller, &with(submission(served, 1), &json!({ "input_rank": 0, "keep_output": 4096 }))).await;
    let of = |what: &str| format!("/v1/jobs/{job}/{what}");
    let mut streams = Vec::new();
    for what in ["stream", "attach", "trace?rank=0"] {
        streams.push(caller.open(&of(what)).await);
    }
    for (what, status) in [("stream", 409), ("trace", 409), ("trace?rank=7", 404)] {
        caller.get_refused(&of(what), status).await;
    }
    caller.get_refused("/v1/jobs/99/stream", 404).await;
    caller.get_refused("/v1/jobs/99/attach", 404).await;
    assert_eq!(caller.put(&of("input"), b"hello", 200).await, Value::Null);
    caller.put("/v1/jobs/99/input", b"hello", 404).await;
    caller.get_refused(&of("log?stream=stdin"), 400).await;
    caller.get_refused("/v1/jobs/99/log", 404).await;
    for (stream, bytes) in [(Stream::Output, b"out"), (Stream::Error, b"err"), (Stream::Trace, b"did")] {
        let bytes = bytes.to_vec();
        served.said(0, FromPset::Output { job: JobId(job), rank: Rank(0), stream, bytes }).await;
    }
    let node = NodeId(served.client.job(job).await.expect("known").job.nodes[0]);
    let report = support::behaviour::report(JobId(job), Rank(0), Exit::Status(3));
    served.said(0, support::behaviour::one_end(node, report, &[])).await;
    let [stream, attached, trace] = <[_; 3]>::try_from(streams).ok().expect("three");
    let frames = caller.frames(stream).await;
    assert!(frames.contains(&StreamFrame::Output { rank: 0, bytes: b"out".to_vec() }), "{frames:?}");
    assert!(matches!(frames.last(), Some(StreamFrame::Event(JobEvent::Ended(_)))), "{frames:?}");
    assert!(caller.frames(attached).await.contains(&StreamFrame::Error { rank: 0, bytes: b"err".to_vec() }));
    assert_eq!(caller.frames(trace).await, [StreamFrame::Trace { rank: 0, bytes: b"did".to_vec() }]);
    // Nobody writes logs here, so there is less than there should be.
    let log = caller.open(&of("log?follow=true&rank=0&stream=stderr")).await;
    assert!(matches!(caller.frames(log).await[..], [StreamFrame::Event(JobEvent::Unreadable { .. })]));
}

async fn ranks(served: &Served, caller: &mut Caller) {
    let job = submitted(caller, &with(submission(served, 2), &json!({ "detached": true }))).await;
    let rank = |rank: u32, what: &str| format!("/v1/jobs/{job}/ranks/{rank}/{what}");
    let objects = caller.get(&rank(1, "objects?from=3")).await;
    assert_eq!(objects["objects"][0]["kind"], "file");
    caller.get_refused(&rank(7, "objects"), 404).await;
    caller.get_refused(&rank(1, "objects?from=-1"), 400).await;
    let held = caller.post(&rank(0, "questions"), &json!({ "by": 7, "question": "Hold" })).await;
    assert_eq!(held["Held"]["pid"], 100);
    let order = json!({ "by": 7, "question": { "Memory": { "address": 4096 } } });
    caller.post_refused(&rank(0, "questions"), &order, 400).await;
    caller.post_refused("/v1/jobs/99/ranks/0/questions", &json!({ "by": 7, "question": "Hold" }), 404).await;
    let cut = caller.post(&format!("/v1/jobs/{job}/cut"), &json!({ "last": "Quiet" })).await;
    assert_eq!(cut["steps"][1]["name"], "quiet");
    caller.post_refused("/v1/jobs/99/cut", &json!({}), 404).await;
    caller.post_refused(&format!("/v1/jobs/{job}/cut"), &json!({ "last": "Jump" }), 400).await;
    caller.post(&format!("/v1/jobs/{job}/kill"), &json!({ "signal": 9 })).await;
}

async fn checkpoints(served: &Served, caller: &mut Caller) {
    let fields = json!({ "detached": true, "ranks_per_node": 2,
        "checkpoint_policy": { "every_ms": 60_000, "keep": 2, "max_restarts": 1, "node_mtbf_ms": 1_000_000 } });
    let job = submitted(caller, &with(submission(served, 3), &fields)).await;
    let of = |what: &str| format!("/v1/jobs/{job}/{what}");
    served.put(3, 2);
    let made = caller.post(&of("checkpoint"), &json!({ "mode": "copy", "dma_pending": 4 })).await;
    assert_eq!((&made["checkpoint"], &made["nodes"]), (&json!(format!("{job}@1")), &json!(2)));
    caller.post_refused("/v1/jobs/99/checkpoint", &json!({}), 404).await;
    caller.post_refused(&of("checkpoint"), &json!({ "mode": "fast" }), 400).await;
    assert_eq!(caller.get(&format!("/v1/checkpoints?job={job}")).await[0]["state"], "drained");
    caller.get("/v1/checkpoints").await;
    caller.get_refused("/v1/checkpoints?job=x", 400).await;
    let which = json!({ "job": job, "number": 1 });
    assert_eq!(caller.post("/v1/checkpoints/verify", &which).await["checkpoints"][0], format!("{job}@1"));
    caller.post_refused("/v1/checkpoints/verify", &json!({ "job": 99 }), 404).await;
    caller.post_refused(&of("restart"), &json!({}), 409).await;
    caller.post(&of("kill"), &json!({ "signal": 9 })).await;
    let order = json!({ "detached": true, "verify": true, "checkpoint": 1, "nodes": [2, 3] });
    let restarted = caller.post(&of("restart"), &order).await;
    let view = caller.get(&format!("/v1/jobs/{}", restarted["job"])).await;
    assert_eq!((&view["restarted_from"], &view["nodes"]), (&json!(format!("{job}@1")), &json!([2, 3])));
    caller.post_refused("/v1/jobs/99/restart", &json!({}), 404).await;
    caller.post_refused(&of("restart"), &json!({ "nodes": "all" }), 400).await;
    caller.post(&format!("/v1/jobs/{}/kill", restarted["job"]), &json!({ "signal": 9 })).await;
    assert_eq!(caller.post("/v1/checkpoints/delete", &which).await["checkpoints"][0], format!("{job}@1"));
    caller.post_refused("/v1/checkpoints/delete", &which, 404).await;
}

async fn overlays(served: &Served, caller: &mut Caller) {
    let job = submitted(caller, &with(submission(served, 2), &json!({ "detached": true }))).await;
    let of = |what: &str| format!("/v1/jobs/{job}/{what}");
    assert_eq!(caller.get(&of("overlay")).await["state"], "off");
    let wish = json!({ "wish": { "period_ms": 1000, "placement": "comprehensive", "sample_hz": 100 } });
    assert_eq!(caller.post(&of("overlay"), &wish).await["wish"], wish["wish"]);
    caller.post_refused(&of("overlay"), &json!({ "wish": { "period_ms": 0 } }), 400).await;
    caller.post_refused("/v1/jobs/99/overlay", &json!({ "wish": null }), 404).await;
    caller.get_refused("/v1/jobs/99/overlay", 404).await;
    values::record(&served.client.paths().profiles(), JobId(job));
    assert_eq!(caller.get(&of("profile?limit=2")).await["epochs"][0]["ranks"], 2);
    caller.get_refused(&of("profile?limit=x"), 400).await;
    caller.get_refused("/v1/jobs/99/profile", 404).await;
    let rank = caller.get(&of("profile/ranks/0?limit=9")).await;
    assert_eq!(rank["rank"], 0);
    caller.get_refused(&of("profile/ranks/7"), 404).await;
    let stacks = caller.get(&of("stacks")).await;
    assert_eq!(stacks["stacks"][0]["frames"], json!(["0x400810", "0x400830"]));
    caller.get_refused("/v1/jobs/99/stacks", 404).await;
    caller.post(&of("kill"), &json!({ "signal": 9 })).await;
}

async fn programs(served: &Served, caller: &mut Caller) {
    let file = serde_json::to_value(served.program.to_str()).expect("text");
    let keeping = caller.open_post("/v1/files/keep", &json!({ "file": file, "nodes": [0, 1] })).await;
    let lines = caller.lines(keeping).await;
    assert_eq!(lines.last().expect("an end")["kept"]["nodes"], 2, "{lines:?}");
    for order in [json!({ "file": "x", "nodes": [] }), json!({ "file": file, "nodes": [77] }), json!({})] {
        caller.post_refused("/v1/files/keep", &order, 400).await;
    }
    assert_eq!(caller.get("/v1/programs").await[0]["kept_nodes"], json!([0, 1]));
    caller.post_refused("/v1/programs/forget", &json!({ "program": "/no/such/program" }), 404).await;
    caller.post_refused("/v1/programs/forget", &json!({ "program": 7 }), 400).await;
    caller.post("/v1/programs/forget", &json!({ "program": null })).await;
}
