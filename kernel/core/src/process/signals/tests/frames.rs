//! Frames: where the host's C library expects what, and what comes back from them.

use core::mem::{offset_of, size_of};

use alloc::vec;
use alloc::vec::Vec;

use coppice_hal::user::{Registers, UserThread, extended};
use proptest::prelude::{any, proptest};

use super::super::frame::{self, BadFrame, FRAME_BYTES, Frame, Return};
use super::super::outcome::Delivery;
use super::super::state::{Context, FaultContext};
use super::SIGUSR1;
use crate::abi::signal::{AlternateStack, SignalAction, SignalInfo};
use crate::abi::signal_set::SignalSet;
use crate::abi::{u32_at, u64_at};

const RESTORER: u64 = 0x41_0000;
const CONTEXT_AT: usize = 8;
const REGISTERS_AT: usize = CONTEXT_AT + offset_of!(libc::ucontext_t, uc_mcontext);

fn delivery(flags: u64) -> Delivery {
    let flags = flags | SignalAction::RESTORER | SignalAction::SIGINFO;
    let action = SignalAction { handler: 0x40_0000, flags, restorer: RESTORER, mask: 0 };
    Delivery { info: SignalInfo::user(SIGUSR1, 7, 8), action }
}

fn context() -> Context {
    let fault = FaultContext { vector: 14, error: 6, address: 0x1234 };
    Context { mask: SignalSet(0xf0), stack: AlternateStack { address: 0x9000, flags: 0, bytes: 0x4000 }, fault }
}

/// A thread of which each register says which one it is.
fn thread() -> UserThread {
    let mut thread = UserThread::new(0x40_1111, 0x7000_1238);
    let regs = &mut thread.regs;
    (regs.rax, regs.rbx, regs.rcx, regs.rdx) = (1, 2, 3, 4);
    (regs.rsi, regs.rdi, regs.rbp) = (5, 6, 7);
    (regs.r8, regs.r9, regs.r10, regs.r11, regs.r12, regs.r13, regs.r14, regs.r15) = (8, 9, 10, 11, 12, 13, 14, 15);
    (regs.rflags, regs.fs_base, regs.gs_base) = (0x647, 0x5000, 0x6000);
    thread
}

#[test]
fn a_frame_is_where_and_what_the_host_expects() {
    let mut user = thread();
    let frame = Frame::new(&mut user, &delivery(0), &context()).expect("room");
    let b = &frame.bytes;
    assert_eq!(u64_at(b, 0), RESTORER);
    let general = |register: libc::c_int| u64_at(b, REGISTERS_AT + 8 * register as usize);
    let regs = user.regs;
    for (register, value) in [
        (libc::REG_R8, regs.r8),
        (libc::REG_R15, regs.r15),
        (libc::REG_RDI, regs.rdi),
        (libc::REG_RSI, regs.rsi),
        (libc::REG_RBP, regs.rbp),
        (libc::REG_RBX, regs.rbx),
        (libc::REG_RDX, regs.rdx),
        (libc::REG_RAX, regs.rax),
        (libc::REG_RCX, regs.rcx),
        (libc::REG_RSP, regs.rsp),
        (libc::REG_RIP, regs.rip),
        (libc::REG_EFL, regs.rflags),
        (libc::REG_CSGSFS, 0x002b_0000_0000_0033),
        (libc::REG_ERR, 6),
        (libc::REG_TRAPNO, 14),
        (libc::REG_OLDMASK, 0xf0),
        (libc::REG_CR2, 0x1234),
    ] {
        assert_eq!(general(register), value, "register {register}");
    }
    let stack_at = CONTEXT_AT + offset_of!(libc::ucontext_t, uc_stack);
    assert_eq!(b[stack_at..stack_at + size_of::<libc::stack_t>()], *context().stack.record().bytes());
    assert_eq!(u64_at(b, CONTEXT_AT + offset_of!(libc::ucontext_t, uc_sigmask)), 0xf0);
    let vector_at = REGISTERS_AT + offset_of!(libc::mcontext_t, fpregs);
    assert_eq!(u64_at(b, vector_at), frame.vector_address);
    // The kernel's mask is shorter than the C library's, and what the signal says lies right behind it.
    assert_eq!(FRAME_BYTES - size_of::<libc::siginfo_t>(), CONTEXT_AT + offset_of!(libc::ucontext_t, uc_sigmask) + 8);
    assert_eq!(b[FRAME_BYTES - 128..], *delivery(0).info.record().bytes());
    // Below the red zone, aligned as after a call, the vector registers above.
    assert_eq!((frame.address % 16, frame.vector_address % 64), (8, 0));
    let vector_end = frame.vector_address + frame.vector.len() as u64;
    assert!(vector_end <= regs.rsp - 128 && frame.address + FRAME_BYTES as u64 <= frame.vector_address);
    let software = &frame.vector[464..];
    assert_eq!((u32_at(software, 0), u32_at(software, 4) as usize), (0x4650_5853, frame.vector.len()));
    assert_eq!((u64_at(software, 8), u32_at(software, 16) as usize), (extended::components(), extended::bytes()));
    assert_eq!(u32_at(&frame.vector, extended::bytes()), 0x4650_5845);
    assert_eq!(frame.vector[extended::HEADER_AT] & 3, 3);
}

#[test]
fn a_handler_starts_afresh_and_returns_to_what_was() {
    let mut user = thread();
    let mut area = vec![0; extended::bytes()];
    user.save_vector(&mut area);
    area[extended::HEADER_AT] = 7;
    area[160..].iter_mut().take(256).for_each(|byte| *byte = 0x5a);
    area[extended::LEGACY_BYTES..].fill(0xa5);
    assert_eq!(user.load_vector(&area), Ok(()));
    let before = user.regs;
    let frame = Frame::new(&mut user, &delivery(0), &context()).expect("room");
    frame::enter(&mut user, &delivery(0), frame.address);
    let regs = user.regs;
    assert_eq!((regs.rip, regs.rsp, regs.rdi, regs.rax), (0x40_0000, frame.address, SIGUSR1.into(), 0));
    assert_eq!((regs.rsi, regs.rdx), (frame.address + 8 + 304, frame.address + 8));
    assert_eq!((regs.rflags, regs.rbx, regs.fs_base), (0x247, 2, 0x5000), "no direction, the rest as it was");
    let mut new = vec![0; extended::bytes()];
    user.save_vector(&mut new);
    assert_eq!((new[extended::HEADER_AT], u32_at(&new, 24)), (0, 0x1f80));
    user.regs.rflags = 0x202;
    let back = Return::parse(&frame.bytes, &user.regs).expect("a frame");
    assert_eq!((back.mask, back.stack, back.vector_address), (context().mask, context().stack, frame.vector_address));
    let legacy = frame.vector.first_chunk().expect("the legacy part");
    assert_eq!(frame::vector_bytes(legacy), frame.vector.len());
    assert_eq!(frame::restore_vector(&mut user, &frame.vector), Ok(()));
    back.restore(&mut user);
    assert_eq!(user.regs, Registers { rflags: 0x202 & !0xdd5 | 0x647 & 0xdd5, ..before });
    let mut restored = vec![0; extended::bytes()];
    user.save_vector(&mut restored);
    assert_eq!(
        (&restored[160..416], &restored[extended::LEGACY_BYTES..]),
        (&area[160..416], &area[extended::LEGACY_BYTES..])
    );
}

#[test]
fn forged_frames_gain_nothing() {
    let mut user = thread();
    let frame = Frame::new(&mut user, &delivery(0), &context()).expect("room");
    let forge = |at: usize, bytes: &[u8]| {
        let mut forged = frame.bytes;
        forged[at..at + bytes.len()].copy_from_slice(bytes);
        Return::parse(&forged, &user.regs)
    };
    let segments = REGISTERS_AT + 8 * libc::REG_CSGSFS as usize;
    assert_eq!(forge(segments, &[0x10]).err(), Some(BadFrame), "the kernel's code segment");
    assert_eq!(forge(segments, &[0x23]).err(), Some(BadFrame), "a code segment of 32 bits");
    assert_eq!(forge(segments + 6, &[0x18]).err(), Some(BadFrame), "another stack segment");
    assert!(forge(segments + 6, &[0x28]).is_ok(), "the same without a level");
    let vector_at = REGISTERS_AT + offset_of!(libc::mcontext_t, fpregs);
    assert_eq!(forge(vector_at, &[8]).err(), Some(BadFrame), "not aligned");
    let flags = forge(REGISTERS_AT + 8 * libc::REG_EFL as usize, &[0xff; 8]).expect("a frame");
    let mut other = thread();
    flags.restore(&mut other);
    assert_eq!(other.regs.rflags, 0x647 | 0x5_0dd5, "neither level nor interrupts nor what is reserved");
    let mask = forge(CONTEXT_AT + offset_of!(libc::ucontext_t, uc_sigmask), &[0xff; 8]).expect("a frame");
    assert_eq!(mask.mask, SignalSet(u64::MAX).blockable());
}

#[test]
fn forged_vector_registers_are_refused_or_reset() {
    let mut user = thread();
    let good = Frame::new(&mut user, &delivery(0), &context()).expect("room").vector;
    let forge = |at: usize, byte: u8| -> Vec<u8> {
        let mut forged = good.clone();
        forged[at] = byte;
        forged
    };
    for (at, byte) in [(extended::HEADER_AT + 1, 1), (extended::HEADER_AT + 15, 0x80), (27, 1)] {
        assert_eq!(frame::restore_vector(&mut user, &forge(at, byte)), Err(BadFrame), "byte {at}");
    }
    // Without the marks there are x87 and SSE only.
    let unmarked = forge(464, 0);
    assert_eq!(frame::vector_bytes(unmarked.first_chunk().expect("long enough")), 512);
    assert_eq!(frame::restore_vector(&mut user, &forge(extended::bytes(), 0)), Ok(()));
    let mut area = vec![0; extended::bytes()];
    user.save_vector(&mut area);
    assert_eq!(area[extended::HEADER_AT], 3);
    assert_eq!(frame::restore_vector(&mut user, &good[..100]), Err(BadFrame));
}

#[test]
fn alternate_stacks_are_used_once_and_not_overflowed() {
    let address = |stack_pointer: u64, flags: u64, stack: AlternateStack| {
        let mut user = UserThread::new(0, stack_pointer);
        let frame = Frame::new(&mut user, &delivery(flags), &Context { stack, ..context() });
        frame.map(|frame| frame.address)
    };
    let stack = AlternateStack { address: 0x10_0000, flags: 0, bytes: 0x4000 };
    let ordinary = address(0x7000_0000, 0, stack).expect("room");
    assert!((0x6fff_e000..0x7000_0000).contains(&ordinary));
    assert_eq!(address(0x7000_0000, SignalAction::ONSTACK, AlternateStack::NONE), Ok(ordinary));
    let on_it = address(0x7000_0000, SignalAction::ONSTACK, stack).expect("room");
    assert!((0x10_2000..0x10_4000).contains(&on_it));
    // One that is on it goes on there; one whose stack disarms itself is never known to be.
    let further = address(on_it, SignalAction::ONSTACK, stack).expect("room");
    assert!(further < on_it);
    let disarming = AlternateStack { flags: AlternateStack::AUTODISARM, ..stack };
    assert_eq!(address(on_it, SignalAction::ONSTACK, disarming), Ok(on_it));
    // There is not always room.
    assert_eq!(address(0x10_0400, SignalAction::ONSTACK, stack), Err(BadFrame));
    assert_eq!(address(0x10_0400, 0, stack), Err(BadFrame));
    assert_eq!(address(0x7000_0000, SignalAction::ONSTACK, AlternateStack { bytes: 0x400, ..stack }), Err(BadFrame));
    let no_restorer = Delivery { action: SignalAction { flags: 0, ..delivery(0).action }, ..delivery(0) };
    assert!(Frame::new(&mut thread(), &no_restorer, &context()).is_err());
}

proptest! {
    #[test]
    fn no_frame_panics_or_gives_flags_away(
        bytes in proptest::collection::vec(any::<u8>(), FRAME_BYTES),
        stack in any::<u64>(),
    ) {
        let user = thread();
        let frame = bytes.first_chunk().expect("as many");
        if let Ok(back) = Return::parse(frame, &user.regs) {
            let mut other = thread();
            back.restore(&mut other);
            assert_eq!(other.regs.rflags & !0x5_0dd5, user.regs.rflags & !0x5_0dd5);
            assert_eq!((other.regs.fs_base, other.regs.gs_base), (user.regs.fs_base, user.regs.gs_base));
        }
        let _ = frame::restore_vector(&mut thread(), &bytes);
        let _ = Frame::new(&mut UserThread::new(0, stack), &delivery(SignalAction::ONSTACK), &context());
    }
}
