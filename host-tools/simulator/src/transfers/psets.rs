//! Two trees among members of several psets: with what trees know of these, and without.

use std::iter::repeat_n;
use std::num::NonZero;
use std::sync::Arc;

use anyhow::{Context, bail};
use coppice_protocol::distribution::{Plan, Scheme};
use coppice_protocol::trees::Topology;
use coppice_simulator::distribution::{Faults, Psets, bound_ns};

use super::{BUFFER_BYTES, Transfer};

/// Prints the table.
pub(super) fn show(transfer: &Transfer, pset: NonZero<u32>) -> anyhow::Result<()> {
    let (nodes, pset) = (transfer.members, pset.get());
    let sizes = repeat_n(pset, (nodes / pset) as usize).chain(Some(nodes % pset).filter(|rest| *rest > 0));
    let topology = Topology::of_psets(sizes).context("there is no memory for so many psets")?;
    let Some(members) = topology.members() else { bail!("--pset {pset}: {nodes} members are in one pset") };
    let flat = transfer.plan(Scheme::TwoTrees, members);
    let plan = Plan { topology: topology.clone(), ..flat.clone() };
    let gbits = transfer.pset_bandwidth.unwrap_or(transfer.bandwidth);
    let psets = Psets::of(&topology, (gbits * 1e9 / 8.0) as u64);
    let others = psets.count() - 1;
    println!(
        "{} bytes to {nodes} nodes in psets of {pset} and their I/O nodes at {} Gbit/s, {gbits} Gbit/s between psets, \
         and {} us; the bytes alone take {:.3} ms on one link",
        transfer.bytes,
        transfer.bandwidth,
        transfer.latency,
        bound_ns(&plan) / 1e6
    );
    println!(
        "{:44} {:>9} {:>8} {:>9} {:>8} {:>8} {:>7}",
        "", "whole ms", "x bound", "known ms", "of home", "crossed", "lost"
    );
    let sound = Faults::default();
    let one_dies = Faults { io_node_dies: true, ..sound };
    let lossy = Faults { loss: transfer.loss.first().copied().unwrap_or(0.0), ..sound };
    let hold = Psets { hold: true, ..psets.clone() };
    let any_order = Psets { of: Arc::new(any_order(&psets.of, transfer.seed)), ..psets.clone() };
    let rows = [
        ("trees that know of psets", &plan, sound, &psets),
        ("the same, one I/O node dies", &plan, one_dies, &psets),
        (&*format!("the same, {} % of packets lost", lossy.loss * 100.0), &plan, lossy, &psets),
        ("the same, I/O nodes have the file", &plan, sound, &hold),
        ("that do not, members in the order of psets", &flat, sound, &psets),
        ("that do not, members in any order", &flat, sound, &any_order),
    ];
    for (name, plan, faults, psets) in rows {
        let result = transfer.run_with(plan, faults, Some(psets.clone()), BUFFER_BYTES).context(name.to_owned())?;
        println!(
            "{name:44} {:>9.3} {:>8.3} {:>9.3} {:>8.3} {:>8.3} {:>7}",
            result.quick_ns as f64 / 1e6,
            result.of_bound(plan),
            result.known_ns as f64 / 1e6,
            result.home_bytes as f64 / transfer.bytes as f64,
            result.crossed_bytes as f64 / transfer.bytes as f64 / f64::from(others),
            result.lost
        );
        if result.incomplete > 0 {
            println!("{:44} {} members never got it", "", result.incomplete);
        }
    }
    println!("crossed: what went over links between psets, for each pset but home's, as files");
    Ok(())
}

/// The same psets, but of any members; home stays where it is.
fn any_order(of: &[u32], seed: u64) -> Vec<u32> {
    let mut of = of.to_vec();
    let mut random = seed ^ 0x9e37_79b9_7f4a_7c15;
    for last in (2..of.len()).rev() {
        // An LCG's high bits, Knuth's constants; Fisher and Yates.
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        of.swap(last, 1 + ((random >> 33) % last as u64) as usize);
    }
    of
}
