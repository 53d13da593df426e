//! What clients hear: answers to their calls, and what they are told unasked. What a rank could not have been told by a
//! server that works is an error, in words.

use std::collections::BTreeMap;

use coppice_protocol::pmix::{Kind, Pairs, Read, Reader, SERVER_SPACE, Status};

use super::call::{ENDED, EVENT, NUMBER};
use super::{Ask, Course, Reply, Speaker};

/// What a rank is told unasked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cluster) enum Told {
    /// A rank's event with this number.
    Event(u32, u64),
    /// That a rank has ended: its node says so, or others say that its node is gone.
    End(u32, Source),
}

/// Who knows that a rank has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cluster) enum Source {
    /// Its own node.
    Own,
    /// Others, who take that for gone.
    Others,
}

/// What the answer to a call says.
///
/// # Errors
/// Nobody can have meant that.
pub(in crate::cluster) fn read_answer(
    course: &Course,
    speaker: &Speaker<'_>,
    ask: Ask,
    answer: &[u8],
) -> Result<Reply, String> {
    let mut reader = Reader::new(answer, course.dialect());
    let garbled = |status: Status| format!("cannot be read: {}", status.0);
    if ask == Ask::Init {
        return of_job(reader, course, speaker).map_err(garbled)?.map(|()| Reply::Status(Status::SUCCESS.0));
    }
    let status = status(&mut reader).map_err(garbled)?;
    if status != Status::SUCCESS.0 {
        return if reader.is_empty() { Ok(Reply::Status(status)) } else { Err(format!("has more than {status}")) };
    }
    match ask {
        Ask::Get(of, _) => {
            let card = card(reader, course, speaker, of).map_err(garbled)??;
            let commits = course.commits_of(of, &card, course.are_neighbours(of, speaker.rank));
            commits.map(Reply::Card).ok_or_else(|| format!("has what rank {of} never had: {}", shown(&card)))
        }
        Ask::LookUp(of, round) => {
            let (by, name, value) = found(reader, speaker).map_err(garbled)??;
            let is_it = (by, (name.clone(), value.clone())) == (of, course.published(of, round));
            if is_it { Ok(Reply::Found) } else { Err(format!("has {name:?} of rank {by}: {value:?}")) }
        }
        // What else there is need not be known here.
        Ask::Query => Ok(Reply::Status(status)),
        _ if reader.is_empty() => Ok(Reply::Status(status)),
        _ => Err("has more than a status".to_owned()),
    }
}

/// What a message says that nobody has asked for.
///
/// # Errors
/// Nobody can have meant that.
pub(in crate::cluster) fn read_told(course: &Course, speaker: &Speaker<'_>, body: &[u8]) -> Result<Told, String> {
    let reader = Reader::new(body, course.dialect());
    told(reader, course, speaker).map_err(|status| format!("cannot be read: {}", status.0))?
}

fn status(reader: &mut Reader<'_>) -> Read<i32> {
    reader.packed(1)?;
    reader.i32()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn shown(card: &BTreeMap<String, String>) -> String {
    let pairs = card.iter().map(|(key, value)| format!("{key}={}", value.trim_end_matches('x')));
    pairs.collect::<Vec<_>>().join(" ")
}

/// What a rank is told of its job: the name, the number of ranks, and more that need not be known here.
fn of_job(mut reader: Reader<'_>, course: &Course, speaker: &Speaker<'_>) -> Read<Result<(), String>> {
    reader.packed(1)?;
    let space = text(reader.text()?);
    let (_, first) = Pairs::of(reader).next().ok_or(Status::UNPACK_FAILURE)??;
    let mut pair = Reader::new(first, course.dialect());
    let (key, kind, size) = (text(pair.text()?), Kind(pair.u16()?), pair.u32()?);
    let is_it = space == speaker.space && (&*key, kind, size) == ("pmix.job.size", Kind::UINT32, speaker.size);
    Ok(if is_it { Ok(()) } else { Err(format!("is of {space}: {key} is {size}")) })
}

/// All that a rank has put.
fn card(
    mut reader: Reader<'_>,
    course: &Course,
    speaker: &Speaker<'_>,
    of: u32,
) -> Read<Result<BTreeMap<String, String>, String>> {
    reader.packed(1)?;
    let mut object = Reader::new(reader.object()?, course.dialect());
    object.packed(1)?;
    let process = object.process()?;
    if (process.space, process.rank) != (speaker.space.as_bytes(), of) || !reader.is_empty() {
        return Ok(Err(format!("is of {}:{}", text(process.space), process.rank)));
    }
    let mut card = BTreeMap::new();
    for pair in Pairs::of(object) {
        let (_, bytes) = pair?;
        let mut pair = Reader::new(bytes, course.dialect());
        let key = text(pair.text()?);
        if Kind(pair.u16()?) != Kind::STRING {
            return Ok(Err(format!("has {key} as something else")));
        }
        card.insert(key, text(pair.text()?));
    }
    Ok(Ok(card))
}

/// Who has published what under which name.
fn found(mut reader: Reader<'_>, speaker: &Speaker<'_>) -> Read<Result<(u32, String, String), String>> {
    reader.packed(1)?;
    let count = reader.size()?;
    if count != 1 {
        return Ok(Err(format!("has {count} names")));
    }
    reader.packed(count)?;
    let process = reader.process()?;
    let name = text(reader.text()?);
    if Kind(reader.u16()?) != Kind::STRING || process.space != speaker.space.as_bytes() {
        return Ok(Err(format!("has {name} of {}", text(process.space))));
    }
    Ok(Ok((process.rank, name, text(reader.text()?))))
}

fn told(mut reader: Reader<'_>, course: &Course, speaker: &Speaker<'_>) -> Read<Result<Told, String>> {
    reader.packed(1)?;
    let command = reader.byte()?;
    reader.packed(1)?;
    let code = reader.i32()?;
    reader.packed(1)?;
    let source = reader.process()?;
    reader.packed(1)?;
    let count = reader.size()?;
    if count > 0 {
        reader.packed(count)?;
    }
    let (mut number, mut affected, mut of_ends) = (None, None, Source::Own);
    for _ in 0..count {
        let info = reader.info()?;
        let mut value = Reader::new(info.value, course.dialect());
        match info.key {
            key if key == NUMBER.as_bytes() => number = Some(value.u32()?.into()),
            b"pmix.evproc" => affected = Some(value.process()?),
            b"pmix.proc.term.status" if value.i32()? == Status::NODE_DOWN.0 => of_ends = Source::Others,
            _ => {}
        }
    }
    let space = speaker.space.as_bytes();
    let of_rank = number.filter(|_| code == EVENT && source.space == space);
    let of_end = affected.filter(|of| code == ENDED && source.space == SERVER_SPACE.as_bytes() && of.space == space);
    Ok(match (command, of_rank, of_end) {
        (12, Some(number), None) => Ok(Told::Event(source.rank, number)),
        (12, None, Some(process)) => Ok(Told::End(process.rank, of_ends)),
        _ => Err(format!("{code} from {}:{} is nothing that was asked for", text(source.space), source.rank)),
    })
}
