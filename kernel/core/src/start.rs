//! From a machine that is set up to a node at work.

use alloc::sync::Arc;
use core::ops::RangeInclusive;

use coppice_endpoint::limits::USER_BUFFER_BYTES;
use coppice_endpoint::{Config, Stack, UserConfig};
use coppice_hal as hal;
use coppice_protocol::ids::MacAddress;
use coppice_protocol::personality::Personality;
use coppice_protocol::session::Identity;

use crate::executor::{self, TooManyTasks};
use crate::launch::{self, ProcessTable};
use crate::limits::SOCKETS_EIGHTHS;
use crate::memory::{self, Retention};
use crate::net::{Credentials, IoNode, NicDevice, drive};
use crate::overlay::{Auxiliary, Overlays};
use crate::pmi::Pmi;
use crate::process::NodeFacts;
use crate::quota::{Quota, Store};
use crate::region::Region;
use crate::ship::Ship;
use crate::staging::Staging;
use crate::{agent, clock, random, ras};

/// Why a machine cannot become a node.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error("{0}")]
    Personality(#[from] coppice_protocol::personality::PersonalityError),
    #[error("there is no network card that works")]
    NoNic,
    #[error("the network card has the address {found}, the personality says {expected}")]
    Mac { found: MacAddress, expected: MacAddress },
    #[error(transparent)]
    Tasks(#[from] TooManyTasks),
}

/// Makes the machine a node of its cluster and runs it, for ever.
pub fn run(machine: hal::Machine) -> ! {
    if let Err(error) = start(machine) {
        log::error!("this machine cannot be a node: {error}");
        hal::power::exit(hal::power::STATUS_PANIC);
    }
    hal::cpu::start_others(executor::run);
    executor::run()
}

/// Spawns the node's tasks.
fn start(machine: hal::Machine) -> Result<(), StartError> {
    let hal::Machine { memory_bytes, frames, personality, nic, region } = machine;
    let Personality {
        node,
        generation,
        address,
        prefix,
        mac,
        io_node,
        key,
        seed,
        realtime_ns,
        log_level,
        retention,
        freeze_every_ns,
        ..
    } = Personality::decode(personality)?;
    log::set_max_level(level(log_level));
    log::info!("node {node}, boot {generation}, at {address}, I/O node at {io_node}");
    random::seed(&seed);
    clock::set_boot_time(realtime_ns);
    launch::freeze_every(freeze_every_ns);

    let nic = nic.ok_or(StartError::NoNic)?;
    let found = MacAddress(nic.mac());
    if found != mac {
        return Err(StartError::Mac { found, expected: mac });
    }
    let config = Config { mac, address, prefix, seed: u64::from_le_bytes(random::bytes()) };
    let nic = NicDevice::new(nic);
    let card = nic.counts();
    let stack = Stack::new(nic, config, executor::now_ns());
    executor::spawn(drive(stack.clone(), executor::nic_interrupt))?;

    let credentials = Credentials { identity: Identity { node, generation }, key };
    let ship = Ship::new();
    let shipping = ship.clone();
    let (dial, proof) = (IoNode { stack: stack.clone(), address: io_node }, credentials.clone());
    executor::spawn(async move { shipping.keep_connected(dial, proof).await })?;

    stack.set_user_config(sockets());
    let retention = Arc::new(Retention::new(retention));
    let retained = Arc::clone(&retention);
    executor::spawn_program(async move { retained.reaper().run(frames).await })?;
    let store = Store::new(frames, retention.clone());
    let quota = Arc::new(Quota::new(store.clone()));
    stack.borrow_from(Arc::new(store));
    let staging = Staging::new(Arc::new(stack.clone()), Arc::clone(&quota), &retention);
    executor::spawn(staging.clone().serve())?;
    let network = Arc::new(stack.clone());
    let region = region.and_then(|device| Region::new(device, frames));
    if let Some(region) = &region {
        executor::spawn(Arc::clone(region).hear())?;
        executor::spawn(Arc::clone(region).prepare())?;
    }
    let facts = NodeFacts::new(frames, (Arc::clone(&retention), quota), network, staging, region);
    let pmi = Pmi::new(node, Arc::new(stack.clone()), Arc::clone(&facts.quota));
    executor::spawn(pmi.clone().listen())?;
    executor::spawn(pmi.clone().serve(Arc::new(stack.clone())))?;
    let auxiliary = Auxiliary::new(&facts, memory_bytes, card);
    let overlays = Overlays::new(node, Arc::new(stack.clone()), Arc::clone(&facts.quota), auxiliary);
    executor::spawn_program(overlays.clone().listen())?;
    let processes = ProcessTable::new(facts, pmi, overlays);
    let agent = agent::Node {
        credentials,
        ship,
        ras: ras::queue(),
        memory: move || memory::status(memory_bytes, frames, &retention),
        power_off: || hal::power::exit(hal::power::STATUS_DONE),
        processes,
    };
    executor::spawn(agent::run(IoNode { stack, address: io_node }, agent))?;
    Ok(())
}

/// What programs' sockets may have. Which ports they get is said in [`crate::net::permitted`]: the kernel's own sockets
/// are made like theirs.
fn sockets() -> UserConfig {
    let buffer_bytes = match hal::heap::usage().limit_bytes {
        0 => USER_BUFFER_BYTES,
        bytes => bytes / 8 * SOCKETS_EIGHTHS,
    };
    UserConfig { buffer_bytes, reserved_ports: RangeInclusive::new(1, 0), wipe: hal::scrub::bytes }
}

/// The filter that a personality's number stands for; the most verbose one for numbers beyond.
fn level(number: u8) -> log::LevelFilter {
    log::LevelFilter::iter().nth(usize::from(number)).unwrap_or(log::LevelFilter::Trace)
}
