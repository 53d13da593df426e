//! Lines with the rank they come from in front.

use std::collections::BTreeMap;

/// Longest line that waits for its end, bytes; a longer one is shown in several.
const LINE_BYTES_MAX: usize = 64 * 1024;

/// Lines that are not whole yet, by rank and stream.
#[derive(Debug, Default)]
pub(super) struct Labels {
    /// The job, which is in front of the rank if there are several.
    job: Option<u64>,
    open: BTreeMap<(u32, bool), Vec<u8>>,
}

impl Labels {
    /// Of a job that is one of several.
    pub(super) fn of(job: u64) -> Self {
        Self { job: Some(job), ..Self::default() }
    }

    /// Adds output and returns the lines that are whole by now.
    pub(super) fn add(&mut self, rank: u32, is_error: bool, bytes: &[u8]) -> Vec<u8> {
        let open = self.open.entry((rank, is_error)).or_default();
        let mut whole = Vec::with_capacity(bytes.len() + 16);
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            open.extend_from_slice(piece);
            if open.ends_with(b"\n") || open.len() >= LINE_BYTES_MAX {
                write_line(&mut whole, (self.job, rank), open);
                open.clear();
            }
        }
        whole
    }

    /// The lines that never got their end, for one of the streams.
    pub(super) fn finish(&mut self, is_error: bool) -> Vec<u8> {
        let mut rest = Vec::new();
        for ((rank, _), open) in self.open.iter_mut().filter(|((_, of_error), _)| *of_error == is_error) {
            if !open.is_empty() {
                write_line(&mut rest, (self.job, *rank), open);
                open.clear();
            }
        }
        rest
    }
}

fn write_line(output: &mut Vec<u8>, (job, rank): (Option<u64>, u32), line: &[u8]) {
    let job = job.map(|job| format!("{job}.")).unwrap_or_default();
    output.extend_from_slice(format!("{job}{rank}: ").as_bytes());
    output.extend_from_slice(line);
    if !line.ends_with(b"\n") {
        output.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use super::{LINE_BYTES_MAX, Labels};

    #[test]
    fn of_several_jobs_lines_have_the_job_too() {
        let mut labels = Labels::of(12);
        assert_eq!(labels.add(3, false, b"a\nb"), b"12.3: a\n");
        assert_eq!(labels.finish(false), b"12.3: b\n");
    }

    #[test]
    fn lines_are_whole_and_streams_apart() {
        let mut labels = Labels::default();
        assert_eq!(labels.add(1, false, b"a\nb"), b"1: a\n");
        assert_eq!(labels.add(2, false, b"x"), b"");
        assert_eq!(labels.add(1, true, b"e"), b"");
        assert_eq!(labels.add(1, false, b"c\n\n"), b"1: bc\n1: \n");
        assert_eq!(labels.finish(false), b"2: x\n");
        assert_eq!(labels.finish(true), b"1: e\n");
        assert_eq!(labels.finish(true), b"");
    }

    #[test]
    fn a_line_without_end_does_not_wait_for_ever() {
        let mut labels = Labels::default();
        let shown = labels.add(0, false, &vec![b'x'; LINE_BYTES_MAX + 1]);
        assert!(shown.len() > LINE_BYTES_MAX && shown.ends_with(b"\n"));
    }
}
