//! What is said of ranks, with something in every field.

use coppice_protocol::checkpoint::ObjectId;
use coppice_protocol::control::{Ends, Exit, NodeRestore, RankCounters, RankReport, SyscallCount};
use coppice_protocol::ids::Rank;
use coppice_protocol::ranks::Ranks;
use coppice_protocol::retain::RankRetention;
use coppice_protocol::transfer::MemberCounts;

use super::{HELD, JOB, OBJECT, RANK, WALK};

fn report() -> RankReport {
    RankReport {
        job: JOB,
        rank: RANK,
        exit: Exit::Signal(11),
        reason: Some("why".into()),
        counters: RankCounters {
            launch_ns: 1,
            run_ns: 2,
            page_faults: 3,
            instruction_faults: 4,
            pages_fetched: 5,
            pages_peak: 6,
            bytes_written: 7,
            bytes_read: 8,
            lookups: 17,
            files_opened: 18,
            file_pages_fetched: 19,
            file_pages_found: 20,
        },
        syscalls: vec![SyscallCount { number: -1, calls: 9, unknown: 10 }],
        retention: RankRetention { found: 11, walk: WALK },
        barriers: 12,
        transfers: vec![MemberCounts { file: 1, asked: 13, answered: 14, wrong: 15, crossed_bytes: 16 }],
    }
}

pub(super) fn ends() -> Ends {
    Ends { held: vec![HELD], reports: vec![report()] }
}

pub(super) fn ranks() -> Ranks {
    [RANK, Rank(RANK.0 + 1), Rank(RANK.0 + 3)].into_iter().collect()
}

pub(super) fn restore() -> NodeRestore {
    NodeRestore { node: ObjectId([0xee; 32]), ranks: vec![OBJECT; 2], by: 9, keep_files: true }
}
