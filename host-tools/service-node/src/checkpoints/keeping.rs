//! Keeping what was recorded: nodes are asked until each of them has all of it in its region, or has given it to its
//! I/O node.

use std::time::Duration;

use coppice_protocol::checkpoint::Saving;
use coppice_protocol::inspect::{Answer, Question};

use super::Around;
use super::leading::{Leader, something_else};
use crate::controller::{Place, Refused};
use crate::limits::{SAVING_ASK_INTERVAL_MAX, SAVING_ASK_INTERVAL_MIN};

/// What a node said last, and where it is.
pub(super) type Kept = (Place, Saving);

/// Waits until all nodes have kept what they recorded, of which they may do nothing for so long.
pub(super) async fn kept<A: Around>(leader: &Leader<A>, silence: Duration) -> Result<Vec<Kept>, Refused> {
    let mut all: Vec<Kept> = leader.places.iter().map(|place| (*place, Saving::default())).collect();
    let (mut furthest, mut since) = (0, leader.around.now());
    let mut interval = SAVING_ASK_INTERVAL_MIN;
    loop {
        let open: Vec<&mut Kept> = all.iter_mut().filter(|(_, saving)| !is_kept(saving)).collect();
        if open.is_empty() {
            return Ok(all);
        }
        let answers = leader.ask_all(open.iter().map(|(place, _)| place.rank), &Question::Saving).await;
        for ((_, saving), answered) in open.into_iter().zip(answers) {
            match answered {
                Ok(Answer::Saving(said)) => *saving = said,
                // It answers others at this moment.
                Ok(Answer::NotTold(_)) | Err(Refused { status: 503, .. }) => {}
                Ok(_) => return Err(something_else()),
                Err(refused) => return Err(refused),
            }
            if let Some(why) = &saving.failed {
                return Err(Refused::conflict(why));
            }
            if saving.local.is_some_and(|slot| slot.key != leader.by) {
                return Err(something_else());
            }
        }
        let done = |(_, saving): &Kept| {
            let over = u64::from(is_kept(saving));
            saving.pages.0.saturating_add(saving.bytes).saturating_add(over)
        };
        let far = all.iter().map(done).fold(0_u64, u64::saturating_add);
        if far > furthest {
            (furthest, since) = (far, leader.around.now());
        } else if leader.around.now() - since > silence {
            let seconds = silence.as_secs();
            return Err(Refused::conflict(&format!(
                "its nodes have kept nothing more for {seconds} s; is what the checkpoints lie on still there?"
            )));
        }
        if !all.iter().all(|(_, saving)| is_kept(saving)) {
            leader.around.sleep(interval).await;
            interval = (interval * 2).min(SAVING_ASK_INTERVAL_MAX);
        }
    }
}

/// Whether the node has no more to do with it.
fn is_kept(saving: &Saving) -> bool {
    saving.parts.is_some() || saving.local.is_some()
}
