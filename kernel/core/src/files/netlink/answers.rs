//! What the kernel answers to requests about interfaces, addresses and routes: all there are, or a certain interface.
//! Nothing can be changed, as no program is privileged.

use core::net::Ipv4Addr;

use crate::abi::netlink::{
    HEADER_BYTES, Header, LINK_BYTES, Messages, address, address_message, aligned, attribute, flags, kind, link,
    link_message, route, route_message,
};
use crate::abi::socket::AF_INET;
use crate::abi::u32_at;
use crate::errno::Errno;
use crate::files::interfaces::{self, Interface, QUEUE_PACKETS};
use crate::net::Network;

/// `AF_INET6`, of which there is nothing.
const AF_INET6: u8 = 10;

/// `IFF_LOWER_UP`, which ioctl(2) does not tell.
const LOWER_UP: u32 = 0x1_0000;

/// `IF_OPER_UNKNOWN` and `IF_OPER_UP`.
const STATES: [u8; 2] = [0, 6];

/// `IFA_F_PERMANENT`.
const PERMANENT: u8 = 0x80;

/// `RT_SCOPE_UNIVERSE`, `RT_SCOPE_LINK` and `RT_SCOPE_HOST`.
const EVERYWHERE: u8 = 0;
const ON_LINK: u8 = 253;
const ON_HOST: u8 = 254;

/// `RT_TABLE_MAIN`, `RTPROT_KERNEL` and `RTN_UNICAST`.
const TABLE: u8 = 254;
const BY_KERNEL: u8 = 2;
const TO_ONE: u8 = 1;

/// Answers the requests in these bytes, which come from the socket with this port. `emit` takes the answers, one by
/// one. As on Linux, what is no request ends them.
///
/// # Errors
/// What `emit` says.
pub(super) fn answer_all(
    requests: &[u8],
    port: u32,
    network: &dyn Network,
    emit: &mut dyn FnMut(&[u8]) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let mut rest = requests;
    while let Some(header) = Header::parse(rest) {
        let length = header.length as usize;
        let Some(request) = rest.get(..length).filter(|request| request.len() >= HEADER_BYTES) else { break };
        let asked = Asked { header, body: &request[HEADER_BYTES..], port, network };
        asked.answer(emit)?;
        rest = rest.get(aligned(length)..).unwrap_or_default();
    }
    Ok(())
}

/// A request.
struct Asked<'a> {
    header: Header,
    body: &'a [u8],
    port: u32,
    network: &'a dyn Network,
}

impl Asked<'_> {
    fn answer(&self, emit: &mut dyn FnMut(&[u8]) -> Result<(), Errno>) -> Result<(), Errno> {
        let result = match self.found() {
            // It has an end of its own.
            Ok(Some(messages)) if self.is_dump() => return emit(messages.bytes()),
            Ok(Some(messages)) => emit(messages.bytes()).map(|()| Ok(()))?,
            Ok(None) => Ok(()),
            Err(errno) => Err(errno),
        };
        if result.is_err() || self.header.flags & flags::ACK != 0 {
            emit(self.acknowledgement(result).bytes())?;
        }
        Ok(())
    }

    /// Whether all there are are asked for.
    const fn is_dump(&self) -> bool {
        self.header.flags & flags::DUMP != 0
    }

    /// What there is to tell, if anything.
    fn found(&self) -> Result<Option<Messages>, Errno> {
        let Header { kind, flags, .. } = self.header;
        if flags & flags::REQUEST == 0 || kind < kind::FIRST {
            return Ok(None);
        }
        if kind > kind::LAST {
            return Err(Errno::EOPNOTSUPP);
        }
        let Some(&family) = self.body.first() else { return Ok(None) };
        if !kind::gets(kind) {
            return Err(Errno::EPERM);
        }
        let all = interfaces::all(self.network);
        if !self.is_dump() {
            return if kind == kind::GET_LINK { self.one_link(all).map(Some) } else { Err(Errno::EOPNOTSUPP) };
        }
        let mut messages = Messages::default();
        match kind {
            kind::GET_LINK => all.for_each(|interface| self.link(&interface, &mut messages)),
            // Linux tells all of a family that it does not know.
            kind::GET_ADDRESS if family != AF_INET6 => all.for_each(|one| self.address(&one, &mut messages)),
            kind::GET_ROUTE if family != AF_INET6 => {
                let networks = all.filter(Interface::is_ethernet);
                networks.for_each(|interface| self.route(&interface, &mut messages));
            }
            kind::GET_ADDRESS | kind::GET_ROUTE => {}
            _ => return Err(Errno::EOPNOTSUPP),
        }
        messages.add(self.header(kind::DONE), |message| message.raw(&[0; 4]));
        Ok(Some(messages))
    }

    /// The interface that is asked for, by its index or by its name.
    fn one_link(&self, mut all: impl Iterator<Item = Interface>) -> Result<Messages, Errno> {
        let asked = self.body.get(..LINK_BYTES).ok_or(Errno::EINVAL)?;
        let index = u32_at(asked, 4);
        let name = attribute(&self.body[LINK_BYTES..], link::NAME);
        let found = match (index, name) {
            (0, None) => return Err(Errno::EINVAL),
            (0, Some(name)) => {
                let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
                all.find(|interface| interface.name.as_bytes() == name)
            }
            (index, _) => all.find(|interface| interface.index == index),
        };
        let mut messages = Messages::default();
        self.link(&found.ok_or(Errno::ENODEV)?, &mut messages);
        Ok(messages)
    }

    /// The header of an answer.
    const fn header(&self, kind: u16) -> Header {
        let flags = if self.is_dump() { flags::MULTI } else { 0 };
        Header { length: 0, kind, flags, sequence: self.header.sequence, port: self.port }
    }

    /// What became of it. An error has the request with it.
    fn acknowledgement(&self, result: Result<(), Errno>) -> Messages {
        let (number, body, flags) = match result {
            Ok(()) => (0, &[][..], flags::CAPPED),
            Err(errno) => (-i32::from(errno.0), self.body, 0),
        };
        let Header { length, kind, flags: asked, sequence, port } = self.header;
        let fields: [&[u8]; 5] = [
            &length.to_le_bytes(),
            &kind.to_le_bytes(),
            &asked.to_le_bytes(),
            &sequence.to_le_bytes(),
            &port.to_le_bytes(),
        ];
        let mut messages = Messages::default();
        messages.add(Header { kind: kind::ERROR, flags, ..self.header(kind::ERROR) }, |message| {
            message.raw(&number.to_le_bytes());
            message.raw(&fields.concat());
            message.raw(body);
        });
        messages
    }

    fn link(&self, interface: &Interface, messages: &mut Messages) {
        let up = usize::from(interface.is_ethernet());
        let all_hardware = [[0; 6], [0xff; 6]][up];
        messages.add(self.header(kind::LINK), |message| {
            let flags = u32::from(interface.flags) | LOWER_UP;
            message.raw(link_message(interface.kind, interface.index, flags).bytes());
            message.text(link::NAME, interface.name);
            message.attribute(link::QUEUE, &QUEUE_PACKETS.to_le_bytes());
            message.attribute(link::STATE, &[STATES[up]]);
            message.attribute(link::MTU, &interface.mtu.to_le_bytes());
            message.attribute(link::ADDRESS, &interface.hardware());
            message.attribute(link::BROADCAST, &all_hardware);
        });
    }

    fn address(&self, interface: &Interface, messages: &mut Messages) {
        let own = interface.address.octets();
        let scope = if interface.is_ethernet() { EVERYWHERE } else { ON_HOST };
        messages.add(self.header(kind::ADDRESS), |message| {
            let fields = [AF_INET as u8, interface.prefix, PERMANENT, scope];
            message.raw(address_message(fields, interface.index).bytes());
            message.attribute(address::ADDRESS, &own);
            message.attribute(address::LOCAL, &own);
            if interface.is_ethernet() {
                message.attribute(address::BROADCAST, &interface.broadcast().octets());
            }
            message.text(address::LABEL, interface.name);
            message.attribute(address::FLAGS, &u32::from(PERMANENT).to_le_bytes());
        });
    }

    /// The way to the other nodes of the job. There is none beyond them.
    fn route(&self, interface: &Interface, messages: &mut Messages) {
        let network: Ipv4Addr = interface.address & interface.mask();
        messages.add(self.header(kind::ROUTE), |message| {
            let fields = [AF_INET as u8, interface.prefix, 0, 0, TABLE, BY_KERNEL, ON_LINK, TO_ONE];
            message.raw(route_message(fields).bytes());
            message.attribute(route::TABLE, &u32::from(TABLE).to_le_bytes());
            message.attribute(route::DESTINATION, &network.octets());
            message.attribute(route::SOURCE, &interface.address.octets());
            message.attribute(route::INTERFACE, &interface.index.to_le_bytes());
        });
    }
}
