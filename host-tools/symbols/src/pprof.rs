//! Profiles as `pprof` reads them: a gzipped message of protocol buffers. Its types are here as `profile.proto` of
//! pprof has them, as far as they are used.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use prost::Message;

use crate::profile::Profile;
use crate::symbols::{Frame, Place};

/// A profile.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Pprof {
    /// What each sample's values are.
    #[prost(message, repeated, tag = "1")]
    pub sample_type: Vec<ValueType>,
    /// Stacks.
    #[prost(message, repeated, tag = "2")]
    pub sample: Vec<Sample>,
    /// What lies where in memory.
    #[prost(message, repeated, tag = "3")]
    pub mapping: Vec<Mapping>,
    /// Places.
    #[prost(message, repeated, tag = "4")]
    pub location: Vec<Location>,
    /// Functions.
    #[prost(message, repeated, tag = "5")]
    pub function: Vec<Function>,
    /// Texts, by their numbers; the first is empty.
    #[prost(string, repeated, tag = "6")]
    pub string_table: Vec<String>,
    /// What `period` is.
    #[prost(message, optional, tag = "11")]
    pub period_type: Option<ValueType>,
    /// How much is between a sample and the next.
    #[prost(int64, tag = "12")]
    pub period: i64,
}

/// What a value is, by numbers of texts.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct ValueType {
    /// Such as `cpu`.
    #[prost(int64, tag = "1")]
    pub r#type: i64,
    /// Such as `nanoseconds`.
    #[prost(int64, tag = "2")]
    pub unit: i64,
}

/// A stack.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Sample {
    /// Its places, innermost first.
    #[prost(uint64, repeated, tag = "1")]
    pub location_id: Vec<u64>,
    /// A value for each of the profile's types.
    #[prost(int64, repeated, tag = "2")]
    pub value: Vec<i64>,
}

/// A part of a program in memory.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Mapping {
    /// Its number, not 0.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// Where it begins.
    #[prost(uint64, tag = "2")]
    pub memory_start: u64,
    /// Where it ends.
    #[prost(uint64, tag = "3")]
    pub memory_limit: u64,
    /// Where it begins in the file.
    #[prost(uint64, tag = "4")]
    pub file_offset: u64,
    /// The file's name.
    #[prost(int64, tag = "5")]
    pub filename: i64,
    /// Hexadecimal.
    #[prost(int64, tag = "6")]
    pub build_id: i64,
    /// All that can be named is.
    #[prost(bool, tag = "7")]
    pub has_functions: bool,
    /// So are files …
    #[prost(bool, tag = "8")]
    pub has_filenames: bool,
    /// … lines …
    #[prost(bool, tag = "9")]
    pub has_line_numbers: bool,
    /// … and what is inlined.
    #[prost(bool, tag = "10")]
    pub has_inline_frames: bool,
}

/// A place.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Location {
    /// Its number, not 0.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// The part of the program; 0: none.
    #[prost(uint64, tag = "2")]
    pub mapping_id: u64,
    /// Its address.
    #[prost(uint64, tag = "3")]
    pub address: u64,
    /// The functions there, innermost first.
    #[prost(message, repeated, tag = "4")]
    pub line: Vec<Line>,
}

/// A line in a function.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Line {
    /// The function.
    #[prost(uint64, tag = "1")]
    pub function_id: u64,
    /// The line; 0: not known.
    #[prost(int64, tag = "2")]
    pub line: i64,
}

/// A function, by numbers of texts.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Function {
    /// Its number, not 0.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// Its name.
    #[prost(int64, tag = "2")]
    pub name: i64,
    /// As linkers have it.
    #[prost(int64, tag = "3")]
    pub system_name: i64,
    /// The file of its source.
    #[prost(int64, tag = "4")]
    pub filename: i64,
}

impl Pprof {
    /// The bytes of its file.
    ///
    /// # Errors
    /// None in practice.
    pub fn to_file(&self) -> io::Result<Vec<u8>> {
        let mut file = GzEncoder::new(Vec::new(), Compression::default());
        file.write_all(&self.encode_to_vec())?;
        file.finish()
    }

    /// Reads a file again, of which so many bytes are taken at most.
    ///
    /// # Errors
    /// It is none.
    pub fn from_file(bytes: &[u8], bytes_max: u64) -> io::Result<Self> {
        let mut message = Vec::new();
        GzDecoder::new(bytes).take(bytes_max).read_to_end(&mut message)?;
        Ok(Self::decode(message.as_slice())?)
    }

    /// One of its texts.
    #[must_use]
    pub fn text(&self, number: i64) -> &str {
        usize::try_from(number).ok().and_then(|number| self.string_table.get(number)).map_or("", String::as_str)
    }
}

impl Profile<'_> {
    /// This for `pprof`, and if it is known how often a second was sampled, with times.
    #[must_use]
    pub fn pprof(&self, sample_hz: Option<u32>) -> Pprof {
        let mut maker = Maker::default();
        maker.text("");
        let samples = ValueType { r#type: maker.text("samples"), unit: maker.text("count") };
        let cpu = ValueType { r#type: maker.text("cpu"), unit: maker.text("nanoseconds") };
        let period_ns = sample_hz.filter(|hz| *hz > 0).map(|hz| i64::from(1_000_000_000 / hz));
        maker.made.sample_type = [samples].into_iter().chain(period_ns.map(|_| cpu)).collect();
        maker.made.period_type = period_ns.map(|_| cpu);
        maker.made.period = period_ns.unwrap_or_default();
        if let Some((addresses, file_offset)) = self.symbols.mapping() {
            let hexadecimal = |id: &[u8]| id.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            let build_id = self.symbols.build_id().map(hexadecimal).unwrap_or_default();
            let frames = || self.names.values().flatten();
            let mapping = Mapping {
                id: 1,
                memory_start: addresses.start,
                memory_limit: addresses.end,
                file_offset,
                filename: maker.text(self.symbols.program()),
                build_id: maker.text(&build_id),
                has_functions: true,
                has_filenames: frames().any(|frame| frame.file.is_some()),
                has_line_numbers: frames().any(|frame| frame.line > 0),
                has_inline_frames: self.names.values().any(|frames| frames.len() > 1),
            };
            maker.made.mapping.push(mapping);
        }
        let nowhere = Place { address: 0, is_return: false };
        for (stack, count) in &self.stacks {
            let stack = if stack.is_empty() { std::slice::from_ref(&nowhere) } else { stack };
            let location_id = stack.iter().map(|place| maker.location(*place, self.at(*place))).collect();
            let count = i64::try_from(*count).unwrap_or(i64::MAX);
            let value = [count].into_iter().chain(period_ns.map(|ns| count.saturating_mul(ns))).collect();
            maker.made.sample.push(Sample { location_id, value });
        }
        maker.made
    }
}

/// A profile that is being made, and what it has already.
#[derive(Default)]
struct Maker {
    made: Pprof,
    texts: BTreeMap<String, i64>,
    locations: BTreeMap<Place, u64>,
    functions: BTreeMap<(i64, i64, i64), u64>,
}

impl Maker {
    fn text(&mut self, text: &str) -> i64 {
        if let Some(number) = self.texts.get(text) {
            return *number;
        }
        let number = self.made.string_table.len() as i64;
        self.made.string_table.push(text.to_owned());
        self.texts.insert(text.to_owned(), number);
        number
    }

    fn location(&mut self, place: Place, frames: &[Frame]) -> u64 {
        if let Some(id) = self.locations.get(&place) {
            return *id;
        }
        let line = frames.iter().map(|frame| Line { function_id: self.function(frame), line: i64::from(frame.line) });
        let line = line.collect();
        let id = self.made.location.len() as u64 + 1;
        let address = place.instruction();
        let is_in = |mapping: &&Mapping| (mapping.memory_start..mapping.memory_limit).contains(&address);
        let mapping_id = self.made.mapping.iter().find(is_in).map_or(0, |mapping| mapping.id);
        self.made.location.push(Location { id, mapping_id, address, line });
        self.locations.insert(place, id);
        id
    }

    fn function(&mut self, frame: &Frame) -> u64 {
        let (name, system_name) = (self.text(&frame.function), self.text(&frame.linkage_name));
        let filename = self.text(frame.file.as_deref().unwrap_or_default());
        let next = self.made.function.len() as u64 + 1;
        let id = *self.functions.entry((name, system_name, filename)).or_insert(next);
        if id == next {
            self.made.function.push(Function { id, name, system_name, filename });
        }
        id
    }
}
