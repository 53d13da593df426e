//! Waiting for standard input.
//!
//! It counts if a fifth of the time is lost by it: one rank has the input, and the others may wait for that rank.

use coppice_api::show::show_ns;

use crate::times::Times;
use crate::words::percent;
use crate::{Cause, Finding};

/// What must be lost to it, of the time that passed, millionths.
const LOST_PPM_MIN: u64 = 200_000;

/// Looks for it, and says how much of other waiting comes from it, ns.
pub(crate) fn find(times: &Times<'_>) -> Option<(Finding, u64)> {
    let held = times.held_up("input");
    let part = times.part_ppm(held.lost_ns);
    if part < LOST_PPM_MIN {
        return None;
    }
    let (rank, waited) = times.most("input")?;
    let text = format!(
        "The job waited for its input: rank {rank} waited for standard input for {}, {} of the time, as nothing came.",
        show_ns(waited),
        percent(part),
    );
    let finding = Finding::new(Cause::Input, held.lost_ns, &text);
    Some((finding.try_this("Give it input that is there", "coppice run … < FILE"), held.of_others_ns))
}
