//! What a rank says, one line after the other, and what it may hear.

use crate::checkers::Violation;

/// A line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    /// Its card.
    PutCard,
    /// A key that lies wherever such keys do.
    PutShared,
    Meet,
    /// The card of a rank that is so many further on.
    GetCard(u32),
    GetShared(u32),
    Publish,
    MeetAgain,
    LookUp(u32),
    MeetLast,
    Finalize,
    Ended,
}

/// All of them. Others are asked for what lies near, across, and far.
pub(super) const SCRIPT: [Step; 14] = [
    Step::PutCard,
    Step::PutShared,
    Step::Meet,
    Step::GetCard(1),
    Step::GetCard(7),
    Step::GetShared(3),
    Step::GetShared(12),
    Step::Publish,
    Step::MeetAgain,
    Step::LookUp(2),
    Step::LookUp(11),
    Step::MeetLast,
    Step::Finalize,
    Step::Ended,
];

/// What has become of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// Nothing was heard yet.
    Nothing,
    /// What must be.
    Right,
    /// That it is not to be had.
    Refused,
}

impl Step {
    /// Which barrier it is, counted from 0.
    pub(super) fn barrier(self) -> Option<usize> {
        match self {
            Self::Meet => Some(0),
            Self::MeetAgain => Some(1),
            Self::MeetLast => Some(2),
            _ => None,
        }
    }

    /// What a run counts those under who die in it.
    pub(super) fn phase(self) -> &'static str {
        match self {
            Self::PutCard | Self::PutShared => "deaths before the first barrier",
            Self::Meet => "deaths in the first barrier",
            Self::GetCard(_) | Self::GetShared(_) => "deaths while keys are asked for",
            Self::Publish => "deaths while names are published",
            Self::MeetAgain => "deaths in the second barrier",
            Self::LookUp(_) => "deaths while names are looked up",
            Self::MeetLast => "deaths in the last barrier",
            Self::Finalize | Self::Ended => "deaths in the end",
        }
    }

    /// The rank that is asked about.
    pub(super) fn about(self, rank: u32, ranks: u32) -> Option<u32> {
        match self {
            Self::GetCard(further) | Self::GetShared(further) | Self::LookUp(further) => Some((rank + further) % ranks),
            _ => None,
        }
    }

    /// What a rank says.
    pub(super) fn line(self, rank: u32, ranks: u32) -> String {
        let about = self.about(rank, ranks).unwrap_or(rank);
        match self {
            Self::PutCard => format!("cmd=put kvsname=k0 key=P{rank}-card value=card-of-{rank}\n"),
            Self::PutShared => format!("cmd=put kvsname=k0 key=shared[{rank}] value=of-{rank}\n"),
            Self::Meet | Self::MeetAgain | Self::MeetLast => "cmd=barrier_in\n".into(),
            Self::GetCard(_) => format!("cmd=get kvsname=k0 key=P{about}-card\n"),
            Self::GetShared(_) => format!("cmd=get kvsname=k0 key=shared[{about}]\n"),
            Self::Publish => format!("cmd=publish_name service=s{rank} port=p{rank}\n"),
            Self::LookUp(_) => format!("cmd=lookup_name service=s{about}\n"),
            Self::Finalize => "cmd=finalize\n".into(),
            Self::Ended => String::new(),
        }
    }

    /// What came of it.
    pub(super) fn hear(self, heard: &str, rank: u32, ranks: u32) -> Result<Heard, Violation> {
        let about = self.about(rank, ranks).unwrap_or(rank);
        let wanted = match self {
            _ if heard.is_empty() => return Ok(Heard::Nothing),
            Self::PutCard | Self::PutShared => "cmd=put_result rc=0 msg=success\n".into(),
            Self::Meet | Self::MeetAgain | Self::MeetLast => "cmd=barrier_out\n".into(),
            Self::GetCard(_) => format!("cmd=get_result rc=0 msg=success value=card-of-{about}\n"),
            Self::GetShared(_) => format!("cmd=get_result rc=0 msg=success value=of-{about}\n"),
            Self::Publish => "cmd=publish_result info=ok rc=0 msg=success\n".into(),
            Self::LookUp(_) => format!("cmd=lookup_result port=p{about} info=ok rc=0 msg=success\n"),
            Self::Finalize => "cmd=finalize_ack\n".into(),
            Self::Ended => String::new(),
        };
        let is_question = matches!(self, Self::GetCard(_) | Self::GetShared(_) | Self::LookUp(_) | Self::Publish);
        if heard == wanted {
            Ok(Heard::Right)
        } else if is_question && heard.contains(" rc=-1 ") {
            Ok(Heard::Refused)
        } else {
            Err(Violation::new(format!("rank {rank} has heard `{}` in {self:?}", heard.trim_end())).by("answers"))
        }
    }
}
