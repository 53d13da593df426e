//! Addresses a program can name. A [`UserPage`] was checked once and lies below [`USER_END`]; nothing that takes one
//! can reach the kernel's half of the address space.

use core::fmt;

/// Bytes in a page and in the frame that holds it.
pub const PAGE_BYTES: usize = 4096;

/// Bytes a large frame has: what one entry of a second-level table can map.
pub const LARGE_BYTES: usize = 2 * 1024 * 1024;

/// First address that no program can have: the canonical lower half less one guard page, as on Linux.
pub const USER_END: u64 = 0x0000_7fff_ffff_f000;

/// `log2` of [`PAGE_BYTES`].
const PAGE_SHIFT: u32 = PAGE_BYTES.trailing_zeros();

/// A page of a program's address space.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserPage(u64);

impl UserPage {
    /// The page at address 0.
    pub const FIRST: Self = Self(0);

    /// The page `address` lies in; `None` at or beyond [`USER_END`].
    #[must_use]
    pub const fn containing(address: u64) -> Option<Self> {
        if address < USER_END { Some(Self(address >> PAGE_SHIFT)) } else { None }
    }

    /// Address of the page's first byte.
    #[must_use]
    pub const fn address(self) -> u64 {
        self.0 << PAGE_SHIFT
    }

    /// The page counted from address 0.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }

    /// The page `count` pages on; `None` if that is beyond the user's half.
    #[must_use]
    pub const fn plus(self, count: u64) -> Option<Self> {
        match self.0.checked_add(count) {
            Some(number) if number < USER_END >> PAGE_SHIFT => Some(Self(number)),
            _ => None,
        }
    }
}

impl fmt::Debug for UserPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UserPage({:#x})", self.address())
    }
}

/// A run of user pages, possibly empty.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PageRange {
    /// Number of the first page.
    start: u64,
    /// Number of the page behind the last.
    end: u64,
}

impl PageRange {
    /// No page.
    pub const EMPTY: Self = Self { start: 0, end: 0 };

    /// Every page a program can have.
    pub const ALL: Self = Self { start: 0, end: USER_END >> PAGE_SHIFT };

    /// The pages that hold the bytes `start..end`; `None` if the range is backwards or passes [`USER_END`].
    #[must_use]
    pub const fn covering(start: u64, end: u64) -> Option<Self> {
        if start > end || end > USER_END {
            return None;
        }
        Some(Self { start: start >> PAGE_SHIFT, end: end.div_ceil(PAGE_BYTES as u64) })
    }

    /// Whether there is no page in it.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.start >= self.end
    }

    /// Number of pages.
    #[must_use]
    pub const fn count(self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Number of the first page.
    #[must_use]
    pub const fn first_number(self) -> u64 {
        self.start
    }

    /// Number of the page behind the last one.
    #[must_use]
    pub const fn end_number(self) -> u64 {
        self.end
    }

    /// Whether a page is in it.
    #[must_use]
    pub const fn contains(self, page: UserPage) -> bool {
        self.start <= page.0 && page.0 < self.end
    }

    /// What of the range comes before a page.
    #[must_use]
    pub fn up_to(self, page: UserPage) -> Self {
        Self { start: self.start, end: self.end.min(page.0).max(self.start) }
    }

    /// What of the range comes behind a page.
    #[must_use]
    pub fn after(self, page: UserPage) -> Self {
        Self { start: self.start.max(page.0 + 1).min(self.end), end: self.end }
    }

    /// The pages numbered so, the last left out.
    pub(crate) const fn of_numbers(start: u64, end: u64) -> Self {
        Self { start, end }
    }

    /// The pages one by one.
    pub fn pages(self) -> impl Iterator<Item = UserPage> {
        (self.start..self.end).map(UserPage)
    }
}

impl fmt::Debug for PageRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageRange({:#x}..{:#x})", self.start << PAGE_SHIFT, self.end << PAGE_SHIFT)
    }
}

#[cfg(test)]
mod tests {
    use super::{PageRange, USER_END, UserPage};

    #[test]
    fn kernel_addresses_are_no_user_pages() {
        assert!(UserPage::containing(USER_END).is_none());
        assert!(UserPage::containing(0xffff_8000_0000_0000).is_none());
        let last = UserPage::containing(USER_END - 1).expect("below the end");
        assert_eq!(last.address(), USER_END - 4096);
        assert!(last.plus(1).is_none());
        assert!(last.plus(u64::MAX).is_none());
    }

    #[test]
    fn ranges_cover_partial_pages() {
        let range = PageRange::covering(0x1fff, 0x3001).expect("in the user half");
        assert_eq!((range.first_number(), range.end_number(), range.count()), (1, 4, 3));
        assert!(PageRange::covering(0x2000, 0x2000).is_some_and(PageRange::is_empty));
        assert!(PageRange::covering(0x2000, 0x1000).is_none());
        assert!(PageRange::covering(0, USER_END + 1).is_none());
    }
}
