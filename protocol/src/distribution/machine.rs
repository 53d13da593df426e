//! A member of a transfer, or its home: what it does with what it hears.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::asks::Asks;
use super::assembly::Assemblies;
use super::branches::Branch;
use super::effect::{Effect, Outcome};
use super::estimate::{Estimate, HOME, Shape};
use super::farewell::Farewell;
use super::message::Message;
use super::others::Others;
use super::pieces::{PacketSet, PieceSet};
use super::plan::Plan;
use super::ranges::MemberRanges;
use super::reports::Reports;
use super::roll::Roll;
use super::sender::Sender;
use super::stand_in::Orphan;
use super::two_trees::Feeds;
use crate::limits::{ANSWERS_PER_MEMBER_MAX, LOOK_NS_MIN};

/// A member that has got no further for so long gives up, ns.
const SILENCE_NS: u64 = 20_000_000_000;

/// A member to which nothing comes at first takes home to have begun after so long, ns.
const BEGIN_NS: u64 = 500_000_000;

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
    pub(super) others: Others,
    reports: Reports,
    pub(super) farewell: Farewell,
    pub(super) roll: Option<Roll>,
    /// The state of the random choices, not 0.
    random: u64,
    /// When it last got further, or home asked for it, ns.
    progress_ns: u64,
    is_over: bool,
    pub(super) effects: VecDeque<Effect>,
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
        let (span, above) = match &shape {
            Shape::Two(trees) if !is_home => (trees.flat().first().span(me).into_inner(), trees.flat().parent(0, me)),
            _ => ((me, me), HOME),
        };
        let piece_ns = estimate.piece_ns();
        // Where all is asked for, what is asked of one waits for what others have asked of it.
        let ask_pieces = match &shape {
            Shape::Two(_) => 4,
            Shape::Branches(_) => 2 * ANSWERS_PER_MEMBER_MAX as u64,
        };
        Some(Self {
            plan: plan.clone(),
            me,
            have,
            made_ns: now_ns,
            begun_ns: None,
            sender: Sender::new(plan, &shape, me)?,
            assemblies: Assemblies::default(),
            asks: Asks::new(ask_pieces * (u64::from(plan.link.latency_ns) + piece_ns), plan.link.stall_ns.into()),
            estimate,
            feeds: Feeds::new(&shape, me, now_ns),
            shape,
            branch: Branch::default(),
            look_ns: if is_home { u64::MAX } else { now_ns },
            others: Others::default(),
            reports: Reports::new(span, above),
            farewell: Farewell::default(),
            roll: is_home.then(|| Roll::new(plan.members)),
            // Any number but 0 will do; those of neighbours shall differ.
            random: seed.wrapping_add(u64::from(me)).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            progress_ns: now_ns,
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

    /// The member has all of it already, and it is right.
    pub fn holds_all(&mut self, now_ns: u64) {
        if let Some(mut all) = PieceSet::none_of(self.plan.pieces()) {
            all.fill();
            self.holds(&all, now_ns);
        }
    }

    /// What it has.
    #[must_use]
    pub const fn pieces(&self) -> &PieceSet {
        &self.have
    }

    /// At home: how many pieces those next to it have, as far as is known, and how many nodes are whole or lost.
    #[must_use]
    pub fn progress(&self) -> (u32, u32) {
        let left = u32::try_from(self.sender.left()).unwrap_or(u32::MAX);
        let io_nodes = self.plan.topology.io_nodes();
        let settled = self.roll.as_ref().map_or(0, |roll| roll.settled_but(io_nodes));
        (self.have.count().saturating_sub(left), settled)
    }

    /// How many pieces, or packets of one, it has sent because somebody asked for them.
    #[must_use]
    pub const fn answered(&self) -> u64 {
        self.sender.answered()
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
        let silence_ns = Some(self.progress_ns + SILENCE_NS).filter(|_| self.me != HOME && !self.is_over);
        let roll_ns = self.roll.as_ref().filter(|_| !self.is_over).and_then(Roll::due_ns);
        let look_ns = Some(self.look_ns).filter(|look_ns| *look_ns < u64::MAX);
        [
            self.sender.due_ns(),
            self.asks.due_ns(),
            look_ns,
            self.reports.due_ns(),
            self.feeds.due_ns(),
            self.farewell.due_ns(),
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
        self.take_in_if_due(now_ns);
        self.send(now_ns);
        self.report(now_ns);
        self.ask_whether_over(now_ns);
        if self.me != HOME && !self.is_over && self.progress_ns + SILENCE_NS <= now_ns {
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
        self.has_begun(elapsed_ns, now_ns);
        let is_asked = self.asks.expects(piece);
        let passed = self.feeds.heard(piece, from, is_asked, now_ns);
        if let Some(passed) = passed {
            self.say_arrived(passed);
        }
        if self.have.is_whole() {
            self.leave_again(from, piece);
        }
        if !self.have.has(piece) && !self.others.is_liar(from) {
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

    /// Whether a piece is here, and right.
    #[must_use]
    pub fn has(&self, piece: u32) -> bool {
        self.have.has(piece)
    }

    /// The first piece that is not; as many as there are if all are.
    #[must_use]
    pub fn first_missing(&self) -> u32 {
        self.have.missing_from(0).next().unwrap_or(self.plan.pieces())
    }

    /// It was looked whether a piece is right.
    pub fn checked(&mut self, piece: u32, is_right: bool, now_ns: u64) {
        let Some(assembly) = self.assemblies.remove(piece).filter(|assembly| assembly.is_complete) else { return };
        if is_right {
            self.others.hit();
            self.asks.got(piece, assembly.from, now_ns);
            if self.feeds.got(piece, assembly.from) {
                self.estimate.confirm(&self.shape);
            }
            self.keep(piece, now_ns);
            self.say_arrived(piece);
            self.send(now_ns);
        } else {
            let from = Some(assembly.from).filter(|_| !assembly.is_mixed);
            match from {
                Some(from) => self.others.lied(from),
                None => self.assemblies.be_wary(),
            }
            self.effects.push_back(Effect::Wrong { piece, from });
            // Whoever it was asked of is not waited for.
            self.asks.got(piece, assembly.from, now_ns);
            if let Some(from) = from {
                self.leave_parent(from, true, now_ns);
            }
        }
        self.look(now_ns);
    }

    /// Somebody said something, and stamped it with the time since home began.
    pub fn heard(&mut self, from: u32, message: Message, elapsed_ns: u64, now_ns: u64) {
        if from > self.plan.members || from == self.me {
            return;
        }
        self.feeds.is_alive(from, now_ns);
        self.sender.lanes.heard(from);
        if let Some(roll) = &mut self.roll {
            roll.is_alive(from);
        }
        if from == HOME {
            self.farewell.heard_home();
            self.has_begun(elapsed_ns, now_ns);
            self.look_ns = self.look_ns.min(now_ns);
        }
        match message {
            Message::Ask { piece, packets } => self.asked(from, piece, packets),
            Message::AskAny { has } => self.asked_for_any(from, &has),
            Message::NotHere { piece } => self.not_here(from, piece, now_ns),
            Message::Busy { piece } => {
                if self.asks.refused(piece, from).is_some() {
                    self.look_ns = self.look_ns.min(now_ns + self.estimate.piece_ns());
                }
            }
            Message::Leave { tree } => self.sender.lanes.let_go(usize::from(tree), from),
            Message::Adopt { tree, instead_of, first, is_sure } => {
                let tree = usize::from(tree);
                self.adopt(Orphan { tree, who: from, parent: instead_of, first, until_ns: now_ns }, is_sure, now_ns);
            }
            Message::Adopted { tree } => self.adopted(usize::from(tree), from, now_ns),
            Message::Failing { tree, who } => self.is_said_to_fail(usize::from(tree), who, from, now_ns),
            Message::Dropped { tree } => self.dropped(usize::from(tree), from, now_ns),
            Message::Arrived { piece, open } => {
                self.sender.lanes.arrived(from, piece, open, now_ns);
                if let Some(slow) = self.sender.lanes.slow(now_ns) {
                    self.warn_those_below(slow, None, now_ns);
                }
            }
            Message::Whole { members } => self.are_whole(from, &members, now_ns),
            Message::Over => self.over(from),
            Message::Heard { count } => self.reports.confirmed(from, count),
            Message::Probe => {
                self.progress_ns = now_ns;
                if self.have.is_whole() {
                    let members = self.reports.some_with(self.me);
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

    fn are_whole(&mut self, from: u32, members: &MemberRanges, now_ns: u64) {
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
        let is_end = self.me == HOME && self.is_over;
        self.say(from, if is_end { Message::Over } else { Message::Heard { count: members.count() } });
    }

    /// It has a piece now, and passes it on.
    fn keep(&mut self, piece: u32, now_ns: u64) {
        if !self.have.insert(piece) {
            return;
        }
        self.progress_ns = now_ns;
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

    pub(super) fn look(&mut self, now_ns: u64) {
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
        self.look_ns = self.look_ns.max(now_ns.saturating_add(LOOK_NS_MIN));
    }

    fn report(&mut self, now_ns: u64) {
        let patience_ns = self.asks.patience_ns();
        let stall_ns = self.plan.link.stall_ns.into();
        if let Some(roll) = &mut self.roll {
            let probed = if self.begun_ns.is_some() { roll.probe(now_ns, patience_ns, stall_ns) } else { Vec::new() };
            let is_complete = roll.is_complete();
            let lost = if is_complete { roll.lost().to_vec() } else { Vec::new() };
            probed.into_iter().for_each(|member| self.say(member, Message::Probe));
            if is_complete {
                if !self.is_over {
                    self.say_over();
                }
                self.end(Outcome::All { lost });
            }
            return;
        }
        let above = |member| match &self.shape {
            Shape::Two(trees) => trees.flat().parent(0, member),
            Shape::Branches(_) => HOME,
        };
        if let Some((to, members)) = self.reports.next(now_ns, patience_ns, stall_ns, above) {
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

    /// A number below `count`, which is not 0 (xorshift64*, Vigna 2016).
    pub(super) fn choose(&mut self, count: u32) -> u32 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        let high = self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        ((high * u64::from(count)) >> 32) as u32
    }
}
