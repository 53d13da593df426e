//! A program and a file on as many nodes as this class of machine carries, over links that are slower than its
//! processors: as they are, with losses, with one that is cut, and with relays that are killed.
//!
//! `COPPICE_STAGED_MIB` says how long the file is, and from 40 on the program is that long, too; `COPPICE_MOMENTS` says
//! how many relays are killed, and `COPPICE_SEED` which and when. `cargo xtask soak --only staging` has all of it.

use std::process::{Child, Stdio};
use std::time::Duration;

use coppice_protocol::trees::TwoTrees;
use coppice_tests::cluster::{Ran, finish_child_within};
use coppice_tests::guests::{BUSYBOX, Toolchain, program};
use coppice_tests::random::{Random, told};
use coppice_tests::{Cluster, host};
use serde_json::Value;

const NODES: u32 = 32;

/// What two cores can drive on all of those links at once.
const BANDWIDTH: &str = "12M";

/// What the suite tries.
const STAGED_MIB: u64 = 3;
const MOMENTS: u64 = 3;
const SEED: u64 = 20_261_125;

/// Files from which on the program is a large one, MiB.
const LARGE_MIB: u64 = 40;

/// Longest that large files may take, on a host that is busy with something else.
const TIME_MAX: Duration = Duration::from_secs(1200);

/// Where jobs find the file.
const PATH: &str = "/in/data";

/// The cluster, and what it is to have.
struct Scene {
    cluster: Cluster,
    /// Reads all of itself and of a file.
    program: String,
    /// The file on the host.
    file: String,
    bytes: u64,
    /// What the program says of both.
    expected: String,
    /// What `sha256sum` says of the file as jobs see it.
    summed: String,
}

impl Scene {
    fn up() -> Self {
        let mib = told("COPPICE_STAGED_MIB").unwrap_or(STAGED_MIB);
        // The program runs from the pages that were staged; beside all of that a node has its kernel.
        let (name, memory) = if mib < LARGE_MIB { ("whole", 64) } else { ("large", 96 + mib) };
        let (nodes, memory) = (NODES.to_string(), format!("{memory}M"));
        let cluster = Cluster::up_with(&["--nodes", &nodes, "--bandwidth", BANDWIDTH, "--memory", &memory]);
        let (program, file) = (program(name, Toolchain::Musl), cluster.root().join("file"));
        let bytes = mib << 20;
        let content: Vec<u8> = (0..bytes).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 53) as u8).collect();
        std::fs::write(&file, content).expect("written");
        let said =
            |program: &str, arguments: &[&str]| host::run(cluster.root(), program.as_ref(), arguments).success().text();
        let (program, file) = (program.to_str().expect("a path").to_owned(), file.to_str().expect("a path").to_owned());
        let expected = said(&program, &[&file]);
        let summed = said(BUSYBOX, &["sha256sum", &file]).replace(&file, PATH);
        Self { cluster, program, file, bytes, expected, summed }
    }

    fn link_all(&self, change: &[&str]) {
        let all = format!("0-{},io0", NODES - 1);
        let _ = self.cluster.coppice(&[&["link", &all], change].concat()).success();
    }

    /// A job on all nodes, which get both the program and the file before it starts.
    fn start(&self) -> Child {
        let (nodes, stage) = (NODES.to_string(), format!("{}={PATH}", self.file));
        let how = ["run", "--quiet", "--no-retain", "-n", &nodes, "--stage-program", "--stage", &stage];
        self.spawn(&[&how[..], &[&self.program, PATH]].concat())
    }

    fn spawn(&self, arguments: &[&str]) -> Child {
        let mut command = self.cluster.command(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started")
    }

    /// Every node had every byte, of others that were what they should be.
    #[track_caller]
    fn all_had_it(&self, ran: Ran, how: &str) {
        let ran = ran.success();
        assert_eq!(ran.text(), self.expected.repeat(NODES as usize), "{how}");
        let job = self.cluster.last_job();
        let transfers = job["transfers"].as_array().map_or(&[][..], Vec::as_slice);
        assert_eq!(transfers.len(), 2, "{how}: {job}");
        for transfer in transfers {
            // On a host that is busy home may give one up that has all of it.
            let members = &transfer["members"];
            assert_eq!((&members["nodes"], &members["wrong"]), (&NODES.into(), &0.into()), "{how}: {transfer}");
            println!("{how}: {}", numbers(transfer));
        }
    }
}

/// What a transfer took, for whoever reads the output.
fn numbers(transfer: &Value) -> String {
    let seconds = transfer["elapsed_ns"].as_f64().unwrap_or_default() / 1e9;
    let of_home = transfer["home_bytes"].as_f64().unwrap_or_default() / transfer["bytes"].as_f64().unwrap_or(1.0);
    let (bytes, bound, asked) = (&transfer["bytes"], &transfer["times_bound"], &transfer["members"]["asked"]);
    format!("{bytes} bytes in {seconds:.1} s, {bound} × the link's time, {of_home:.2} of home, {asked} asked for")
}

#[test]
fn a_program_and_a_file_are_on_every_node_byte_for_byte() {
    let scene = Scene::up();
    scene.all_had_it(finish_child_within(TIME_MAX, scene.start(), "both"), "links as they are");

    scene.link_all(&["--loss", "1%"]);
    scene.all_had_it(finish_child_within(TIME_MAX, scene.start(), "both, with losses"), "1 % of frames lost");
    scene.link_all(&["--loss", "0%"]);

    let cut = NODES / 2 - 1;
    let before = scene.cluster.bytes_to(cut);
    let job = scene.start();
    scene.cluster.wait_for_bytes_to(cut, before + scene.bytes / 4);
    scene.cluster.cut_until_missed(&cut.to_string());
    scene.all_had_it(
        finish_child_within(TIME_MAX, job, "both, with a link that is cut"),
        "a link that was cut and mended",
    );
}

/// Nodes that pass on what they get in one of the trees over all of them.
fn relays() -> Vec<u32> {
    let trees = TwoTrees::new(NODES);
    let is_relay = |member: &u32| (0..2).any(|tree| trees.children(tree, *member).iter().any(Option::is_some));
    (1..=NODES).filter(is_relay).map(|member| member - 1).collect()
}

#[test]
fn a_relay_that_is_killed_costs_the_others_only_time() {
    let seed = told("COPPICE_SEED").unwrap_or(SEED);
    println!("COPPICE_SEED={seed}");
    let mut random = Random::of_seed(seed);
    let scene = Scene::up();
    for moment in 0..told("COPPICE_MOMENTS").unwrap_or(MOMENTS) {
        let victim = random.one_of(&relays());
        let at = random.below(scene.bytes * 9 / 10);
        let how = format!("moment {moment}: node {victim} is killed when {at} bytes have come there");
        println!("{how}");
        let before = scene.cluster.bytes_to(victim);
        // By turns a job, which cannot do without the node, and files that the others keep.
        if moment % 2 == 1 {
            let job = scene.start();
            scene.cluster.wait_for_bytes_to(victim, before + at);
            scene.cluster.kill_process(&format!("n{victim}.qmp"));
            let ran = finish_child_within(TIME_MAX, job, &how);
            assert_eq!(ran.status, 125, "{how}: {}", ran.stderr);
            assert!(ran.stderr.contains(&format!("node {victim}")), "{how}: {}", ran.stderr);
        } else {
            let order = scene.spawn(&["stage", &scene.file]);
            scene.cluster.wait_for_bytes_to(victim, before + at);
            scene.cluster.kill_process(&format!("n{victim}.qmp"));
            scene.others_have_it(finish_child_within(TIME_MAX, order, &how), victim, &how);
        }
        scene.cluster.wait_until_ready();
    }
}

impl Scene {
    /// All but one of the nodes keep the file, whose every byte is right there.
    #[track_caller]
    fn others_have_it(&self, ran: Ran, victim: u32, how: &str) {
        let (said, lost) = (ran.text(), format!("node {victim} does not have it: it was lost"));
        let others_alone =
            ran.status == 125 && ran.stderr.contains(&lost) && said.ends_with(" on 31 nodes, 0 had it\n");
        // It may have come to all of it before the signal came to it.
        let all = ran.status == 0 && said.ends_with(" on 32 nodes, 0 had it\n");
        assert!(others_alone || all, "{how}: {}: {said}{}", ran.status, ran.stderr);
        let others: Vec<String> = (0..NODES).filter(|node| *node != victim).map(|node| node.to_string()).collect();
        let (count, list, stage) = (others.len().to_string(), others.join(","), format!("{}={PATH}", self.file));
        let ran = self.cluster.run(&[
            "-n",
            &count,
            "--nodes-list",
            &list,
            "--no-stage",
            "--stage",
            &stage,
            BUSYBOX,
            "sha256sum",
            PATH,
        ]);
        assert_eq!(ran.success().text(), self.summed.repeat(others.len()), "{how}");
        let forgotten = self.cluster.coppice(&["forget", &self.file]).success();
        assert!(forgotten.text().starts_with("31 nodes gave back "), "{how}: {}", forgotten.text());
    }
}
