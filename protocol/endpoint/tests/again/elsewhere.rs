//! All sockets of both sides are written down, and made again on other stacks, or on the same.

use coppice_endpoint::record::{OrphanRecord, TcpRecord, UdpRecord};
use coppice_endpoint::testing::{End, World};
use coppice_endpoint::{Stack, TcpSocket, UdpSocket};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::support::Socket;

/// Longer than an answer takes, ns.
pub(crate) const MOMENT_NS: u64 = 1_000_000;

pub(crate) fn stacks(world: &World) -> [Stack<End>; 2] {
    [world.left(), world.right()]
}

/// Waits until both sides are quiet.
#[track_caller]
pub(crate) fn quieten(world: &mut World) {
    let mut said = [false; 2];
    for _ in 0..100_000 {
        for (said, stack) in said.iter_mut().zip(stacks(world)) {
            *said |= stack.quieten().unwrap();
        }
        if said == [true; 2] {
            return;
        }
        world.idle(MOMENT_NS);
    }
    panic!("not quiet");
}

/// As it comes back from a disk.
pub(crate) fn stored<T: Serialize + DeserializeOwned>(record: &T) -> T {
    postcard::from_bytes(&postcard::to_allocvec(record).unwrap()).unwrap()
}

/// What is on one side.
#[derive(Default)]
pub(crate) struct Sockets {
    pub(crate) tcp: Vec<Socket>,
    pub(crate) udp: Vec<UdpSocket<End>>,
}

/// Where sockets are taken to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    OtherStacks,
    TheSameStacks,
}

/// Takes all sockets there. Gives also how many connections could not be made again.
#[track_caller]
pub(crate) fn take_to(place: Place, world: &mut World, sockets: [Sockets; 2]) -> ([Sockets; 2], usize) {
    quieten(world);
    // For what nobody acknowledges.
    world.idle(2 * MOMENT_NS);
    let written: Vec<_> = sockets
        .iter()
        .zip(stacks(world))
        .map(|(sockets, stack)| {
            let tcp: Vec<TcpRecord> = sockets.tcp.iter().map(|socket| stored(&socket.record().unwrap())).collect();
            let udp: Vec<UdpRecord> = sockets.udp.iter().map(|socket| stored(&socket.record().unwrap())).collect();
            let orphans: Vec<OrphanRecord> = stored(&stack.record_orphans().unwrap());
            (tcp, udp, orphans)
        })
        .collect();
    match place {
        Place::OtherStacks => {
            world.restart();
            drop(sockets);
        }
        Place::TheSameStacks => {
            for (sockets, stack) in sockets.into_iter().zip(stacks(world)) {
                sockets.tcp.into_iter().for_each(TcpSocket::forget);
                stack.forget_orphans();
            }
        }
    }
    let made = [0, 1].map(|side| {
        let (tcp, udp, orphans) = &written[side];
        let stack = &stacks(world)[side];
        stack.make_orphans_again(orphans).unwrap();
        let tcp = tcp.iter().map(|record| TcpSocket::again(stack, record).unwrap()).collect();
        let udp = udp.iter().map(|record| UdpSocket::again(stack, record).unwrap()).collect();
        Sockets { tcp, udp }
    });
    // Others may take their time.
    world.idle(MOMENT_NS);
    let late = connect_all(world);
    (made, late)
}

/// Has the connections made that are to be there again, one side after the other. Gives how many could not be.
pub(crate) fn connect_all(world: &mut World) -> usize {
    stacks(world).iter().for_each(Stack::call_again);
    wait(world, |stack| !stack.is_calling_again());
    for stack in stacks(world) {
        stack.settle_again(world.now_ns);
        world.idle(MOMENT_NS);
    }
    wait(world, Stack::is_settled_again);
    stacks(world).iter().map(|stack| stack.end_making_again(world.now_ns)).sum()
}

/// Waits until something is so on both sides, or it takes too long.
fn wait(world: &mut World, is_so: impl Fn(&Stack<End>) -> bool) {
    for _ in 0..3000 {
        if stacks(world).iter().all(&is_so) {
            break;
        }
        world.idle(MOMENT_NS);
    }
}
