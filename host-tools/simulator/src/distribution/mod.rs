//! Transfers to many thousands of members: the very machines of [`coppice_protocol::distribution`] over links that
//! queue, among losses and deaths.
//!
//! What goes through a link is not single packets but bursts: the packets of a piece that one member sends to another.
//! A burst takes its time on the sender's link and, from one latency later, on the receiver's, behind what comes from
//! others; what would have to wait there for longer than its buffer is long is lost, as single packets are at random.
//! Messages are short and come between packets: they take the time of a packet of full length, and can be lost, too.
//! Where members are of several psets, what goes from one to another also queues at the links of both (`psets`).

mod models;
mod psets;
mod queue;
mod random_pull;
mod world;

use coppice_protocol::distribution::Plan;

pub use self::models::Model;
pub use self::psets::Psets;
pub use self::random_pull::random_pull;

/// What goes wrong in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// Probability that a packet is lost.
    pub loss: f64,
    /// Share of the members that die, each at some time while home sends.
    pub dying: f64,
    /// Share of the members whose links have a tenth of the bandwidth.
    pub slow: f64,
    /// The member to which home sends the first of two trees dies when home has sent an eighth.
    pub next_dies: bool,
    /// The I/O node of the second pset dies then.
    pub io_node_dies: bool,
}

/// A run.
#[derive(Clone, Debug)]
pub struct Options {
    /// What is transferred, to how many, and how.
    pub plan: Plan,
    /// Where all random choices come from.
    pub seed: u64,
    /// See there.
    pub faults: Faults,
    /// Where members are, if that makes a difference.
    pub psets: Option<Psets>,
    /// What waits for a link longer than this is lost, bytes.
    pub buffer_bytes: u64,
    /// Time that a member takes to look whether a piece is right, ns.
    pub check_ns: u64,
    /// Simulated time after which the run is given up, ns.
    pub limit_ns: u64,
}

/// What came of a run. Times are simulated and since home began, ns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transferred {
    /// When the last member that lives had its first piece.
    pub first_piece_ns: u64,
    /// When the last member that lives and is not slow was whole.
    pub quick_ns: u64,
    /// When the last member that lives was whole.
    pub whole_ns: u64,
    /// When home knew.
    pub known_ns: u64,
    /// Members that live and are not whole.
    pub incomplete: u32,
    /// Members that died.
    pub died: u32,
    /// Members that home took for lost.
    pub lost: u32,
    /// Bytes on home's link.
    pub home_bytes: u64,
    /// Bytes on the links of all others.
    pub member_bytes: u64,
    /// Bytes that went over links between psets.
    pub crossed_bytes: u64,
    /// Pieces that came although they were there.
    pub again: u64,
    /// Questions for pieces.
    pub asks: u64,
    /// Answers that somebody had not what was asked for.
    pub not_here: u64,
    /// Members that left one that should have sent them pieces.
    pub left: u64,
    /// Questions to home.
    pub home_asks: u64,
    /// Packets that were lost.
    pub packets_lost: u64,
    /// Events.
    pub events: u64,
}

impl Transferred {
    /// How often the time of the members that are not slow is what the bytes take on one link.
    #[must_use]
    pub fn of_bound(&self, plan: &Plan) -> f64 {
        self.quick_ns as f64 / bound_ns(plan)
    }
}

/// How long the bytes alone take on one link, ns.
#[must_use]
pub fn bound_ns(plan: &Plan) -> f64 {
    plan.bytes as f64 * 1e9 / plan.link.bytes_per_second as f64
}

/// Runs a transfer to its end.
///
/// # Errors
/// There is no memory for its members, or the plan is none: one line.
pub fn run(options: &Options) -> Result<Transferred, String> {
    world::World::new(options)?.run()
}
