//! An I/O node that tests play: files in a table, output in a vector.

mod locks;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use coppice_protocol::lease::{Grant, Lease};
use coppice_protocol::manifest::{Entry, encode};
use coppice_protocol::program::tree;
use coppice_protocol::ship::{
    Call, FileStatus, Handle, Keeping, Known, Location, NOTICE_ID, Notice, Owner, Reply, Request, Stream,
};
use spin::Mutex;

use self::locks::PlayedLocks;
use crate::errno::Errno;
use crate::executor;
use crate::net::testing::{Peer, Port};

/// What the played I/O node has and does.
#[derive(Default)]
pub(crate) struct World {
    /// Files by path.
    pub(crate) files: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(super) handles: Vec<Option<Vec<u8>>>,
    /// What was printed.
    pub(crate) output: Vec<u8>,
    /// What is there to be read on standard input; then its end.
    pub(crate) input: VecDeque<Vec<u8>>,
    /// When there is none, more may come.
    pub(crate) input_goes_on: bool,
    /// Who found none and is to be told of some.
    pub(super) wants_input: Option<Owner>,
    /// What the user still takes of the output, bytes; `None`: all.
    pub(crate) output_room: Option<usize>,
    /// Who could not print.
    pub(crate) wants_output: Option<Owner>,
    /// Nobody reads the output any more.
    pub(crate) output_gone: bool,
    /// Writes from this offset on fail with this error.
    pub(crate) fails_from: Option<(u64, Errno)>,
    /// Reads and writes from this offset on, standard input and the program's pages (offset 0) are never answered.
    pub(crate) stuck_from: Option<u64>,
    /// The program's file.
    pub(crate) program: Vec<u8>,
    /// No write takes more, bytes.
    pub(crate) write_bytes_max: Option<usize>,
    /// Most reads and writes that were under way at once.
    pub(crate) under_way_max: usize,
    /// The lease that comes with each file.
    pub(crate) lease: Option<Lease>,
    /// The number of the last, and the version of all that is in files.
    pub(crate) leases: u64,
    pub(crate) version: u64,
    /// A lease that is wanted back, to be said.
    pub(crate) recall: Option<Notice>,
    /// Who has locked what.
    pub(crate) locks: PlayedLocks,
    /// The lease of names that whoever looks something up has, and files that are open to be written, whose attributes
    /// are not to be kept.
    pub(crate) names: Option<u64>,
    pub(super) writers: Vec<Handle>,
    /// Directories that were made, and modes that were changed.
    pub(crate) directories: Vec<Vec<u8>>,
    pub(crate) modes: BTreeMap<Vec<u8>, u32>,
    /// What the program was seen to look up, and the number of that.
    pub(crate) manifest: (u64, Vec<Entry>),
    /// Every call, as it came.
    pub(crate) calls: Vec<Call>,
}

/// A program of one page of text, in a file of one page.
pub(crate) fn small_program() -> Vec<u8> {
    let mut program = vec![0; 4096];
    program[..20].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0");
    let words: [(usize, u64); 9] = [
        (24, 0x40_0078),
        (32, 64),
        (64, 5 << 32 | 1),
        (72, 0),
        (80, 0x40_0000),
        (88, 0x40_0000),
        (96, 4096),
        (104, 4096),
        (112, 4096),
    ];
    for (offset, word) in words {
        program[offset..offset + 8].copy_from_slice(&word.to_le_bytes());
    }
    program[20] = 1;
    program[52..58].copy_from_slice(&[64, 0, 56, 0, 1, 0]);
    program
}

impl World {
    fn handle(&mut self, path: Vec<u8>) -> Handle {
        self.handles.push(Some(path));
        Handle(self.handles.len() as u32 - 1)
    }

    fn path_of(&self, handle: Handle) -> Result<Vec<u8>, Errno> {
        self.handles.get(handle.0 as usize).and_then(Clone::clone).ok_or(Errno::EBADF)
    }

    /// Files that are still open.
    pub(crate) fn open_count(&self) -> usize {
        self.handles.iter().flatten().count()
    }

    fn resolve(&self, at: &Location) -> Result<Vec<u8>, Errno> {
        let base = at.directory.map_or(Ok(b"/".to_vec()), |handle| self.path_of(handle))?;
        let joined = crate::files::absolute(&base, &at.path);
        let mut names: Vec<&[u8]> = Vec::new();
        for name in crate::files::components(&joined).filter(|name| !name.is_empty() && *name != b".") {
            if name == b".." {
                names.pop();
            } else {
                names.push(name);
            }
        }
        Ok([b"/", &*names.join(&b'/')].concat())
    }

    fn status(&self, path: &[u8]) -> Result<FileStatus, Errno> {
        let prefix = if path == b"/" { b"/".to_vec() } else { [path, b"/"].concat() };
        let inode = path.iter().fold(7_u64, |hash, byte| hash.wrapping_mul(31) ^ u64::from(*byte));
        match self.files.get(path) {
            Some(bytes) => {
                let size = bytes.len() as u64;
                let mode = 0o100_000 | self.modes.get(path).unwrap_or(&0o644);
                Ok(FileStatus { mode, size, inode, links: 1, user: 1, group: 2, ..FileStatus::default() })
            }
            None if self
                .files
                .keys()
                .chain(&self.directories)
                .any(|name| name.starts_with(&prefix) || name == path) =>
            {
                Ok(FileStatus { mode: 0o040_755, inode, links: 2, ..FileStatus::default() })
            }
            None => Err(Errno::ENOENT),
        }
    }

    fn is_stuck(&self, call: &Call) -> bool {
        let at = match call {
            Call::Read { offset, .. } | Call::Fill { offset, .. } => *offset,
            Call::Write { offset, .. } => offset.unwrap_or(0),
            Call::Input { .. } | Call::Pages { .. } => 0,
            _ => return false,
        };
        self.stuck_from.is_some_and(|from| at >= from)
    }

    fn answer(&mut self, call: Call, bulk: Vec<u8>) -> Result<(Reply, Vec<u8>), Errno> {
        let call = match call {
            // Nothing comes by itself here.
            Call::Fill { file, offset, length, .. } => Call::Read { file, offset, length },
            call => call,
        };
        self.calls.push(call.clone());
        let done = Ok((Reply::Done, Vec::new()));
        match call {
            Call::Pages { first, count, .. } => {
                let bytes = self.program.len();
                let part = [first as usize, first as usize + usize::from(count)].map(|page| bytes.min(page * 4096));
                let places = tree::beside(bytes as u64, first.into(), count.into());
                let tree = tree::of(&self.program);
                let beside = places.into_iter().map(|place| tree[place as usize]).collect();
                Ok((Reply::Pages { beside }, self.program[part[0]..part[1]].to_vec()))
            }
            Call::Open { at, flags, .. } => {
                let path = self.resolve(&at)?;
                if flags & 0o100 != 0 {
                    self.files.entry(path.clone()).or_default();
                }
                let status = self.status(&path)?;
                if flags & 0o1000 != 0 {
                    self.files.insert(path.clone(), Vec::new());
                }
                let status = FileStatus { size: self.files.get(&path).map_or(0, |file| file.len() as u64), ..status };
                if flags & 3 != 0 {
                    self.writers.push(Handle(self.handles.len() as u32));
                }
                let grant = self.lease.filter(|_| status.mode >> 12 == 8).map(|lease| {
                    self.leases += 1;
                    Grant { lease, number: self.leases, known: self.version, version: self.version }
                });
                Ok((Reply::Opened { handle: self.handle(path), status, grant }, Vec::new()))
            }
            Call::Close(handle) => {
                let path = self.path_of(handle)?;
                self.handles[handle.0 as usize] = None;
                self.writers.retain(|other| *other != handle);
                Ok((self.status(&path).map_or(Reply::Done, Reply::Status), Vec::new()))
            }
            Call::Read { file, offset, length } => {
                let path = self.path_of(file)?;
                let bytes = self.files.get(&path).ok_or(Errno::EISDIR)?;
                let start = usize::try_from(offset).map_or(bytes.len(), |offset| offset.min(bytes.len()));
                Ok((Reply::Data, bytes[start..bytes.len().min(start + length as usize)].to_vec()))
            }
            Call::Write { file, offset } => {
                let path = self.path_of(file)?;
                let bytes = self.files.get_mut(&path).ok_or(Errno::EBADF)?;
                let offset = offset.unwrap_or(bytes.len() as u64);
                if let Some((from, errno)) = self.fails_from
                    && offset >= from
                {
                    return Err(errno);
                }
                let count = bulk.len().min(self.write_bytes_max.unwrap_or(usize::MAX));
                let start = offset as usize;
                if bytes.len() < start + count {
                    bytes.resize(start + count, 0);
                }
                bytes[start..start + count].copy_from_slice(&bulk[..count]);
                Ok((Reply::Written { bytes: count as u32, end: offset + count as u64 }, Vec::new()))
            }
            Call::Input { length } => {
                let Some(mut bytes) = self.input.pop_front() else {
                    let reply = if self.input_goes_on { Reply::Later } else { Reply::Data };
                    return Ok((reply, Vec::new()));
                };
                let rest = bytes.split_off(bytes.len().min(length as usize));
                if !rest.is_empty() {
                    self.input.push_front(rest);
                }
                Ok((Reply::Data, bytes))
            }
            Call::InputReady => Ok((Reply::Count(u64::from(!self.input.is_empty())), Vec::new())),
            Call::Print(Stream::Output | Stream::Error) if self.output_gone => Err(Errno::EPIPE),
            Call::Print(_) if self.output_room.is_some_and(|room| bulk.len() > room) => Ok((Reply::Later, Vec::new())),
            Call::PrintNothing => {
                self.wants_output = None;
                done
            }
            Call::Print(_) => {
                self.output_room = self.output_room.map(|room| room - bulk.len());
                self.output.extend_from_slice(&bulk);
                Ok((Reply::Written { bytes: bulk.len() as u32, end: 0 }, Vec::new()))
            }
            Call::Stat { at, .. } => {
                let path = self.resolve(&at)?;
                Ok((Reply::Status(self.status(&path)?), Vec::new()))
            }
            Call::HandleStat(handle) => {
                let path = self.path_of(handle)?;
                Ok((Reply::Status(self.status(&path)?), Vec::new()))
            }
            Call::Resolve(at) => {
                let path = self.resolve(&at)?;
                if self.status(&path)?.mode >> 12 == 8 {
                    return Err(Errno::ENOTDIR);
                }
                Ok((Reply::Path(path.into()), Vec::new()))
            }
            Call::HandleTruncate { file, length } => {
                let path = self.path_of(file)?;
                self.files.get_mut(&path).ok_or(Errno::EINVAL)?.resize(length as usize, 0);
                done
            }
            Call::Remove { at, .. } if self.names.is_some() => {
                let path = self.resolve(&at)?;
                let made = self.directories.len();
                self.directories.retain(|directory| *directory != path);
                match self.files.remove(&path) {
                    None if self.directories.len() == made => Err(Errno::ENOENT),
                    _ => done,
                }
            }
            Call::Rename { from, to, .. } if self.names.is_some() => {
                let (from, to) = (self.resolve(&from)?, self.resolve(&to)?);
                let bytes = self.files.remove(&from).ok_or(Errno::ENOENT)?;
                self.files.insert(to, bytes);
                done
            }
            Call::MakeDirectory { at, .. } if self.names.is_some() => {
                let path = self.resolve(&at)?;
                if self.status(&path).is_ok() {
                    return Err(Errno::EEXIST);
                }
                self.directories.push(path);
                done
            }
            Call::ChangeMode { at, mode } if self.names.is_some() => {
                let path = self.resolve(&at)?;
                self.status(&path)?;
                self.modes.insert(path, mode);
                done
            }
            Call::List { directory, position, attributes, .. } if self.names.is_some() => {
                let path = [&self.path_of(directory)?[..], b"/"].concat();
                let names = self.files.keys().filter_map(|file| file.strip_prefix(&path[..]));
                let names: Vec<Vec<u8>> = names.filter(|name| !name.contains(&b'/')).map(<[u8]>::to_vec).collect();
                let mut records = Vec::new();
                for name in names.iter().skip(position as usize) {
                    let length = (19 + name.len() + 1).next_multiple_of(8);
                    let begin = records.len();
                    records.extend([0; 16]);
                    records.extend((length as u16).to_le_bytes());
                    records.push(8);
                    records.extend(name);
                    records.resize(begin + length, 0);
                }
                let told = names.iter().map(|name| self.status(&[&path[..], name].concat()).ok());
                let attributes = if attributes { told.collect() } else { Vec::new() };
                let next = names.len() as u64;
                Ok((Reply::Known(Keeping::default(), Known::Entries { next, attributes }), records))
            }
            Call::Manifest { made, entries } => {
                let is_so = |entry: &Entry| {
                    let Call::Stat { at, .. } = &entry.call else { return false };
                    let known = match self.resolve(at).and_then(|path| self.status(&path)) {
                        Ok(status) => Known::Status(status.into()),
                        Err(errno) => Known::Failed(errno.0),
                    };
                    entry.is_so(&known, b"", true)
                };
                let all = &self.manifest.1;
                let untrue = (0..).zip(all).filter(|(_, entry)| !is_so(entry)).map(|(place, _)| place).collect();
                let from = if made == self.manifest.0 { entries as usize } else { 0 };
                let made = self.manifest.0;
                Ok((Reply::Known(Keeping::default(), Known::Manifest { made, untrue }), encode(&all[from..])))
            }
            Call::Return { .. } | Call::ReturnNames { .. } => done,
            Call::SeekData { offset, .. } => Ok((Reply::Count(offset), Vec::new())),
            Call::Synchronise { .. } | Call::Access { .. } | Call::SetFlags { .. } => done,
            _ => Err(Errno::EOPNOTSUPP),
        }
    }
}

impl World {
    /// An answer as who has the lease of names hears it.
    fn kept(&self, call: &Call, answer: Result<(Reply, Vec<u8>), Errno>) -> Result<(Reply, Vec<u8>), Errno> {
        let is_of_names = call.looks_at_names() || call.changes_names() || matches!(call, Call::Close(_));
        let Some(number) = self.names.filter(|_| is_of_names) else {
            return answer.map(|(reply, bulk)| (reply.plain(), bulk));
        };
        let (reply, bulk) = answer.unwrap_or_else(|errno| (Reply::Failed(errno.0), Vec::new()));
        let known = reply.into_known().expect("it may be kept");
        let is_written = |status: &FileStatus| {
            let paths = self.writers.iter().filter_map(|handle| self.path_of(*handle).ok());
            paths.filter_map(|path| self.status(&path).ok()).any(|written| written.inode == status.inode)
        };
        let attributes = match &known {
            Known::Opened { status, .. } | Known::Status(status) => !is_written(status),
            _ => true,
        };
        Ok((Reply::Known(Keeping { number, is_plain: true, attributes }, known), bulk))
    }

    /// Who was told that it has to wait is to hear when it need not.
    fn note(&mut self, request: &Request, answer: &Result<(Reply, Vec<u8>), Errno>) {
        match (&request.call, answer) {
            (Call::Input { .. }, Ok((Reply::Later, _))) | (Call::InputReady, Ok((Reply::Count(0), _))) => {
                self.wants_input = Some(request.owner);
            }
            (Call::Print(_), Ok((Reply::Later, _))) => self.wants_output = Some(request.owner),
            _ => {}
        }
    }

    fn is_anybody_waiting(&self) -> bool {
        let wants = self.wants_input.is_some() || self.wants_output.is_some();
        wants || self.recall.is_some() || self.locks.is_anybody_waiting()
    }

    /// What is to be said to those who wait.
    fn notice(&mut self) -> Option<Notice> {
        if !self.input.is_empty()
            && let Some(owner) = self.wants_input.take()
        {
            return Some(Notice::Input(owner));
        }
        if let Some(notice) = self.recall.take().or_else(|| self.locks.notice()) {
            return Some(notice);
        }
        let has_room = self.output_room.is_none_or(|room| room > 0);
        if has_room { self.wants_output.take().map(Notice::Output) } else { None }
    }
}

/// Plays the I/O node: takes what comes within a moment, and answers it in reverse order.
pub(super) async fn play(port: Port, world: Arc<Mutex<World>>) {
    const MOMENT_NS: u64 = 10_000_000;
    const TELL_NS: u64 = 100_000_000;
    let mut peer: Peer = port.accept().await;
    loop {
        let mut frames = Vec::new();
        // Without somebody to tell something, nothing happens here that keeps a test from coming to its end.
        let (limit_ns, receiving) =
            (if world.lock().is_anybody_waiting() { TELL_NS } else { u64::MAX }, peer.receive());
        match executor::timeout(limit_ns, receiving).await {
            Ok(Ok(frame)) => frames.push(frame),
            Ok(Err(_)) => return,
            Err(executor::Elapsed) => {
                let notice = world.lock().notice();
                if let Some(notice) = notice {
                    peer.send(NOTICE_ID, &notice, &[]).await;
                }
                continue;
            }
        }
        while let Ok(Ok(frame)) = executor::timeout(MOMENT_NS, peer.receive()).await {
            frames.push(frame);
        }
        let mut answers = Vec::new();
        {
            let mut world = world.lock();
            world.under_way_max = world.under_way_max.max(frames.len());
            for frame in frames {
                let request: Request = frame.message().expect("a request");
                if !world.is_stuck(&request.call) {
                    let answer = match world.lock(request.owner, &request.call) {
                        Some(locked) => locked.map(|reply| (reply, Vec::new())),
                        None => world.answer(request.call.clone(), frame.bulk),
                    };
                    world.note(&request, &answer);
                    let answer = world.kept(&request.call, answer);
                    answers.push((frame.id, answer));
                }
            }
        }
        for (id, answer) in answers.into_iter().rev() {
            match answer {
                Ok((reply, bulk)) => peer.send(id, &reply, &bulk).await,
                Err(errno) => peer.send(id, &Reply::Failed(errno.0), &[]).await,
            }
        }
    }
}
