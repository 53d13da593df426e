//! The members, their links, and what happens to them.

use coppice_protocol::distribution::{Effect, HOME, Machine, Message, Outcome, PacketSet, Plan};

use super::psets::PsetLinks;
use super::queue::{Event, Queue};
use super::{Options, Psets, Transferred};
use crate::random::Random;

/// Bytes of a message on the link, about.
const MESSAGE_BYTES: u64 = 128;
/// How much slower the links of slow members are.
const SLOWER: u8 = 10;

/// A member's link, and what is known of the member. Apart from its machine, which is larger: whoever sends needs the
/// receiver's link alone.
struct Member {
    /// When its link is free, out and in, ns.
    out_free_ns: u64,
    in_free_ns: u64,
    /// The earliest time at which it is known to be due, ns.
    planned_ns: u64,
    /// Its link takes so many times as long.
    slower: u8,
    is_dead: bool,
    has_first: bool,
    is_whole: bool,
}

/// See this module.
pub(super) struct World {
    options: Options,
    random: Random,
    queue: Queue,
    machines: Vec<Machine>,
    members: Vec<Member>,
    pset_links: PsetLinks,
    result: Transferred,
    /// Members that live and are not whole.
    waiting: u32,
    home_knows: bool,
}

impl World {
    pub(super) fn new(options: &Options) -> Result<Self, String> {
        let plan = &options.plan;
        plan.check().map_err(|error| error.to_string())?;
        let mut random = Random::new(options.seed);
        let seed = random.next();
        let (mut machines, mut members): (Vec<Machine>, Vec<Member>) = (Vec::new(), Vec::new());
        let count = plan.members as usize + 1;
        let no_memory = "there is no memory for the members";
        machines.try_reserve_exact(count).and_then(|()| members.try_reserve_exact(count)).map_err(|_| no_memory)?;
        for number in 0..=plan.members {
            machines.push(Machine::new(plan, number, seed, 0).ok_or(no_memory)?);
            members.push(Member {
                out_free_ns: 0,
                in_free_ns: 0,
                planned_ns: u64::MAX,
                slower: if number != HOME && chance(&mut random, options.faults.slow) { SLOWER } else { 1 },
                is_dead: false,
                has_first: false,
                is_whole: false,
            });
        }
        let mut world = Self {
            options: options.clone(),
            random,
            queue: Queue::new(plan.piece_ns()),
            machines,
            members,
            pset_links: PsetLinks::new(options.psets.as_ref(), options.buffer_bytes),
            result: Transferred::default(),
            waiting: plan.members,
            home_knows: false,
        };
        let sending_ns = super::bound_ns(plan) as u64;
        for number in 1..=plan.members {
            if chance(&mut world.random, options.faults.dying) {
                let at_ns = world.random.between(0, sending_ns);
                world.queue.plan(at_ns, Event::Dies(number));
            }
        }
        if let (true, Some(next)) = (options.faults.next_dies, plan.two_trees().children(0, HOME)[0]) {
            world.queue.plan(sending_ns / 8, Event::Dies(next));
        }
        if let (true, Some(io_node)) = (options.faults.io_node_dies, plan.topology.io_nodes().next()) {
            world.queue.plan(sending_ns / 8, Event::Dies(io_node));
        }
        for holder in options.psets.iter().flat_map(Psets::holders) {
            world.machines[holder as usize].holds_all(0);
        }
        world.machines[HOME as usize].begin(0);
        (0..=plan.members).for_each(|number| world.settle(number, 0));
        Ok(world)
    }

    pub(super) fn run(mut self) -> Result<Transferred, String> {
        while let Some((now_ns, event)) = self.queue.take() {
            if now_ns > self.options.limit_ns || self.home_knows && self.waiting == 0 {
                break;
            }
            self.result.events += 1;
            self.happen(event, now_ns);
        }
        self.result.incomplete = self.waiting;
        Ok(self.result)
    }

    /// The machine of a member that lives.
    fn machine(&mut self, number: u32) -> Option<&mut Machine> {
        self.members.get(number as usize).filter(|member| !member.is_dead)?;
        self.machines.get_mut(number as usize)
    }

    fn happen(&mut self, event: Event, now_ns: u64) {
        let number = match event {
            Event::Due(number) => {
                let Some(member) = self.members.get_mut(number as usize) else { return };
                if member.is_dead || member.planned_ns != now_ns {
                    return;
                }
                member.planned_ns = u64::MAX;
                self.machines[number as usize].advance(now_ns);
                number
            }
            Event::Burst { from, to, piece, packets, elapsed_ns } => {
                let Some(machine) = self.machine(to) else { return };
                let is_again = machine.pieces().has(piece);
                machine.arrived(from, piece, packets, elapsed_ns, now_ns);
                self.result.again += u64::from(is_again);
                to
            }
            Event::Reaches { from, to, piece, packets, elapsed_ns } => {
                let takes_ns = self.options.plan.link_ns(self.options.plan.wire_bytes(piece, packets));
                self.receive((from, to), piece, packets, elapsed_ns, now_ns + takes_ns);
                return;
            }
            Event::Message { from, to, message, elapsed_ns } => {
                self.count(to, &message);
                let Some(machine) = self.machine(to) else { return };
                machine.heard(from, *message, elapsed_ns, now_ns);
                to
            }
            Event::Checked(number, piece) => {
                self.checked(number, piece, now_ns);
                number
            }
            Event::Dies(number) => {
                let Some(member) = self.members.get_mut(number as usize).filter(|member| !member.is_dead) else {
                    return;
                };
                member.is_dead = true;
                if !member.is_whole {
                    self.waiting -= 1;
                }
                self.result.died += 1;
                return;
            }
        };
        self.settle(number, now_ns);
    }

    /// A member has looked whether a piece is right: it is.
    fn checked(&mut self, number: u32, piece: u32, now_ns: u64) {
        let Some(machine) = self.machine(number) else { return };
        machine.checked(piece, true, now_ns);
        if !std::mem::replace(&mut self.members[number as usize].has_first, true) {
            self.result.first_piece_ns = now_ns;
        }
    }

    fn count(&mut self, to: u32, message: &Message) {
        match message {
            Message::Ask { .. } | Message::AskAny { .. } => {
                self.result.asks += 1;
                self.result.home_asks += u64::from(to == HOME);
            }
            Message::Leave { .. } => self.result.left += 1,
            Message::NotHere { .. } => self.result.not_here += 1,
            _ => {}
        }
    }

    /// Carries out what the machine of a member that lives wants, and plans when it is due.
    fn settle(&mut self, number: u32, now_ns: u64) {
        if self.members[number as usize].is_dead {
            return;
        }
        loop {
            while let Some(effect) = self.machines[number as usize].take() {
                self.carry_out(number, effect, now_ns);
            }
            let machine = &mut self.machines[number as usize];
            let Some(due_ns) = machine.due_ns() else { return };
            if due_ns <= now_ns {
                machine.advance(now_ns);
                continue;
            }
            let member = &mut self.members[number as usize];
            if due_ns < member.planned_ns {
                member.planned_ns = due_ns;
                self.queue.plan(due_ns, Event::Due(number));
            }
            return;
        }
    }

    fn carry_out(&mut self, from: u32, effect: Effect, now_ns: u64) {
        match effect {
            Effect::Send { to, piece, packets } => self.send(from, to, piece, packets, now_ns),
            Effect::Say { to, message } => {
                if chance(&mut self.random, self.options.faults.loss) {
                    self.result.packets_lost += 1;
                    return;
                }
                let elapsed_ns = self.machines[from as usize].elapsed_ns(now_ns);
                let plan = &self.options.plan;
                let packet_bytes = u64::from(plan.packet_bytes + plan.overhead_bytes);
                let takes_ns = plan.link_ns(packet_bytes) + plan.link_ns(MESSAGE_BYTES);
                let at_ns = now_ns + takes_ns + u64::from(plan.link.latency_ns);
                self.queue.plan(at_ns, Event::Message { from, to, message: Box::new(message), elapsed_ns });
            }
            // What takes no time is done at once: there are as many of these as of pieces at members.
            Effect::Check { piece } if self.options.check_ns == 0 => self.checked(from, piece, now_ns),
            Effect::Check { piece } => self.queue.plan(now_ns + self.options.check_ns, Event::Checked(from, piece)),
            Effect::Wrong { .. } => {}
            Effect::End(Outcome::Whole) => {
                self.members[from as usize].is_whole = true;
                self.waiting -= 1;
                self.result.whole_ns = now_ns;
                if self.members[from as usize].slower == 1 {
                    self.result.quick_ns = now_ns;
                }
            }
            Effect::End(Outcome::All { lost }) => {
                self.home_knows = true;
                self.result.lost = lost.len() as u32;
                self.result.known_ns = now_ns;
            }
            Effect::End(Outcome::Silence) => {}
        }
    }

    fn send(&mut self, from: u32, to: u32, piece: u32, packets: PacketSet, now_ns: u64) {
        let plan: &Plan = &self.options.plan;
        let bytes = plan.wire_bytes(piece, packets);
        let takes_ns = plan.link_ns(bytes);
        let sender = &mut self.members[from as usize];
        let elapsed_ns = self.machines[from as usize].elapsed_ns(now_ns);
        let begin_ns = sender.out_free_ns.max(now_ns);
        let sent_ns = begin_ns + takes_ns * u64::from(sender.slower);
        sender.out_free_ns = sent_ns;
        if from == HOME {
            self.result.home_bytes += bytes;
        } else {
            self.result.member_bytes += bytes;
        }
        // The stamp is from when it was given to the link.
        let elapsed_ns = elapsed_ns + (begin_ns - now_ns);
        if self.pset_links.is_across(from, to) {
            self.result.crossed_bytes += bytes;
        }
        let Some(sent_ns) = self.pset_links.through((from, to), bytes, sent_ns) else {
            self.result.packets_lost += u64::from(packets.count());
            return;
        };
        let there_ns = sent_ns + u64::from(plan.link.latency_ns);
        if sender.slower > 1 {
            // What others send meanwhile is there before.
            self.queue.plan(there_ns - takes_ns, Event::Reaches { from, to, piece, packets, elapsed_ns });
        } else {
            self.receive((from, to), piece, packets, elapsed_ns, there_ns);
        }
    }

    /// Packets of a piece go through the receiver's link, through which they would be at that time if it were free, and
    /// as fast as the sender's.
    fn receive(&mut self, (from, to): (u32, u32), piece: u32, packets: PacketSet, elapsed_ns: u64, there_ns: u64) {
        let plan: &Plan = &self.options.plan;
        let Some(receiver) = self.members.get_mut(to as usize) else { return };
        let slower = u64::from(receiver.slower);
        let takes_ns = plan.link_ns(plan.wire_bytes(piece, packets)) * slower;
        let waits_ns = receiver.in_free_ns.saturating_sub(there_ns.saturating_sub(takes_ns));
        let packets = if plan.link_ns(self.options.buffer_bytes) * slower < waits_ns {
            self.result.packets_lost += u64::from(packets.count());
            return;
        } else {
            self.some_lost(packets)
        };
        let receiver = &mut self.members[to as usize];
        let arrived_ns = there_ns.max(receiver.in_free_ns + takes_ns);
        receiver.in_free_ns = arrived_ns;
        if !packets.is_empty() {
            self.queue.plan(arrived_ns, Event::Burst { from, to, piece, packets, elapsed_ns });
        }
    }

    fn some_lost(&mut self, packets: PacketSet) -> PacketSet {
        let loss = self.options.faults.loss;
        if loss <= 0.0 {
            return packets;
        }
        let lost: Vec<u32> = packets.numbers().filter(|_| chance(&mut self.random, loss)).collect();
        self.result.packets_lost += lost.len() as u64;
        lost.into_iter().fold(packets, |left, packet| left.without(PacketSet::one(packet)))
    }
}

fn chance(random: &mut Random, probability: f64) -> bool {
    probability > 0.0 && (random.next() >> 11) as f64 / (1_u64 << 53) as f64 <= probability
}
