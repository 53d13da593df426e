//! Files that jobs have staged: what I/O nodes are told of them, what is refused, and how long they are kept.

mod support;

use std::fs;
use std::path::{Path, PathBuf};

use coppice_api::job::{JobState, Submission};
use coppice_api::staging::{ProgramStaging, Staged, StagedView};
use coppice_protocol::ids::{JobId, PsetId};
use coppice_protocol::pset::{StartJob, ToPset};
use coppice_protocol::psets::PsetTable;
use coppice_protocol::staging::StagedFile;
use coppice_service_node::controller::{Event, Refused, Request};
use coppice_service_node::limits::LINK_BYTES_PER_SECOND_DEFAULT;
use coppice_service_node::plant::{MTU, PlantEvent};
use coppice_service_node::store::{Held, Kind, Source};
use support::{Cluster, FILE, Order, PROGRAM, job};

struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("directory"))
    }

    fn file(&self, name: &str, bytes: usize) -> PathBuf {
        let path = self.0.path().join(name);
        let text = name.bytes().cycle().take(bytes).collect::<Vec<_>>();
        fs::write(&path, text).expect("written");
        path
    }
}

/// A job that has such files staged, at paths of their names.
fn staging(files: &[&Path], job: Submission) -> Submission {
    let name = |file: &Path| file.file_name().expect("a name").to_string_lossy().into_owned();
    let staged =
        files.iter().map(|file| Staged { file: file.to_path_buf(), path: format!("/in/{}", name(file)).into() });
    Submission { staged: staged.collect(), ..job }
}

fn submit(cluster: &mut Cluster, job: Submission) -> Result<JobId, Refused> {
    let read = |staged: &Staged| cluster.store.import_as(Kind::Data, &staged.file).expect("read").0;
    let staged: Vec<Held> = job.staged.iter().map(read).collect();
    let program = cluster.store.hold(PROGRAM);
    cluster.ask(|answer| Request::Submit(Box::new(job), program, FILE, staged, answer))
}

fn starts(cluster: &Cluster, job: JobId) -> Vec<StartJob> {
    let start = |message: &ToPset| match message {
        ToPset::Start(start) if start.job == job => Some(start.clone()),
        _ => None,
    };
    cluster.told().filter_map(|(_, message)| start(message)).collect()
}

#[test]
fn all_io_nodes_of_a_job_are_told_what_is_staged_and_the_first_nodes_has_it() {
    let (mut cluster, files) = (Cluster::up(4, 2), Files::new());
    let (a, b) = (files.file("a", 5000), files.file("b", 1));
    let wanted = Submission { nodes: vec![2, 0], stage_program: ProgramStaging::Always, ..staging(&[&a, &b], job(2)) };
    let id = submit(&mut cluster, wanted).expect("accepted");
    let starts = starts(&cluster, id);
    assert_eq!(starts.len(), 2);
    for start in &starts {
        let staging = start.staging.as_ref().expect("staged");
        assert_eq!((staging.home, staging.psets, staging.mtu), (PsetId(1), PsetTable::new(4, 2), MTU));
        assert_eq!((staging.bytes_per_second, staging.latency_ns), (LINK_BYTES_PER_SECOND_DEFAULT, 50_000));
        let [program, first, second] = &staging.files[..] else { panic!("{:?}", staging.files) };
        assert_eq!(*program, StagedFile { content: PROGRAM.id, bytes: PROGRAM.bytes, path: None });
        assert_eq!((&first.path, first.bytes), (&Some("/in/a".into()), 5000));
        assert_eq!((&second.path, second.bytes), (&Some("/in/b".into()), 1));
        let stored: Vec<_> = start.staged_files.iter().map(|path| path.to_str().expect("text")).collect();
        assert_eq!(fs::read(stored[1]).expect("stored"), fs::read(&a).expect("there"));
        assert_eq!(fs::read(stored[2]).expect("stored"), fs::read(&b).expect("there"));
        assert_eq!((stored[0], stored.len()), (start.program_file.to_str().expect("text"), 3));
    }
    let view = |path: Option<&str>, bytes| StagedView { path: path.map(Into::into), bytes };
    let asked = [view(None, PROGRAM.bytes), view(Some("/in/a"), 5000), view(Some("/in/b"), 1)];
    assert_eq!(cluster.job(id).job.staged, asked);
    let nothing = cluster.submit(job(1)).expect("accepted");
    let start = &self::starts(&cluster, nothing)[0];
    assert_eq!((&start.staging, start.staged_files.len()), (&None, 0));
}

#[test]
fn a_program_that_all_nodes_hold_is_not_staged() {
    let mut cluster = Cluster::keeping_many(2, 2);
    let wanted = |retain| Submission { nodes: vec![0, 1], stage_program: ProgramStaging::Always, retain, ..job(2) };
    cluster.run_on(PROGRAM, &[0]);
    let mut staged = |retain| {
        let id = cluster.submit(wanted(retain)).expect("accepted");
        let start = starts(&cluster, id).remove(0);
        cluster.end(id);
        start.staging.map(|staging| staging.files.len())
    };
    assert_eq!(staged(true), Some(1), "node 1 does not hold it");
    assert_eq!(staged(true), None);
    assert_eq!(staged(false), Some(1));
}

#[test]
fn what_nodes_have_no_room_for_is_refused_with_the_numbers() {
    let (mut cluster, files) = (Cluster::up(2, 2), Files::new());
    let (a, b) = (files.file("a", 40 << 20), files.file("b", 24 << 20));
    submit(&mut cluster, staging(&[&a], job(1))).expect("accepted");
    let refused = submit(&mut cluster, staging(&[&a, &b], job(1))).expect_err("too much");
    let message = refused.message;
    assert!(message.contains("67108864 bytes") && message.contains("62914560 bytes of memory free"), "{message}");
    assert!(message.contains("--memory") && !message.contains('\n'), "{message}");
}

#[test]
fn a_staged_file_is_kept_as_long_as_a_job_needs_it_and_is_no_program() {
    let (mut cluster, files) = (Cluster::with_room(1, 6000), Files::new());
    let a = files.file("a", 5000);
    let first = submit(&mut cluster, staging(&[&a], job(1))).expect("accepted");
    let copy = PathBuf::from(starts(&cluster, first)[0].staged_files[0].to_str().expect("text"));
    let second = submit(&mut cluster, staging(&[&a], job(1))).expect("accepted");
    let other = cluster.submit_program(support::program(9), job(1)).expect("accepted");
    cluster.end(first);
    assert!(copy.exists(), "another job has it staged");
    cluster.end(second);
    assert!(!copy.exists());
    cluster.end(other);
    let programs = cluster.ask(Request::Programs).expect("programs");
    assert_eq!(programs.len(), 2);
    // Whoever names it as a program is not taken for somebody who names a known one.
    let file = coppice_service_node::store::file_key(Kind::Program, &a).expect("a file");
    assert!(cluster.ask(|answer| Request::KnownProgram(file, answer)).expect("asked").is_none());
}

#[test]
fn what_jobs_have_staged_has_a_limit_together() {
    let (mut cluster, files) = (Cluster::with_room(1, 20_000), Files::new());
    let (a, b, c) = (files.file("a", 9000), files.file("b", 9000), files.file("c", 9000));
    let first = submit(&mut cluster, staging(&[&a], job(1))).expect("accepted");
    let second = submit(&mut cluster, staging(&[&a, &b], job(1))).expect("one of them is kept already");
    let refused = submit(&mut cluster, staging(&[&c], job(1))).expect_err("too much");
    assert_eq!(refused.status, 409);
    assert!(refused.message.contains("at most 20000 are kept; wait") && !refused.message.contains('\n'));
    let copy = cluster.store.path(cluster.store.import_as(Kind::Data, &c).expect("read").0.id);
    assert!(!copy.exists(), "what was refused is not kept");
    // Who has nothing staged is not kept from anything.
    cluster.submit(job(1)).expect("accepted");
    cluster.end(first);
    cluster.end(second);
    submit(&mut cluster, staging(&[&c], job(1))).expect("there is room again");
}

#[test]
fn a_staged_copy_altered_while_its_job_waits_is_made_anew() {
    let (mut cluster, files) = (Cluster::up(1, 1), Files::new());
    let a = files.file("a", 5000);
    let running = cluster.submit(job(1)).expect("accepted");
    let queued = submit(&mut cluster, staging(&[&a], job(1))).expect("accepted");
    let held = cluster.store.import_as(Kind::Data, &a).expect("read").0;
    let copy = cluster.store.path(held.id);
    fs::remove_file(&copy).expect("removed");
    fs::write(&copy, "bad").expect("altered");
    cluster.behaviour.program = None;
    cluster.orders.clear();
    cluster.end(running);
    let checks = |cluster: &Cluster| {
        cluster.orders.iter().filter(|order| matches!(order, Order::CheckProgram(id) if *id == queued)).count()
    };
    assert_eq!(checks(&cluster), 1, "the program, of which there is no copy here");
    let found = Ok(coppice_service_node::store::Found::Sound);
    cluster.event(Event::Plant(PlantEvent::Program { job: queued, found }));
    assert_eq!((checks(&cluster), starts(&cluster, queued).len()), (2, 0));
    let found = cluster.store.ensure(&held, &Source { kind: Kind::Data, path: a.clone() });
    let found = found.map_err(|error| error.to_string());
    cluster.event(Event::Plant(PlantEvent::Program { job: queued, found }));
    assert_eq!((starts(&cluster, queued).len(), cluster.job(queued).job.state), (1, JobState::Running));
    assert_eq!(fs::read(&copy).expect("there"), fs::read(&a).expect("there"));
}

#[test]
fn what_cannot_be_staged_is_refused_in_one_line() {
    let (cluster, files) = (Cluster::up(1, 1), Files::new());
    let cases = [
        (files.file("empty", 0), "staged file '"),
        (files.0.path().to_owned(), "name a file to stage"),
        (PathBuf::from("/no/such\n"), "No such file"),
    ];
    for (path, words) in cases {
        let error = cluster.store.import_as(Kind::Data, &path).expect_err(words).to_string();
        assert!(error.contains(words) && !error.contains('\n'), "{error}");
    }
}
