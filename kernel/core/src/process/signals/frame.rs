//! The frame that a handler finds on its stack, as Linux has it on x86-64 (`struct rt_sigframe`): where it returns to,
//! the thread's registers and mask (`ucontext_t`), what the signal says, and the vector registers. When the handler
//! returns, rt_sigreturn(2) makes the thread what the frame then says.
//!
//! The vector registers are in the processor's standard format, behind 128 bytes that belong to the function that was
//! interrupted; what a program needs to know of their format is in the 48 bytes there that the processor leaves alone.
//!
//! Nothing can be gained by a forged frame: it is made of registers that a program could set anyway. Segments are not
//! taken from it, and of the flags only those that a program may have.

use alloc::vec;
use alloc::vec::Vec;

use coppice_hal::user::{Registers, UserThread, extended};

use super::outcome::Delivery;
use super::state::Context;
use crate::abi::signal::{AlternateStack, SIGINFO_BYTES, STACK_BYTES, SignalAction};
use crate::abi::signal_set::SignalSet;
use crate::abi::{Record, u16_at, u32_at, u64_at};

/// Length of the frame without the vector registers, bytes.
pub(crate) const FRAME_BYTES: usize = INFO_AT + SIGINFO_BYTES;

/// Where `ucontext_t` is in the frame: behind the address that the handler returns to.
const CONTEXT_AT: usize = 8;
/// Where the thread's alternate stack is.
const STACK_AT: usize = CONTEXT_AT + 16;
/// Where the registers are (`struct sigcontext`).
const REGISTERS_AT: usize = STACK_AT + STACK_BYTES;
/// Where the mask is.
const MASK_AT: usize = REGISTERS_AT + 256;
/// Where `siginfo_t` is.
const INFO_AT: usize = MASK_AT + 8;

/// Where in `struct sigcontext` the code segment is, and the segments with it.
const SEGMENTS_AT: usize = REGISTERS_AT + 144;
/// Where the stack segment is.
const STACK_SEGMENT_AT: usize = REGISTERS_AT + 150;
/// Where the address of the vector registers is.
const VECTOR_ADDRESS_AT: usize = REGISTERS_AT + 184;

/// Segments as programs know them from Linux; what the kernel really uses is nobody's business.
const LINUX_CODE: u16 = 0x33;
const LINUX_DATA: u16 = 0x2b;

/// `UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS`: what there is in the context.
const CONTEXT_FLAGS: u64 = 7;

/// `UC_STRICT_RESTORE_SS`: the stack segment is meant.
const STRICT_STACK_SEGMENT: u64 = 4;

/// Says that the vector registers are more than x87 and SSE; and where they end.
const MAGIC: u32 = 0x4650_5853;
const END_MAGIC: u32 = 0x4650_5845;

/// Length of [`END_MAGIC`], bytes.
const END_BYTES: usize = 4;

/// What the interrupted function may use below its stack pointer, bytes.
const RED_ZONE_BYTES: u64 = 128;

/// Flags that a frame may change: CF, PF, AF, ZF, SF, TF, DF, OF, RF, AC.
const FLAGS: u64 = 0x0005_0dd5;

/// Flags that are off when a handler starts: TF, DF, RF.
const FLAGS_OFF: u64 = 0x0001_0500;

/// A frame, and where it goes.
pub(crate) struct Frame {
    /// Where the frame goes: the handler's stack pointer.
    pub(crate) address: u64,
    /// The frame.
    pub(crate) bytes: [u8; FRAME_BYTES],
    /// Where the vector registers go.
    pub(crate) vector_address: u64,
    /// The vector registers.
    pub(crate) vector: Vec<u8>,
}

/// A frame that no handler can return through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadFrame;

/// The registers' places in `struct sigcontext`, in its order.
fn in_order(regs: &mut Registers) -> [&mut u64; 17] {
    let Registers { rax, rbx, rcx, rdx, rsi, rdi, rbp, rsp, .. } = regs;
    let (r8, r9, r10, r11, r12) = (&mut regs.r8, &mut regs.r9, &mut regs.r10, &mut regs.r11, &mut regs.r12);
    let (r13, r14, r15, rip) = (&mut regs.r13, &mut regs.r14, &mut regs.r15, &mut regs.rip);
    [r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip]
}

/// Where the flags are.
const FLAGS_AT: usize = REGISTERS_AT + 17 * 8;

/// What a handler's stack has to be for its frame, and where on it the frame is.
struct Place {
    frame: u64,
    vector: u64,
}

/// Where the frame goes, with `vector_bytes` of vector registers above it.
///
/// # Errors
/// The alternate stack is too small, or the stack wraps around.
fn place(
    stack_pointer: u64,
    action: &SignalAction,
    stack: &AlternateStack,
    vector_bytes: usize,
) -> Result<Place, BadFrame> {
    let mut top = stack_pointer.wrapping_sub(RED_ZONE_BYTES);
    let was_on_it = stack.is_used(stack_pointer);
    let enters = action.flags & SignalAction::ONSTACK != 0 && stack.bytes > 0 && !stack.is_used(top);
    if enters {
        top = stack.address.wrapping_add(stack.bytes);
    }
    let vector = top.checked_sub(vector_bytes as u64).ok_or(BadFrame)? & !63;
    // As after a call: the stack pointer is 8 below what 16 divide.
    let frame = (vector.checked_sub(FRAME_BYTES as u64).ok_or(BadFrame)? & !15).checked_sub(8).ok_or(BadFrame)?;
    if (enters || was_on_it) && !stack.holds(frame) { Err(BadFrame) } else { Ok(Place { frame, vector }) }
}

impl Frame {
    /// The frame of a handler.
    ///
    /// # Errors
    /// There is no room for it where it has to go, or the handler could not return.
    pub(crate) fn new(user: &mut UserThread, delivery: &Delivery, context: &Context) -> Result<Self, BadFrame> {
        if delivery.action.flags & SignalAction::RESTORER == 0 {
            return Err(BadFrame);
        }
        let mut vector = vec![0; extended::bytes() + END_BYTES];
        let place = place(user.regs.rsp, &delivery.action, &context.stack, vector.len())?;
        user.save_vector(&mut vector);
        describe(&mut vector);
        let mut regs = user.regs;
        let mut frame = Record::<FRAME_BYTES>::new()
            .u64(0, delivery.action.restorer)
            .u64(CONTEXT_AT, CONTEXT_FLAGS)
            .raw(STACK_AT, context.stack.record().bytes())
            .u64(FLAGS_AT, regs.rflags)
            .u16(SEGMENTS_AT, LINUX_CODE)
            .u16(STACK_SEGMENT_AT, LINUX_DATA)
            .u64(SEGMENTS_AT + 8, context.fault.error)
            .u64(SEGMENTS_AT + 16, context.fault.vector)
            .u64(SEGMENTS_AT + 24, context.mask.0)
            .u64(SEGMENTS_AT + 32, context.fault.address)
            .u64(VECTOR_ADDRESS_AT, place.vector)
            .u64(MASK_AT, context.mask.0);
        for (index, register) in in_order(&mut regs).into_iter().enumerate() {
            frame = frame.u64(REGISTERS_AT + 8 * index, *register);
        }
        if delivery.action.flags & SignalAction::SIGINFO != 0 {
            frame = frame.raw(INFO_AT, delivery.info.record().bytes());
        }
        Ok(Self { address: place.frame, bytes: frame.into_bytes(), vector_address: place.vector, vector })
    }
}

/// Puts behind the x87 and SSE registers what there is, and notes the end.
fn describe(vector: &mut [u8]) {
    let bytes = vector.len() - END_BYTES;
    let described = Record::<48>::new()
        .u32(0, MAGIC)
        .u32(4, vector.len() as u32)
        .u64(8, extended::components())
        .u32(16, bytes as u32);
    vector[extended::SOFTWARE_BYTES_AT..][..48].copy_from_slice(described.bytes());
    // So that a handler that knows of nothing else can change the x87 and SSE registers.
    vector[extended::HEADER_AT] |= extended::LEGACY_COMPONENTS as u8;
    vector[bytes..].copy_from_slice(&END_MAGIC.to_le_bytes());
}

/// The thread goes on in a handler with this frame.
pub(crate) fn enter(user: &mut UserThread, delivery: &Delivery, frame: u64) {
    user.reset_vector();
    let regs = &mut user.regs;
    (regs.rdi, regs.rsi, regs.rdx) = (delivery.info.signal.into(), frame + INFO_AT as u64, frame + CONTEXT_AT as u64);
    (regs.rax, regs.rsp, regs.rip) = (0, frame, delivery.action.handler);
    regs.rflags &= !FLAGS_OFF;
    user.restore_all();
}

/// What a frame says the thread was before its handler ran.
pub(crate) struct Return {
    regs: Registers,
    /// Blocked signals.
    pub(crate) mask: SignalSet,
    /// The alternate stack.
    pub(crate) stack: AlternateStack,
    /// Where the vector registers are; 0: they are to be reset.
    pub(crate) vector_address: u64,
}

impl Return {
    /// From the frame of a thread that has these registers now.
    ///
    /// # Errors
    /// It asks for segments that programs cannot have here, or its vector registers are where they cannot be.
    pub(crate) fn parse(bytes: &[u8; FRAME_BYTES], now: &Registers) -> Result<Self, BadFrame> {
        let mut regs = *now;
        for (index, register) in in_order(&mut regs).into_iter().enumerate() {
            *register = u64_at(bytes, REGISTERS_AT + 8 * index);
        }
        regs.rflags = now.rflags & !FLAGS | u64_at(bytes, FLAGS_AT) & FLAGS;
        let code = u16_at(bytes, SEGMENTS_AT) | 3;
        let means_stack = u64_at(bytes, CONTEXT_AT) & STRICT_STACK_SEGMENT != 0;
        let stack_segment = u16_at(bytes, STACK_SEGMENT_AT) | 3;
        let vector_address = u64_at(bytes, VECTOR_ADDRESS_AT);
        if code != LINUX_CODE || means_stack && stack_segment != LINUX_DATA || !vector_address.is_multiple_of(64) {
            return Err(BadFrame);
        }
        let mut stack = [0; STACK_BYTES];
        stack.copy_from_slice(&bytes[STACK_AT..STACK_AT + STACK_BYTES]);
        let mask = SignalSet(u64_at(bytes, MASK_AT)).blockable();
        Ok(Self { regs, mask, stack: AlternateStack::parse(&stack), vector_address })
    }

    /// Makes the thread what the frame says, but for the vector registers.
    pub(crate) fn restore(&self, user: &mut UserThread) {
        user.regs = self.regs;
        user.restore_all();
    }
}

/// How much there is of a frame's vector registers, judging by the part that is always there: [`extended::bytes`] and
/// the mark of the end, or that part alone.
pub(crate) fn vector_bytes(legacy: &[u8; extended::LEGACY_BYTES]) -> usize {
    let software = &legacy[extended::SOFTWARE_BYTES_AT..];
    let (extended_bytes, bytes) = (u32_at(software, 4) as usize, u32_at(software, 16) as usize);
    let is_whole = u32_at(software, 0) == MAGIC && bytes == extended::bytes() && bytes <= extended_bytes;
    if is_whole { bytes + END_BYTES } else { LEGACY_ONLY }
}

/// See [`vector_bytes`]: x87 and SSE.
pub(crate) const LEGACY_ONLY: usize = 512;

/// Gives the thread the vector registers of a frame: what [`vector_bytes`] said there is.
///
/// # Errors
/// The processor cannot have them.
pub(crate) fn restore_vector(user: &mut UserThread, frame: &[u8]) -> Result<(), BadFrame> {
    let bytes = extended::bytes();
    let mut area = vec![0; bytes];
    let ends = frame.len() == bytes + END_BYTES && u32_at(frame, bytes) == END_MAGIC;
    if ends {
        area.copy_from_slice(&frame[..bytes]);
        let wanted = u64_at(frame, extended::SOFTWARE_BYTES_AT + 8) & extended::components();
        let header = &mut area[extended::HEADER_AT..];
        let present = u64_at(header, 0);
        // Components that nobody has are a mistake; those that the program does not want are reset.
        let kept = if present & !extended::components() == 0 { present & wanted } else { present };
        header[..8].copy_from_slice(&kept.to_le_bytes());
    } else {
        area[..LEGACY_ONLY].copy_from_slice(frame.get(..LEGACY_ONLY).ok_or(BadFrame)?);
        area[extended::HEADER_AT] = extended::LEGACY_COMPONENTS as u8;
    }
    user.load_vector(&area).map_err(|_| BadFrame)
}
