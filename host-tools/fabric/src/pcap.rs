//! The classic pcap format with nanoseconds, as Wireshark and tcpdump read it.

/// Marks a file whose times are in nanoseconds.
const MAGIC_NS: u32 = 0xa1b2_3c4d;
const VERSION: [u16; 2] = [2, 4];
/// Longest frame the format's readers accept.
const SNAP_BYTES: u32 = 262_144;
const LINK_TYPE_ETHERNET: u32 = 1;
/// What stands before all records, bytes.
pub(crate) const HEADER_BYTES: usize = 24;
/// What stands before the frame in a record, bytes.
pub(crate) const RECORD_HEADER_BYTES: usize = 16;
/// Where in it the frame's length is.
const LENGTH_AT: usize = 8;

/// What a file begins with.
pub(crate) fn header() -> Vec<u8> {
    let mut header = Vec::with_capacity(HEADER_BYTES);
    header.extend_from_slice(&MAGIC_NS.to_le_bytes());
    VERSION.iter().for_each(|part| header.extend_from_slice(&part.to_le_bytes()));
    // Time zone and accuracy, which nobody sets.
    header.extend_from_slice(&[0; 8]);
    header.extend_from_slice(&SNAP_BYTES.to_le_bytes());
    header.extend_from_slice(&LINK_TYPE_ETHERNET.to_le_bytes());
    header
}

/// Adds the record of `frame`, with the time of day `time_ns` since 1970, to `records`.
pub(crate) fn add_record(records: &mut Vec<u8>, frame: &[u8], time_ns: u64) {
    let length = u32::try_from(frame.len()).unwrap_or(u32::MAX);
    // The format's seconds have 32 bits.
    let seconds = u32::try_from(time_ns / 1_000_000_000).unwrap_or(u32::MAX);
    let nanoseconds = u32::try_from(time_ns % 1_000_000_000).unwrap_or_default();
    for field in [seconds, nanoseconds, length, length] {
        records.extend_from_slice(&field.to_le_bytes());
    }
    records.extend_from_slice(frame);
}

/// The first of whole records, and those behind it.
pub(crate) fn split_record(records: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = records.get(LENGTH_AT..)?.first_chunk().map(|length| u32::from_le_bytes(*length))?;
    records.split_at_checked(RECORD_HEADER_BYTES + length as usize)
}

#[cfg(test)]
mod tests {
    use super::{HEADER_BYTES, add_record, header, split_record};

    #[test]
    fn records_come_apart_as_they_were_put_together() {
        assert_eq!(header().len(), HEADER_BYTES);
        let mut records = Vec::new();
        let frames: [&[u8]; 3] = [b"one", b"", &[7; 9000]];
        frames.iter().for_each(|frame| add_record(&mut records, frame, 1_700_000_000_000_000_001));
        let mut rest = &records[..];
        for frame in frames {
            let (record, behind) = split_record(rest).expect("a record");
            assert_eq!((&record[16..], &record[4..8]), (frame, &1_u32.to_le_bytes()[..]));
            rest = behind;
        }
        assert_eq!((rest, split_record(rest)), (&[][..], None));
        assert_eq!(split_record(&records[..18]), None, "half a record");
    }
}
