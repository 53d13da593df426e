//! ELF files made by hand, right or wrong in any field.

/// A program header as a test writes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) kind: u32,
    pub(crate) flags: u32,
    pub(crate) offset: u64,
    pub(crate) address: u64,
    pub(crate) file_bytes: u64,
    pub(crate) memory_bytes: u64,
    pub(crate) alignment: u64,
}

pub(crate) const LOAD: u32 = 1;
pub(crate) const DYNAMIC: u32 = 2;
pub(crate) const INTERPRETER: u32 = 3;
pub(crate) const HEADERS: u32 = 6;
pub(crate) const THREAD_LOCAL: u32 = 7;
pub(crate) const STACK: u32 = 0x6474_e551;
pub(crate) const RELRO: u32 = 0x6474_e552;

pub(crate) const READ: u32 = 4;
pub(crate) const WRITE: u32 = 2;
pub(crate) const EXECUTE: u32 = 1;

/// A loadable segment whose address is page-congruent to its offset.
pub(crate) fn load(flags: u32, offset: u64, address: u64, file_bytes: u64, memory_bytes: u64) -> Header {
    Header { kind: LOAD, flags, offset, address, file_bytes, memory_bytes, alignment: 4096 }
}

/// Any other header.
pub(crate) fn other(kind: u32, offset: u64, address: u64, bytes: u64) -> Header {
    Header { kind, flags: READ, offset, address, file_bytes: bytes, memory_bytes: bytes, alignment: 8 }
}

/// An ELF file.
#[derive(Clone, Debug)]
pub(crate) struct ElfFile {
    pub(crate) class: u8,
    pub(crate) byte_order: u8,
    pub(crate) version: u8,
    pub(crate) system: u8,
    pub(crate) kind: u16,
    pub(crate) machine: u16,
    pub(crate) entry: u64,
    pub(crate) table_offset: u64,
    pub(crate) entry_bytes: u16,
    pub(crate) count: Option<u16>,
    pub(crate) headers: Vec<Header>,
    /// Put into the file at these places.
    pub(crate) content: Vec<(usize, Vec<u8>)>,
    /// Length of the file, bytes.
    pub(crate) bytes: u64,
}

impl ElfFile {
    /// A program as linkers make them: four segments, thread-local storage, RELRO, no executable stack.
    pub(crate) fn fixed() -> Self {
        Self::program(2, 0x40_0000)
    }

    /// The same as static-PIE.
    pub(crate) fn position_independent() -> Self {
        Self::program(3, 0)
    }

    fn program(kind: u16, base: u64) -> Self {
        let headers = vec![
            other(HEADERS, 64, base + 64, 8 * 56),
            load(READ, 0, base, 0x6e0, 0x6e0),
            load(READ | EXECUTE, 0x1000, base + 0x1000, 0x2989, 0x2989),
            load(READ, 0x4000, base + 0x4000, 0x1017, 0x1017),
            load(READ | WRITE, 0x5708, base + 0x6708, 0x908, 0x2450),
            other(THREAD_LOCAL, 0x5708, base + 0x6708, 0x28),
            other(RELRO, 0x5708, base + 0x6708, 0x8f8),
            Header { flags: READ | WRITE, ..other(STACK, 0, 0, 0) },
        ];
        Self {
            class: 2,
            byte_order: 1,
            version: 1,
            system: 0,
            kind,
            machine: 62,
            entry: base + 0x1bf0,
            table_offset: 64,
            entry_bytes: 56,
            count: None,
            headers,
            content: Vec::new(),
            bytes: 0x6100,
        }
    }

    /// The file's bytes, as far as they are not all zero.
    pub(crate) fn start(&self) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[..8].copy_from_slice(&[0x7f, b'E', b'L', b'F', self.class, self.byte_order, self.version, self.system]);
        let count = self.count.unwrap_or(u16::try_from(self.headers.len()).expect("few headers"));
        put(&mut bytes, 16, &self.number(self.kind));
        put(&mut bytes, 18, &self.number(self.machine));
        put(&mut bytes, 20, &u32::from(self.version).to_le_bytes());
        put(&mut bytes, 24, &self.entry.to_le_bytes());
        put(&mut bytes, 32, &self.table_offset.to_le_bytes());
        put(&mut bytes, 54, &self.entry_bytes.to_le_bytes());
        put(&mut bytes, 56, &count.to_le_bytes());
        if self.table_offset < 1 << 20 {
            for (index, header) in self.headers.iter().enumerate() {
                put(&mut bytes, self.table_offset as usize + index * 56, &header.encode());
            }
        }
        for (place, content) in &self.content {
            put(&mut bytes, *place, content);
        }
        bytes
    }

    fn number(&self, number: u16) -> [u8; 2] {
        if self.byte_order == 2 { number.to_be_bytes() } else { number.to_le_bytes() }
    }

    /// What [`coppice_protocol::program::parse`] is given: the first page of the file, or all of it.
    pub(crate) fn page(&self) -> Vec<u8> {
        let mut start = self.start();
        start.resize(4096.min(usize::try_from(self.bytes).unwrap_or(usize::MAX)), 0);
        start
    }
}

impl Header {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = [self.kind.to_le_bytes(), self.flags.to_le_bytes()].concat();
        let physical = self.address;
        for number in [self.offset, self.address, physical, self.file_bytes, self.memory_bytes, self.alignment] {
            bytes.extend(number.to_le_bytes());
        }
        bytes
    }
}

fn put(bytes: &mut Vec<u8>, place: usize, content: &[u8]) {
    let end = place + content.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[place..end].copy_from_slice(content);
}
