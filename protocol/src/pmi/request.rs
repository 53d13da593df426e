//! What a rank says: one line, understood.

use super::line::Fields;
use super::naming::{NameCommand, name_and_port};

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request<'a> {
    /// Are we of one version?
    Init {
        /// As the rank says, if it says a number.
        version: Option<u32>,
        subversion: Option<u32>,
    },
    /// On a port: I am this rank.
    InitAck { rank: Option<u32> },
    /// How long may names, keys and values be?
    GetMaxes,
    /// Which of the programs of the job am I?
    GetAppnum,
    /// What is the job's key-value space called?
    GetMyKvsname,
    /// How many ranks could there be?
    GetUniverseSize,
    /// What is the value of this key?
    Get { space: &'a [u8], key: &'a [u8] },
    /// This is the value of this key.
    Put { space: &'a [u8], key: &'a [u8], value: &'a [u8] },
    /// What is the key with this number, and its value?
    GetByIdx { space: &'a [u8], index: Option<usize> },
    /// Tell me when all have said this.
    BarrierIn,
    /// Publish, unpublish or look up a name.
    Name { command: NameCommand, name: &'a [u8], port: &'a [u8] },
    /// End the job.
    Abort { code: Option<i32>, message: &'a [u8] },
    /// I am done.
    Finalize,
    /// The start of a command of several lines, up to `endcmd`.
    Spawn,
    /// Something that is refused. The rank waits for this answer.
    Refused { answer: &'static str },
    /// Nothing that anybody knows.
    Unknown,
    /// No command at all.
    Malformed,
}

/// Commands that exist and are not for us, and what their answers are called (`src/pmi/simple/simple_pmi.c` of MPICH,
/// and `src/pm/util/pmiserv.c`).
const REFUSED: [(&[u8], &str); 2] = [(b"create_kvs", "newkvs"), (b"destroy_kvs", "kvs_destroyed")];

impl<'a> Request<'a> {
    /// Understands a line that is not blank.
    pub(crate) fn parse(line: &'a [u8]) -> Self {
        let fields = Fields::of(line);
        let text = |key: &[u8]| fields.get(key).unwrap_or_default();
        let Some(command) = fields.get(b"cmd") else {
            return if fields.get(b"mcmd") == Some(b"spawn") { Self::Spawn } else { Self::Malformed };
        };
        // The message of an abort is a text for people.
        if command == b"abort" {
            let message = fields.rest(b"message").or_else(|| fields.rest(b"msg")).unwrap_or_default();
            return Self::Abort { code: fields.number(b"exitcode"), message };
        }
        if let Some(command) = NameCommand::of_first(command).filter(|_| !line.contains(&0)) {
            let (name, port) = name_and_port(command, fields.rest(b"service").unwrap_or_default());
            return Self::Name { command, name, port };
        }
        if !fields.is_well_formed() {
            return Self::Malformed;
        }
        match command {
            b"init" => {
                Self::Init { version: fields.number(b"pmi_version"), subversion: fields.number(b"pmi_subversion") }
            }
            b"initack" => Self::InitAck { rank: fields.number(b"pmiid") },
            b"get_maxes" => Self::GetMaxes,
            b"get_appnum" => Self::GetAppnum,
            b"get_my_kvsname" => Self::GetMyKvsname,
            b"get_universe_size" => Self::GetUniverseSize,
            b"get" => Self::Get { space: text(b"kvsname"), key: text(b"key") },
            b"put" => Self::Put { space: text(b"kvsname"), key: text(b"key"), value: text(b"value") },
            b"getbyidx" => Self::GetByIdx { space: text(b"kvsname"), index: fields.number(b"idx") },
            b"barrier_in" => Self::BarrierIn,
            b"finalize" => Self::Finalize,
            other => REFUSED
                .iter()
                .find(|(name, _)| *name == other)
                .map_or(Self::Unknown, |(_, answer)| Self::Refused { answer }),
        }
    }
}
