//! The interfaces of the network, as programs ask for them with ioctl(2).

use core::net::Ipv4Addr;

use crate::abi::interface::{self, LIST_BYTES, NAME_FIELD_BYTES, REQUEST_BYTES};
use crate::abi::{Record, u32_at, u64_at};
use crate::errno::Errno;
use crate::files::interfaces::{self, Interface};
use crate::process::{Caller, Immediate};

/// Commands that are about interfaces (`SIOC*`).
const COMMANDS: core::ops::RangeInclusive<u32> = 0x8910..=0x8970;

/// Whether a command is about interfaces.
pub(super) fn is_asked(command: u32) -> bool {
    COMMANDS.contains(&command)
}

/// Those of the node.
fn all(caller: Caller<'_>) -> impl Iterator<Item = Interface> + Clone {
    interfaces::all(&*caller.process.node.network)
}

/// Answers a command about interfaces, which has this argument.
pub(super) fn answer(caller: Caller<'_>, command: u32, argument: u64) -> Immediate {
    if command == interface::ALL {
        return list(caller, argument);
    }
    let asked: [u8; REQUEST_BYTES] = caller.get(argument)?;
    let by_index = |index: u32| all(caller).find(|interface| interface.index == index);
    if command == interface::NAME {
        let found = by_index(u32_at(&asked, NAME_FIELD_BYTES)).ok_or(Errno::ENODEV)?;
        let mut told = [0; NAME_FIELD_BYTES];
        told[..found.name.len()].copy_from_slice(found.name.as_bytes());
        return caller.put(argument, &told).map(|()| 0);
    }
    let name = asked[..NAME_FIELD_BYTES].split(|byte| *byte == 0).next().unwrap_or_default();
    let found = all(caller).find(|interface| interface.name.as_bytes() == name).ok_or(Errno::ENODEV)?;
    let record: Record<REQUEST_BYTES> = interface::request(found.name);
    let address = |address| interface::with_address(found.name, address);
    let told = match command {
        interface::FLAGS => record.u16(NAME_FIELD_BYTES, found.flags),
        interface::ADDRESS => address(found.address),
        interface::BROADCAST if found.is_ethernet() => address(found.broadcast()),
        interface::BROADCAST => address(Ipv4Addr::UNSPECIFIED),
        interface::MASK => address(found.mask()),
        interface::METRIC => record.u32(NAME_FIELD_BYTES, 0),
        interface::MTU => record.u32(NAME_FIELD_BYTES, found.mtu),
        interface::INDEX => record.u32(NAME_FIELD_BYTES, found.index),
        interface::QUEUE => record.u32(NAME_FIELD_BYTES, interfaces::QUEUE_PACKETS),
        interface::HARDWARE => record.u16(NAME_FIELD_BYTES, found.kind).raw(NAME_FIELD_BYTES + 2, &found.hardware()),
        // Nothing can be changed, and nothing else is known.
        _ => return Err(Errno::EOPNOTSUPP.into()),
    };
    caller.put(argument, told.bytes()).map(|()| 0)
}

/// `SIOCGIFCONF`: as many as there is room for; without a place for them, how much room they take.
fn list(caller: Caller<'_>, argument: u64) -> Immediate {
    let asked: [u8; LIST_BYTES] = caller.get(argument)?;
    let (room, at) = (u32_at(&asked, 0) as usize, u64_at(&asked, 8));
    let count = all(caller).count();
    let told = if at == 0 { count } else { count.min(room / REQUEST_BYTES) };
    if at != 0 {
        for (interface, place) in all(caller).take(told).zip(0_u64..) {
            let record = interface::with_address(interface.name, interface.address);
            caller.put(at.wrapping_add(place * REQUEST_BYTES as u64), record.bytes())?;
        }
    }
    caller.put(argument, &((told * REQUEST_BYTES) as u32).to_le_bytes()).map(|()| 0)
}
