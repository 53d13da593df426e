//! What clients are told of their job when they begin: all of it follows from where its ranks are.
//!
//! The answer is what `gds/hash` unpacks (`hash_store_job_info`): the name space, then pairs of the job, an array for
//! each node and a blob for each rank. Of a job with more than [`PMIX_INFORMED_RANKS_MAX`] ranks it has only this node
//! and its ranks; what is missing is told when it is asked for.

use alloc::format;
use alloc::string::String;
use core::fmt::Write;

use super::dialect::Dialect;
use super::key;
use super::reader::Process;
use super::writer::{Value, Writer};
use crate::limits::PMIX_INFORMED_RANKS_MAX;
use crate::pmi::{NodeRanks, Placement};

/// What there is to know.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The job's name space.
    pub space: &'a str,
    /// Where its ranks are.
    pub placement: &'a Placement,
    /// The same as PMI-1 says it, if it is short enough.
    pub mapping: Option<&'a str>,
    /// The index of this node.
    pub here: u32,
}

/// The name of a job's node with this index.
pub(super) fn host_name(placement: &Placement, index: u32) -> String {
    format!("node{}", placement.job_node(index))
}

impl Facts<'_> {
    fn is_small(&self) -> bool {
        self.placement.size() <= PMIX_INFORMED_RANKS_MAX
    }

    /// Whether clients have heard all there is of a rank when they began.
    #[must_use]
    pub fn is_told(&self, rank: u32) -> bool {
        self.is_small() || self.placement.place(self.here).is_some_and(|place| place.has(crate::ids::Rank(rank)))
    }

    /// The answer to who begins.
    #[must_use]
    pub fn of_job(&self, dialect: Dialect) -> Writer {
        let mut writer = Writer::new(dialect);
        let (size, nodes) = (self.placement.size(), self.placement.nodes());
        writer.packed(1).text(self.space.as_bytes());
        for (key, value) in [
            (key::JOB_SIZE, Value::Number(size)),
            (key::MAX_PROCS, Value::Number(size)),
            (key::UNIV_SIZE, Value::Number(size)),
            (key::JOBID, Value::Text(self.space)),
            (key::JOB_NUM_APPS, Value::Number(1)),
            (key::NUM_NODES, Value::Number(nodes)),
            (key::NPROC_OFFSET, Value::Rank(0)),
            (key::APP_SIZE, Value::Number(size)),
            (key::APPLDR, Value::Rank(0)),
        ] {
            writer.pair(key, &value);
        }
        if let Some(mapping) = self.mapping {
            writer.pair(key::ANL_MAP, &Value::Text(mapping));
        }
        let told = if self.is_small() { 0..nodes } else { self.here..self.here + 1 };
        if self.is_small() {
            writer.pair(
                key::NODE_LIST,
                &Value::Text(&comma_separated(told.clone().map(|index| host_name(self.placement, index)))),
            );
        }
        for (index, place) in told.filter_map(|index| Some((index, self.placement.place(index)?))) {
            of_node(&mut writer, self.placement, index, place);
            for (rank, local) in place.ranks().zip(0..) {
                let mut blob = Writer::new(dialect);
                blob.packed(1).u32(rank.0);
                of_rank(&mut blob, (self.placement, index), rank.0, local);
                writer.pair(key::PROC_BLOB, &Value::Bytes(blob.bytes()));
            }
        }
        writer
    }

    /// What is known of one rank, in the form of what ranks have put; nothing if there is no such rank.
    #[must_use]
    pub fn of_rank(&self, dialect: Dialect, rank: u32) -> Option<Writer> {
        let index = self.placement.index_of_rank(crate::ids::Rank(rank))?;
        let first = self.placement.place(index)?.first.0;
        let mut card = Writer::new(dialect);
        card.packed(1).process(Process { space: self.space.as_bytes(), rank });
        of_rank(&mut card, (self.placement, index), rank, rank.saturating_sub(first));
        Some(card)
    }
}

fn comma_separated(words: impl Iterator<Item = impl core::fmt::Display>) -> String {
    let mut text = String::new();
    for word in words {
        let comma = if text.is_empty() { "" } else { "," };
        // Writing to a text does not fail.
        let _ = write!(text, "{comma}{word}");
    }
    text
}

fn of_node(writer: &mut Writer, placement: &Placement, index: u32, place: NodeRanks) {
    let (name, peers) = (host_name(placement, index), comma_separated(place.ranks()));
    writer.pair(
        key::NODE_INFO_ARRAY,
        &Value::Infos(&[
            (key::HOSTNAME, Value::Text(&name)),
            (key::NODEID, Value::Number(placement.job_node(index).0)),
            (key::LOCAL_PEERS, Value::Text(&peers)),
            (key::LOCAL_SIZE, Value::Number(place.count)),
            (key::NODE_SIZE, Value::Number(place.count)),
            (key::LOCALLDR, Value::Rank(place.first.0)),
        ]),
    );
}

fn of_rank(writer: &mut Writer, (placement, node): (&Placement, u32), rank: u32, local: u32) {
    // There are at most 65,536 of them on a node.
    let short = Value::Short(u16::try_from(local).unwrap_or(u16::MAX));
    for (key, value) in [
        (key::RANK, Value::Rank(rank)),
        (key::APPNUM, Value::Number(0)),
        (key::APP_RANK, Value::Rank(rank)),
        (key::GLOBAL_RANK, Value::Rank(rank)),
        (key::LOCAL_RANK, short),
        (key::NODE_RANK, short),
        (key::NODEID, Value::Number(placement.job_node(node).0)),
        (key::HOSTNAME, Value::Text(&host_name(placement, node))),
        (key::REINCARNATION, Value::Number(0)),
    ] {
        writer.pair(key, &value);
    }
}
