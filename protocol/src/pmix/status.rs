//! What calls are answered with, by OpenPMIx's numbers (`pmix_common.h`).

use serde::{Deserialize, Serialize};

/// `pmix_status_t`: 0, or what is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status(pub i32);

impl Status {
    /// Done.
    pub const SUCCESS: Self = Self(0);
    /// A rank has asked for the end of the job.
    pub const REQUESTED_ABORT: Self = Self(-8);
    /// A rank has ended in a way that others did not expect.
    pub const PROC_ABORTED: Self = Self(-7);
    /// It is there already.
    pub const EXISTS: Self = Self(-11);
    /// A value of a type that nobody knows.
    pub const UNKNOWN_DATA_TYPE: Self = Self(-16);
    /// What came is no message.
    pub const UNPACK_FAILURE: Self = Self(-20);
    /// Not for this caller.
    pub const NO_PERMISSIONS: Self = Self(-23);
    /// It took too long.
    pub const TIMEOUT: Self = Self(-24);
    /// Who was meant cannot be reached any more.
    pub const UNREACHABLE: Self = Self(-25);
    /// An argument is wrong.
    pub const BAD_PARAM: Self = Self(-27);
    /// A limit is reached.
    pub const OUT_OF_RESOURCE: Self = Self(-29);
    /// There is no memory for it.
    pub const NO_MEMORY: Self = Self(-32);
    /// It is published already.
    pub const DUPLICATE_KEY: Self = Self(-53);
    /// There is no such thing.
    pub const NOT_FOUND: Self = Self(-46);
    /// This server does no such thing.
    pub const NOT_SUPPORTED: Self = Self(-47);
    /// Some of what was asked for is not there.
    pub const QUERY_PARTIAL_SUCCESS: Self = Self(-104);
    /// The job ends before its time.
    pub const JOB_ABORTED: Self = Self(-182);
    /// A rank has ended without having finalized.
    pub const PROC_TERM_WO_SYNC: Self = Self(-200);
    /// A rank has ended.
    pub const PROC_TERMINATED: Self = Self(-201);
    /// A node is gone, and the rank with it.
    pub const NODE_DOWN: Self = Self(-231);
    /// A rank could not be started.
    pub const PROC_FAILED_TO_START: Self = Self(-401);
    /// A signal has ended a rank.
    pub const PROC_ABORTED_BY_SIG: Self = Self(-402);
}
