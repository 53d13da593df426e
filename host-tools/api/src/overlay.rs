//! Performance overlays of jobs: what is asked for, what the tree is, and what ranks did in each epoch.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// How long an epoch is if nobody says otherwise, ms.
pub const PERIOD_MS_DEFAULT: u64 = 1000;

/// A job is to have an overlay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OverlayWish {
    /// Length of an epoch, ms.
    pub period_ms: u64,
    /// Where communication processes run, if no file says so.
    #[serde(default)]
    pub placement: OverlayPlacement,
    /// What a file says of it: `parent => child child … ;`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<String>,
    /// How often a second it is looked where each rank is in its program, if that is wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample_hz: Option<u32>,
}

impl Default for OverlayWish {
    fn default() -> Self {
        Self { period_ms: PERIOD_MS_DEFAULT, placement: OverlayPlacement::default(), topology: None, sample_hz: None }
    }
}

/// How communication processes are placed on the nodes of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OverlayPlacement {
    /// As many processes, ranks and these, on each node, as far as that can be.
    #[default]
    Average,
    /// On the nodes that are best for it: by load, free memory, links, distance and ranks.
    Comprehensive,
}

/// Begin a job's overlay, or another one, or end it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OverlayOrder {
    /// What is to be; nothing: none.
    pub wish: Option<OverlayWish>,
}

/// How far an overlay is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OverlayState {
    /// There is none.
    Off,
    /// It is begun when all ranks run.
    Waiting,
    /// Nodes say that they are there.
    Listening,
    /// Its processes begin.
    Starting,
    /// Ranks are looked at.
    Running,
}

/// A job's overlay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OverlayView {
    /// The job.
    pub job: u64,
    /// How far it is.
    pub state: OverlayState,
    /// Which start of it: counted from 1.
    pub generation: u32,
    /// What it is to be, if it is to be any.
    pub wish: Option<OverlayWish>,
    /// Length of an epoch as it is, ms: longer than wanted if what is gathered came late.
    #[serde(default)]
    pub period_ms: Option<u64>,
    /// Ranks of the job.
    pub ranks: u32,
    /// Nodes that said that they are there.
    pub nodes_here: u32,
    /// Nodes of the job.
    pub nodes: u32,
    /// Its communication processes.
    pub processes: Vec<ProcessView>,
    /// Epochs that came together.
    pub epochs: u64,
    /// Those to which something came late.
    pub late: u64,
    /// Parts that were not taken because they came too late, or were not as they must be.
    pub dropped: u64,
    /// What nodes said of ranks or processes that are not theirs.
    pub lies: u64,
    /// Epochs of which no record could be kept.
    pub not_recorded: u64,
    /// Who is missing.
    pub missing: Vec<MissingView>,
    /// The last epoch.
    pub last: Option<EpochView>,
}

/// A communication process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = OverlayProcessView)]
pub struct ProcessView {
    /// Its number in the tree.
    pub process: u32,
    /// The node that it runs on.
    pub node: u32,
    /// The process above it; nothing: the front end.
    pub above: Option<u32>,
    /// Processes below it.
    pub processes: Vec<u32>,
    /// Nodes whose back ends speak to it.
    pub nodes: Vec<u32>,
    /// How many ranks are below it, however far.
    pub ranks: u64,
}

/// Ranks that are missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MissingView {
    /// Which, such as `0-3,7`.
    pub ranks: String,
    /// The end of the first epoch in which they were missing, ns since 1970.
    pub since_ns: u64,
}

/// What ranks did in an epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EpochView {
    /// Which start of the overlay.
    pub generation: u32,
    /// Its number: how many of its length came before it since 1970.
    pub epoch: u64,
    /// Its length, ns.
    pub period_ns: u64,
    /// Its end, ns since 1970.
    pub end_ns: u64,
    /// When all that is in it was there, ns since 1970.
    #[serde(default)]
    pub came_ns: u64,
    /// How many ranks are in it …
    pub ranks: u64,
    /// … of how many.
    pub of: u32,
    /// Which are not, such as `0-3,7`.
    pub missing: String,
    /// By what is measured.
    pub metrics: Vec<MetricView>,
    /// Ranks that behave alike, the most first.
    #[serde(default)]
    pub alike: Vec<AlikeView>,
    /// Counters that programs offer themselves, each over the ranks that do: their names have `counter:` before them.
    #[serde(default)]
    pub counters: Vec<MetricView>,
    /// Values of further counters, of which nothing is told because there are too many names.
    #[serde(default)]
    pub counters_dropped: u64,
    /// How many nodes are in it.
    #[serde(default)]
    pub node_count: u64,
    /// What is told of them: where otherwise are ranks, there are nodes.
    #[serde(default)]
    pub nodes: Vec<MetricView>,
    /// What single ranks have done by then whose turn it was, of an epoch as it comes; what is recorded of it is in
    /// [`RankProfileView`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub totals: Vec<TotalView>,
}

/// What a rank has done since the overlay began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TotalView {
    /// The rank.
    pub rank: u32,
    /// By what is measured, bytes by where they were sent (`sent-to:NODE`), and calls by their names (`called:NAME`);
    /// what is not in it is 0.
    pub values: BTreeMap<String, u64>,
}

/// What of ranks is as it is at an epoch's end; all else came together in it.
pub const GAUGES: [&str; 1] = ["pages-resident"];

/// What is before a node's number where it is told how many bytes a rank has sent there, or before [`OTHERS`].
pub const SENT_TO: &str = "sent-to:";

/// What is before the name of a call, or its number if it has none, where it is told how often a rank has made it, or
/// before [`OTHERS`].
pub const CALLED: &str = "called:";

/// All those together of which there was less than of those that are told apart.
pub const OTHERS: &str = "others";

/// What is before the names of counters that programs offer.
pub const COUNTER: &str = "counter:";

/// What ranks did in an epoch, or nodes, of one thing that is measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MetricView {
    /// What it is called.
    pub metric: String,
    /// What its values count: `ns`, `times`, `bytes` or `pages`; or `count`, if it is as many as there are.
    pub unit: String,
    /// Of how many ranks or nodes it is.
    pub count: u64,
    /// All values together; at most the largest number of 64 bits.
    pub sum: u64,
    /// The smallest.
    pub least: u64,
    /// The first rank that has it, or the first node.
    pub least_rank: u32,
    /// The mean, to the nearest whole number.
    pub mean: u64,
    /// The standard deviation, to the nearest whole number.
    pub deviation: u64,
    /// A quantile, to 1/32 of itself: half of the ranks have no more.
    pub p50: u64,
    /// Nine in ten have no more.
    pub p90: u64,
    /// 99 in 100.
    pub p99: u64,
    /// The largest values, the largest first, and the ranks that have them.
    pub top: Vec<TopView>,
    /// How the values are spread, of an epoch as it comes; it is not recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub histogram: Vec<BarView>,
}

/// Ranks most of whose time in an epoch went to the same, and about as much of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AlikeView {
    /// What it went to, such as `network`.
    pub metric: String,
    /// At least so many sixteenths of it: 15, 12, 8 or 0.
    pub sixteenths: u32,
    /// How many ranks they are.
    pub count: u64,
    /// The first of them.
    pub ranks: Vec<u32>,
}

/// A bar of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BarView {
    /// The least value that it may have …
    pub least: u64,
    /// … and the greatest.
    pub greatest: u64,
    /// How many values it has.
    pub count: u64,
}

/// A rank, or a node, with one of the largest values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TopView {
    /// The rank, or the node.
    pub rank: u32,
    /// Its value.
    pub value: u64,
}

/// What was recorded of a job's overlay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProfileView {
    /// The job.
    pub job: u64,
    /// Epochs, in order. Of long jobs older ones were thinned out.
    pub epochs: Vec<EpochView>,
}

/// What was recorded of one rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RankProfileView {
    /// The job.
    pub job: u64,
    /// The rank.
    pub rank: u32,
    /// What values count, by what is measured: as [`MetricView::unit`].
    pub units: BTreeMap<String, String>,
    /// What it did, in order: from one epoch in which it was its turn to the next. Of long jobs, what is long ago comes
    /// in longer spans.
    pub spans: Vec<SpanView>,
}

/// What a rank did in a span of time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SpanView {
    /// Which start of the overlay.
    pub generation: u32,
    /// Its begin, ns since 1970.
    pub begin_ns: u64,
    /// Its end, ns since 1970.
    pub end_ns: u64,
    /// What came in it, by what is measured, or is there at its end; bytes by where they were sent
    /// (`sent-to:NODE`), and calls by their names (`called:NAME`); what is not in it is 0.
    pub values: BTreeMap<String, u64>,
}

/// Which epochs are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ProfileQuery {
    /// At most so many, the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}
