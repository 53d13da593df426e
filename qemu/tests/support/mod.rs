//! The smallest guests: PVH images of a few instructions, written byte by byte.

/// Where the image lies in the guest's memory.
const LOAD_ADDRESS: u32 = 0x10_0000;

/// What a guest does after its line.
#[derive(Clone, Copy)]
pub(crate) enum Then {
    /// Writes this to the exit device.
    Exit(u8),
    /// Halts for ever.
    Halt,
}

/// An image that writes `line` to the serial line, and then does `then`.
pub(crate) fn image(line: &str, then: Then) -> Vec<u8> {
    // mov edx, 0x3f8
    let mut code = vec![0xba, 0xf8, 0x03, 0x00, 0x00];
    for byte in line.bytes() {
        // mov al, byte; out dx, al
        code.extend_from_slice(&[0xb0, byte, 0xee]);
    }
    if let Then::Exit(status) = then {
        // mov edx, 0xf4; mov eax, status; out dx, eax
        code.extend_from_slice(&[0xba, 0xf4, 0, 0, 0, 0xb8, status, 0, 0, 0, 0xef]);
    }
    // hlt; jmp back to it
    code.extend_from_slice(&[0xf4, 0xeb, 0xfd]);
    elf(&code)
}

/// A 64-bit ELF with one segment and a note that says where PVH enters.
fn elf(code: &[u8]) -> Vec<u8> {
    const HEADERS: u64 = 64 + 2 * 56;
    const NOTE_BYTES: u64 = 20;
    let segment_bytes = HEADERS + NOTE_BYTES + code.len() as u64;
    let entry = LOAD_ADDRESS + (HEADERS + NOTE_BYTES) as u32;
    let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    let half =
        |elf: &mut Vec<u8>, values: &[u16]| values.iter().for_each(|value| elf.extend_from_slice(&value.to_le_bytes()));
    let word =
        |elf: &mut Vec<u8>, values: &[u32]| values.iter().for_each(|value| elf.extend_from_slice(&value.to_le_bytes()));
    let quad =
        |elf: &mut Vec<u8>, values: &[u64]| values.iter().for_each(|value| elf.extend_from_slice(&value.to_le_bytes()));
    // Executable, x86-64, version 1; entry, program headers, no section headers.
    half(&mut elf, &[2, 62]);
    word(&mut elf, &[1]);
    quad(&mut elf, &[entry.into(), 64, 0]);
    word(&mut elf, &[0]);
    half(&mut elf, &[64, 56, 2, 64, 0, 0]);
    // PT_LOAD of the whole file, read, write and execute.
    word(&mut elf, &[1, 7]);
    quad(&mut elf, &[0, LOAD_ADDRESS.into(), LOAD_ADDRESS.into(), segment_bytes, segment_bytes, 4]);
    // PT_NOTE.
    word(&mut elf, &[4, 4]);
    let note = u64::from(LOAD_ADDRESS) + HEADERS;
    quad(&mut elf, &[HEADERS, note, note, NOTE_BYTES, NOTE_BYTES, 4]);
    // Name of 4 bytes, description of 4, type 18: the 32-bit entry point.
    word(&mut elf, &[4, 4, 18]);
    elf.extend_from_slice(b"Xen\0");
    word(&mut elf, &[entry]);
    elf.extend_from_slice(code);
    elf
}
