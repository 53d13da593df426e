//! The worked example of the design, on a node: which frames stay, which are given back, and what is in them.

use coppice_tests::guests::{Toolchain, program};
use coppice_tests::physical::{Memory, Pattern, memory_of};
use coppice_tests::{Cluster, Waiting};
use serde_json::json;

/// What marks the pages of P0 and P1, from their sources; P0's page 2 and P1's page 3 are written.
const P0: [&[u8; 32]; 3] =
    [b"worked example: program P0 page0", b"worked example: program P0 page1", b"worked example: program P0 page3"];
const P1: [&[u8; 32]; 3] =
    [b"worked example: program P1 page0", b"worked example: program P1 page1", b"worked example: program P1 page2"];

/// Frames that hold these pages, on a node where no program runs. (While one does, its pages are also in the buffers
/// they came through.)
#[track_caller]
fn frames(memory: &Memory, pages: [&[u8; 32]; 3]) -> [usize; 3] {
    pages.map(|mark| {
        let found = memory.pages_containing(mark);
        assert_eq!(found.len(), 1, "{}: {found:#x?}", mark.escape_ascii());
        found[0]
    })
}

/// Asserts that frames hold these pages.
#[track_caller]
fn assert_in_place(memory: &Memory, pages: [&[u8; 32]; 3], frames: [usize; 3]) {
    for (mark, frame) in pages.iter().zip(frames) {
        assert!(memory.pages_containing(mark).contains(&frame), "{}: {frame:#x}", mark.escape_ascii());
    }
}

/// The frame that is full of what a program wrote.
#[track_caller]
fn written_frame(memory: &Memory, pattern: &Pattern) -> usize {
    let full = pattern.repeated(coppice_tests::physical::PAGE_BYTES);
    let found: Vec<_> = memory.pages_with(pattern).into_iter().filter(|at| memory.page(*at) == full).collect();
    assert_eq!(found.len(), 1, "{found:#x?}");
    found[0]
}

fn is_zero(page: &[u8]) -> bool {
    page.iter().all(|byte| *byte == 0)
}

/// The worked example, on a node: P0 has pages 0, 1 and 3 that are executed and page 2 that is written; P1 has four
/// frames. After P0, P1 and the order to retain P0: P1's table is gone, P0's pages 0, 1 and 3 are in the frames they
/// were in, page 2 is not there, and what was written is nowhere.
#[test]
fn worked_example_on_a_node() {
    let cluster = Cluster::up_with(&["--nodes", "1", "--retention", "one"]);
    let [p0, p1] = ["worked_p0", "worked_p1"].map(|name| program(name, Toolchain::Bare));
    let [p0, p1] = [&p0, &p1].map(|path| path.to_str().expect("a path"));
    let secret = |number: u64| Pattern::of_seed(71_000 + number);
    let run = |path: &str, number: u64| {
        let waiting = Waiting::start(&cluster, &[path, &(71_000 + number).to_string()], "ready");
        let memory = memory_of(&cluster, 0);
        let ran = waiting.go_on().success();
        assert_eq!(ran.stderr, "");
        (memory, cluster.last_rank(0))
    };
    // The program runs on 3 pages from its file, 1 it writes and 1 of stack. Of these 2 go when it ends, and with them
    // the 3 tables that led to the stack alone.
    let loaded = |rank: &coppice_tests::cluster::Rank| {
        let counts = ["pages_retained", "pages_fetched", "pages_kept", "pages_dropped", "pages_zeroed"];
        assert_eq!(counts.map(|field| rank.count(field)), [0, 3, 3, 2, 5], "{rank:?}");
    };

    let (running, rank) = run(p0, 0);
    loaded(&rank);
    let ended = memory_of(&cluster, 0);
    let (kept, dirty) = (frames(&ended, P0), written_frame(&running, &secret(0)));
    assert_in_place(&running, P0, kept);
    assert!(is_zero(ended.page(dirty)));
    ended.assert_none(&secret(0), "P0");

    let (running, rank) = run(p1, 1);
    loaded(&rank);
    // Both are there now.
    let ended = memory_of(&cluster, 0);
    let (kept_of_p1, dirty_of_p1) = (frames(&ended, P1), written_frame(&running, &secret(1)));
    assert_in_place(&running, P1, kept_of_p1);
    assert_eq!(frames(&ended, P0), kept);
    assert!(is_zero(ended.page(dirty_of_p1)));
    ended.assert_none(&secret(1), "P1");

    let (running, rank) = run(p0, 2);
    // The 5 frames of P0's end, and the 3 pages and 4 tables of P1.
    let answer = json!({ "outcome": "kept", "kept": 3, "dropped": 2, "zeroed": 5 + 7, "discarded": 1 });
    assert_eq!(rank.0["retain"], answer);
    let counts = ["pages_retained", "pages_fetched", "instruction_faults", "pages_kept", "pages_dropped"];
    assert_eq!(counts.map(|field| rank.count(field)), [3, 0, 0, 3, 2], "{rank:?}");
    assert_eq!(frames(&running, P0), kept);
    for number in [0, 1] {
        running.assert_none(&secret(number), "the order to retain P0");
    }
    for mark in P1 {
        assert_eq!(running.pages_containing(mark), [0; 0], "{}", mark.escape_ascii());
    }
    let ended = memory_of(&cluster, 0);
    ended.assert_none(&secret(2), "P0 again");
    assert_eq!(frames(&ended, P0), kept);
    let held = cluster.json(&["nodes"])[0]["retained"].clone();
    assert_eq!(held.as_array().map(Vec::len), Some(1), "{held}");
    assert_eq!((&held[0]["pages"], &held[0]["bytes"]), (&json!(3), &json!((3 + 4) * 4096)), "{held}");
}
