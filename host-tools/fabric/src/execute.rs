//! What each command does to the switch.

use std::io;
use std::path::PathBuf;

use coppice_protocol::ids::MacAddress;
use coppice_protocol::text::Shown;

use crate::addresses::Address;
use crate::command::{Command, Direction, Outcome, Shape};
use crate::limits::{LINKS_MAX, PCAP_BYTES_DEFAULT, RECORDINGS_MAX};
use crate::link::{Link, LinkError};
use crate::names::LinkName;
use crate::shaper::{Shaper, link_seed};
use crate::switch::{Switch, now_ns};

/// Why a command was not done.
#[derive(Debug, thiserror::Error)]
enum CommandError {
    #[error("there is no link {0}")]
    NoLink(LinkName),
    #[error("there is a link {0} already")]
    LinkExists(LinkName),
    #[error("another link has the address {0}")]
    AddressTaken(MacAddress),
    #[error("{0} is a group address, which no station can have")]
    GroupAddress(MacAddress),
    #[error("the switch has {LINKS_MAX} links already")]
    TooManyLinks,
    #[error("{0}")]
    Shape(String),
    #[error(transparent)]
    Link(#[from] LinkError),
    #[error("cannot record to {}: give an absolute path", Shown(.0.as_os_str().as_encoded_bytes()))]
    RelativePath(PathBuf),
    #[error("link {0} is being recorded already; end that first")]
    Recorded(LinkName),
    #[error("{RECORDINGS_MAX} recordings are being made already; end another one first")]
    TooManyRecordings,
    #[error("cannot start the recording: {0}")]
    Thread(io::Error),
    #[error("cannot wait for the link: {0}")]
    System(#[from] rustix::io::Errno),
}

impl Switch {
    /// Executes the command of this request, except for [`Command::Shutdown`], which is the caller's to obey. `None`:
    /// the answer will be among [`Switch::answers`].
    pub(crate) fn execute(&mut self, request: u64, command: Command) -> Option<Outcome> {
        let done = match command {
            Command::AddPort { link, mac } => self.add(link, mac),
            Command::RemovePort { link } => self.remove(&link),
            Command::Shape { link, direction, shape } => self.shape(link.as_ref(), direction, shape),
            Command::Counters { link } => return Some(self.counters(link.as_ref())),
            Command::PcapStart { link, file, bytes_max } => {
                match self.record(&link, file, bytes_max.unwrap_or(PCAP_BYTES_DEFAULT), request) {
                    Ok(()) => return None,
                    failed => failed,
                }
            }
            Command::PcapStop { link } => match self.find(&link).map(|link| link.recording.take()) {
                Ok(Some(recording)) => {
                    self.recordings.stop(recording, request);
                    return None;
                }
                found => found.map(drop),
            },
            Command::Shutdown => {
                self.end_recordings();
                Ok(())
            }
        };
        Some(match done {
            Ok(()) => Outcome::Done,
            Err(error) => Outcome::Failed { reason: error.to_string() },
        })
    }

    /// Starts a recording, which answers the request.
    fn record(&mut self, name: &LinkName, file: PathBuf, bytes_max: u64, request: u64) -> Result<(), CommandError> {
        if !file.is_absolute() {
            return Err(CommandError::RelativePath(file));
        }
        if self.find(name)?.recording.is_some() {
            return Err(CommandError::Recorded(name.clone()));
        }
        if !self.recordings.has_room() {
            return Err(CommandError::TooManyRecordings);
        }
        let started = self.recordings.start(name.clone(), file, bytes_max, request);
        let recording = started.map_err(CommandError::Thread)?;
        self.find(name)?.recording = Some(recording);
        Ok(())
    }

    fn index(&self, name: &LinkName) -> Result<usize, CommandError> {
        self.names.get(name).copied().ok_or_else(|| CommandError::NoLink(name.clone()))
    }

    fn find(&mut self, name: &LinkName) -> Result<&mut Link, CommandError> {
        let index = self.index(name)?;
        self.links.get_mut(index).and_then(Option::as_mut).ok_or_else(|| CommandError::NoLink(name.clone()))
    }

    fn add(&mut self, name: LinkName, mac: MacAddress) -> Result<(), CommandError> {
        if self.names.contains_key(&name) {
            return Err(CommandError::LinkExists(name));
        }
        // Mostly none was taken out.
        let is_full = self.names.len() == self.links.len();
        let free = if is_full { None } else { self.links.iter().position(Option::is_none) };
        let index = free.unwrap_or(self.links.len());
        if index >= LINKS_MAX {
            return Err(CommandError::TooManyLinks);
        }
        let address = Address::read(&mac.0).filter(|address| !address.is_group());
        let address = address.ok_or(CommandError::GroupAddress(mac))?;
        if !self.addresses.configure(address, index) {
            return Err(CommandError::AddressTaken(mac));
        }
        let [inbound, outbound] = self.shapes;
        let shapers = [
            Shaper::new(inbound, link_seed(self.seed, name.as_str(), false)),
            Shaper::new(outbound, link_seed(self.seed, name.as_str(), true)),
        ];
        let attached = Link::open(&self.directory, name, mac, shapers)
            .map_err(CommandError::from)
            .and_then(|link| Ok(self.attach(index, link)?));
        if attached.is_err() {
            self.addresses.forget(index);
        }
        attached
    }

    fn remove(&mut self, name: &LinkName) -> Result<(), CommandError> {
        let index = self.index(name)?;
        self.names.remove(name);
        // Closing its sockets takes them out of epoll.
        self.links[index] = None;
        self.addresses.forget(index);
        self.under_way.forget(index);
        Ok(())
    }

    fn shape(&mut self, name: Option<&LinkName>, direction: Direction, shape: Shape) -> Result<(), CommandError> {
        shape.check().map_err(CommandError::Shape)?;
        let [inbound, outbound] = match direction {
            Direction::FromStation => [true, false],
            Direction::ToStation => [false, true],
            Direction::Both => [true, true],
        };
        let seed = self.seed;
        let reshape = |link: &mut Link| {
            if inbound {
                link.inbound.reshape(shape, link_seed(seed, link.name.as_str(), false));
            }
            if outbound {
                link.outbound.reshape(shape, link_seed(seed, link.name.as_str(), true));
            }
        };
        if let Some(name) = name {
            reshape(self.find(name)?);
            return Ok(());
        }
        self.links.iter_mut().flatten().for_each(reshape);
        if inbound {
            self.shapes[0] = shape;
        }
        if outbound {
            self.shapes[1] = shape;
        }
        Ok(())
    }

    fn counters(&self, name: Option<&LinkName>) -> Outcome {
        if let Some(name) = name
            && let Err(error) = self.index(name)
        {
            return Outcome::Failed { reason: error.to_string() };
        }
        let wanted = self.names.iter().filter(|(link, _)| name.is_none_or(|name| *link == name));
        let links = wanted.filter_map(|(_, index)| self.links.get(*index)?.as_ref());
        Outcome::Counters { at_ns: now_ns(), links: links.map(Link::counters).collect() }
    }
}
