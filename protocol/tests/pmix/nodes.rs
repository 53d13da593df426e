//! The servers of a job's nodes with a PMIx client for each rank, joined by hand.

use std::collections::BTreeMap;

use coppice_protocol::ids::{JobId, NodeId, Rank};
use coppice_protocol::pmi::{Event, NodeRanks, PeerFrames, Placement, Server};
use coppice_protocol::pmix::{Client, Dialect, Kind, Process, Reader, Status, Value, Writer, rank};

/// The job, whose name space is called `k0`.
const JOB: JobId = JobId(0);
const KEY: [u8; 32] = [42; 32];
pub(crate) const SPACE: &[u8] = b"k0";

/// Nanoseconds of a second.
pub(crate) const SECOND_NS: u64 = 1_000_000_000;

/// All nodes of a job.
pub(crate) struct Nodes {
    pub(crate) servers: Vec<Server>,
    pub(crate) clients: BTreeMap<u32, (usize, Client)>,
    pub(crate) dialect: Dialect,
    pub(crate) now_ns: u64,
    pub(crate) events: Vec<Event>,
    /// Barriers in which ranks were said to wait.
    pub(crate) waits: Vec<u64>,
    next_tag: u32,
}

/// What a rank is told unasked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) code: i32,
    pub(crate) source: (Vec<u8>, u32),
    pub(crate) infos: BTreeMap<String, (Kind, Vec<u8>)>,
    pub(crate) range: u8,
}

/// Where ranks are: so many on each node.
fn places(counts: &[u32]) -> Placement {
    let mut first = 0;
    let places = counts.iter().zip(0..).map(|(count, node)| {
        let place = NodeRanks { node: NodeId(node), first: Rank(first), count: *count };
        first += count;
        place
    });
    Placement::new(places.collect()).expect("places")
}

/// First words of a client of version 4 that writes with this module.
pub(crate) fn greeting(space: &[u8], rank: u32, module: &str) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend_from_slice(b"native\0");
    body.extend_from_slice(&8_u32.to_be_bytes());
    body.extend_from_slice(&[0; 8]);
    body.push(0);
    body.extend_from_slice(space);
    body.push(0);
    body.extend_from_slice(&rank.to_be_bytes());
    body.extend_from_slice(b"4.2.2\0");
    body.extend_from_slice(module.as_bytes());
    body.extend_from_slice(b"\0\x01hash\0");
    let mut bytes = (-1_i32).to_le_bytes().to_vec();
    bytes.extend_from_slice(&u32::MAX.to_le_bytes());
    bytes.extend_from_slice(&(body.len() as u64).to_le_bytes());
    bytes.extend_from_slice(&body);
    bytes
}

/// A message with this tag.
pub(crate) fn message(tag: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = 0_u32.to_be_bytes().to_vec();
    bytes.extend_from_slice(&tag.to_be_bytes());
    bytes.extend_from_slice(&(body.len() as u32).to_be_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(body);
    bytes
}

impl Nodes {
    /// So many ranks on each node, none of which has said anything.
    pub(crate) fn silent(counts: &[u32], dialect: Dialect) -> Self {
        let placement = places(counts);
        let all: Vec<_> = (0..placement.nodes()).filter_map(|index| placement.place(index)).collect();
        let servers = all.iter().map(|place| Server::new(JOB, &KEY, placement.clone(), place.node).expect("a place"));
        let clients = all
            .iter()
            .zip(0..)
            .flat_map(|(place, node)| place.ranks().map(move |rank| (rank.0, (node, Client::new(rank)))));
        Self {
            servers: servers.collect(),
            clients: clients.collect(),
            dialect,
            now_ns: 0,
            events: Vec::new(),
            waits: Vec::new(),
            next_tag: 100,
        }
    }

    /// The same, when all have begun. Nodes do not watch each other, as time passes without anything being heard.
    pub(crate) fn new(counts: &[u32], dialect: Dialect) -> Self {
        let mut nodes = Self::silent(counts, dialect);
        nodes.servers.iter_mut().for_each(Server::trust_nodes);
        nodes.begin(counts);
        nodes
    }

    /// The same, but that nodes watch each other.
    pub(crate) fn watching(counts: &[u32], dialect: Dialect) -> Self {
        let mut nodes = Self::silent(counts, dialect);
        nodes.begin(counts);
        nodes
    }

    fn begin(&mut self, counts: &[u32]) {
        let module = if self.dialect == Dialect::Short { "v41" } else { "v3" };
        for (rank, local) in counts.iter().flat_map(|count| 0..*count).enumerate() {
            let rank = rank as u32;
            assert_eq!(self.say(rank, &greeting(SPACE, rank, module)), None);
            let heard = self.hear_bytes(rank);
            assert_eq!(heard, [0_u32.to_be_bytes(), local.to_be_bytes()].concat());
        }
    }

    /// A rank says something; `Some`: so much of it was heard, and not all.
    pub(crate) fn say(&mut self, rank: u32, bytes: &[u8]) -> Option<usize> {
        let (node, client) = self.clients.get_mut(&rank).expect("a rank");
        let taken = client.handle_bytes(bytes, &mut self.servers[*node], self.now_ns);
        self.settle_events();
        (taken < bytes.len()).then_some(taken)
    }

    /// What a rank hears, all of it.
    pub(crate) fn hear_bytes(&mut self, rank: u32) -> Vec<u8> {
        let (node, client) = self.clients.get_mut(&rank).expect("a rank");
        let mut heard = Vec::new();
        loop {
            client.poll(&mut self.servers[*node], self.now_ns);
            let more = client.transmit().to_vec();
            if more.is_empty() {
                return heard;
            }
            client.consume(more.len());
            heard.extend(more);
        }
    }

    /// The same, message by message, by their tags.
    pub(crate) fn hear(&mut self, rank: u32) -> Vec<(u32, Vec<u8>)> {
        let (heard, mut messages) = (self.hear_bytes(rank), Vec::new());
        let mut rest = &heard[..];
        let word = |bytes: &[u8], at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four"));
        while !rest.is_empty() {
            let (header, behind) = rest.split_at(16);
            let (body, behind) = behind.split_at(word(header, 8) as usize);
            messages.push((word(header, 4), body.to_vec()));
            rest = behind;
        }
        messages
    }

    /// A rank makes a call, which has this tag.
    pub(crate) fn call(&mut self, rank: u32, body: &Writer) -> u32 {
        self.next_tag += 1;
        let tag = self.next_tag;
        assert_eq!(self.say(rank, &message(tag, body.bytes())), None);
        tag
    }

    /// The same, and hears the answer at once.
    pub(crate) fn ask(&mut self, rank: u32, body: &Writer) -> Vec<u8> {
        let tag = self.call(rank, body);
        let heard = self.hear(rank);
        let [(of, answer)] = &heard[..] else { panic!("{heard:?}") };
        assert_eq!(*of, tag);
        answer.clone()
    }

    /// The same, of which the answer is a status and no more.
    pub(crate) fn ask_status(&mut self, rank: u32, body: &Writer) -> Status {
        let answer = self.ask(rank, body);
        self.status(&answer)
    }

    /// An answer that is a status and no more.
    pub(crate) fn status(&self, answer: &[u8]) -> Status {
        let mut reader = Reader::new(answer, self.dialect);
        reader.packed(1).expect("a status");
        let status = Status(reader.i32().expect("a status"));
        assert!(reader.is_empty());
        status
    }

    /// A call of this number.
    pub(crate) fn command(&self, number: u8) -> Writer {
        let mut writer = Writer::new(self.dialect);
        writer.packed(1).byte(number);
        writer
    }

    /// Some of what nodes have to say to each other arrives.
    pub(crate) fn deliver(&mut self, frames: usize) {
        for _ in 0..frames {
            let next = self.servers.iter_mut().find_map(|server| {
                let peers = server.peers();
                peers.into_iter().find_map(|to| Some((to as usize, server.poll_transmit(to)?)))
            });
            let Some((to, bytes)) = next else { return };
            let frame = PeerFrames::default().advance(&mut &bytes[..]).expect("a frame").expect("whole");
            self.servers[to].handle_frame(&frame, self.now_ns).expect("authentic");
            self.settle_events();
        }
    }

    /// The same job from what is written down of it, node by node; meanwhile so many frames arrive before each. What is
    /// on its way then is lost.
    pub(crate) fn again(self, frames: &[usize]) -> Self {
        self.again_with(frames, Server::trust_nodes)
    }

    /// The same of one whose nodes watch each other.
    pub(crate) fn again_watching(self) -> Self {
        self.again_with(&[], |_| ())
    }

    fn again_with(mut self, frames: &[usize], prepare: fn(&mut Server)) -> Self {
        let clients: Vec<_> = self
            .clients
            .iter()
            .map(|(rank, (node, client))| (*rank, *node, postcard::to_allocvec(client).expect("plain data")))
            .collect();
        let mut records = Vec::new();
        for node in 0..self.servers.len() {
            records.push(postcard::to_allocvec(&self.servers[node].record()).expect("plain data"));
            self.deliver(frames.get(node).copied().unwrap_or_default());
        }
        let counts: Vec<u32> = (0..self.servers.len())
            .map(|node| self.clients.values().filter(|(on, _)| *on == node).count() as u32)
            .collect();
        let mut other = Self::silent(&counts, self.dialect);
        other.servers.iter_mut().for_each(prepare);
        (other.now_ns, other.next_tag) = (self.now_ns, self.next_tag);
        for (server, record) in other.servers.iter_mut().zip(&records) {
            server.restore(postcard::from_bytes(record).expect("as written"), self.now_ns).expect("fits");
        }
        for (rank, node, client) in clients {
            other.clients.insert(rank, (node, postcard::from_bytes(&client).expect("as written")));
        }
        other.settle_events();
        other
    }

    /// Everything that nodes have to say to each other arrives.
    pub(crate) fn settle(&mut self) {
        self.settle_but(|| false);
    }

    /// The same, but for what is lost.
    pub(crate) fn settle_but(&mut self, mut is_lost: impl FnMut() -> bool) {
        loop {
            let mut frames = Vec::new();
            for server in &mut self.servers {
                for to in server.peers() {
                    while let Some(frame) = server.poll_transmit(to) {
                        frames.push((to as usize, frame));
                    }
                }
            }
            if frames.is_empty() {
                return;
            }
            for (to, bytes) in frames {
                if is_lost() {
                    continue;
                }
                let frame = PeerFrames::default().advance(&mut &bytes[..]).expect("a frame").expect("whole");
                self.servers[to].handle_frame(&frame, self.now_ns).expect("authentic");
            }
            self.settle_events();
        }
    }

    /// Everything arrives but what goes to this node, which has gone.
    pub(crate) fn settle_without(&mut self, gone: usize) {
        loop {
            let mut frames = Vec::new();
            for (from, server) in self.servers.iter_mut().enumerate().filter(|(from, _)| *from != gone) {
                for to in server.peers() {
                    while let Some(frame) = server.poll_transmit(to) {
                        frames.push((from, to as usize, frame));
                    }
                }
            }
            if frames.is_empty() {
                return;
            }
            for (_, to, bytes) in frames.into_iter().filter(|(_, to, _)| *to != gone) {
                let frame = PeerFrames::default().advance(&mut &bytes[..]).expect("a frame").expect("whole");
                self.servers[to].handle_frame(&frame, self.now_ns).expect("authentic");
            }
            self.settle_events();
        }
    }

    /// Ranks run again after what they are was written down.
    pub(crate) fn run_again(&mut self) {
        for server in &mut self.servers {
            server.ranks_run(self.now_ns);
        }
        self.settle_events();
    }

    /// All ranks.
    pub(crate) fn ranks(&self) -> Vec<u32> {
        self.clients.keys().copied().collect()
    }

    /// Time passes.
    pub(crate) fn pass(&mut self, ns: u64) {
        self.now_ns += ns;
        for server in &mut self.servers {
            if server.poll_timeout().is_some_and(|at_ns| at_ns <= self.now_ns) {
                server.handle_timeout(self.now_ns);
            }
        }
        self.settle_events();
    }

    fn settle_events(&mut self) {
        for server in &mut self.servers {
            for event in core::iter::from_fn(|| server.poll_event()) {
                match event {
                    Event::Released(_) => {}
                    Event::Waits { barrier } => self.waits.push(barrier),
                    event => self.events.push(event),
                }
            }
        }
    }

    // Calls.

    /// `PMIx_Commit` of these pairs, in this scope.
    pub(crate) fn commit(&self, scope: u8, pairs: &[(&str, Value<'_>)]) -> Writer {
        let mut bucket = Writer::new(self.dialect);
        for (key, value) in pairs {
            bucket.pair(key, value);
        }
        let mut call = self.command(2);
        call.packed(1).byte(scope).packed(1).byte(1).object(bucket.bytes());
        call
    }

    /// `PMIx_Fence` of these ranks.
    pub(crate) fn fence_of(&self, ranks: &[u32], infos: &[(&str, Value<'_>)]) -> Writer {
        let mut call = self.command(3);
        call.packed(1).size(ranks.len()).packed(ranks.len());
        for rank in ranks {
            call.process(Process { space: SPACE, rank: *rank });
        }
        self.infos(&mut call, infos);
        call
    }

    /// The same of all.
    pub(crate) fn fence(&self, infos: &[(&str, Value<'_>)]) -> Writer {
        self.fence_of(&[rank::WILDCARD], infos)
    }

    fn infos(&self, call: &mut Writer, infos: &[(&str, Value<'_>)]) {
        call.packed(1).size(infos.len());
        if !infos.is_empty() {
            call.packed(infos.len());
        }
        for (key, value) in infos {
            call.info(key, value);
        }
    }

    /// `PMIx_Register_event_handler` for these codes.
    pub(crate) fn register(&self, codes: &[i32]) -> Writer {
        let mut call = self.command(13);
        call.packed(1).size(codes.len());
        if !codes.is_empty() {
            call.packed(codes.len());
        }
        for code in codes {
            call.i32(*code);
        }
        self.infos(&mut call, &[]);
        call
    }

    /// `PMIx_Deregister_event_handler` for these.
    pub(crate) fn deregister(&self, codes: &[i32]) -> Writer {
        let mut call = self.command(14);
        for code in codes {
            call.status(Status(*code));
        }
        call
    }

    /// `PMIx_Notify_event`.
    pub(crate) fn notify(&self, code: i32, range: u8, infos: &[(&str, Value<'_>)]) -> Writer {
        let mut call = self.command(12);
        call.status(Status(code)).packed(1).byte(range);
        self.infos(&mut call, infos);
        call
    }

    /// What a rank is told, and hears nothing else.
    pub(crate) fn told(&mut self, rank: u32) -> Vec<Told> {
        let heard = self.hear(rank);
        heard.iter().filter(|(tag, _)| *tag == 0).map(|(_, body)| self.understand(body)).collect()
    }

    /// What a message says that nobody has asked for.
    pub(crate) fn understand(&self, body: &[u8]) -> Told {
        let mut reader = Reader::new(body, self.dialect);
        assert_eq!((reader.packed(1), reader.byte(), reader.packed(1)), (Ok(()), Ok(12), Ok(())));
        let code = reader.i32().expect("a code");
        reader.packed(1).expect("a process");
        let source = reader.process().expect("a process");
        reader.packed(1).expect("a count");
        let count = reader.size().expect("a count");
        if count > 0 {
            reader.packed(count).expect("as many");
        }
        let infos = (0..count).map(|_| {
            let info = reader.info().expect("an info");
            (String::from_utf8_lossy(info.key).into_owned(), (info.kind, info.value.to_vec()))
        });
        let infos = infos.collect();
        reader.packed(1).expect("a range");
        let range = reader.byte().expect("a range");
        assert!(reader.is_empty());
        Told { code, source: (source.space.to_vec(), source.rank), infos, range }
    }

    /// `PMIx_Get` of what a rank has put.
    pub(crate) fn get(&self, of: u32, key: Option<&str>, infos: &[(&str, Value<'_>)]) -> Writer {
        let mut call = self.command(4);
        call.packed(1).text(SPACE).packed(1).u32(of);
        self.infos(&mut call, infos);
        if let Some(key) = key {
            call.packed(1).text(key.as_bytes());
        }
        call
    }

    /// What the answer to that has: the pairs' keys and their bytes.
    pub(crate) fn card(&self, answer: &[u8]) -> BTreeMap<String, Vec<u8>> {
        let mut reader = Reader::new(answer, self.dialect);
        reader.packed(1).expect("a status");
        assert_eq!(reader.i32(), Ok(0));
        reader.packed(1).expect("an object");
        let mut card = Reader::new(reader.object().expect("an object"), self.dialect);
        assert!(reader.is_empty());
        card.packed(1).expect("a process");
        assert_eq!(card.process().expect("a process").space, SPACE);
        let pairs = coppice_protocol::pmix::Pairs::of(card).map(|pair| pair.expect("a pair"));
        pairs.map(|(key, pair)| (String::from_utf8_lossy(key).into_owned(), pair.to_vec())).collect()
    }
}
