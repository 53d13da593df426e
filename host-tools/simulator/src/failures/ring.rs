//! The servers, what is on its way between them, and the time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use coppice_protocol::ids::{JobId, NodeId};
use coppice_protocol::limits::PMI_WATCH_NS;
use coppice_protocol::pmi::{Event, HEADER_BYTES, PeerFrames, Server};
use coppice_protocol::world::{JobKey, World};

use super::{APART_NS, Heard, Options};

/// What happens.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Happens {
    /// A server wants to know the time.
    Clock(u32),
    /// A frame comes to a node.
    Frame(u32, Vec<u8>),
}

struct Node {
    server: Server,
    peers: Vec<u32>,
    /// The core that does the node's work for others is free again.
    free_ns: u64,
    /// Its link is.
    link_ns: u64,
    clock_ns: Option<u64>,
    /// Frames that it has sent, of those before the deaths, and in the interval before them.
    sent: u64,
    sent_before: u64,
    sent_early: u64,
    /// Of those that died, how many it knows to be dead.
    known: u32,
    is_dead: bool,
}

/// See this module.
pub(super) struct Ring<'a> {
    options: &'a Options,
    nodes: Vec<Node>,
    /// The first that dies; the others follow it.
    first: u32,
    queue: BinaryHeap<Reverse<(u64, u64, Happens)>>,
    number: u64,
    heard: Heard,
    /// When somebody knew of one, ns, and which one that was.
    first_known: Option<(u64, u32)>,
    knowing: u32,
    knowing_first: u32,
}

impl<'a> Ring<'a> {
    pub(super) fn new(options: &'a Options) -> Result<Self, String> {
        let world = World::new(JobKey([7; 32]), 1, (0..options.nodes).map(NodeId));
        let placement = world.placement(options.nodes).map_err(|error| error.to_string())?;
        if options.deaths == 0 || options.deaths >= options.nodes {
            return Err("some node has to die, and another one to live".into());
        }
        let node = |index: u32| {
            let mut server = Server::new(JobId(0), &[7; 32], placement.clone(), NodeId(index))?;
            if options.goes_on {
                server.set_outlives_ranks();
            }
            let (peers, clock_ns) = (server.peers(), None);
            let (free_ns, link_ns, sent, sent_before, sent_early, known) = (0, 0, 0, 0, 0, 0);
            Some(Node {
                server,
                peers,
                free_ns,
                link_ns,
                clock_ns,
                sent,
                sent_before,
                sent_early,
                known,
                is_dead: false,
            })
        };
        let nodes = (0..options.nodes).map(node).collect::<Option<Vec<_>>>().ok_or("a node has no place")?;
        let first = (options.nodes / 3).min(options.nodes - options.deaths);
        let (queue, heard) = (BinaryHeap::new(), Heard::default());
        let mut ring =
            Self { options, nodes, first, queue, number: 0, heard, first_known: None, knowing: 0, knowing_first: 0 };
        (0..options.nodes).for_each(|node| ring.at(u64::from(node) * APART_NS, Happens::Clock(node)));
        Ok(ring)
    }

    fn at(&mut self, at_ns: u64, what: Happens) {
        self.number += 1;
        self.queue.push(Reverse((at_ns, self.number, what)));
    }

    pub(super) fn run(mut self) -> Result<Heard, String> {
        let dies_ns = self.options.dies_ns;
        let living = self.options.nodes - self.options.deaths;
        self.until(dies_ns.saturating_sub(PMI_WATCH_NS), None)?;
        self.nodes.iter_mut().for_each(|node| node.sent_early = node.sent);
        self.until(dies_ns, None)?;
        for node in &mut self.nodes {
            node.sent_before = node.sent;
            self.heard.quiet_frames = self.heard.quiet_frames.max(node.sent - node.sent_early);
        }
        for dead in self.first..self.first + self.options.deaths {
            self.nodes[dead as usize].is_dead = true;
        }
        let wait_ns = 2 * PMI_WATCH_NS * u64::from(self.options.deaths.min(4) + 2);
        self.until(dies_ns + wait_ns, Some(living))?;
        if self.knowing < living {
            return Err(format!("{} of {living} nodes know of all deaths", self.knowing));
        }
        for node in self.nodes.iter().filter(|node| !node.is_dead) {
            let sent = node.sent - node.sent_before;
            self.heard.frames = self.heard.frames.max(sent);
            self.heard.all_frames += sent;
        }
        Ok(self.heard)
    }

    /// Until that time, or until so many nodes know of all deaths.
    fn until(&mut self, end_ns: u64, knowing: Option<u32>) -> Result<(), String> {
        while knowing.is_none_or(|knowing| self.knowing < knowing) {
            let Some(Reverse((at_ns, _, _))) = self.queue.peek() else { return Ok(()) };
            if *at_ns > end_ns {
                return Ok(());
            }
            let Some(Reverse((at_ns, _, what))) = self.queue.pop() else { return Ok(()) };
            match what {
                Happens::Clock(node) => self.tick(node, at_ns)?,
                Happens::Frame(node, bytes) => self.deliver(node, &bytes, at_ns)?,
            }
        }
        Ok(())
    }

    fn tick(&mut self, node: u32, now_ns: u64) -> Result<(), String> {
        let here = &mut self.nodes[node as usize];
        if here.is_dead {
            return Ok(());
        }
        here.clock_ns = None;
        if here.server.poll_timeout().is_some_and(|at_ns| at_ns <= now_ns) {
            here.server.handle_timeout(now_ns);
        }
        self.settle(node, now_ns)
    }

    fn deliver(&mut self, node: u32, bytes: &[u8], now_ns: u64) -> Result<(), String> {
        let here = &mut self.nodes[node as usize];
        if here.is_dead {
            return Ok(());
        }
        here.free_ns = here.free_ns.max(now_ns) + self.options.costs.frame_ns;
        let mut rest = bytes;
        let frame = PeerFrames::default().advance(&mut rest).map_err(|error| error.to_string())?;
        let frame = frame.ok_or("a frame is not whole")?;
        here.server.handle_frame(&frame, here.free_ns).map_err(|error| error.to_string())?;
        self.settle(node, now_ns)
    }

    /// Notes what a server knows, sends its frames and sets its clock.
    fn settle(&mut self, node: u32, now_ns: u64) -> Result<(), String> {
        let (costs, index) = (self.options.costs, node as usize);
        let here = &mut self.nodes[index];
        let mut has_news = false;
        while let Some(event) = here.server.poll_event() {
            has_news |= matches!(event, Event::Failed(_));
        }
        let known_before = here.known;
        let knows_ns = here.free_ns.max(now_ns);
        if self.options.goes_on || has_news {
            self.note(node, knows_ns);
        }
        let here = &mut self.nodes[index];
        let is_false = here.known == known_before && has_news;
        if is_false {
            return Err(format!("node {node} takes one that lives for dead"));
        }
        let mut flights = Vec::new();
        for peer in &here.peers {
            while let Some(frame) = here.server.poll_transmit(*peer) {
                let body = (frame.len() - HEADER_BYTES) as u64;
                here.free_ns = here.free_ns.max(now_ns) + costs.frame_ns + costs.for_bytes_ns(body);
                here.link_ns = here.link_ns.max(here.free_ns) + costs.on_link_ns(frame.len() as u64);
                here.sent += 1;
                flights.push((here.link_ns + costs.latency_ns, Happens::Frame(*peer, frame)));
            }
        }
        if let Some(at_ns) = here.server.poll_timeout()
            && here.clock_ns.is_none_or(|clock_ns| at_ns < clock_ns)
        {
            here.clock_ns = Some(at_ns);
            flights.push((at_ns.max(now_ns), Happens::Clock(node)));
        }
        flights.into_iter().for_each(|(at_ns, what)| self.at(at_ns, what));
        Ok(())
    }

    /// Notes which deaths a node has come to know of.
    fn note(&mut self, node: u32, now_ns: u64) {
        let (deaths, dies_ns) = (self.options.deaths, self.options.dies_ns);
        let here = &mut self.nodes[node as usize];
        if here.known == deaths {
            return;
        }
        let known_before = here.known;
        let dead = self.first..self.first + deaths;
        let known: Vec<u32> = dead.filter(|dead| here.server.is_gone(*dead)).collect();
        here.known = known.len() as u32;
        let Some(one) = known.first().copied() else { return };
        let (_, of_first) = *self.first_known.get_or_insert_with(|| {
            self.heard.first_ns = now_ns - dies_ns;
            (now_ns, one)
        });
        // The first that anybody knows of is the first of them.
        if known_before == 0 && known.contains(&of_first) {
            self.knowing_first += 1;
            let spread_ns = now_ns - dies_ns - self.heard.first_ns;
            self.heard.spread_ns = self.heard.spread_ns.max(spread_ns);
        }
        if here.known == deaths || !self.options.goes_on {
            here.known = deaths;
            self.knowing += 1;
            self.heard.all_ns = self.heard.all_ns.max(now_ns - dies_ns);
        }
    }
}
