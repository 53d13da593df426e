//! Sets of pieces of a transfer, and of packets of a piece.

use alloc::vec::Vec;

/// Bits of a word of a [`PieceSet`].
const WORD_BITS: u32 = u64::BITS;

/// Some of the pieces of a transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PieceSet {
    pieces: u32,
    count: u32,
    words: Vec<u64>,
}

impl PieceSet {
    /// None of so many pieces. `None` if there is no memory for the set.
    #[must_use]
    pub fn none_of(pieces: u32) -> Option<Self> {
        let length = pieces.div_ceil(WORD_BITS) as usize;
        let mut words = Vec::new();
        words.try_reserve_exact(length).ok()?;
        words.resize(length, 0);
        Some(Self { pieces, count: 0, words })
    }

    /// How many it has.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// How many there are.
    #[must_use]
    pub const fn pieces(&self) -> u32 {
        self.pieces
    }

    /// Whether it has all.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.count == self.pieces
    }

    /// Whether it has this one. It has none that does not exist.
    #[must_use]
    pub fn has(&self, piece: u32) -> bool {
        self.words.get((piece / WORD_BITS) as usize).is_some_and(|word| word >> (piece % WORD_BITS) & 1 == 1)
    }

    /// Adds one. Whether that changed anything.
    pub fn insert(&mut self, piece: u32) -> bool {
        if piece >= self.pieces || self.has(piece) {
            return false;
        }
        self.words[(piece / WORD_BITS) as usize] |= 1 << (piece % WORD_BITS);
        self.count += 1;
        true
    }

    /// Adds all.
    pub fn fill(&mut self) {
        (0..self.pieces).for_each(|piece| {
            self.insert(piece);
        });
    }

    /// Those that it lacks, from one on in their order.
    pub fn missing_from(&self, first: u32) -> impl Iterator<Item = u32> + '_ {
        let start = (first / WORD_BITS) as usize;
        let words = self.words.iter().enumerate().skip(start);
        words
            .flat_map(move |(index, word)| {
                let base = index as u32 * WORD_BITS;
                // What is before the first is not asked about.
                let before = if index == start { (1_u64 << (first % WORD_BITS)) - 1 } else { 0 };
                Bits(!word & !before).map(move |bit| base + bit)
            })
            .take_while(|piece| *piece < self.pieces)
    }

    /// The words, for a message.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// The set that these words say. What they say of pieces that do not exist is left out; `None` if they are too
    /// many or there is no memory.
    #[must_use]
    pub fn of_words(pieces: u32, words: impl ExactSizeIterator<Item = u64>) -> Option<Self> {
        let mut set = Self::none_of(pieces)?;
        if words.len() > set.words.len() {
            return None;
        }
        set.words.iter_mut().zip(words).for_each(|(slot, word)| *slot = word);
        if let (Some(last), false) = (set.words.last_mut(), pieces.is_multiple_of(WORD_BITS)) {
            *last &= (1 << (pieces % WORD_BITS)) - 1;
        }
        set.count = set.words.iter().map(|word| word.count_ones()).sum();
        Some(set)
    }
}

/// The bits of a word that are set.
struct Bits(u64);

impl Iterator for Bits {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let bit = self.0.trailing_zeros();
        self.0 &= self.0.wrapping_sub(1);
        (bit < WORD_BITS).then_some(bit)
    }
}

/// Some of the packets of a piece: bit *i* is the *i*-th.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketSet(pub u64);

impl PacketSet {
    /// Most packets of a piece.
    pub const PACKETS_MAX: u32 = u64::BITS;

    /// The first so many.
    #[must_use]
    pub const fn first(packets: u32) -> Self {
        if packets >= Self::PACKETS_MAX { Self(u64::MAX) } else { Self((1 << packets) - 1) }
    }

    /// This one alone; none if a piece cannot have it.
    #[must_use]
    pub const fn one(packet: u32) -> Self {
        if packet < Self::PACKETS_MAX { Self(1 << packet) } else { Self(0) }
    }

    /// How many there are.
    #[must_use]
    pub const fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Those that are in either.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those that are in both.
    #[must_use]
    pub const fn within(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Those that are not in the other.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Their numbers.
    pub fn numbers(self) -> impl Iterator<Item = u32> {
        Bits(self.0)
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;

    use proptest::collection::vec;
    use proptest::prelude::any;
    use proptest::{prop_assert, prop_assert_eq, proptest};

    use super::{PacketSet, PieceSet};

    proptest! {
        #[test]
        fn it_is_a_set(pieces in 0..300_u32, inserted in vec(0..320_u32, 0..400), from in 0..320_u32) {
            let mut set = PieceSet::none_of(pieces).expect("memory");
            let mut model = BTreeSet::new();
            for piece in inserted {
                prop_assert_eq!(set.insert(piece), piece < pieces && model.insert(piece));
            }
            prop_assert_eq!(set.count() as usize, model.len());
            prop_assert_eq!(set.is_whole(), model.len() == pieces as usize);
            let missing: Vec<u32> = (from..pieces).filter(|piece| !model.contains(piece)).collect();
            prop_assert_eq!(set.missing_from(from).collect::<Vec<_>>(), missing);
            let again = PieceSet::of_words(pieces, set.words().iter().copied());
            prop_assert_eq!(again, Some(set));
        }

        #[test]
        fn words_say_nothing_of_pieces_that_are_not(pieces in 0..300_u32, words in vec(any::<u64>(), 0..7)) {
            match PieceSet::of_words(pieces, words.iter().copied()) {
                None => prop_assert!(words.len() > pieces.div_ceil(64) as usize),
                Some(set) => prop_assert_eq!(set.count() + set.missing_from(0).count() as u32, pieces),
            }
        }
    }

    #[test]
    fn packets_are_counted_from_the_first() {
        assert_eq!((PacketSet::first(0).0, PacketSet::first(3).0, PacketSet::first(64).0), (0, 7, u64::MAX));
        assert_eq!((PacketSet::one(63).0, PacketSet::one(64).0), (1 << 63, 0));
        let some = PacketSet::first(5).without(PacketSet::one(2));
        assert_eq!((some.count(), some.numbers().collect::<Vec<_>>()), (4, [0, 1, 3, 4].into()));
        assert!(some.within(PacketSet::one(2)).is_empty());
    }
}
