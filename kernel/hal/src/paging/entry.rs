//! The bits of an entry, in the hardware's layout.

use bitflags::bitflags;

bitflags! {
    /// What a program may do with a page.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Access: u8 {
        /// Read. The processor grants it with any of the others.
        const READ = 1;
        /// Write.
        const WRITE = 2;
        /// Fetch instructions.
        const EXECUTE = 4;
    }
}

impl Access {
    /// What is left of these rights where the kernel must see each first write: all but writing. Reading stays, even of
    /// what may only be written, because the processor grants it with writing.
    #[must_use]
    pub const fn read_only(self) -> Self {
        match self.is_empty() {
            true => self,
            false => self.difference(Self::WRITE).union(Self::READ),
        }
    }
}

bitflags! {
    /// What the kernel notes about a page in its entry.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Marks: u8 {
        /// The frame holds what the program's file says and was never writable since.
        const PRISTINE = 1;
        /// A write must go to a copy of the frame.
        const COPY_ON_WRITE = 2;
        /// The frame came from a file.
        const FILE = 4;
    }
}

/// The processor may use the entry.
const PRESENT: u64 = 1 << 0;
/// Writes are allowed.
const WRITABLE: u64 = 1 << 1;
/// Programs may use it.
const USER: u64 = 1 << 2;
/// The processor used it.
const ACCESSED: u64 = 1 << 5;
/// The processor wrote through it.
const DIRTY: u64 = 1 << 6;
/// First of the three bits that hold [`Marks`].
const MARKS_SHIFT: u32 = 9;
/// The three bits.
const MARKS: u64 = 0b111 << MARKS_SHIFT;
/// The entry holds a frame, even if it is not present.
const HELD: u64 = 1 << 52;
/// What lies at this address was neither written nor replaced since the last snapshot. Never together with
/// [`WRITABLE`], so that the kernel comes to know of the first write.
const UNCHANGED: u64 = 1 << 53;
/// No instruction may be fetched.
const NO_EXECUTE: u64 = 1 << 63;
/// The physical address.
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

/// Flags of an entry that points to a table: everything is allowed there and decided at the page's own entry.
pub(super) const PARENT: u64 = PRESENT | WRITABLE | USER;

/// What an entry of the table says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What the processor lets the program do.
    pub access: Access,
    /// What the kernel noted.
    pub marks: Marks,
    /// Whether the page was used since the bit was last cleared.
    pub accessed: bool,
    /// Whether the page was written since the bit was last cleared.
    pub dirty: bool,
    /// Whether what lies at this address was neither written nor replaced since the last snapshot
    /// ([`super::PageTable::snapshot`]). Where it is not known, it is not said.
    pub unchanged: bool,
}

/// An entry as it lies in memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Raw(pub(super) u64);

impl Raw {
    /// Entry of a page.
    pub(super) fn page(address: u64, access: Access, marks: Marks) -> Self {
        Self(address | HELD).with(access, marks)
    }

    /// The same frame, with other rights and marks. Accessed and dirty stay; that it is unchanged is not said any more.
    pub(super) fn with(self, access: Access, marks: Marks) -> Self {
        let marks = Self::marked(marks);
        Self(self.0 & (ADDRESS | HELD | ACCESSED | DIRTY) | marks | Self::rights(access))
    }

    /// The bits that say what the program may do.
    pub(super) const RIGHTS: u64 = PRESENT | USER | WRITABLE | NO_EXECUTE;

    /// The bits that let the program do this.
    pub(super) fn rights(access: Access) -> u64 {
        let mut bits = 0;
        if !access.is_empty() {
            bits |= PRESENT | USER;
        }
        if access.contains(Access::WRITE) {
            bits |= WRITABLE;
        }
        if !access.contains(Access::EXECUTE) {
            bits |= NO_EXECUTE;
        }
        bits
    }

    /// Whether a processor that still goes by this entry may do something with the same frame that the other forbids.
    pub(super) fn loses(self, other: Self) -> bool {
        self.is_present() && !other.access().contains(self.access())
    }

    /// The same frame and marks, with rights from [`Raw::rights`]. That it is unchanged is not said any more.
    pub(super) fn with_rights(self, rights: u64) -> Self {
        Self(self.0 & (ADDRESS | HELD | ACCESSED | DIRTY | MARKS) | rights)
    }

    /// The bits of these marks.
    pub(super) fn marked(marks: Marks) -> u64 {
        u64::from(marks.bits()) << MARKS_SHIFT
    }

    /// The same frame and marks, and whether it is unchanged, which no processor may use.
    #[inline]
    pub(super) fn held_only(self) -> Self {
        Self(self.0 & (ADDRESS | HELD | MARKS | UNCHANGED))
    }

    /// The same, of which the next write goes to a copy, with one of [`Raw::unchanged_if`].
    #[inline]
    pub(super) fn to_be_copied(self, unchanged: u64) -> Self {
        Self(self.0 & !(WRITABLE | UNCHANGED) | Self::marked(Marks::COPY_ON_WRITE) | unchanged)
    }

    /// The bits that say of an entry that is not writable that it is unchanged, or none.
    pub(super) fn unchanged_if(unchanged: bool) -> u64 {
        if unchanged { UNCHANGED } else { 0 }
    }

    /// The same of another frame.
    pub(super) fn in_frame(self, address: u64) -> Self {
        Self(self.0 & !ADDRESS | address)
    }

    /// The same at another address, where it is new.
    pub(super) fn moved(self) -> Self {
        Self(self.0 & !UNCHANGED)
    }

    /// Holds nothing.
    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether it holds a frame and has none of these bits of marks.
    #[inline]
    pub(super) fn holds_without(self, marks: u64) -> bool {
        self.0 & (HELD | marks) == HELD
    }

    /// The number of the frame: of its address in pages.
    #[inline]
    pub(super) fn frame_number(self) -> u64 {
        (self.0 & ADDRESS) >> ADDRESS.trailing_zeros()
    }

    /// The processor may have it in its memory of translations.
    #[inline]
    pub(super) fn is_present(self) -> bool {
        self.0 & PRESENT != 0
    }

    /// Physical address of the frame or table.
    #[inline]
    pub(super) fn address(self) -> u64 {
        self.0 & ADDRESS
    }

    /// What the processor lets the program do.
    #[inline]
    pub(super) fn access(self) -> Access {
        if !self.is_present() {
            return Access::empty();
        }
        let mut access = Access::READ;
        access.set(Access::WRITE, self.0 & WRITABLE != 0);
        access.set(Access::EXECUTE, self.0 & NO_EXECUTE == 0);
        access
    }

    /// The kernel's notes.
    pub(super) fn marks(self) -> Marks {
        Marks::from_bits_truncate(((self.0 & MARKS) >> MARKS_SHIFT) as u8)
    }

    /// The same, and the page was used and written.
    pub(super) fn written(self) -> Self {
        Self(self.0 & !UNCHANGED | ACCESSED | DIRTY)
    }

    /// Whether it says so already.
    #[inline]
    pub(super) fn is_written(self) -> bool {
        self.0 & (UNCHANGED | ACCESSED | DIRTY) == ACCESSED | DIRTY
    }

    /// The same without "was written".
    pub(super) fn clean(self) -> Self {
        Self(self.0 & !DIRTY)
    }

    /// All of it.
    pub(super) fn decode(self) -> Entry {
        debug_assert!(
            self.0 & (WRITABLE | UNCHANGED) != WRITABLE | UNCHANGED,
            "what a processor may write at any time is not known to be unchanged"
        );
        Entry {
            access: self.access(),
            marks: self.marks(),
            accessed: self.0 & ACCESSED != 0,
            dirty: self.0 & DIRTY != 0,
            unchanged: self.0 & UNCHANGED != 0,
        }
    }
}
