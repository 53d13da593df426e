//! Taking part in the transfer of a file that the node is to keep: it receives the file or, if it has that already,
//! helps the others, and stays until home says that nobody lacks anything.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;

use coppice_protocol::distribution::Party;
use coppice_protocol::keep::{Keep, KeepOutcome};
use coppice_protocol::staging::Roster;

use super::kept::Coming;
use super::member::{Member, Membership, State, WANTED};
use super::room::{Hold, Room, free_bytes, reserve};
use super::site::Site;
use crate::executor;
use crate::limits::STAGING_SETTLE_NS_MAX;
use crate::random;

/// Does as it is ordered; `tell` is called when all of the file is there, or will not be. If this is dropped, what is
/// not all there goes.
pub(crate) async fn keep(order: Keep, site: Site<'_>, tell: impl FnOnce(KeepOutcome) + Send) {
    let (membership, coming) = match join(&order, site).await {
        Ok(joined) => joined,
        Err(reason) => return tell(KeepOutcome::Refused(reason)),
    };
    let member = Arc::clone(&membership.member);
    drop(order);
    let ended = site.staging.until(|| Some(member.state()).filter(|state| *state != State::Receives)).await;
    let whole = KeepOutcome::Whole { was_here: coming.is_none() };
    let reason = match ended {
        State::Failed(reason) => reason,
        _ if coming.as_ref().is_none_or(Coming::finish) => {
            tell(whole);
            return settle(&membership, site).await;
        }
        _ => String::from(WANTED),
    };
    // Nothing of it is left when that is heard.
    drop((membership, coming, member));
    tell(KeepOutcome::Refused(reason));
}

/// Waits until no other node may want anything of this one, or it has nothing any more.
async fn settle(membership: &Membership, site: Site<'_>) {
    let member = membership.withdraw();
    let settled = site.staging.until(|| (!member.is_needed()).then_some(()));
    let _ = executor::timeout(STAGING_SETTLE_NS_MAX, settled).await;
}

/// Joins the transfer, with the file if it is here already, else with room for it.
async fn join(order: &Keep, site: Site<'_>) -> Result<(Membership, Option<Coming>), String> {
    let transfer = &order.transfer;
    let no_memory = || String::from("the node has no memory for its transfer");
    let memory_bytes = Roster::memory_bytes(&transfer.staging, &transfer.world);
    let mut charge = site.quota.charge(memory_bytes).map_err(|_| no_memory())?;
    let roster = transfer.roster().ok_or_else(no_memory)?;
    let plan = transfer.plan(&roster).map_err(|error| format!("{error}"))?;
    let file = transfer.file().map_err(|error| format!("{error}"))?;
    let me = roster.member_of(order.node).ok_or("the node is none of those that are to keep it")?;
    let used = site.retention.next_use();
    let found = site.staging.kept().find(file.content, &plan, used);
    let coming = match &found {
        Some(_) => None,
        None => {
            let room = Room::new(&plan, file.content, site).ok_or_else(no_memory)?;
            let coming = site.staging.kept().begin(room, used).ok_or_else(no_memory)?;
            let room = Hold::Loose(coming.room());
            if !reserve(&room, &plan).await {
                let free = free_bytes(&room, site);
                let needs = file.bytes.div_ceil(1 << 20);
                return Err(format!("it has {needs} MiB and the node has {} MiB free for it", free >> 20));
            }
            Some(coming)
        }
    };
    charge.grow(Member::bytes(&plan)).map_err(|_| no_memory())?;
    let (seed, now_ns) = (u64::from_le_bytes(random::bytes()), executor::now_ns());
    let party = Party::new(&plan, transfer.key(), roster, me, seed, now_ns).ok_or_else(no_memory)?;
    let hold = Hold::Loose(match (&found, &coming) {
        (Some(room), _) => Arc::downgrade(room),
        (None, Some(coming)) => coming.room(),
        (None, None) => return Err(no_memory()),
    });
    let member = Member::new(None, party, hold, charge);
    if found.is_some() {
        member.has_all();
    }
    let membership = site.staging.join(member).map_err(|errno| format!("{errno}"))?;
    Ok((membership, coming))
}
