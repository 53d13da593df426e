//! What futex(2) takes.

/// `FUTEX_*` that are alternatives.
pub(crate) mod command {
    pub(crate) const WAIT: u32 = 0;
    pub(crate) const WAKE: u32 = 1;
    pub(crate) const REQUEUE: u32 = 3;
    pub(crate) const CMP_REQUEUE: u32 = 4;
    pub(crate) const WAKE_OP: u32 = 5;
    pub(crate) const LOCK_PI: u32 = 6;
    pub(crate) const UNLOCK_PI: u32 = 7;
    pub(crate) const TRYLOCK_PI: u32 = 8;
    pub(crate) const WAIT_BITSET: u32 = 9;
    pub(crate) const WAKE_BITSET: u32 = 10;
    pub(crate) const LOCK_PI2: u32 = 13;
}

/// `FUTEX_*` that go with them.
pub(crate) mod flag {
    pub(crate) const PRIVATE: u32 = 128;
    pub(crate) const REAL_TIME: u32 = 256;
}

/// What a word says that is a lock, as far as the kernel changes it when its owner ends.
pub(crate) mod owner {
    /// Somebody sleeps there.
    pub(crate) const WAITERS: u32 = 0x8000_0000;
    /// Its owner has ended.
    pub(crate) const DIED: u32 = 0x4000_0000;
    /// The thread that has it.
    pub(crate) const THREAD: u32 = 0x3fff_ffff;
}

/// What `FUTEX_WAKE_OP` does with the second word, and what it is to have been. `None`: Linux has no such thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) operation: Option<Operation>,
    pub(crate) comparison: Option<Comparison>,
}

/// A change of a word, with its argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Set(u32),
    Add(u32),
    Or(u32),
    AndNot(u32),
    Xor(u32),
}

/// A comparison of a word, as a signed number, with another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal(i32),
    NotEqual(i32),
    Less(i32),
    LessOrEqual(i32),
    Greater(i32),
    GreaterOrEqual(i32),
}

impl Change {
    /// From the call's last argument.
    pub(crate) fn parse(encoded: u32) -> Self {
        /// The argument is the number of a bit.
        const SHIFT: u32 = 8;
        // Signed numbers of 12 bits.
        let number = |at: u32| (encoded << (20 - at)).cast_signed() >> 20;
        let (mut argument, compared) = (number(12).cast_unsigned(), number(0));
        let code = encoded >> 28;
        if code & SHIFT != 0 {
            argument = 1 << (argument & 31);
        }
        let operation = match code & !SHIFT {
            0 => Some(Operation::Set(argument)),
            1 => Some(Operation::Add(argument)),
            2 => Some(Operation::Or(argument)),
            3 => Some(Operation::AndNot(argument)),
            4 => Some(Operation::Xor(argument)),
            _ => None,
        };
        let comparison = match encoded >> 24 & 0xf {
            0 => Some(Comparison::Equal(compared)),
            1 => Some(Comparison::NotEqual(compared)),
            2 => Some(Comparison::Less(compared)),
            3 => Some(Comparison::LessOrEqual(compared)),
            4 => Some(Comparison::Greater(compared)),
            5 => Some(Comparison::GreaterOrEqual(compared)),
            _ => None,
        };
        Self { operation, comparison }
    }
}

impl Operation {
    /// What the word is then.
    pub(crate) fn apply(self, word: u32) -> u32 {
        match self {
            Self::Set(argument) => argument,
            Self::Add(argument) => word.wrapping_add(argument),
            Self::Or(argument) => word | argument,
            Self::AndNot(argument) => word & !argument,
            Self::Xor(argument) => word ^ argument,
        }
    }
}

impl Comparison {
    /// Whether the word was like that.
    pub(crate) fn holds(self, word: u32) -> bool {
        let word = word.cast_signed();
        match self {
            Self::Equal(other) => word == other,
            Self::NotEqual(other) => word != other,
            Self::Less(other) => word < other,
            Self::LessOrEqual(other) => word <= other,
            Self::Greater(other) => word > other,
            Self::GreaterOrEqual(other) => word >= other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Change, Comparison, Operation};

    /// As `FUTEX_OP` of Linux's headers does it.
    fn encode(operation: u32, argument: u32, comparison: u32, compared: u32) -> u32 {
        (operation & 0xf) << 28 | (comparison & 0xf) << 24 | (argument & 0xfff) << 12 | compared & 0xfff
    }

    #[test]
    fn all_changes_are_linuxs() {
        let parsed = |operation, argument| Change::parse(encode(operation, argument, 0, 0)).operation;
        let after = |operation, argument| parsed(operation, argument).map(|operation| operation.apply(6));
        assert_eq!([0, 1, 2, 3, 4].map(|code| after(code, 3)), [Some(3), Some(9), Some(7), Some(4), Some(5)]);
        assert_eq!(after(1, 0xfff), Some(5), "arguments are signed");
        assert_eq!([8, 9, 10, 11, 12].map(|code| after(code, 1)), [Some(2), Some(8), Some(6), Some(4), Some(4)]);
        assert_eq!(after(8, 33), Some(2), "bits are counted as Linux does");
        assert_eq!([5, 6, 7, 15].map(|code| after(code, 1)), [None; 4]);
    }

    #[test]
    fn all_comparisons_are_linuxs() {
        let holds = |comparison, compared, word: i32| {
            let parsed = Change::parse(encode(0, 0, comparison, compared)).comparison;
            parsed.map(|comparison| comparison.holds(word.cast_unsigned()))
        };
        for (code, expected) in [
            (0, [false, true, false]),
            (1, [true, false, true]),
            (2, [true, false, false]),
            (3, [true, true, false]),
            (4, [false, false, true]),
            (5, [false, true, true]),
        ] {
            assert_eq!([4, 5, 6].map(|word| holds(code, 5, word)), expected.map(Some), "{code}");
        }
        assert_eq!(holds(2, 0, -1), Some(true), "words are signed");
        assert_eq!(holds(0, 0xfff, -1), Some(true), "so is what they are compared with");
        assert_eq!(holds(6, 0, 0), None);
        let change = Change::parse(0);
        assert_eq!((change.operation, change.comparison), (Some(Operation::Set(0)), Some(Comparison::Equal(0))));
    }
}
