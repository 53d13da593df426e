//! The notes of a core file: the process, its auxiliary vector and files, and the registers of its threads, as Linux
//! lays them out on x86-64 (`elf_prstatus`, `elf_prpsinfo`, `user_regs_struct`).

use coppice_api::inspect::held::{HeldProcess, HeldThread, MappedArea, REGISTERS, Shows};

use super::{Put, Snapshot};

/// Types of notes.
mod kind {
    pub(super) const PRSTATUS: u32 = 1;
    pub(super) const FPREGSET: u32 = 2;
    pub(super) const PRPSINFO: u32 = 3;
    pub(super) const AUXV: u32 = 6;
    pub(super) const FILE: u32 = 0x4649_4c45;
    pub(super) const SIGINFO: u32 = 0x5349_4749;
    pub(super) const X86_XSTATE: u32 = 0x202;
}

/// Whose notes they are.
const CORE: &[u8] = b"CORE\0";
const LINUX: &[u8] = b"LINUX\0";

const PAGE: u64 = 4096;

/// Length of the x87 and SSE registers, behind which a header says which components are not as at reset.
const LEGACY_BYTES: usize = 512;

/// Where in it Linux puts the components that the processor has.
const COMPONENTS_AT: usize = 464;

/// What `rax` says in the core of a thread that waits in a call: as on Linux, that it is to be made again
/// (`-ERESTARTSYS`).
pub(crate) const IN_CALL: u64 = -512_i64 as u64;

/// What `orig_rax` says of a thread that is in no call.
pub(crate) const NO_CALL: u64 = u64::MAX;

/// All of them. Those of a thread follow its status.
pub(super) fn all(snapshot: &Snapshot) -> Vec<u8> {
    let Snapshot { process, threads, areas } = snapshot;
    let mut notes = Vec::new();
    for (number, thread) in threads.iter().enumerate() {
        note(&mut notes, CORE, kind::PRSTATUS, &status(process, thread));
        if number == 0 {
            note(&mut notes, CORE, kind::PRPSINFO, &about(process));
            if let Some(ends) = &process.ends {
                note(&mut notes, CORE, kind::SIGINFO, &ends.info);
            }
            note(&mut notes, CORE, kind::AUXV, &process.auxiliary);
            note(&mut notes, CORE, kind::FILE, &files(process, areas));
        }
        if let Some(legacy) = spelled_out(&thread.vector) {
            note(&mut notes, CORE, kind::FPREGSET, &legacy);
            note(&mut notes, LINUX, kind::X86_XSTATE, &vector(&thread.vector, process.components));
        }
    }
    notes
}

fn note(to: &mut Vec<u8>, name: &[u8], kind: u32, content: &[u8]) {
    [name.len() as u32, content.len() as u32, kind].into_iter().for_each(|word| to.put(word.to_le_bytes()));
    to.extend_from_slice(name);
    to.align(4);
    to.extend_from_slice(content);
    to.align(4);
}

/// `elf_prstatus`.
fn status(process: &HeldProcess, thread: &HeldThread) -> Vec<u8> {
    // The signal that ends it, if one does, twice; as on Linux in each thread.
    let signal = process.ends.as_ref().map_or(0, |ends| ends.signal);
    let mut bytes = vec![0; 16];
    (bytes[0], bytes[12]) = (signal, signal);
    bytes.put(thread.pending.to_le_bytes());
    bytes.put(thread.blocked.to_le_bytes());
    for id in [thread.tid, process.parent, process.pid, process.pid] {
        bytes.put(id.to_le_bytes());
    }
    // Time in the program; none in the kernel, and none of children.
    bytes.put((thread.cpu_ns / 1_000_000_000).to_le_bytes());
    bytes.put((thread.cpu_ns % 1_000_000_000 / 1000).to_le_bytes());
    bytes.resize(bytes.len() + 48, 0);
    registers(thread).into_iter().for_each(|register| bytes.put(register.to_le_bytes()));
    // The vector registers follow.
    bytes.put(1_u64.to_le_bytes());
    bytes
}

/// `user_regs_struct`.
fn registers(thread: &HeldThread) -> [u64; 27] {
    const CODE: u64 = 0x33;
    const DATA: u64 = 0x2b;
    let of: [u64; REGISTERS] = thread.registers;
    let [rax, rbx, rcx, rdx, rsi, rdi, rbp, rsp, r8, r9, r10, r11, r12, r13, r14, r15, rip, flags, fs_base, gs_base] =
        of;
    let (rax, call) = if thread.in_call { (IN_CALL, rax) } else { (rax, NO_CALL) };
    [
        r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi, call, rip, CODE, flags, rsp, DATA,
        fs_base, gs_base, 0, 0, 0, 0,
    ]
}

/// `elf_prpsinfo`.
fn about(process: &HeldProcess) -> Vec<u8> {
    // It sleeps, and is as nice as others.
    let mut bytes = vec![1, b'S', 0, 0, 0, 0, 0, 0];
    bytes.put(0_u64.to_le_bytes());
    for id in [process.user, process.group, process.pid, process.parent, process.pid, process.pid] {
        bytes.put(id.to_le_bytes());
    }
    // Each with a zero behind it.
    for (text, room) in [(&process.name, 16), (&process.arguments, 80)] {
        let end = bytes.len() + room;
        bytes.extend_from_slice(&text[..text.len().min(room - 1)]);
        bytes.resize(end, 0);
    }
    bytes
}

/// The files that memory shows: how many, the unit of offsets, where each is mapped, and then their paths.
fn files(process: &HeldProcess, areas: &[MappedArea]) -> Vec<u8> {
    let shown = areas.iter().filter_map(|area| match &area.shows {
        Shows::Program { offset } => Some((area, *offset, &process.program)),
        Shows::File { path, offset } => Some((area, *offset, path)),
        Shows::Zeros | Shows::Shared { .. } => None,
    });
    let (mut places, mut paths, mut count) = (Vec::new(), Vec::new(), 0_u64);
    for (area, offset, path) in shown {
        [area.start, area.end, offset / PAGE].into_iter().for_each(|word| places.put(word.to_le_bytes()));
        paths.extend(path.iter().copied().filter(|byte| *byte != 0));
        paths.push(0);
        count += 1;
    }
    let mut bytes = Vec::new();
    [count, PAGE].into_iter().for_each(|word| bytes.put(word.to_le_bytes()));
    bytes.extend(places);
    bytes.extend(paths);
    bytes
}

/// The x87 and SSE registers (`user_fpregs_struct`), spelled out where they are as at reset. None, if there are too few
/// bytes to be those of a processor.
pub(crate) fn spelled_out(vector: &[u8]) -> Option<[u8; LEGACY_BYTES]> {
    const X87: u8 = 1;
    const SSE: u8 = 2;
    let mut bytes: [u8; LEGACY_BYTES] = *vector.first_chunk()?;
    let present = *vector.get(LEGACY_BYTES)?;
    if present & X87 == 0 {
        // All exceptions masked, extended precision.
        bytes[..24].fill(0);
        bytes[..2].copy_from_slice(&0x037f_u16.to_le_bytes());
        bytes[32..160].fill(0);
    }
    if present & SSE == 0 {
        bytes[160..416].fill(0);
    }
    Some(bytes)
}

/// All vector registers, with the components that there are.
fn vector(vector: &[u8], components: u64) -> Vec<u8> {
    let mut bytes = vector.to_vec();
    if let Some(told) = bytes.get_mut(COMPONENTS_AT..COMPONENTS_AT + 8) {
        told.copy_from_slice(&components.to_le_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use coppice_api::inspect::held::{EndedBy, HeldProcess, HeldThread, MappedArea, Shows};

    use super::{about, all, files, registers, spelled_out, status};
    use crate::core::Snapshot;

    fn thread(in_call: bool) -> HeldThread {
        let registers = std::array::from_fn(|number| number as u64 + 100);
        let (blocked, pending) = (1 << 9, 1 << 16);
        HeldThread {
            tid: 7,
            cpu_ns: 3_000_005_000,
            registers,
            in_call,
            blocked,
            pending,
            vector: vec![0xff; 832].into(),
        }
    }

    #[test]
    fn a_thread_is_laid_out_as_on_linux() {
        let process = HeldProcess { pid: 1000, parent: 1, ..HeldProcess::default() };
        let bytes = status(&process, &thread(true));
        assert_eq!(bytes.len(), 336);
        assert_eq!((bytes[32], &bytes[36..44]), (7, &[1, 0, 0, 0, 0xe8, 3, 0, 0][..]));
        assert_eq!((bytes[48], bytes[56], bytes[328]), (3, 5, 1));
        assert_eq!((bytes[0], bytes[12]), (0, 0));
        // What waits, then what is blocked.
        assert_eq!((bytes[18], bytes[25]), (1, 2));
        let ends = Some(EndedBy { tid: 7, signal: 11, info: vec![9; 128].into() });
        let dying = status(&HeldProcess { ends, ..process }, &thread(true));
        assert_eq!((dying[0], dying[12], &dying[16..]), (11, 11, &bytes[16..]));
        // r15, rax, the call's number, rip, rsp and the base of fs.
        let of = registers(&thread(true));
        assert_eq!((of[0], of[10] as i64, of[15], of[16], of[19], of[21]), (115, -512, 100, 116, 107, 118));
        let of = registers(&thread(false));
        assert_eq!((of[10], of[15]), (100, u64::MAX));
        assert_eq!(bytes[112..120], 115_u64.to_le_bytes());
    }

    #[test]
    fn long_names_are_cut_and_files_are_named() {
        let text = || vec![b'x'; 200].into();
        let process = HeldProcess { name: text(), arguments: text(), program: "/bin/a".into(), ..Default::default() };
        let bytes = about(&process);
        assert_eq!((bytes.len(), bytes[54], bytes[55], bytes[56], bytes[135]), (136, b'x', 0, b'x', 0));
        let area = |start, shows| MappedArea { start, end: 9, read: true, write: false, execute: false, shows };
        let file = Shows::File { path: "/dir/b".into(), offset: 8192 };
        let areas = [area(1, Shows::Program { offset: 4096 }), area(2, Shows::Zeros), area(3, file)];
        let bytes = files(&process, &areas);
        let words: Vec<u64> =
            bytes[..64].chunks(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight"))).collect();
        assert_eq!(words, [2, 4096, 1, 9, 1, 3, 9, 2]);
        assert_eq!(&bytes[64..], b"/bin/a\0/dir/b\0");
    }

    #[test]
    fn registers_at_reset_are_spelled_out_and_nothing_is_said_of_none() {
        let mut vector = vec![0xee; 832];
        vector[512] = 0;
        let bytes = spelled_out(&vector).expect("enough bytes");
        assert_eq!((&bytes[..3], bytes[24], bytes[32], bytes[160], bytes[416]), (&[0x7f, 3, 0][..], 0xee, 0, 0, 0xee));
        vector[512] = 3;
        assert_eq!(spelled_out(&vector).expect("enough bytes")[..], vector[..512]);
        assert_eq!(spelled_out(&vector[..512]), None);
        let threads = vec![HeldThread { vector: Vec::new().into(), ..thread(false) }; 2];
        let one = all(&Snapshot { threads: threads[..1].to_vec(), ..Snapshot::default() }).len();
        let two = all(&Snapshot { threads, ..Snapshot::default() }).len();
        assert_eq!(two - one, 12 + 8 + 336);
    }
}
