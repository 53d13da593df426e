//! What stands for the instructions of programs on the host: whoever simulates nodes plays them, on the registers that
//! the kernel gave a thread and on the memory that its page table shows.

use alloc::rc::Rc;
use core::cell::RefCell;

use super::{Registers, UserExit};
use crate::addr::UserPage;
use crate::paging::{Access, Mapped, TableHandle};

/// Goes on from a thread's registers until it comes back, as a processor would.
pub type Player = dyn Fn(&mut Registers, &TableHandle) -> UserExit;

std::thread_local! {
    static PLAYER: RefCell<Option<Rc<Player>>> = const { RefCell::new(None) };
}

/// Has all programs of this thread's nodes played by `player` from now on.
pub fn play_with(player: Rc<Player>) {
    PLAYER.set(Some(player));
}

/// Plays a thread. `None`: nobody does.
pub(super) fn play(regs: &mut Registers, table: &TableHandle) -> Option<UserExit> {
    let player = PLAYER.with_borrow(Option::clone)?;
    Some(player(regs, table))
}

/// Touches the page at an address as a program's instruction does: the page if it may be touched so.
///
/// # Errors
/// The fault with which the thread comes back.
pub fn touch(table: &TableHandle, address: u64, access: Access) -> Result<Mapped<'_>, UserExit> {
    let mapped = UserPage::containing(address).and_then(|page| table.look_up(page));
    let present = mapped.as_ref().is_some_and(|mapped| !mapped.access().is_empty());
    mapped.filter(|mapped| mapped.access().contains(access)).ok_or_else(|| {
        let (write, execute) = (access.contains(Access::WRITE), access.contains(Access::EXECUTE));
        UserExit::PageFault { address, write, execute, present }
    })
}

#[cfg(test)]
mod tests {
    use alloc::rc::Rc;

    use super::{play_with, touch};
    use crate::addr::UserPage;
    use crate::frames::{FrameKind, FramePool};
    use crate::paging::{Access, Marks, PageTable};
    use crate::user::{UserExit, UserThread};

    #[test]
    fn a_program_sees_what_its_table_lets_it_see() {
        let pool = FramePool::lazily(64 * 4096);
        let mut table = PageTable::new(pool).expect("memory");
        let page = UserPage::containing(0x40_0000).expect("a user page");
        let frame = pool.alloc(FrameKind::User).expect("memory");
        assert!(table.map(page, frame, Access::READ, Marks::empty()).is_ok());
        let handle = table.handle();
        let mut seen = [1; 4];
        let Ok(mapped) = touch(&handle, 0x40_0ffc, Access::READ) else { panic!("it may be read") };
        mapped.read(0xffc, &mut seen);
        assert_eq!(seen, [0; 4]);
        let fault = |address, access| touch(&handle, address, access).err();
        let expected = UserExit::PageFault { address: 0x40_0008, write: true, execute: false, present: true };
        assert_eq!(fault(0x40_0008, Access::WRITE), Some(expected));
        let expected = UserExit::PageFault { address: 0x40_1000, write: false, execute: true, present: false };
        assert_eq!(fault(0x40_1000, Access::EXECUTE), Some(expected));
        drop(table);
        let expected = UserExit::PageFault { address: 0x40_0000, write: false, execute: false, present: false };
        assert_eq!(fault(0x40_0000, Access::READ), Some(expected));
    }

    #[test]
    fn a_thread_is_played() {
        let table = PageTable::new(FramePool::lazily(64 * 4096)).expect("memory");
        play_with(Rc::new(|regs, _| {
            regs.rip += 2;
            UserExit::Syscall
        }));
        let mut thread = UserThread::new(0x1000, 0x2000);
        assert_eq!((thread.enter(&table.handle()), thread.regs.rip), (UserExit::Syscall, 0x1002));
    }
}
