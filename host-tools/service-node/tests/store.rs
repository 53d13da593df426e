//! The store of programs: what a job needs stays, what nobody needs goes, and nothing runs that was altered.

mod support;

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use coppice_api::job::{EXIT_COPPICE, JobState, RankOutcome, Submission};
use coppice_api::node::NodeState;
use coppice_api::ras::RasQuery;
use coppice_protocol::ids::JobId;
use coppice_protocol::pset::ToPset;
use coppice_service_node::controller::{Event, Refused, Request};
use coppice_service_node::database::FileKey;
use coppice_service_node::plant::PlantEvent;
use coppice_service_node::store::{Found, Held, Kind, ProgramStore, Source, StoreError, file_key};
use support::{Cluster, Order, job, program_file};

/// Files of programs that differ.
struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("directory"))
    }

    fn program(&self, name: &str) -> PathBuf {
        let path = self.0.path().join(name);
        let mut bytes = program_file();
        bytes[4000..4000 + name.len()].copy_from_slice(name.as_bytes());
        fs::write(&path, bytes).expect("written");
        path
    }
}

/// What a program's copy is made from.
fn source(path: &Path) -> Source {
    Source { kind: Kind::Program, path: path.to_owned() }
}

/// As a submission has its program: known or read now.
fn find(cluster: &mut Cluster, path: &Path) -> (Held, FileKey) {
    let file = file_key(Kind::Program, path).expect("a file");
    match cluster.ask(|answer| Request::KnownProgram(file, answer)).expect("asked") {
        Some(held) => (held, file),
        None => cluster.store.import(path).expect("read"),
    }
}

fn submit_found(cluster: &mut Cluster, path: &Path, (held, file): (Held, FileKey)) -> Result<JobId, Refused> {
    let job = Submission { program: path.to_owned(), ..job(1) };
    cluster.ask(|answer| Request::Submit(Box::new(job), held, file, Vec::new(), answer))
}

fn submit(cluster: &mut Cluster, path: &Path) -> JobId {
    let found = find(cluster, path);
    submit_found(cluster, path, found).expect("accepted")
}

fn state(cluster: &mut Cluster, job: JobId) -> JobState {
    cluster.job(job).job.state
}

/// How many programs are in the store, each with its tree, and nothing else.
fn stored(cluster: &Cluster) -> usize {
    let directory = support::paths(cluster.home.path()).programs();
    let (trees, programs): (Vec<_>, Vec<_>) = fs::read_dir(&directory)
        .expect("store")
        .map(|entry| entry.expect("entry").path())
        .partition(|path| path.extension().is_some_and(|extension| extension == "tree"));
    assert_eq!(trees.len(), programs.len());
    assert!(programs.iter().all(|program| tree_of(program).exists()));
    programs.len()
}

/// Where the tree of a stored copy is.
fn tree_of(copy: &Path) -> PathBuf {
    copy.with_extension("tree")
}

fn was_started(cluster: &Cluster, job: JobId) -> bool {
    cluster.told().any(|(_, message)| matches!(message, ToPset::Start(start) if start.job == job))
}

/// Changes a byte of a stored copy and hides that as far as programs can.
fn alter(copy: &Path) {
    let modified = fs::metadata(copy).expect("there").modified().expect("a time");
    let mut bytes = fs::read(copy).expect("read");
    bytes[4090] ^= 1;
    fs::set_permissions(copy, Permissions::from_mode(0o600)).expect("opened");
    fs::write(copy, bytes).expect("written");
    File::options().write(true).open(copy).expect("open").set_modified(modified).expect("set back");
    fs::set_permissions(copy, Permissions::from_mode(0o400)).expect("closed");
}

fn altered_events(cluster: &mut Cluster) -> usize {
    let events = cluster.ask(|answer| Request::Ras(RasQuery::default(), answer)).expect("events");
    events.iter().filter(|event| event.kind == "recovery" && event.text.contains("stored copy")).count()
}

#[test]
fn what_was_found_in_the_store_stays_until_its_job_ends() {
    let (mut cluster, files) = (Cluster::without_room(2), Files::new());
    let (a, b) = (files.program("a"), files.program("b"));
    let first = submit(&mut cluster, &a);
    cluster.end(first);
    let held = find(&mut cluster, &a).0;
    let copy = cluster.store.path(held.id);
    drop(held);
    assert!(copy.exists(), "nobody needs its room yet");
    // Between the look and the job another one takes its room.
    let found = find(&mut cluster, &a);
    let other = submit(&mut cluster, &b);
    assert!(copy.exists());
    let second = submit_found(&mut cluster, &a, found).expect("accepted");
    assert_eq!(state(&mut cluster, second), JobState::Running);
    assert!(copy.exists());
    cluster.end(other);
    cluster.end(second);
    // Nobody needs it any more: the next one takes its room.
    let third = submit(&mut cluster, &b);
    assert_eq!((copy.exists(), stored(&cluster)), (false, 1));
    let listed = cluster.ask(Request::Programs).expect("programs");
    assert_eq!(listed.iter().map(|program| program.stored).collect::<Vec<_>>(), [false, true]);
    cluster.end(third);
}

#[test]
fn a_queued_job_finds_its_program_after_hours() {
    let (mut cluster, files) = (Cluster::without_room(1), Files::new());
    let [a, b, c] = ["a", "b", "c"].map(|name| files.program(name));
    let running = submit(&mut cluster, &b);
    let queued = submit(&mut cluster, &a);
    let held = find(&mut cluster, &a).0;
    let copy = cluster.store.path(held.id);
    drop(held);
    for id in [running, queued] {
        let _stream = cluster.ask(|answer| Request::Attach(id, answer)).expect("its stream");
    }
    for _ in 0..5 {
        cluster.pass(Duration::from_secs(3600));
        let refused = submit(&mut cluster, &c);
        cluster.ask(|answer| Request::Kill(refused, 9, answer)).expect("killed");
        assert!(copy.exists());
    }
    cluster.end(running);
    assert!(was_started(&cluster, queued) && copy.exists());
    cluster.end(queued);
    let _last = submit(&mut cluster, &c);
    assert_eq!((copy.exists(), stored(&cluster)), (false, 1));
}

#[test]
fn two_submissions_of_a_program_overlap_with_an_eviction() {
    let (mut cluster, files) = (Cluster::without_room(3), Files::new());
    let (a, b) = (files.program("a"), files.program("b"));
    let copies = [a.clone(), files.0.path().join("copy")];
    fs::copy(&copies[0], &copies[1]).expect("copied");
    // Both read it, as neither knows of the other.
    let [one, two] = copies.each_ref().map(|path| cluster.store.import(path).expect("read"));
    let copy = cluster.store.path(one.0.id);
    let first = submit_found(&mut cluster, &a, one).expect("accepted");
    cluster.end(first);
    let other = submit(&mut cluster, &b);
    assert!(copy.exists(), "the second needs it");
    let second = submit_found(&mut cluster, &copies[1], two).expect("accepted");
    assert!(copy.exists() && was_started(&cluster, second));
    cluster.end(second);
    cluster.end(other);
    let _last = submit(&mut cluster, &b);
    assert!(!copy.exists());
}

#[test]
fn what_comes_to_nothing_leaves_nothing() {
    let (mut cluster, files) = (Cluster::up(1, 1), Files::new());
    let a = files.program("a");
    let (held, again) = (cluster.store.import(&a).expect("read").0, cluster.store.import(&a).expect("read").0);
    let copy = cluster.store.path(held.id);
    drop(held);
    assert!(copy.exists());
    drop(again);
    assert_eq!(stored(&cluster), 0);
    // What is recorded stays, also if one more submission of it comes to nothing.
    let id = submit(&mut cluster, &a);
    cluster.end(id);
    drop(cluster.store.import(&a).expect("read"));
    assert!(copy.exists());
    // What a killed service node had read and not recorded goes with the next one; nothing else does.
    let directory = support::paths(cluster.home.path()).programs();
    let names = ["ab".repeat(32), "notes".to_owned()];
    names.iter().for_each(|name| fs::write(directory.join(name), "x").expect("written"));
    let cluster = cluster.restarted();
    assert_eq!(names.map(|name| directory.join(name).exists()), [false, true]);
    assert!(copy.exists());
    drop(cluster.store.import(&a).expect("read"));
    assert!(copy.exists());
}

#[test]
fn a_copy_is_hashed_again_only_if_somebody_touched_it() {
    let (home, files) = (tempfile::tempdir().expect("directory"), Files::new());
    let store = ProgramStore::open(home.path().to_owned()).expect("store");
    let a = files.program("a");
    let (held, _) = store.import(&a).expect("read");
    let copy = store.path(held.id);
    assert!(store.is_unaltered(held.id));
    fs::set_permissions(&copy, Permissions::from_mode(0o400)).expect("touched");
    assert!(!store.is_unaltered(held.id));
    assert_eq!(store.check(&held).expect("looked at"), Found::Sound);
    assert!(store.is_unaltered(held.id));
    // Whoever comes later knows nothing of it.
    let later = ProgramStore::open(home.path().to_owned()).expect("store");
    assert!(!later.is_unaltered(held.id));
    let held_later = later.hold(*held);
    assert_eq!(later.check(&held_later).expect("looked at"), Found::Sound);
    assert!(later.is_unaltered(held.id));
    alter(&copy);
    assert!(!store.is_unaltered(held.id));
    assert_eq!(store.ensure(&held, &source(&a)).expect("made anew"), Found::Altered);
    assert_eq!(fs::read(&copy).expect("there"), fs::read(&a).expect("there"));
    assert!(store.is_unaltered(held.id));
    // Its tree counts like itself.
    let (tree, sound) = (tree_of(&copy), fs::read(tree_of(&copy)).expect("there"));
    for altered in [Some(vec![7; sound.len()]), Some(Vec::new()), None] {
        fs::remove_file(&tree).expect("removed");
        altered.iter().for_each(|altered| fs::write(&tree, altered).expect("written"));
        assert!(!store.is_unaltered(held.id));
        assert_eq!(store.ensure(&held, &source(&a)).expect("made anew"), Found::Altered);
        assert_eq!(fs::read(&tree).expect("there"), sound);
    }
    // Longer, shorter, gone, or another kind of file.
    for bytes in [vec![0; 5000], vec![0; 10]] {
        fs::remove_file(&copy).expect("removed");
        fs::write(&copy, bytes).expect("written");
        assert_eq!(store.ensure(&held, &source(&a)).expect("made anew"), Found::Altered);
    }
    fs::remove_file(&copy).expect("removed");
    assert_eq!(store.ensure(&held, &source(&a)).expect("made anew"), Found::Absent);
    fs::remove_file(&copy).expect("removed");
    std::os::unix::fs::symlink(&a, &copy).expect("linked");
    assert_eq!(store.ensure(&held, &source(&a)).expect("made anew"), Found::Altered);
    // The program is another one by now.
    alter(&copy);
    fs::write(&a, fs::read(files.program("b")).expect("read")).expect("written");
    assert!(matches!(store.ensure(&held, &source(&a)), Err(StoreError::Lost(path)) if path == a));
    assert!(!copy.exists());
}

/// A queued job whose program is altered, and which then gets its node. Nothing has come yet of the look at its
/// program.
fn about_to_start(cluster: &mut Cluster, program: &Path, other: &Path) -> (JobId, Held) {
    let running = submit(cluster, other);
    let queued = submit(cluster, program);
    let held = find(cluster, program).0;
    alter(&cluster.store.path(held.id));
    cluster.behaviour.program = None;
    cluster.end(running);
    assert!(cluster.orders.iter().any(|order| matches!(order, Order::CheckProgram(id) if *id == queued)));
    assert!(!was_started(cluster, queued));
    assert_eq!(state(cluster, queued), JobState::Starting);
    (queued, held)
}

fn looked(cluster: &mut Cluster, job: JobId, held: &Held, source: &Path) {
    let found = cluster.store.ensure(held, &self::source(source)).map_err(|error| error.to_string());
    cluster.event(Event::Plant(PlantEvent::Program { job, found }));
}

#[test]
fn a_program_altered_while_its_job_waits_is_made_anew() {
    let (mut cluster, files) = (Cluster::up(1, 1), Files::new());
    let (a, b) = (files.program("a"), files.program("b"));
    let (id, held) = about_to_start(&mut cluster, &a, &b);
    looked(&mut cluster, id, &held, &a);
    assert!(was_started(&cluster, id));
    assert_eq!((state(&mut cluster, id), altered_events(&mut cluster)), (JobState::Running, 1));
    assert_eq!(fs::read(cluster.store.path(held.id)).expect("there"), fs::read(&a).expect("there"));
    cluster.end(id);
    // One that nobody has touched is not even looked at.
    cluster.orders.clear();
    let warm = submit(&mut cluster, &a);
    assert!(was_started(&cluster, warm));
    assert!(!cluster.orders.iter().any(|order| matches!(order, Order::CheckProgram(_))));
}

#[test]
fn a_program_that_cannot_be_made_anew_ends_its_job() {
    let (mut cluster, files) = (Cluster::up(1, 1), Files::new());
    let (a, b) = (files.program("a"), files.program("b"));
    let (id, held) = about_to_start(&mut cluster, &a, &b);
    fs::remove_file(&a).expect("removed");
    looked(&mut cluster, id, &held, &a);
    let detail = cluster.job(id);
    assert_eq!((detail.job.state, detail.job.exit_status), (JobState::Ended, Some(EXIT_COPPICE)));
    assert!(detail.job.reason.is_some_and(|reason| reason.contains("cannot read program")));
    assert_eq!(detail.rank_reports[0].outcome, RankOutcome::NotStarted);
    assert!(!was_started(&cluster, id) && cluster.nodes()[0].state == NodeState::Ready);
}

#[test]
fn a_job_can_end_while_its_program_is_looked_at() {
    let (mut cluster, files) = (Cluster::up(1, 1), Files::new());
    let (a, b) = (files.program("a"), files.program("b"));
    let (killed, held) = about_to_start(&mut cluster, &a, &b);
    cluster.ask(|answer| Request::Kill(killed, 15, answer)).expect("killed");
    assert_eq!(cluster.job(killed).job.exit_status, Some(128 + 15));
    assert_eq!(cluster.nodes()[0].state, NodeState::Ready);
    looked(&mut cluster, killed, &held, &a);
    assert!(!was_started(&cluster, killed));
    cluster.behaviour.program = Some(Ok(Found::Sound));
    let (lost, held) = about_to_start(&mut cluster, &a, &b);
    cluster.lose_machine(0);
    let detail = cluster.job(lost);
    assert_eq!((detail.job.state, detail.job.exit_status), (JobState::Ended, Some(EXIT_COPPICE)));
    assert_eq!(detail.rank_reports[0].outcome, RankOutcome::Lost);
    looked(&mut cluster, lost, &held, &a);
    assert!(!was_started(&cluster, lost));
}

#[test]
fn threads_that_take_and_remove_never_take_from_each_other() {
    let (home, files) = (tempfile::tempdir().expect("directory"), Files::new());
    let store = ProgramStore::open(home.path().to_owned()).expect("store");
    let a = files.program("a");
    let id = store.import(&a).expect("read").0.id;
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let remover = scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                store.remove(id).expect("removed or not");
            }
        });
        let takers = [(); 3].map(|()| {
            scope.spawn(|| {
                for _ in 0..50 {
                    let held = store.import(&a).expect("read").0;
                    let again = store.hold(*held);
                    drop(held);
                    assert!(store.path(id).exists());
                    assert_eq!(store.check(&again).expect("looked at"), Found::Sound);
                }
            })
        });
        let takers = takers.map(|taker| taker.join());
        is_done.store(true, Ordering::Relaxed);
        remover.join().expect("removed");
        takers.into_iter().for_each(|taker| taker.expect("it was there"));
    });
}
