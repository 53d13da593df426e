//! What a rank took, as it is counted in its node and told to everybody, on the wire and in JSON.

use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};

/// What a rank took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct RankCounters {
    /// Launch message received → first user instruction, ns.
    pub launch_ns: u64,
    /// First user instruction → end, ns.
    pub run_ns: u64,
    /// Page faults taken.
    pub page_faults: u64,
    /// Of those, on instruction fetches.
    pub instruction_faults: u64,
    /// Program pages fetched from the I/O node (read-ahead included).
    pub pages_fetched: u64,
    /// Most memory frames the process had, in 4 KiB pages.
    pub pages_peak: u64,
    /// Bytes the program wrote by shipped calls.
    pub bytes_written: u64,
    /// Bytes the program read by shipped calls.
    pub bytes_read: u64,
    /// Calls that looked for names or at attributes of files and were made at the I/O node, opens included.
    pub lookups: u64,
    /// Files of the I/O node that it opened.
    pub files_opened: u64,
    /// Pages of files that were asked for at the I/O node to be kept, read-ahead included. Short files come with each
    /// open ([`crate::lease::limits::FIRST_BYTES_MAX`]) and are not among them.
    pub file_pages_fetched: u64,
    /// Pages of files that were on the node when their file was opened, as earlier jobs had read them.
    pub file_pages_found: u64,
}

// JSON names what was read before what was written, the wire has it behind.
impl Serialize for RankCounters {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (written, read) = (("bytes_written", self.bytes_written), ("bytes_read", self.bytes_read));
        let shipped = if serializer.is_human_readable() { [read, written] } else { [written, read] };
        let counters = [
            ("launch_ns", self.launch_ns),
            ("run_ns", self.run_ns),
            ("page_faults", self.page_faults),
            ("instruction_faults", self.instruction_faults),
            ("pages_fetched", self.pages_fetched),
            ("pages_peak", self.pages_peak),
        ];
        let files = [
            ("lookups", self.lookups),
            ("files_opened", self.files_opened),
            ("file_pages_fetched", self.file_pages_fetched),
            ("file_pages_found", self.file_pages_found),
        ];
        let mut fields = serializer.serialize_struct("RankCounters", counters.len() + shipped.len() + files.len())?;
        for (name, value) in counters.into_iter().chain(shipped).chain(files) {
            fields.serialize_field(name, &value)?;
        }
        fields.end()
    }
}
