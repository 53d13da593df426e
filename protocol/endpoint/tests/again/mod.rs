//! Sockets that are taken to other stacks in the middle of everything.

mod cases;
mod elsewhere;

use std::net::Ipv4Addr;

use coppice_endpoint::SocketError;
use coppice_endpoint::testing::{CLEAN, Faults, JOB_LEFT as LEFT, JOB_RIGHT as RIGHT, World};
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop, prop_oneof, proptest};

use self::elsewhere::{MOMENT_NS, Place, Sockets, quieten, stacks, take_to};
use crate::support::{SECOND_NS, Socket, accept, listener, socket};

const ADDRESSES: [Ipv4Addr; 2] = [LEFT, RIGHT];

/// Connections are numbered; so is what goes over them.
fn byte(connection: usize, from: usize, index: usize) -> u8 {
    (index.wrapping_mul(31) + (index >> 8) + connection * 97 + from * 13) as u8
}

/// One end of a connection, as its program knows it.
struct Program {
    /// Until it is closed.
    socket: Option<Socket>,
    sent: usize,
    received: usize,
    is_shut: bool,
    is_closed: bool,
    has_seen_end: bool,
    error: Option<SocketError>,
}

struct Connection {
    /// Who called, and who was called.
    sides: [usize; 2],
    ends: [Program; 2],
}

#[derive(Clone, Debug)]
enum Step {
    Connect {
        from: usize,
        to: usize,
    },
    /// Of the connections there are, modulo.
    Send {
        connection: usize,
        end: usize,
        bytes: usize,
    },
    Receive {
        connection: usize,
        end: usize,
        bytes: usize,
    },
    Shut {
        connection: usize,
        end: usize,
    },
    Close {
        connection: usize,
        end: usize,
    },
    /// Something happens on the wire.
    Wait {
        ns: u64,
    },
    Take(Place),
}

struct Model {
    world: World,
    /// What accepts, on each side.
    listeners: [Option<Socket>; 2],
    connections: Vec<Connection>,
}

impl Model {
    fn new(faults: Faults, seed: u64) -> Self {
        let world = World::new(faults, seed);
        let listeners = stacks(&world).map(|stack| Some(listener(&stack, 7, 8)));
        Self { world, listeners, connections: Vec::new() }
    }

    fn do_step(&mut self, step: &Step) {
        let count = self.connections.len().max(1);
        match *step {
            Step::Wait { ns } => self.world.idle(ns),
            Step::Take(place) => self.take_to(place),
            Step::Connect { from, to } => self.connect(from, to),
            Step::Send { connection, end, bytes } => self.send(connection % count, end, bytes),
            Step::Receive { connection, end, bytes } => self.receive(connection % count, end, bytes),
            Step::Shut { connection, end } => {
                let Some(connection) = self.connections.get_mut(connection % count) else { return };
                let program = &mut connection.ends[end];
                if let Some(socket) = &program.socket {
                    // It may be over.
                    let _ = socket.shutdown(false, true);
                    program.is_shut = true;
                }
            }
            Step::Close { connection, end } => {
                let Some(connection) = self.connections.get_mut(connection % count) else { return };
                (connection.ends[end].socket, connection.ends[end].is_closed) = (None, true);
            }
        }
    }

    fn connect(&mut self, from: usize, to: usize) {
        if self.connections.len() == 6 {
            return;
        }
        let calling = socket(&stacks(&self.world)[from]);
        let called = self.listeners[to].take().unwrap();
        let address = ADDRESSES[to];
        let _ = calling.connect(address, 7);
        let (calling, called, accepted) = self.world.finish(
            async move {
                let accepted = accept(&called).await;
                (calling, called, accepted)
            },
            1000 * SECOND_NS,
        );
        self.listeners[to] = Some(called);
        // Some ask for signs of life.
        if self.connections.len() % 2 == 1 {
            accepted.set_keep_alive(Some(20 * MOMENT_NS));
        }
        let program = |socket| Program {
            socket: Some(socket),
            sent: 0,
            received: 0,
            is_shut: false,
            is_closed: false,
            has_seen_end: false,
            error: None,
        };
        self.connections.push(Connection { sides: [from, to], ends: [calling, accepted].map(program) });
    }

    fn send(&mut self, number: usize, end: usize, bytes: usize) {
        let Some(connection) = self.connections.get_mut(number) else { return };
        let program = &mut connection.ends[end];
        let Some(socket) = &program.socket else { return };
        if program.is_shut {
            assert!(socket.send(b"more").is_err());
            return;
        }
        let bytes: Vec<u8> = (program.sent..program.sent + bytes).map(|index| byte(number, end, index)).collect();
        match socket.send(&bytes) {
            Ok(sent) => program.sent += sent,
            Err(SocketError::WouldBlock) => {}
            Err(error) => program.error = program.error.or(Some(error)),
        }
    }

    fn receive(&mut self, number: usize, end: usize, bytes: usize) {
        let Some(connection) = self.connections.get_mut(number) else { return };
        let program = &mut connection.ends[end];
        let Some(socket) = &program.socket else { return };
        let (held, mut peeked, mut buffer) = (socket.received(), vec![0; bytes], vec![0; bytes]);
        let looked = socket.receive(&mut peeked, true);
        // An error is told once, to whoever looks first.
        let result = if looked.is_ok() { socket.receive(&mut buffer, false) } else { looked };
        match result {
            Ok(0) if bytes > 0 => program.has_seen_end = true,
            Ok(count) => {
                assert!(count == bytes.min(held) && Ok(count) == looked && peeked == buffer, "{count} of {held}");
                for (index, got) in buffer[..count].iter().enumerate() {
                    assert_eq!(*got, byte(number, 1 - end, program.received + index));
                }
                program.received += count;
            }
            Err(SocketError::WouldBlock) => assert_eq!(held, 0),
            Err(error) => program.error = program.error.or(Some(error)),
        }
    }

    fn take_to(&mut self, place: Place) {
        let mut sockets = [Sockets::default(), Sockets::default()];
        let mut places = Vec::new();
        for (side, listener) in self.listeners.iter_mut().enumerate() {
            sockets[side].tcp.push(listener.take().unwrap());
        }
        for (number, connection) in self.connections.iter_mut().enumerate() {
            for (end, program) in connection.ends.iter_mut().enumerate() {
                if let Some(socket) = program.socket.take() {
                    let side = connection.sides[end];
                    places.push((number, end, side, sockets[side].tcp.len()));
                    sockets[side].tcp.push(socket);
                }
            }
        }
        // One whose end is gone may have been broken off without a word that came.
        let connections = &self.connections;
        let has_gone = |number: usize| connections[number].ends.iter().filter(|program| program.is_closed).count() > 0;
        let levels = |sockets: &[Sockets; 2]| -> Vec<_> {
            let taken = places.iter().filter(|(number, ..)| !has_gone(*number));
            let of = |side: usize, place: usize| &sockets[side].tcp[place];
            let look = |socket: &Socket| (socket.local(), socket.readiness(), socket.changes());
            let looked = taken.map(|(_, _, side, place)| look(of(*side, *place)));
            looked.chain([0, 1].map(|side| look(of(side, 0)))).collect()
        };
        quieten(&mut self.world);
        let before = levels(&sockets);
        let (made, late) = take_to(place, &mut self.world, sockets);
        let gone = (0..connections.len()).filter(|number| has_gone(*number)).count();
        assert!(late <= gone, "{late} connections were not made");
        // Ends of connections are still on their way, where a program closed one.
        quieten(&mut self.world);
        assert_eq!(levels(&made), before);
        let mut made = made.map(|side| side.tcp.into_iter());
        for (listener, made) in self.listeners.iter_mut().zip(&mut made) {
            *listener = made.next();
        }
        for (number, end, side, _) in places {
            self.connections[number].ends[end].socket = made[side].next();
        }
    }

    /// Reads everything there is, and looks whether it is what was sent.
    fn finish(mut self) {
        for _ in 0..200 {
            self.world.idle(100 * MOMENT_NS);
            for number in 0..self.connections.len() {
                self.receive(number, 0, 1 << 20);
                self.receive(number, 1, 1 << 20);
            }
        }
        for connection in &self.connections {
            if connection.ends.iter().any(|program| program.socket.is_none()) {
                // Who closes something unread breaks it off.
                continue;
            }
            for end in [0, 1] {
                let (program, peer) = (&connection.ends[end], &connection.ends[1 - end]);
                assert_eq!((program.received, program.error), (peer.sent, None));
                assert_eq!(program.has_seen_end, peer.is_shut);
            }
        }
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (connection, end) = (0..6_usize, 0..2_usize);
    let bytes = prop_oneof![1..100_usize, 1..400_000_usize];
    let step = prop_oneof![
        2 => (0..2_usize, 0..2_usize).prop_map(|(from, to)| Step::Connect { from, to }),
        6 => (connection.clone(), end.clone(), bytes.clone())
            .prop_map(|(connection, end, bytes)| Step::Send { connection, end, bytes }),
        4 => (connection.clone(), end.clone(), bytes)
            .prop_map(|(connection, end, bytes)| Step::Receive { connection, end, bytes }),
        1 => (connection.clone(), end.clone()).prop_map(|(connection, end)| Step::Shut { connection, end }),
        1 => (connection, end).prop_map(|(connection, end)| Step::Close { connection, end }),
        3 => (0..50_000_000_u64).prop_map(|ns| Step::Wait { ns }),
        2 => Just(Step::Take(Place::OtherStacks)),
        2 => Just(Step::Take(Place::TheSameStacks)),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever programs did, and wherever it was on its way.
    #[test]
    fn programs_do_not_notice(steps in steps(), seed in any::<u64>(), is_bad: bool) {
        let bad = Faults { lost_per_mille: 30, late_per_mille: 100, doubled_per_mille: 20, ..CLEAN };
        let mut model = Model::new(if is_bad { bad } else { CLEAN }, seed);
        steps.iter().for_each(|step| model.do_step(step));
        model.finish();
    }
}
