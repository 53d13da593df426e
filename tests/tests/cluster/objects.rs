//! Programs that combine kernel objects at random: how many of what, in which order, with memory eaten before, between
//! or after, by how many ranks, and how they end. The node answers with errors, it is there when they have ended, and
//! what it counts is as it was.
//!
//! What a job does follows from its seed alone. `COPPICE_SECONDS` makes the test go on for so long with the seeds from
//! `COPPICE_SEED` on, on the nodes that `COPPICE_NODE` names (`64M,2`) or on all kinds; `cargo xtask soak` does.
//! `COPPICE_JOBS` has so many jobs run on each of these instead.

mod node;
mod random;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use node::{Kind, Node};
use random::Job;

/// Nodes of little memory, of one core and of several.
const KINDS: [Kind; 6] = [
    Kind { megabytes: 32, cores: 1 },
    Kind { megabytes: 64, cores: 2 },
    Kind { megabytes: 32, cores: 4 },
    Kind { megabytes: 64, cores: 1 },
    Kind { megabytes: 32, cores: 2 },
    Kind { megabytes: 64, cores: 4 },
];
/// Of these, how many a run of the suite tries, and how many jobs on each.
const KINDS_TRIED: usize = 3;
const JOBS: u64 = 12;
/// The suite's first seed.
const SEED: u64 = 20_261_122;
/// Jobs between two looks at what the node counts, and how long a kind of node has its turn.
const BATCH: u64 = 12;
const TURN: Duration = Duration::from_secs(60);
/// What the kernel's own tables once needed they keep, so that only what grows each time is lost.
const GROWS_EACH_TIME: usize = 3;
/// So many different failures are enough.
const FAILURES_MAX: usize = 8;

/// What to try, and what came of it so far.
struct Trial {
    kinds: Vec<Kind>,
    next_seed: AtomicU64,
    /// When to end …
    end: Option<Instant>,
    /// … or how many jobs to run on each kind.
    jobs_each: u64,
    ranks: AtomicU64,
    jobs: AtomicU64,
    failures: Mutex<Vec<String>>,
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text}")))
}

impl Trial {
    fn new() -> Self {
        let seconds = number("COPPICE_SECONDS");
        let named = std::env::var("COPPICE_NODE").ok().map(|text| vec![Kind::parse(&text)]);
        let tried = if seconds.is_some() { KINDS.len() } else { KINDS_TRIED };
        Self {
            kinds: named.unwrap_or_else(|| KINDS[..tried].to_vec()),
            next_seed: number("COPPICE_SEED").unwrap_or(SEED).into(),
            end: seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds)),
            jobs_each: number("COPPICE_JOBS").unwrap_or(JOBS),
            ranks: AtomicU64::new(0),
            jobs: AtomicU64::new(0),
            failures: Mutex::default(),
        }
    }

    fn is_over(&self) -> bool {
        let failed = self.failures.lock().expect("no panic").len() >= FAILURES_MAX;
        failed || self.end.is_some_and(|end| Instant::now() >= end)
    }

    fn fail(&self, failure: String) {
        println!("{failure}");
        self.failures.lock().expect("no panic").push(failure);
    }

    /// So many jobs, then a look at what the node counts. If that is not as it was, the same jobs again, to see whether
    /// they leave something each time.
    fn batch(&self, node: &mut Node, jobs: u64) {
        let first = self.next_seed.fetch_add(jobs, Ordering::Relaxed);
        let mut left = Ok(());
        for _ in 0..GROWS_EACH_TIME {
            for seed in first..first + jobs {
                if self.is_over() {
                    return;
                }
                match node.run(seed) {
                    Ok(ranks) => self.ranks.fetch_add(ranks, Ordering::Relaxed),
                    Err(what) => return self.fail(node.failure(&Job::of(seed), &what)),
                };
                self.jobs.fetch_add(1, Ordering::Relaxed);
            }
            left = node.is_as_before();
            if left.is_ok() {
                return;
            }
        }
        if let Err(what) = left {
            let what = format!("the seeds {first} to {} leave something each time: {what}", first + jobs - 1);
            self.fail(node.failure(&Job::of(first), &what));
        }
    }

    /// One kind of node: its jobs, or as many as fit into its turn.
    fn turn(&self, kind: Kind) {
        let mut node = Node::boot(kind);
        match self.end {
            None => {
                for first in (0..self.jobs_each).step_by(BATCH as usize) {
                    self.batch(&mut node, BATCH.min(self.jobs_each - first));
                }
            }
            Some(end) => {
                let end = end.min(Instant::now() + TURN);
                while Instant::now() < end && !self.is_over() {
                    self.batch(&mut node, BATCH);
                }
            }
        }
        match node.is_free_as_at_boot() {
            Ok(share) => println!("{kind}: {share:.4} of what was free at boot is free after its jobs"),
            Err(what) => self.fail(format!("{kind}: {what}")),
        }
    }

    /// Kinds of nodes in turn, once or until the time is over.
    fn go(&self) {
        let turns = AtomicU64::new(0);
        let worker = || {
            loop {
                let turn = turns.fetch_add(1, Ordering::Relaxed) as usize;
                let once = self.end.is_none() && turn >= self.kinds.len();
                if once || self.is_over() {
                    break;
                }
                self.turn(self.kinds[turn % self.kinds.len()]);
            }
        };
        // Two at a time, as the suite has clusters.
        std::thread::scope(|scope| {
            scope.spawn(worker);
            scope.spawn(worker);
        });
    }
}

#[test]
fn random_objects_leave_nothing() {
    let trial = Trial::new();
    let start = Instant::now();
    trial.go();
    let (ranks, jobs) = (trial.ranks.load(Ordering::Relaxed), trial.jobs.load(Ordering::Relaxed));
    let seconds = start.elapsed().as_secs_f64();
    println!("{ranks} programs in {jobs} jobs, {:.1} programs/s", ranks as f64 / seconds);
    let failures = trial.failures.into_inner().expect("no panic");
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    assert!(jobs > 0, "nothing was tried");
}
