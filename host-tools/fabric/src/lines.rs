//! Lines in and out, both bounded.

use crate::command::{Event, Message, Outcome, Reply, Request};
use crate::limits::{COMMAND_BYTES_MAX, OUTPUT_BYTES_MAX};

/// Takes the bytes of standard input apart.
#[derive(Debug, Default)]
pub(crate) struct CommandLines {
    line: Vec<u8>,
    /// The rest of a line that is too long is being skipped.
    skipping: bool,
}

/// A line that is no request.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LineError {
    #[error("a command line has more than {COMMAND_BYTES_MAX} bytes")]
    TooLong,
    #[error("no command: {0}")]
    NotACommand(String),
}

impl CommandLines {
    /// Takes in `bytes`, and gives each whole line's request to `handle`.
    pub(crate) fn take(&mut self, bytes: &[u8], mut handle: impl FnMut(Result<Request, LineError>)) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let whole = piece.ends_with(b"\n");
            if !self.skipping && self.line.len() + piece.len() > COMMAND_BYTES_MAX {
                self.skipping = true;
                self.line.clear();
                handle(Err(LineError::TooLong));
            }
            if !self.skipping {
                self.line.extend_from_slice(piece);
            }
            if whole {
                if !std::mem::take(&mut self.skipping) && !self.line.trim_ascii().is_empty() {
                    handle(parse(&self.line));
                }
                self.line.clear();
            }
        }
    }
}

fn parse(line: &[u8]) -> Result<Request, LineError> {
    serde_json::from_slice(line).map_err(|error| LineError::NotACommand(error.to_string()))
}

/// Lines for standard output that have not been written yet.
#[derive(Debug, Default)]
pub(crate) struct Output {
    bytes: Vec<u8>,
    events_lost: u64,
}

impl Output {
    /// Whether no more commands should be read for now.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes.len() >= OUTPUT_BYTES_MAX
    }

    /// What is to be written.
    pub(crate) fn pending(&self) -> &[u8] {
        &self.bytes
    }

    /// Forgets the first `count` bytes, which were written.
    pub(crate) fn written(&mut self, count: usize) {
        self.bytes.drain(..count);
        if self.events_lost > 0 && !self.is_full() {
            let count = std::mem::take(&mut self.events_lost);
            self.add(&Message::Event(Event::EventsLost { count }));
        }
    }

    /// Adds a reply. There is one per command, so what bounds commands bounds replies.
    pub(crate) fn reply(&mut self, id: Option<u64>, outcome: Outcome) {
        self.add(&Message::Reply(Reply { id, outcome }));
    }

    /// Adds an event, or counts it as lost.
    pub(crate) fn event(&mut self, event: Event) {
        if self.is_full() {
            self.events_lost += 1;
        } else {
            self.add(&Message::Event(event));
        }
    }

    fn add(&mut self, message: &Message) {
        // Our own types always have a JSON form, and a vector takes every write.
        if serde_json::to_writer(&mut self.bytes, message).is_ok() {
            self.bytes.push(b'\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use coppice_protocol::ids::MacAddress;
    use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};

    use super::*;
    use crate::command::{Command, Direction, Shape};
    use crate::names::LinkName;

    fn collect(pieces: &[&[u8]]) -> Vec<Result<Request, LineError>> {
        let (mut lines, mut requests) = (CommandLines::default(), Vec::new());
        pieces.iter().for_each(|piece| lines.take(piece, |request| requests.push(request)));
        requests
    }

    #[test]
    fn lines_in_pieces_and_lines_too_long() {
        let shutdown = |id| Ok(Request { id, command: Command::Shutdown });
        let requests = collect(&[
            b"{\"id\":1,\"command\":{\"do\":",
            b"\"shutdown\"}}\n\n  \n{\"id\":2,\"command\":{\"do\":\"shutdown\"}}\n{",
        ]);
        assert_eq!(requests, [shutdown(1), shutdown(2)]);
        let long = vec![b'x'; COMMAND_BYTES_MAX];
        let requests = collect(&[&long, &long, b"x\n{\"id\":3,\"command\":{\"do\":\"shutdown\"}}\n"]);
        assert_eq!(requests, [Err(LineError::TooLong), shutdown(3)]);
    }

    #[test]
    fn what_is_no_command_says_why() {
        for (line, reason) in [
            ("hello\n", "expected value"),
            ("{\"id\":1}\n", "missing field `command`"),
            ("{\"id\":1,\"command\":{\"do\":\"dance\"}}\n", "unknown variant `dance`"),
            ("{\"id\":1,\"command\":{\"do\":\"pcap-stop\",\"link\":\"../x\"}}\n", "no link name"),
            ("{\"id\":1,\"command\":{\"do\":\"add-port\",\"link\":\"x\",\"mac\":\"2\"}}\n", "no Ethernet address"),
            ("{\"id\":1,\"command\":{\"do\":\"shape\",\"shape\":{\"delay\":1}}}\n", "unknown field `delay`"),
        ] {
            match collect(&[line.as_bytes()]).as_slice() {
                [Err(error)] => assert!(error.to_string().contains(reason), "{line}: {error}"),
                other => panic!("{line}: {other:?}"),
            }
        }
    }

    #[test]
    fn events_nobody_reads_are_counted() {
        let mut output = Output::default();
        let event = || Event::StationUp { link: LinkName::new("n0").unwrap() };
        while !output.is_full() {
            output.event(event());
        }
        output.event(event());
        output.event(event());
        let length = output.pending().len();
        output.written(length);
        assert_eq!(output.pending(), b"{\"event\":{\"event\":\"events-lost\",\"count\":2}}\n");
    }

    fn requests() -> impl Strategy<Value = Request> {
        let link = || "[a-z0-9_-]{1,32}".prop_map(|name| LinkName::new(name).unwrap());
        let maybe_link = || proptest::option::of(link());
        let direction = prop_oneof![
            proptest::strategy::Just(Direction::ToStation),
            proptest::strategy::Just(Direction::FromStation),
            proptest::strategy::Just(Direction::Both)
        ];
        let shape = (any::<u64>(), any::<Option<u64>>(), any::<u32>(), any::<bool>()).prop_map(
            |(latency_ns, bandwidth_bits_per_s, loss_ppm, cut)| Shape {
                latency_ns,
                bandwidth_bits_per_s,
                loss_ppm,
                cut,
            },
        );
        let command = prop_oneof![
            (link(), any::<[u8; 6]>()).prop_map(|(link, mac)| Command::AddPort { link, mac: MacAddress(mac) }),
            link().prop_map(|link| Command::RemovePort { link }),
            (maybe_link(), direction, shape).prop_map(|(link, direction, shape)| Command::Shape {
                link,
                direction,
                shape
            }),
            maybe_link().prop_map(|link| Command::Counters { link }),
            (link(), "/\\PC{0,40}", any::<Option<u64>>()).prop_map(|(link, file, bytes_max)| Command::PcapStart {
                link,
                file: file.into(),
                bytes_max
            }),
            link().prop_map(|link| Command::PcapStop { link }),
            proptest::strategy::Just(Command::Shutdown),
        ];
        (any::<u64>(), command).prop_map(|(id, command)| Request { id, command })
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(pieces: Vec<Vec<u8>>) {
            let pieces: Vec<_> = pieces.iter().map(Vec::as_slice).collect();
            let whole = pieces.concat();
            prop_assert_eq!(collect(&pieces), collect(&[&whole]));
        }

        #[test]
        fn requests_come_back(request in requests(), at: proptest::sample::Index) {
            let mut line = serde_json::to_vec(&request).unwrap();
            line.push(b'\n');
            let (head, tail) = line.split_at(at.index(line.len()));
            prop_assert!(line.len() < COMMAND_BYTES_MAX);
            prop_assert_eq!(collect(&[head, tail]), [Ok(request)]);
        }
    }
}
