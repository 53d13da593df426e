//! The registers of a thread as gdb has them: the order and names of its target features `org.gnu.gdb.i386.core`,
//! `sse`, `linux`, `segments` and `avx` (GDB manual, "i386 Features"), from what a node tells of a thread.

use std::ops::Range;

use coppice_api::inspect::debug::SetThread;
use coppice_api::inspect::held::{HeldThread, REGISTERS};

use crate::core::{IN_CALL, NO_CALL, spelled_out};

/// Says what there is, and in which order.
pub(super) const DESCRIPTION: &str = include_str!("registers.xml");

/// Where [`HeldThread::registers`] has some of them.
const RAX: usize = 0;
const RIP: usize = 16;
const FLAGS: usize = 17;
const FS_BASE: usize = 18;

/// Length of what XSAVE always has, and where the upper halves of AVX's registers lie behind it.
const LEGACY_BYTES: usize = 512;
const UPPER_AT: usize = 576;
const VECTORS: usize = 16;
/// Length of what gdb has of it.
const KNOWN_BYTES: usize = UPPER_AT + 16 * VECTORS;

/// Where in it that lies, but for AVX: control, status and pointers of x87, the control of SSE, and the registers of
/// both.
fn known() -> impl Iterator<Item = Range<usize>> {
    let x87 = (0..8).map(|number| 32 + 16 * number).map(|at| at..at + 10);
    [0..5, 6..14, 16..22, 24..28, 160..416].into_iter().chain(x87)
}
/// Where the header says which components are not as at reset, and the bits of x87, SSE and AVX.
const PRESENT_AT: usize = LEGACY_BYTES;
const LEGACY: u8 = 0b011;
const AVX: u8 = 0b100;

/// All of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Registers {
    /// As [`HeldThread::registers`], but for a thread in a call as Linux shows it: `rax` is that the call is to be made
    /// again.
    of: [u64; REGISTERS],
    /// Number of the call that the thread is in, or [`NO_CALL`].
    call: u64,
    /// As [`HeldThread::vector`], with x87 and SSE spelled out.
    vector: Vec<u8>,
}

/// Whether the header says that a component is not as at reset.
fn vector_has(vector: &[u8], component: u8) -> bool {
    vector.get(PRESENT_AT).is_some_and(|present| present & component != 0)
}

/// Selectors, which are the same in all programs: `cs`, `ss`, `ds`, `es`, `fs`, `gs`.
const SELECTORS: [u32; 6] = [0x33, 0x2b, 0, 0, 0, 0];

impl Registers {
    /// Those of a thread.
    pub(super) fn of(thread: &HeldThread) -> Self {
        let (mut of, mut vector, mut call) = (thread.registers, thread.vector.to_vec(), NO_CALL);
        if let Some(legacy) = spelled_out(&vector) {
            vector[..LEGACY_BYTES].copy_from_slice(&legacy);
            vector[PRESENT_AT] |= LEGACY;
        }
        if thread.in_call {
            (of[RAX], call) = (IN_CALL, of[RAX]);
        }
        Self { of, call, vector }
    }

    /// What a node is told to make of the thread. What gdb does not have of its registers stays as it is.
    pub(super) fn set(&self, thread: &HeldThread) -> SetThread {
        let mut registers = self.of;
        let in_call = self.call != NO_CALL && registers[RAX] == IN_CALL;
        if in_call {
            registers[RAX] = self.call;
        }
        let mut vector = Self::of(thread).vector;
        for known in known() {
            if let (Some(place), Some(bytes)) = (vector.get_mut(known.clone()), self.vector.get(known)) {
                place.copy_from_slice(bytes);
            }
        }
        let upper = self.vector.get(UPPER_AT..KNOWN_BYTES).unwrap_or_default();
        // All zeros are what they are at reset, too.
        if let Some(place) = vector.get_mut(UPPER_AT..UPPER_AT + upper.len())
            && (upper.iter().any(|byte| *byte != 0) || vector_has(&thread.vector, AVX))
        {
            place.copy_from_slice(upper);
            vector[PRESENT_AT] |= AVX;
        }
        SetThread { tid: thread.tid, registers, in_call, vector: vector.as_slice().into() }
    }

    fn vector<const N: usize>(&self, at: usize) -> [u8; N] {
        self.vector.get(at..at + N).and_then(|bytes| bytes.first_chunk()).copied().unwrap_or([0; N])
    }

    /// The upper half of a vector register, if it is not as at reset.
    fn upper(&self, number: usize) -> [u8; 16] {
        if vector_has(&self.vector, AVX) { self.vector(UPPER_AT + 16 * number) } else { [0; 16] }
    }

    /// Control, status, tags, `fiseg`, `fioff`, `foseg`, `fooff` and `fop` of x87.
    fn x87(&self) -> [u32; 8] {
        let half = |at| u32::from(u16::from_le_bytes(self.vector(at)));
        let word = |at| u32::from_le_bytes(self.vector(at));
        let [valid]: [u8; 1] = self.vector(4);
        // A bit says of each whether it is in use; two bits say 0 then, and 3 if not.
        let tags = (0..8).filter(|number| valid & 1 << number == 0).fold(0, |tags, number| tags | 3 << (2 * number));
        [half(0), half(2), tags, half(12), word(8), half(20), word(16), half(6)]
    }

    fn set_x87(&mut self, [control, status, tags, fiseg, fioff, foseg, fooff, fop]: [u32; 8]) {
        let valid = (0..8).filter(|number| tags >> (2 * number) & 3 != 3).fold(0, |valid, number| valid | 1 << number);
        for (at, value) in [(0, control), (2, status), (6, fop), (12, fiseg), (20, foseg)] {
            self.put(at, &(value as u16).to_le_bytes());
        }
        self.put(4, &[valid]);
        self.put(8, &fioff.to_le_bytes());
        self.put(16, &fooff.to_le_bytes());
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        if let Some(place) = self.vector.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }
}

impl gdbstub::arch::Registers for Registers {
    type ProgramCounter = u64;

    fn pc(&self) -> u64 {
        self.of[RIP]
    }

    fn gdb_serialize(&self, mut write_byte: impl FnMut(Option<u8>)) {
        let mut put = |bytes: &[u8]| bytes.iter().for_each(|byte| write_byte(Some(*byte)));
        self.of[..=RIP].iter().for_each(|register| put(&register.to_le_bytes()));
        put(&(self.of[FLAGS] as u32).to_le_bytes());
        SELECTORS.iter().for_each(|selector| put(&selector.to_le_bytes()));
        (0..8).for_each(|number| put(&self.vector::<10>(32 + 16 * number)));
        self.x87().iter().for_each(|register| put(&register.to_le_bytes()));
        (0..VECTORS).for_each(|number| put(&self.vector::<16>(160 + 16 * number)));
        put(&self.vector::<4>(24));
        put(&self.call.to_le_bytes());
        self.of[FS_BASE..].iter().for_each(|register| put(&register.to_le_bytes()));
        (0..VECTORS).for_each(|number| put(&self.upper(number)));
    }

    fn gdb_deserialize(&mut self, bytes: &[u8]) -> Result<(), ()> {
        let mut bytes = Bytes(bytes);
        self.vector.resize(self.vector.len().max(KNOWN_BYTES), 0);
        for register in 0..=RIP {
            self.of[register] = bytes.word()?;
        }
        self.of[FLAGS] = bytes.half()?.into();
        // They stay what they are.
        bytes.take(4 * SELECTORS.len())?;
        for number in 0..8 {
            let register = bytes.take(10)?;
            self.put(32 + 16 * number, register);
        }
        let mut x87 = [0; 8];
        for register in &mut x87 {
            *register = bytes.half()?;
        }
        self.set_x87(x87);
        for number in 0..VECTORS {
            let register = bytes.take(16)?;
            self.put(160 + 16 * number, register);
        }
        let mxcsr = bytes.take(4)?;
        self.put(24, mxcsr);
        self.call = bytes.word()?;
        for register in FS_BASE..REGISTERS {
            self.of[register] = bytes.word()?;
        }
        let upper = bytes.take(16 * VECTORS)?;
        self.put(UPPER_AT, upper);
        self.vector[PRESENT_AT] |= LEGACY | AVX;
        Ok(())
    }
}

/// Registers that were not taken yet.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], ()> {
        let (taken, left) = self.0.split_at_checked(count).ok_or(())?;
        self.0 = left;
        Ok(taken)
    }

    fn word(&mut self) -> Result<u64, ()> {
        self.take(8)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes)).ok_or(())
    }

    fn half(&mut self) -> Result<u32, ()> {
        self.take(4)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes)).ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use coppice_api::inspect::held::{HeldThread, REGISTERS};
    use gdbstub::arch::Registers as _;

    use super::{DESCRIPTION, PRESENT_AT, Registers};

    /// A thread whose registers say which they are, and whose tags say that all are in use.
    fn thread(in_call: bool) -> HeldThread {
        let registers: [u64; REGISTERS] = std::array::from_fn(|number| 0x100 + number as u64);
        let mut vector: Vec<u8> = (0..832).map(|at| (at % 251) as u8).collect();
        vector[PRESENT_AT..PRESENT_AT + 64].fill(0);
        vector[PRESENT_AT] = 7;
        HeldThread { tid: 5, cpu_ns: 0, registers, in_call, blocked: 0, pending: 0, vector: vector.as_slice().into() }
    }

    fn bytes_of(registers: &Registers) -> Vec<u8> {
        let mut bytes = Vec::new();
        registers.gdb_serialize(|byte| bytes.push(byte.expect("all are known")));
        bytes
    }

    #[test]
    fn there_are_as_many_bytes_as_are_described() {
        let sizes = DESCRIPTION.split("bitsize=\"").skip(1).map(|rest| rest.split('"').next().expect("a number"));
        let bits: usize = sizes.map(|bits| bits.parse::<usize>().expect("a number")).sum();
        assert_eq!(bytes_of(&Registers::of(&thread(false))).len(), bits / 8);
    }

    #[test]
    fn what_gdb_gives_back_is_what_it_got() {
        for in_call in [false, true] {
            let held = thread(in_call);
            let mut back = Registers::default();
            back.gdb_deserialize(&bytes_of(&Registers::of(&held))).expect("as many as there are");
            let set = back.set(&held);
            assert_eq!((set.registers, set.in_call, &set.vector), (held.registers, in_call, &held.vector));
        }
    }

    #[test]
    fn who_is_sent_elsewhere_leaves_its_call() {
        let held = thread(true);
        let mut bytes = bytes_of(&Registers::of(&held));
        let mut registers = Registers::default();
        bytes[..8].copy_from_slice(&7_u64.to_le_bytes());
        registers.gdb_deserialize(&bytes).expect("as many as there are");
        let set = registers.set(&held);
        assert_eq!((set.in_call, set.registers[0]), (false, 7));
        assert!(registers.gdb_deserialize(&bytes[..100]).is_err());
    }

    #[test]
    fn a_thread_without_avx_gets_none() {
        let mut held = thread(false);
        held.vector = held.vector.get(..576).expect("there are more").into();
        let mut registers = Registers::default();
        registers.gdb_deserialize(&bytes_of(&Registers::of(&thread(false)))).expect("as many as there are");
        assert_eq!(registers.set(&held).vector, held.vector);
    }

    #[test]
    fn registers_as_at_reset_are_spelled_out() {
        let mut held = thread(false);
        let mut vector = held.vector.to_vec();
        vector[PRESENT_AT] = 0;
        held.vector = vector.as_slice().into();
        let bytes = bytes_of(&Registers::of(&held));
        let control = 17 * 8 + 7 * 4 + 8 * 10;
        assert_eq!(bytes[control..control + 4], [0x7f, 3, 0, 0]);
        // Tags: all empty.
        assert_eq!(bytes[control + 8..control + 12], [0xff, 0xff, 0, 0]);
        assert!(bytes[bytes.len() - 256..].iter().all(|byte| *byte == 0));
    }
}
