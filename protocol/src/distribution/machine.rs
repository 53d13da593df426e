//! A member of a transfer, or its home: what it does with what it hears.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::asks::{Asked, Asks};
use super::assembly::Assemblies;
use super::branches::Branch;
use super::estimate::{Estimate, HOME, Shape};
use super::message::Message;
use super::pieces::{PacketSet, PieceSet};
use super::plan::Plan;
use super::reports::Reports;
use super::roll::Roll;
use super::sender::{Burst, Sender};
use super::two_trees::{Feeds, Orphan};
use crate::limits::{ANSWERS_PER_MEMBER_MAX, SUSPECTS_PER_MEMBER_MAX};

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send these packets of a piece.
    Send {
        /// To whom.
        to: u32,
        /// Which piece.
        piece: u32,
        /// Which packets.
        packets: PacketSet,
    },
    /// Say something.
    Say {
        /// To whom.
        to: u32,
        /// What.
        message: Message,
    },
    /// Look whether a piece, all of whose packets are there, is right; then [`Machine::checked`].
    Check {
        /// Which piece.
        piece: u32,
    },
    /// A piece was wrong.
    Wrong {
        /// Which piece.
        piece: u32,
        /// Who sent it, if it was one alone.
        from: Option<u32>,
    },
    /// It is over, once: at home when all members are whole or lost, at a member when it is whole, or is to give up.
    End(Outcome),
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The member has all pieces; it goes on serving others.
    Whole,
    /// At home: all have everything but these, which do not answer, or get no further.
    All {
        /// Members, in no order.
        lost: Vec<u32>,
    },
    /// At a member: nothing came for too long.
    Silence,
}

/// Of those that are asked at random, so many are tried until one may have what is wanted.
const HOLDER_TRIES: u32 = 12;
/// So many in a row that did not have it, for each step from home, then that is asked.
const MISSES_MAX: u32 = 3;
/// The same in a tree of branches, where all of a branch may be gone.
const BRANCH_MISSES: u32 = 8;
/// A member to which nothing comes for so long gives up, ns.
const SILENCE_NS: u64 = 20_000_000_000;

/// A member to which nothing comes at first takes home to have begun after so long, ns.
pub(super) const BEGIN_NS: u64 = 500_000_000;

/// See this module.
#[derive(Debug)]
pub struct Machine {
    pub(super) plan: Plan,
    pub(super) shape: Shape,
    pub(super) me: u32,
    pub(super) have: PieceSet,
    made_ns: u64,
    /// When home began, by the clock here, ns.
    pub(super) begun_ns: Option<u64>,
    pub(super) sender: Sender,
    pub(super) assemblies: Assemblies,
    pub(super) asks: Asks,
    pub(super) estimate: Estimate,
    pub(super) feeds: Feeds,
    pub(super) branch: Branch,
    /// It is looked then whether something is missing, ns.
    pub(super) look_ns: u64,
    /// Who did not answer, and who sent what was wrong.
    suspects: VecDeque<u32>,
    liars: VecDeque<u32>,
    misses: u8,
    reports: Reports,
    roll: Option<Roll>,
    random: u64,
    heard_ns: u64,
    is_over: bool,
    effects: VecDeque<Effect>,
}

impl Machine {
    /// Member `me` of a transfer, or home. `seed` is for its random choices. `None` if there is no memory, or the plan
    /// is none.
    #[must_use]
    pub fn new(plan: &Plan, me: u32, seed: u64, now_ns: u64) -> Option<Self> {
        plan.check().ok()?;
        let (shape, estimate) = (Shape::of(plan), Estimate::new(plan));
        let mut have = PieceSet::none_of(plan.pieces())?;
        let is_home = me == HOME;
        if is_home {
            have.fill();
        }
        let (span, above) = match shape {
            Shape::Two(trees) if !is_home => (trees.first().span(me).into_inner(), trees.parent(0, me)),
            _ => ((me, me), HOME),
        };
        let piece_ns = estimate.piece_ns();
        // Where all is asked for, what is asked of one waits for what others have asked of it.
        let ask_pieces = match shape {
            Shape::Two(_) => 4,
            Shape::Branches(_) => 2 * ANSWERS_PER_MEMBER_MAX as u64,
        };
        Some(Self {
            plan: *plan,
            shape,
            me,
            have,
            made_ns: now_ns,
            begun_ns: None,
            sender: Sender::default(),
            assemblies: Assemblies::default(),
            asks: Asks::new(ask_pieces * (u64::from(plan.link.latency_ns) + piece_ns)),
            estimate,
            feeds: Feeds::new(shape, me, now_ns),
            branch: Branch::default(),
            look_ns: if is_home { u64::MAX } else { now_ns },
            suspects: VecDeque::new(),
            liars: VecDeque::new(),
            misses: 0,
            reports: Reports::new(span, above),
            roll: is_home.then(|| Roll::new(plan.members)),
            // Any number but 0 will do; those of neighbours shall differ.
            random: seed.wrapping_add(u64::from(me)).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            heard_ns: now_ns,
            is_over: false,
            effects: VecDeque::new(),
        })
    }

    /// Home begins.
    pub fn begin(&mut self, now_ns: u64) {
        if self.me == HOME && self.begun_ns.is_none() {
            self.begun_ns = Some(now_ns);
            (0..self.plan.pieces()).for_each(|piece| {
                self.sender.push(piece);
            });
        }
    }

    /// The member has these pieces already, and they are right.
    pub fn holds(&mut self, pieces: &PieceSet, now_ns: u64) {
        if self.me == HOME || self.have.count() > 0 {
            return;
        }
        for piece in (0..self.plan.pieces()).filter(|piece| pieces.has(*piece)) {
            self.keep(piece, now_ns);
        }
        // What else it lacks it asks for: nobody sends what is there.
        if self.have.count() > 0 {
            self.begun_ns = self.begun_ns.or(Some(now_ns));
            self.leave_all(now_ns);
        }
    }

    /// What it has.
    #[must_use]
    pub const fn pieces(&self) -> &PieceSet {
        &self.have
    }

    /// How long ago home began, as far as is known here, for a stamp on what is sent, ns.
    #[must_use]
    pub fn elapsed_ns(&self, now_ns: u64) -> u64 {
        self.begun_ns.map_or(0, |begun_ns| now_ns.saturating_sub(begun_ns))
    }

    /// What is to be done next.
    pub fn take(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// When [`Self::advance`] is to be called, if nothing comes before, ns.
    #[must_use]
    pub fn due_ns(&self) -> Option<u64> {
        let silence_ns = Some(self.heard_ns + SILENCE_NS).filter(|_| self.me != HOME && !self.is_over);
        let roll_ns = self.roll.as_ref().filter(|_| !self.is_over).and_then(Roll::due_ns);
        let look_ns = Some(self.look_ns).filter(|look_ns| *look_ns < u64::MAX);
        [
            self.sender.due_ns(),
            self.asks.due_ns(),
            look_ns,
            self.reports.due_ns(),
            self.feeds.due_ns(),
            roll_ns,
            silence_ns,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Time has passed.
    pub fn advance(&mut self, now_ns: u64) {
        while let Some(asked) = self.asks.overdue(now_ns) {
            self.not_answered(asked, now_ns);
        }
        if self.look_ns <= now_ns {
            self.look(now_ns);
        }
        self.take_in(now_ns);
        self.send(now_ns);
        self.report(now_ns);
        if self.me != HOME && !self.is_over && self.heard_ns + SILENCE_NS <= now_ns {
            self.end(Outcome::Silence);
        }
    }

    /// Packets of a piece came, all from `from`, which stamped them with the time since home began. Those that are
    /// given back are to be kept, before anything else is done; the others are there already, or nobody believes them.
    pub fn arrived(&mut self, from: u32, piece: u32, packets: PacketSet, elapsed_ns: u64, now_ns: u64) -> PacketSet {
        let mut kept = PacketSet::default();
        if self.me == HOME || piece >= self.plan.pieces() || from > self.plan.members {
            return kept;
        }
        self.heard_ns = now_ns;
        self.has_begun(elapsed_ns, now_ns);
        self.feeds.heard(piece, from, now_ns);
        if !self.have.has(piece) && !self.liars.contains(&from) {
            self.asks.heard(piece, from, now_ns);
            let (taken, is_complete) = self.assemblies.add(piece, packets, self.plan.packets(piece), from, now_ns);
            kept = taken;
            if is_complete {
                self.effects.push_back(Effect::Check { piece });
            }
        }
        self.look(now_ns);
        kept
    }

    /// Home began so long before something was sent that came now: of all that say so the earliest is right, as others
    /// had to wait on the way.
    fn has_begun(&mut self, elapsed_ns: u64, now_ns: u64) {
        let ago_ns = elapsed_ns.saturating_add(self.plan.link.latency_ns.into());
        let begun_ns = now_ns.saturating_sub(ago_ns);
        self.begun_ns = Some(self.begun_ns.map_or(begun_ns, |known_ns| known_ns.min(begun_ns)));
    }

    /// It was looked whether a piece is right.
    pub fn checked(&mut self, piece: u32, is_right: bool, now_ns: u64) {
        let Some(assembly) = self.assemblies.remove(piece).filter(|assembly| assembly.is_complete) else { return };
        if is_right {
            self.misses = 0;
            self.asks.got(piece, assembly.from, now_ns);
            if self.feeds.got(piece, assembly.from) {
                self.estimate.confirm(self.shape);
            }
            self.keep(piece, now_ns);
            self.send(now_ns);
        } else {
            let from = Some(assembly.from).filter(|_| !assembly.is_mixed);
            match from {
                Some(from) => add(&mut self.liars, from),
                None => self.assemblies.be_wary(),
            }
            self.effects.push_back(Effect::Wrong { piece, from });
            // Whoever it was asked of is not waited for.
            self.asks.got(piece, assembly.from, now_ns);
            if let Some(from) = from {
                self.leave_parent(from, now_ns);
            }
        }
        self.look(now_ns);
    }

    /// Somebody said something, and stamped it with the time since home began.
    pub fn heard(&mut self, from: u32, message: Message, elapsed_ns: u64, now_ns: u64) {
        if from > self.plan.members || from == self.me {
            return;
        }
        self.heard_ns = now_ns;
        self.feeds.is_alive(from);
        if from == HOME {
            self.has_begun(elapsed_ns, now_ns);
            self.look_ns = self.look_ns.min(now_ns);
        }
        match message {
            Message::Ask { piece, packets } => self.asked(from, piece, packets),
            Message::AskAny { has } => {
                let first = self.choose(self.plan.pieces());
                let wanted = |piece: &u32| !has.has(*piece) && self.have.has(*piece);
                let pieces = self.plan.pieces();
                let found = (0..pieces).map(|step| (first + step) % pieces).find(wanted);
                match found.filter(|_| self.may_serve()) {
                    Some(piece) => self.answer(from, piece, self.plan.packets(piece), None),
                    None => self.say(from, Message::NotHere { piece: None }),
                }
            }
            Message::NotHere { piece } => self.not_here(from, piece, now_ns),
            Message::Busy { piece } => {
                if self.asks.refused(piece, from).is_some() {
                    self.look_ns = self.look_ns.min(now_ns + self.estimate.piece_ns());
                }
            }
            Message::Leave { tree } => {
                self.feeds.left(usize::from(tree), from, None);
            }
            Message::Adopt { tree, instead_of, is_slow } => {
                self.adopt(Orphan::new(tree, from, instead_of, now_ns), is_slow);
                self.take_in(now_ns);
            }
            Message::Adopted { tree } => self.feeds.adopted(usize::from(tree), from, now_ns),
            Message::Whole { members } => self.are_whole(from, &members, now_ns),
            Message::Heard { count } => self.reports.confirmed(from, count),
            Message::Probe => {
                if self.have.is_whole() {
                    let members = self.reports.some();
                    self.say(from, Message::Whole { members });
                } else {
                    self.say(from, Message::Present { pieces: self.have.count() });
                }
            }
            Message::Present { pieces } => {
                if let Some(roll) = &mut self.roll {
                    roll.answered(from, pieces, now_ns);
                }
            }
        }
        self.send(now_ns);
        self.report(now_ns);
    }

    fn are_whole(&mut self, from: u32, members: &super::MemberRanges, now_ns: u64) {
        for (first, last) in members.ranges() {
            match &mut self.roll {
                Some(roll) => {
                    if roll.add(*first, *last) {
                        roll.quiet_until_ns = now_ns.saturating_add(4 * self.asks.patience_ns());
                    }
                }
                None => self.reports.add(*first, *last, now_ns),
            }
        }
        self.say(from, Message::Heard { count: members.count() });
    }

    fn asked(&mut self, from: u32, piece: u32, packets: PacketSet) {
        let has_begun = self.me != HOME || self.begun_ns.is_some();
        if has_begun && self.have.has(piece) && self.may_serve() {
            self.answer(from, piece, packets.within(self.plan.packets(piece)), Some(piece));
        } else if has_begun && self.have.has(piece) {
            self.say(from, Message::Busy { piece: Some(piece) });
        } else {
            self.say(from, Message::NotHere { piece: Some(piece) });
        }
    }

    fn answer(&mut self, to: u32, piece: u32, packets: PacketSet, asked: Option<u32>) {
        if packets.is_empty() {
            return;
        }
        if !self.sender.answer(Burst { to, piece, packets }) {
            self.say(to, Message::Busy { piece: asked });
        }
    }

    fn may_serve(&self) -> bool {
        match self.shape {
            Shape::Two(_) => true,
            Shape::Branches(_) => self.is_branch_served(),
        }
    }

    fn not_here(&mut self, from: u32, piece: Option<u32>, now_ns: u64) {
        let Some(_) = self.asks.refused(piece, from) else { return };
        let is_to_come = |piece: &u32| {
            self.shape.parent(self.me, *piece) == Some(from) && from != HOME && !self.feeds.is_left(*piece)
        };
        if let Some(piece) = piece.filter(is_to_come) {
            self.asks.wait_for(piece, from, now_ns);
        } else {
            self.misses = self.misses.saturating_add(1);
            let about = piece.or_else(|| self.branch_piece_of(from));
            if let (Some(about), Some(begun_ns)) = (about, self.begun_ns) {
                self.estimate.correct(self.shape, from, about, now_ns.saturating_sub(begun_ns));
            }
        }
        self.look(now_ns);
    }

    fn not_answered(&mut self, asked: Asked, now_ns: u64) {
        if asked.is_to_come {
            // It does not come from there; whoever else has it is asked.
            if let Some(piece) = asked.piece.filter(|piece| !self.have.has(*piece)) {
                self.ask_holder(piece, now_ns);
            }
        } else {
            self.misses = self.misses.saturating_add(1);
            if let Some(piece) = asked.piece {
                self.assemblies.give_up(piece);
            }
            if !self.feeds.not_answered(asked.of, asked.at_ns) && asked.of != HOME {
                self.suspect(asked.of);
            }
            if self.feeds.is_given_up(asked.of) {
                self.leave_parent(asked.of, now_ns);
            }
        }
        self.look_ns = self.look_ns.min(now_ns);
    }

    /// It has a piece now, and passes it on.
    fn keep(&mut self, piece: u32, now_ns: u64) {
        if !self.have.insert(piece) {
            return;
        }
        if self.passes_on(piece) {
            self.sender.push(piece);
        }
        if self.have.is_whole() {
            self.look_ns = u64::MAX;
            let patience_ns = 8 * self.asks.patience_ns();
            self.reports.is_whole(self.me, now_ns, patience_ns);
            self.end(Outcome::Whole);
        }
    }

    fn passes_on(&self, piece: u32) -> bool {
        match self.shape {
            Shape::Two(trees) => trees.children(super::estimate::tree_of(piece), self.me) != [None; 2],
            Shape::Branches(tree) => {
                self.shape.parent(self.me, piece).is_some() && tree.children(self.me).next().is_some()
            }
        }
    }

    fn look(&mut self, now_ns: u64) {
        if self.me == HOME || self.have.is_whole() {
            self.look_ns = u64::MAX;
            return;
        }
        if self.begun_ns.is_none() {
            let at_ns = self.made_ns.saturating_add(BEGIN_NS);
            if at_ns > now_ns {
                self.look_ns = at_ns;
                return;
            }
            // Nobody sends it anything: it has to ask.
            self.begun_ns = Some(self.made_ns);
        }
        match self.shape {
            Shape::Two(_) => self.look_at_trees(now_ns),
            Shape::Branches(tree) => self.look_at_branches(tree, now_ns),
        }
    }

    fn send(&mut self, now_ns: u64) {
        let (shape, feeds, me) = (self.shape, &self.feeds, self.me);
        let below = |piece, number| match shape {
            Shape::Two(trees) => {
                let tree = super::estimate::tree_of(piece);
                let child = trees.children(tree, me).get(number as usize).copied().flatten()?;
                Some(feeds.instead_of(tree, child))
            }
            Shape::Branches(tree) if me == HOME => {
                let head = piece % tree.branches() + 1;
                (number == 0).then_some(Some(head))
            }
            Shape::Branches(tree) => Some(Some(tree.children(me).nth(number as usize)?)),
        };
        while let Some(Burst { to, piece, packets }) = self.sender.next(&self.plan, me == HOME, now_ns, below) {
            self.effects.push_back(Effect::Send { to, piece, packets });
        }
        if self.me == HOME && self.begun_ns.is_some() && self.sender.is_idle() {
            // All is sent: whoever has not got it by then is asked.
            let patience_ns = 16 * self.asks.patience_ns();
            if let Some(roll) = self.roll.as_mut().filter(|roll| roll.quiet_until_ns == u64::MAX) {
                roll.quiet_until_ns = now_ns.saturating_add(patience_ns);
            }
        }
    }

    fn report(&mut self, now_ns: u64) {
        let patience_ns = self.asks.patience_ns();
        if let Some(roll) = &mut self.roll {
            let probed = if self.begun_ns.is_some() { roll.probe(now_ns, patience_ns) } else { Vec::new() };
            let is_complete = roll.is_complete();
            let lost = if is_complete { roll.lost().to_vec() } else { Vec::new() };
            probed.into_iter().for_each(|member| self.say(member, Message::Probe));
            if is_complete {
                self.end(Outcome::All { lost });
            }
            return;
        }
        let shape = self.shape;
        let above = |member| match shape {
            Shape::Two(trees) => trees.parent(0, member),
            Shape::Branches(_) => HOME,
        };
        if let Some((to, members)) = self.reports.next(now_ns, patience_ns, above) {
            self.say(to, Message::Whole { members });
        }
    }

    fn end(&mut self, outcome: Outcome) {
        if !core::mem::replace(&mut self.is_over, true) {
            self.effects.push_back(Effect::End(outcome));
        }
    }

    pub(super) fn say(&mut self, to: u32, message: Message) {
        self.effects.push_back(Effect::Say { to, message });
    }

    /// Asks a member for what is missing of a piece, if there is room for that.
    pub(super) fn ask(&mut self, piece: u32, of: u32, now_ns: u64) -> bool {
        let assembly = self.assemblies.get(piece);
        let whole = self.plan.packets(piece);
        let packets = assembly.map_or(whole, |assembly| whole.without(assembly.packets));
        let is_asked = !packets.is_empty() && self.asks.add(Some(piece), of, now_ns);
        if is_asked {
            self.say(of, Message::Ask { piece, packets });
        }
        is_asked
    }

    /// Asks somebody at random who by the estimate has a piece. Whether anybody was asked.
    pub(super) fn ask_holder(&mut self, piece: u32, now_ns: u64) -> bool {
        let elapsed_ns = self.elapsed_ns(now_ns);
        if let Some(holder) = self.holder(piece, elapsed_ns) {
            return self.ask(piece, holder, now_ns);
        }
        // Where all should have it, and there is nobody to ask, home is.
        // Perhaps one of those that did not answer does now.
        let is_suspected = self.suspects.pop_front().is_some();
        let is_due = match self.shape {
            Shape::Two(trees) => self.estimate.all_have_by(trees, piece) <= elapsed_ns,
            Shape::Branches(_) => is_suspected || !self.liars.is_empty(),
        };
        self.misses = self.misses.saturating_add(u8::from(is_due));
        false
    }

    /// There was nobody to ask.
    pub(super) const fn miss(&mut self) {
        self.misses = self.misses.saturating_add(1);
    }

    /// Whether the last that was asked had what it was asked for.
    pub(super) const fn is_well(&self) -> bool {
        self.misses == 0
    }

    /// Whether too many in a row did not have what they were asked for.
    pub(super) fn is_home_wanted(&self, piece: u32) -> bool {
        let depth = match self.shape {
            Shape::Two(trees) => trees.depth(super::estimate::tree_of(piece), self.me),
            Shape::Branches(_) => BRANCH_MISSES,
        };
        u32::from(self.misses) >= MISSES_MAX * depth
    }

    /// Asks home, which has all.
    pub(super) fn ask_home(&mut self, piece: u32, now_ns: u64) -> bool {
        self.misses = 0;
        self.ask(piece, HOME, now_ns)
    }

    fn holder(&mut self, piece: u32, elapsed_ns: u64) -> Option<u32> {
        for _ in 0..HOLDER_TRIES {
            let member = self.random_member(piece)?;
            let is_likely = match self.shape {
                // What is late at a member is late below it.
                Shape::Two(trees) => {
                    !trees.is_below(super::estimate::tree_of(piece), member, self.me)
                        && self.estimate.all_have_by(trees, piece) <= elapsed_ns
                }
                Shape::Branches(tree) => {
                    let by_ns = self.estimate.serves_by(tree, member, piece);
                    by_ns.is_some_and(|by_ns| by_ns <= elapsed_ns)
                }
            };
            if member != self.me && is_likely && !self.is_suspect(member) {
                return Some(member);
            }
        }
        None
    }

    fn random_member(&mut self, piece: u32) -> Option<u32> {
        match self.shape {
            Shape::Two(_) => Some(self.choose(self.plan.members) + 1),
            Shape::Branches(tree) => {
                let branch = piece % tree.branches();
                let numbers = (self.plan.members - branch).div_ceil(tree.branches());
                let number = self.choose(numbers);
                tree.member(crate::trees::Place { branch, number })
            }
        }
    }

    /// A number below `count`, which is not 0 (xorshift64*, Vigna 2016).
    pub(super) fn choose(&mut self, count: u32) -> u32 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        let high = self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        ((high * u64::from(count)) >> 32) as u32
    }

    fn suspect(&mut self, member: u32) {
        add(&mut self.suspects, member);
    }

    pub(super) fn is_suspect(&self, member: u32) -> bool {
        self.suspects.contains(&member) || self.liars.contains(&member)
    }
}

/// Adds a member to a list of at most [`SUSPECTS_PER_MEMBER_MAX`], from which the first goes.
fn add(list: &mut VecDeque<u32>, member: u32) {
    if list.contains(&member) {
        return;
    }
    if list.len() >= SUSPECTS_PER_MEMBER_MAX {
        list.pop_front();
    }
    if list.try_reserve(1).is_ok() {
        list.push_back(member);
    }
}
