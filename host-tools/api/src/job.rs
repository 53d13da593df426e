//! Jobs: what is asked for, what became of it.

mod rank;

use std::path::PathBuf;

pub use coppice_protocol::control::RankCounters;
pub use coppice_protocol::pmi::{Fence, Modex, Startup};
use coppice_protocol::text::ByteString;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

pub use self::rank::{RankOutcome, RankView, SyscallView};
use crate::ahead::AheadDecision;
use crate::checkpoint::{CheckpointName, CheckpointPolicy, CheckpointsMade, Continuation};
use crate::output::OutputView;
use crate::overlay::OverlayWish;
use crate::retain::{Placement, RetentionSummary};
use crate::schema::{self, Text};
use crate::staging::{ProgramStaging, Scheme, Staged, StagedView};
use crate::transfer::TransferView;

/// Exit status of `coppice run` when Coppice itself, not the program, made the job fail.
pub const EXIT_COPPICE: u8 = 125;

/// A job to run. Unless it is detached, it belongs to whoever submits it: when the stream of its output is not opened
/// soon, or is closed before the job ended, the job is killed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Submission {
    /// The program's file on the host, absolute.
    #[serde(with = "crate::path")]
    #[schema(value_type = Text)]
    pub program: PathBuf,
    /// The program's path as the user gave it.
    #[schema(value_type = Text)]
    pub name: ByteString,
    /// Arguments, the program's name not included.
    #[schema(value_type = Vec<Text>)]
    pub arguments: Vec<ByteString>,
    /// Environment, `NAME=VALUE`.
    #[schema(value_type = Vec<Text>)]
    pub environment: Vec<ByteString>,
    /// Directory of the host that the job sees as `/`, absolute.
    #[serde(with = "crate::path")]
    #[schema(value_type = Text)]
    pub root: PathBuf,
    /// Working directory inside the root, absolute.
    #[schema(value_type = Text)]
    pub directory: ByteString,
    /// Ranks.
    pub ranks: u32,
    /// Ranks on each node; the last node of the job may have fewer.
    #[serde(default = "one")]
    pub ranks_per_node: u32,
    /// Rank that reads the standard input, if any.
    pub input_rank: Option<u32>,
    /// Kill the job when it ran that long, ms.
    pub timeout_ms: Option<u64>,
    /// File mode creation mask.
    pub umask: u32,
    /// How long the user thinks it runs, ms. It is not ended for exceeding that; jobs behind it that rely on it may go
    /// first, and it may go before others if it is over before they can start.
    pub estimate_ms: Option<u64>,
    /// Use page tables that nodes have retained of the program, and choose nodes by that.
    pub retain: bool,
    /// The nodes to run on, in order of the ranks; empty: any.
    pub nodes: Vec<u32>,
    /// Files that its nodes have in their memory before it starts.
    #[serde(default)]
    pub staged: Vec<Staged>,
    /// Whether they have its program there, too.
    #[serde(default)]
    pub stage_program: ProgramStaging,
    /// How all that gets there.
    #[serde(default)]
    pub scheme: Scheme,
    /// Its stream says what its ranks do.
    #[serde(default)]
    pub traced: bool,
    /// It belongs to nobody: it has no standard input, and goes on whoever goes away.
    #[serde(default)]
    pub detached: bool,
    /// Keep its output in a log that may take so much room, bytes; nothing: its output is not kept.
    #[serde(default)]
    pub keep_output: Option<u64>,
    /// When a signal ends a rank that leaves a core file, its stream says so before, for that to be taken.
    #[serde(default)]
    pub core_file: bool,
    /// What becomes of it when a rank fails.
    #[serde(default)]
    pub on_rank_failure: OnRankFailure,
    /// How its ranks find each other.
    #[serde(default)]
    #[schema(value_type = schema::Startup)]
    pub startup: Startup,
    /// The checkpoint that it goes on from instead of its beginning. The service node says so of a job that it
    /// restarts; what somebody submits has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restarted_from: Option<CheckpointName>,
    /// The rank of another job that has started it. The service node says so; what somebody submits has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spawned_by: Option<SpawnedBy>,
    /// Checkpoints are made of it by itself, if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_policy: Option<CheckpointPolicy>,
    /// It has a performance overlay from its beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlay: Option<OverlayWish>,
    /// Where its calls on files are made.
    #[serde(default)]
    pub io: FileCalls,
}

/// Where a job's calls on files are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FileCalls {
    /// On its nodes, as far as they know the answer: they keep what they have read for as long as nobody writes it.
    #[default]
    Leased,
    /// At the I/O node, every one of them.
    Strict,
}

/// A rank that has started a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SpawnedBy {
    /// Its job.
    pub job: u64,
    /// The rank.
    pub rank: u32,
}

/// What becomes of a job when a rank of it ends that has begun to speak PMI and has not finalized, or a node of it is
/// lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnRankFailure {
    /// It ends.
    #[default]
    End,
    /// It goes on.
    Continue,
}

impl Submission {
    /// A job of so many ranks of a program, of which nothing else is wanted: on any nodes, one on each, with the host's
    /// `/` as its root and no input.
    #[must_use]
    pub fn plain(program: PathBuf, name: ByteString, ranks: u32) -> Self {
        Self {
            program,
            name,
            arguments: Vec::new(),
            environment: Vec::new(),
            root: "/".into(),
            directory: "/".into(),
            ranks,
            ranks_per_node: one(),
            input_rank: None,
            timeout_ms: None,
            umask: 0o22,
            estimate_ms: None,
            retain: true,
            nodes: Vec::new(),
            staged: Vec::new(),
            stage_program: ProgramStaging::default(),
            scheme: Scheme::default(),
            traced: false,
            detached: false,
            keep_output: None,
            core_file: false,
            on_rank_failure: OnRankFailure::default(),
            startup: Startup::default(),
            restarted_from: None,
            spawned_by: None,
            checkpoint_policy: None,
            overlay: None,
            io: FileCalls::default(),
        }
    }

    /// How many nodes it runs on.
    #[must_use]
    pub fn nodes_wanted(&self) -> u32 {
        self.ranks.div_ceil(self.ranks_per_node.max(1))
    }
}

/// What is meant by those who do not say how many.
fn one() -> u32 {
    1
}

/// Whom to trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct TraceQuery {
    /// One rank; all, if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
}

/// Answer to a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Submitted {
    /// The job's number.
    pub job: u64,
}

/// How far a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum JobState {
    /// Waits for nodes.
    Queued,
    /// Has nodes; not all ranks run yet.
    Starting,
    /// All ranks were started.
    Running,
    /// Nothing of it is left on any node.
    Ended,
}

impl JobState {
    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Ended => "ended",
        }
    }
}

/// One job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobView {
    /// Its number.
    pub job: u64,
    /// How far it is.
    pub state: JobState,
    /// The program's path as the user gave it.
    #[schema(value_type = Text)]
    pub name: ByteString,
    /// Arguments, the program's name not included.
    #[schema(value_type = Vec<Text>)]
    pub arguments: Vec<ByteString>,
    /// Hash of the program, hexadecimal.
    pub program: String,
    /// Directory of the host that the job sees as `/`.
    #[serde(with = "crate::path")]
    #[schema(value_type = Text)]
    pub root: PathBuf,
    /// Working directory inside the root.
    #[schema(value_type = Text)]
    pub directory: ByteString,
    /// Ranks it has.
    pub ranks: u32,
    /// Ranks on each of its nodes; the last node may have fewer.
    #[serde(default = "one")]
    pub ranks_per_node: u32,
    /// Its block, once it has nodes: the first has the first `ranks_per_node` ranks, and so on.
    pub nodes: Vec<u32>,
    /// What it asked its nodes to have in their memory before it starts.
    #[serde(default)]
    pub staged: Vec<StagedView>,
    /// What the transfers of that took, once they are over.
    #[serde(default)]
    pub transfers: Vec<TransferView>,
    /// When it was submitted, ns since 1970.
    pub submitted_at_ns: u64,
    /// When it was given nodes, ns since 1970.
    pub started_at_ns: Option<u64>,
    /// When all of its ranks were running, ns since 1970.
    pub running_at_ns: Option<u64>,
    /// When it ended, ns since 1970.
    pub ended_at_ns: Option<u64>,
    /// How long the user thought it would run, ms.
    pub estimate_ms: Option<u64>,
    /// How it got its nodes, once it has them.
    pub placement: Option<Placement>,
    /// Whether its program was sent ahead of the launch, and why, once it has nodes.
    #[serde(default)]
    pub ahead: Option<AheadDecision>,
    /// What retained page tables saved it, once it has ended.
    pub retention: Option<RetentionSummary>,
    /// What `run` exits with: the highest exit status of the ranks, 128 + signal for a rank that a signal ended, and no
    /// more than 137 (`SIGKILL`) for one that ended when the job was being killed, unless by a signal that was asked
    /// for; 125 ([`EXIT_COPPICE`]) if a rank was lost or could not be started.
    pub exit_status: Option<u8>,
    /// Why it ended, if not by its ranks' own exits. One line.
    pub reason: Option<String>,
    /// It belongs to nobody, and goes on whoever goes away.
    #[serde(default)]
    pub detached: bool,
    /// What is kept of its output, if it is to be kept.
    #[serde(default)]
    pub output: Option<OutputView>,
    /// The checkpoint that it goes on from, if it was restarted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restarted_from: Option<CheckpointName>,
    /// The rank of another job that has started it, if one has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spawned_by: Option<SpawnedBy>,
    /// Checkpoints are made of it by itself, if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_policy: Option<CheckpointPolicy>,
    /// Checkpoints that were made of it, by itself or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoints_made: Option<CheckpointsMade>,
    /// How it goes on, if it has lost a node and was restarted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continued_as: Option<Continuation>,
}

/// One job with all of its ranks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobDetail {
    /// The job.
    #[serde(flatten)]
    pub job: JobView,
    /// What became of each rank, in order; ranks that still run are missing.
    pub rank_reports: Vec<RankView>,
}

/// An order to send a job a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KillOrder {
    /// Linux signal number, 1 to 64. `SIGKILL` ends the job; any other is delivered to the process of each rank, and
    /// the job ends only if they do. A job that waits for nodes is taken out of the queue by `SIGKILL`, `SIGTERM` and
    /// `SIGINT`, and is sent no other.
    pub signal: u8,
}

/// Which jobs to list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct JobsQuery {
    /// At most that many, the newest.
    pub limit: Option<u32>,
    /// Only those that were submitted before this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<u64>,
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    use coppice_protocol::text::ByteString;
    use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};

    use super::{ProgramStaging, RankCounters, RankOutcome, RankView, Scheme, Submission};

    fn job(program: ByteString, name: ByteString, texts: Vec<ByteString>) -> Submission {
        Submission {
            arguments: texts.clone(),
            environment: texts,
            root: OsString::from_vec(name.to_vec()).into(),
            directory: program.clone(),
            umask: 0,
            stage_program: ProgramStaging::Never,
            scheme: Scheme::Tree,
            traced: true,
            ..Submission::plain(OsString::from_vec(program.to_vec()).into(), name, 1)
        }
    }

    #[test]
    fn text_is_a_string_and_other_bytes_are_hexadecimal() {
        let text = ByteString::from("/ü\n");
        let json = serde_json::to_value(job(text, b"a\xff"[..].into(), vec!["x".into(), b"\0\x80"[..].into()]));
        let json = json.expect("plain data");
        assert_eq!((&json["program"], &json["directory"]), (&"/ü\n".into(), &"/ü\n".into()));
        let odd = serde_json::json!({"bytes": "61ff"});
        assert_eq!((&json["name"], &json["root"]), (&odd, &odd));
        assert_eq!(json["arguments"], serde_json::json!(["x", {"bytes": "0080"}]));
    }

    #[test]
    fn what_a_rank_took_stands_among_what_became_of_it() {
        let counters = RankCounters {
            launch_ns: 1,
            run_ns: u64::MAX,
            page_faults: 3,
            instruction_faults: 4,
            pages_fetched: 5,
            pages_peak: 6,
            bytes_written: 7,
            bytes_read: 8,
            lookups: 9,
            files_opened: 10,
            file_pages_fetched: 11,
            file_pages_found: 12,
        };
        let rank = RankView { counters, ..RankView::ended(9, 10, RankOutcome::Lost, None) };
        let json = serde_json::to_string(&rank).expect("plain data");
        assert_eq!(
            json,
            r#"{"rank":9,"node":10,"outcome":"lost","exit":null,"signal":null,"reason":null,"launch_ns":1,"#.to_owned()
                + r#""run_ns":18446744073709551615,"page_faults":3,"instruction_faults":4,"pages_fetched":5,"#
                + r#""pages_peak":6,"bytes_read":8,"bytes_written":7,"lookups":9,"files_opened":10,"#
                + r#""file_pages_fetched":11,"file_pages_found":12,"retain":null,"pages_retained":0,"#
                + r#""pages_kept":0,"pages_dropped":0,"pages_zeroed":0,"walk_ns":0,"syscalls":[]}"#
        );
        assert_eq!(serde_json::from_str::<RankView>(&json).expect("what was written"), rank);
    }

    #[test]
    fn what_is_no_text_is_refused() {
        let read = serde_json::from_str::<ByteString>;
        assert_eq!(*read(r#"{"bytes":"61FF"}"#).expect("bytes"), b"a\xff"[..]);
        assert_eq!(read(r#"{"bytes":"61"}"#).expect("bytes"), "a");
        for bad in ["1", "null", "[97]", "{}", r#"{"bytes":"6"}"#, r#"{"bytes":"+1"}"#, r#"{"byte":"61"}"#] {
            assert!(read(bad).is_err(), "{bad}");
        }
        assert!(read(r#"{"bytes":"61","bytes":"61"}"#).is_err());
    }

    fn text() -> impl Strategy<Value = ByteString> {
        prop_oneof![any::<String>().prop_map(ByteString::from), any::<Vec<u8>>().prop_map(ByteString::from)]
    }

    proptest! {
        #[test]
        fn any_bytes_go_through_json(a in text(), b in text(), texts in proptest::collection::vec(text(), 0..4)) {
            let plain = a.to_str().is_some();
            let job = job(a, b, texts);
            let json = serde_json::to_string(&job).expect("plain data");
            prop_assert_eq!(&serde_json::from_str::<Submission>(&json).expect("what was written"), &job);
            prop_assert!(!plain || json.contains("\"directory\":\""), "{}", json);
        }
    }
}
