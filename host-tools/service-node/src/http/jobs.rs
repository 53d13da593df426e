//! Jobs: submitted, listed, killed.

use std::collections::BTreeSet;
use std::path::Path;

use axum::Json;
use axum::extract::State;
use coppice_api::checkpoint::CheckpointPolicy;
use coppice_api::job::{JobDetail, JobView, JobsQuery, KillOrder, Submission, Submitted};
use coppice_api::limits::{
    CHECKPOINT_INTERVAL_MS_MIN, CHECKPOINTS_KEPT_MAX, LISTING_ROWS_DEFAULT, LISTING_ROWS_MAX, NODE_MTBF_MS_MAX,
    NODE_MTBF_MS_MIN, OUTPUT_LOG_BYTES_MAX, OUTPUT_LOG_BYTES_MIN, RESTARTS_MAX,
};
use coppice_api::schema::Nothing;
use coppice_api::shown;
use coppice_api::staging::{ProgramStaging, Staged, staged_path};
use coppice_protocol::ids::JobId;
use coppice_protocol::limits::{ARGUMENT_BYTES_MAX, PATH_BYTES_MAX, RANKS_PER_NODE_MAX, STAGED_FILES_MAX};

use super::{Answered, Api, Bad, Missing, Number, OfJob, Order, Parameters, Usual, answer};
use crate::controller::{Refused, Request, check_overlay};
use crate::database::FileKey;
use crate::limits::{HOST_FILE_TIME_MAX, IMPORT_TIME_MAX, LAUNCH_BYTES_PER_NODE_MAX, LAUNCHED_TEXT_BYTES};
use crate::store::{Found, Held, Kind, StoreError, file_key, plain};

/// The newest jobs, the newest last.
#[utoipa::path(
    get,
    path = "/v1/jobs",
    tag = "jobs",
    operation_id = "jobs",
    params(JobsQuery),
    responses((status = 200, description = "The jobs.", body = Vec<JobView>), Bad, Usual)
)]
pub(super) async fn list(State(api): State<Api>, Parameters(query): Parameters<JobsQuery>) -> Answered<Vec<JobView>> {
    let limit = query.limit.unwrap_or(LISTING_ROWS_DEFAULT).min(LISTING_ROWS_MAX);
    let before = query.before.map(JobId);
    answer(api.ask(|answer| Request::Jobs(limit, before, answer)).await)
}

/// A job, and what became of each of its ranks.
#[utoipa::path(
    get,
    path = "/v1/jobs/{job}",
    tag = "jobs",
    operation_id = "job",
    params(OfJob),
    responses((status = 200, description = "The job.", body = JobDetail), Bad, Missing, Usual)
)]
pub(super) async fn show(State(api): State<Api>, Number(OfJob { job }): Number<OfJob>) -> Answered<JobDetail> {
    answer(api.ask(|answer| Request::Job(JobId(job), answer)).await)
}

/// Sends a job a signal.
#[utoipa::path(
    post,
    path = "/v1/jobs/{job}/kill",
    tag = "jobs",
    operation_id = "kill",
    params(OfJob),
    request_body = KillOrder,
    responses((status = 200, description = "It was sent.", body = Nothing), Bad, Missing, Usual)
)]
pub(super) async fn kill(
    State(api): State<Api>,
    Number(OfJob { job }): Number<OfJob>,
    Order(order): Order<KillOrder>,
) -> Answered<()> {
    answer(api.ask(|answer| Request::Kill(JobId(job), order.signal, answer)).await)
}

/// Submits a job.
///
/// Unless it is detached, its stream must be opened soon (`GET /v1/jobs/{job}/stream`), or it is killed.
#[utoipa::path(
    post,
    path = "/v1/jobs",
    tag = "jobs",
    operation_id = "submit",
    request_body = Submission,
    responses((status = 200, description = "It was taken.", body = Submitted), Bad, Usual)
)]
pub(super) async fn submit(State(api): State<Api>, Order(mut submission): Order<Submission>) -> Answered<Submitted> {
    (submission.restarted_from, submission.spawned_by) = (None, None);
    make_plain(&mut submission.staged)?;
    check(&submission)?;
    let expected = api.connections.expect_job()?;
    check_root_of(&api, &submission).await?;
    let (program, file) = find(&api, Kind::Program, &submission.program).await?;
    let mut staged = Vec::new();
    for Staged { file, .. } in &submission.staged {
        staged.push(find(&api, Kind::Data, file).await?.0);
    }
    let is_detached = submission.detached;
    let job = api.ask(|answer| Request::Submit(Box::new(submission), program, file, staged, answer)).await?;
    if !is_detached {
        expected.until_attached(job);
    }
    Ok(Json(Submitted { job: job.0 }))
}

/// What can be checked of a job without knowing anything of the cluster.
pub(super) fn check(job: &Submission) -> Result<(), Refused> {
    if job.ranks == 0 {
        return Err(Refused::bad("-n 0 ranks is no job; use 1 or more".to_owned()));
    }
    if !(1..=RANKS_PER_NODE_MAX).contains(&job.ranks_per_node) {
        let given = job.ranks_per_node;
        return Err(Refused::bad(format!("--ranks-per-node {given}: a node takes 1 to {RANKS_PER_NODE_MAX} ranks")));
    }
    if let Some(rank) = job.input_rank.filter(|rank| *rank >= job.ranks) {
        let last = job.ranks - 1;
        return Err(Refused::bad(format!("--stdin-rank {rank}: the job has ranks 0 to {last}; name one, or `none`")));
    }
    if job.detached && job.traced {
        return Err(Refused::bad(
            "--trace: nobody is there to take what a detached job calls; `coppice trace`".to_owned(),
        ));
    }
    if job.detached && job.core_file {
        return Err(Refused::bad(
            "--core: nobody is there to write what a detached job leaves; run it attached".to_owned(),
        ));
    }
    if job.detached && job.input_rank.is_some() {
        return Err(Refused::bad("--detach: a detached job has no standard input; leave --stdin-rank out".to_owned()));
    }
    if let Some(limit) = job.keep_output
        && !(OUTPUT_LOG_BYTES_MIN..=OUTPUT_LOG_BYTES_MAX).contains(&limit)
    {
        return Err(Refused::bad(format!(
            "--keep-output: a log of {limit} bytes is none; use {OUTPUT_LOG_BYTES_MIN} to {OUTPUT_LOG_BYTES_MAX}"
        )));
    }
    if job.estimate_ms == Some(0) {
        return Err(Refused::bad("--estimate 0 is no time; say how long the job runs, or nothing".to_owned()));
    }
    if let Some(policy) = &job.checkpoint_policy {
        check_policy(policy)?;
    }
    let texts = job.arguments.iter().chain(&job.environment).chain([&job.name]);
    // Each ends with a zero on the program's stack, and there is a pointer to it.
    let bytes: usize = texts.clone().map(|text| text.len() + 1 + size_of::<u64>()).sum();
    if bytes > ARGUMENT_BYTES_MAX {
        return Err(Refused::bad(format!(
            "arguments and environment have {bytes} bytes together, at most {ARGUMENT_BYTES_MAX} can be passed; put \
             them into a file"
        )));
    }
    let on_a_node = job.ranks.min(job.ranks_per_node) as usize;
    let bytes = bytes + texts.clone().count() * LAUNCHED_TEXT_BYTES;
    if bytes.saturating_mul(on_a_node) > LAUNCH_BYTES_PER_NODE_MAX {
        return Err(Refused::bad(format!(
            "arguments and environment take {bytes} bytes for each of {on_a_node} ranks on a node, at most \
             {LAUNCH_BYTES_PER_NODE_MAX} together can be passed; put them into a file, or use fewer --ranks-per-node"
        )));
    }
    if texts.chain([&job.directory]).any(|text| text.contains(&0)) {
        return Err(Refused::bad("a zero byte cannot be passed to a program".to_owned()));
    }
    if let Some(bad) =
        job.environment.iter().find(|pair| pair.iter().position(|byte| *byte == b'=').is_none_or(|at| at == 0))
    {
        return Err(Refused::bad(format!("'{bad}' is no environment variable; use NAME=VALUE")));
    }
    if !job.directory.starts_with(b"/") || job.directory.len() >= PATH_BYTES_MAX {
        return Err(Refused::bad(format!("the working directory '{}' is not an absolute path", job.directory)));
    }
    job.overlay.as_ref().map_or(Ok(()), check_overlay)?;
    check_staged(job)
}

/// What can be checked of how checkpoints are to be made of a job by itself.
fn check_policy(policy: &CheckpointPolicy) -> Result<(), Refused> {
    let CheckpointPolicy { every_ms, keep, max_restarts, node_mtbf_ms } = *policy;
    if every_ms < CHECKPOINT_INTERVAL_MS_MIN {
        return Err(Refused::bad(format!(
            "--checkpoint-every {every_ms}ms is too often; use {CHECKPOINT_INTERVAL_MS_MIN}ms or more"
        )));
    }
    if !(1..=CHECKPOINTS_KEPT_MAX).contains(&keep) {
        return Err(Refused::bad(format!("--keep-checkpoints {keep}: use 1 to {CHECKPOINTS_KEPT_MAX}")));
    }
    if max_restarts > RESTARTS_MAX {
        return Err(Refused::bad(format!("--max-restarts {max_restarts}: use at most {RESTARTS_MAX}")));
    }
    match node_mtbf_ms.filter(|ms| !(NODE_MTBF_MS_MIN..=NODE_MTBF_MS_MAX).contains(ms)) {
        Some(ms) => Err(Refused::bad(format!("--node-mtbf {ms}ms: use 1s to 36600d"))),
        None => Ok(()),
    }
}

/// Makes the paths of files to be staged plain, so that they can be compared.
fn make_plain(staged: &mut [Staged]) -> Result<(), Refused> {
    for Staged { file, path } in staged {
        let refuse = |error| Refused::bad(format!("--stage '{}': {error}", shown(file)));
        *path = staged_path(path).map_err(refuse)?;
    }
    Ok(())
}

/// What can be checked of the files to be staged without looking at them.
fn check_staged(job: &Submission) -> Result<(), Refused> {
    let is_program = job.stage_program == ProgramStaging::Always;
    let files = job.staged.len() + usize::from(is_program);
    if files > STAGED_FILES_MAX {
        let program = if is_program { ", the program being one of them" } else { "" };
        return Err(Refused::bad(format!(
            "--stage: a job can have {STAGED_FILES_MAX} files staged, this has {files}{program}; put several into one"
        )));
    }
    let mut seen = BTreeSet::new();
    for Staged { file, path } in &job.staged {
        let show = shown(file);
        if !file.is_absolute() {
            return Err(Refused::bad(format!("--stage: '{show}' is not an absolute path of a file; give one")));
        }
        if !seen.insert(path) {
            return Err(Refused::bad(format!("--stage: two files are to be '{path}'; give one of them another PATH")));
        }
    }
    Ok(())
}

/// The root of a job must be one, and answer in time.
pub(super) async fn check_root_of(api: &Api, job: &Submission) -> Result<(), Refused> {
    let root = job.root.clone();
    let what = format!("root '{}'", shown(&root));
    api.files.work(&what, HOST_FILE_TIME_MAX, move || check_root(&root)).await?
}

/// The root must be a directory that this user may enter; the I/O node opens it as the same user.
fn check_root(root: &Path) -> Result<(), Refused> {
    let show = shown(root);
    let metadata = std::fs::metadata(root);
    let metadata = metadata.map_err(|error| Refused::bad(format!("cannot use root '{show}': {}", plain(&error))))?;
    if !metadata.is_dir() {
        return Err(Refused::bad(format!("cannot use root '{show}': it is not a directory")));
    }
    let access = rustix::fs::Access::READ_OK | rustix::fs::Access::EXEC_OK;
    rustix::fs::access(root, access)
        .map_err(|errno| Refused::bad(format!("cannot use root '{show}': {}", plain(&errno.into()))))
}

/// What is in a file: from memory if the file has not changed, else by reading it. It is held from here on.
pub(super) async fn find(api: &Api, kind: Kind, path: &Path) -> Result<(Held, FileKey), Refused> {
    let what = format!("{kind} '{}'", shown(path));
    let named = path.to_owned();
    let file = api.files.work(&what, HOST_FILE_TIME_MAX, move || file_key(kind, &named)).await?.map_err(refuse)?;
    let known = api.ask(|answer| Request::KnownProgram(file, answer)).await?;
    if let Some(program) = &known
        && api.store.is_unaltered(program.id)
    {
        return Ok((program.clone(), file));
    }
    // The semaphore is never closed; were it, going on without it does no harm.
    let _permit = api.imports.acquire().await;
    if let Some(program) = known {
        let (store, held) = (api.store.clone(), program.clone());
        let read_error = |error| Refused { status: 500, message: format!("cannot read the store: {}", plain(&error)) };
        match api.files.work(&what, IMPORT_TIME_MAX, move || store.check(&held)).await?.map_err(read_error)? {
            Found::Sound => return Ok((program, file)),
            Found::Altered => api.tell(Request::ProgramAltered(program, path.to_owned())).await?,
            Found::Absent => {}
        }
    }
    let (store, path) = (api.store.clone(), path.to_owned());
    api.files.work(&what, IMPORT_TIME_MAX, move || store.import_as(kind, &path)).await?.map_err(refuse)
}

fn refuse(error: StoreError) -> Refused {
    let status = if matches!(error, StoreError::Write { .. }) { 500 } else { 400 };
    Refused { status, message: error.to_string() }
}

#[cfg(test)]
pub(super) mod tests {
    use coppice_api::ByteString;
    use coppice_api::checkpoint::CheckpointPolicy;
    use coppice_api::job::Submission;

    use coppice_api::staging::{ProgramStaging, Staged};
    use coppice_protocol::limits::STAGED_FILES_MAX;

    use super::{check, check_root, make_plain};

    pub(in crate::http) fn job() -> Submission {
        Submission {
            environment: vec!["A=".into(), "B=c=d".into()],
            input_rank: Some(1),
            umask: 0,
            ..Submission::plain("/bin/x".into(), "x".into(), 2)
        }
    }

    fn staged(file: &str, path: &str) -> Staged {
        Staged { file: file.into(), path: path.into() }
    }

    fn many(files: usize) -> Vec<Staged> {
        (0..files).map(|number| staged("/x", &format!("/{number}"))).collect()
    }

    #[test]
    fn paths_of_staged_files_are_made_plain_or_refused() {
        let mut files = [staged("/x", "//in/../a/./b"), staged("/y", "/c")];
        make_plain(&mut files).expect("possible");
        assert_eq!(files, [staged("/x", "/a/b"), staged("/y", "/c")]);
        for (path, words) in [("in", "absolute"), ("/dev/x", "/dev"), ("/", "root directory")] {
            let refused = make_plain(&mut [staged("/x", path)]).expect_err(words);
            assert!(refused.message.contains(words) && refused.status == 400, "{}", refused.message);
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_in_one_line() {
        check(&job()).expect("fine");
        check(&Submission { staged: many(STAGED_FILES_MAX), ..job() }).expect("fine");
        let policy = CheckpointPolicy { every_ms: 1000, keep: 1, max_restarts: 0, node_mtbf_ms: Some(1000) };
        let with = |policy| Submission { checkpoint_policy: Some(policy), ..job() };
        check(&with(policy)).expect("fine");
        let file = tempfile::NamedTempFile::new().expect("file");
        let cases = [
            (Submission { ranks: 0, ..job() }, "-n 0"),
            (Submission { input_rank: Some(2), ..job() }, "--stdin-rank"),
            (Submission { estimate_ms: Some(0), ..job() }, "--estimate 0"),
            (Submission { detached: true, ..job() }, "--detach: a detached job has no standard input"),
            (Submission { keep_output: Some(0), ..job() }, "--keep-output: a log of 0 bytes"),
            (Submission { keep_output: Some(u64::MAX), ..job() }, "--keep-output: a log of 18446744073709551615 bytes"),
            (Submission { arguments: vec!["x".repeat(200_000).into()], ..job() }, "put them into a file"),
            (Submission { arguments: vec![ByteString::new(); 15_000], ..job() }, "put them into a file"),
            (
                Submission { arguments: vec![ByteString::new(); 10_000], ranks: 4, ranks_per_node: 4, ..job() },
                "fewer --ranks-per-node",
            ),
            (Submission { arguments: vec!["a\0b".into()], ..job() }, "zero byte"),
            (Submission { environment: vec!["=x".into()], ..job() }, "NAME=VALUE"),
            (Submission { environment: vec!["x".into()], ..job() }, "NAME=VALUE"),
            (Submission { directory: "here".into(), ..job() }, "absolute"),
            (Submission { arguments: vec![b"a\xff\0b"[..].into()], ..job() }, "zero byte"),
            (Submission { environment: vec![b"\xff\n"[..].into()], ..job() }, "'\\xff\\n' is no"),
            (Submission { directory: b"\xff\x1b"[..].into(), ..job() }, "'\\xff\\u{1b}' is not an absolute"),
            (Submission { staged: vec![staged("x", "/x")], ..job() }, "'x' is not an absolute path"),
            (Submission { staged: vec![staged("/x", "/y"), staged("/z", "/y")], ..job() }, "two files are to be '/y'"),
            (Submission { staged: many(STAGED_FILES_MAX + 1), ..job() }, "this has 17; put"),
            (
                Submission { staged: many(STAGED_FILES_MAX), stage_program: ProgramStaging::Always, ..job() },
                "the program being one",
            ),
            (with(CheckpointPolicy { every_ms: 999, ..policy }), "--checkpoint-every 999ms is too often"),
            (with(CheckpointPolicy { node_mtbf_ms: Some(999), ..policy }), "--node-mtbf 999ms"),
            (with(CheckpointPolicy { keep: 0, ..policy }), "--keep-checkpoints 0"),
            (with(CheckpointPolicy { max_restarts: u32::MAX, ..policy }), "--max-restarts 4294967295"),
            (Submission { root: "/no/such/place".into(), ..job() }, "No such file"),
            (Submission { root: file.path().into(), ..job() }, "not a directory"),
        ];
        for (job, words) in cases {
            let refused = check(&job).and_then(|()| check_root(&job.root)).expect_err(words);
            assert!(refused.message.contains(words) && !refused.message.contains('\n'), "{}", refused.message);
        }
    }
}
