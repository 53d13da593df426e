//! What a program reads and writes.
//!
//! Behind the pages that the file has something of lies one for what the program notes, then the line that it writes.

use coppice_hal::addr::PAGE_BYTES;
use coppice_hal::paging::Access;
use coppice_hal::user::UserExit;
use coppice_hal::user::simulated::touch;

use super::super::programs::{DATA, TEXT};
use super::super::script::SCRIPT_NUMBERS;
use super::{Actor, Facts};

const PAGE: u64 = PAGE_BYTES as u64;
/// What the program notes: its rank, its script, and what calls point to.
const NOTES: u64 = DATA + 0x4000;
const PAUSE: u64 = NOTES + 0x200;
const PATH: u64 = NOTES + 0x300;
/// The line that it has come to.
const COUNT: u64 = NOTES + 0x380;
/// Where it connects to.
const ADDRESS: u64 = NOTES + 0x390;
/// Events of other ranks that it was told of, and ends of such.
const TOLD: u64 = NOTES + 0x3a0;
/// The name of the job's key-value space: its length, and then itself.
const NAME: u64 = NOTES + 0x400;
const NAME_BYTES_MAX: usize = 256;
/// Where PMI's answers are: at most so many bytes.
pub(super) const ANSWER: u64 = NOTES + 0x600;
pub(super) const ANSWER_BYTES: u64 = PAGE - 0x600;
/// Where its lines are.
pub(super) const LINE: u64 = NOTES + PAGE;
/// Where PMIx's answers are, behind what it says there: of a longer one the beginning.
pub(super) const MESSAGE: u64 = LINE + 0x4000;
pub(super) const MESSAGE_BYTES: u64 = TOUCHED - MESSAGE;
/// The pages that it writes beyond: [`TOUCHES_MAX`](super::super::users::TOUCHES_MAX) of them at most.
const TOUCHED: u64 = NOTES + 0x1_0000;
/// Scripts write to no more of a page, but for their notes and lines. Parts of pages that are looked at are as long.
const WRITTEN_BYTES: usize = 0x400;
/// Strings that it reads are shorter.
const TEXT_BYTES_MAX: usize = 128;

impl Actor<'_> {
    fn read(&self, address: u64, mut out: &mut [u8]) -> Result<(), UserExit> {
        let mut at = address;
        while !out.is_empty() {
            let offset = at as usize % PAGE_BYTES;
            let (now, later) = out.split_at_mut(out.len().min(PAGE_BYTES - offset));
            touch(self.table, at, Access::READ)?.read(offset, now);
            at += now.len() as u64;
            out = later;
        }
        Ok(())
    }

    fn put(&self, address: u64, mut bytes: &[u8]) -> Result<(), UserExit> {
        let mut at = address;
        while !bytes.is_empty() {
            let offset = at as usize % PAGE_BYTES;
            let (now, later) = bytes.split_at(bytes.len().min(PAGE_BYTES - offset));
            touch(self.table, at, Access::WRITE)?.write(offset, now);
            at += now.len() as u64;
            bytes = later;
        }
        Ok(())
    }

    fn word(&self, address: u64) -> Result<u64, UserExit> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// A string up to its zero, or its first bytes.
    fn text(&self, address: u64) -> Result<Vec<u8>, UserExit> {
        let mut text = Vec::new();
        let mut at = address;
        loop {
            let room = (PAGE - at % PAGE).min((TEXT_BYTES_MAX - text.len()) as u64);
            let bytes = &mut [0; TEXT_BYTES_MAX][..room as usize];
            self.read(at, bytes)?;
            let end = bytes.iter().position(|byte| *byte == 0);
            text.extend_from_slice(&bytes[..end.unwrap_or(room as usize)]);
            at += room;
            if end.is_some() || text.len() >= TEXT_BYTES_MAX {
                return Ok(text);
            }
        }
    }

    /// The script that the arguments say, the rank that the environment does, of so many, and the job's name there.
    pub(super) fn read_arguments(&self) -> Result<([u64; SCRIPT_NUMBERS], u32, u32, String), UserExit> {
        let stack = self.regs.rsp;
        let count = self.word(stack)?;
        let mut numbers = [0; SCRIPT_NUMBERS];
        let number = |text: &[u8]| std::str::from_utf8(text).ok().and_then(|text| text.parse::<u64>().ok());
        for (slot, index) in numbers.iter_mut().zip(1..count) {
            let text = self.text(self.word(stack + 8 + 8 * index)?)?;
            *slot = number(&text).unwrap_or_default();
        }
        let (mut rank, mut size, mut space) = (None, None, None);
        let mut at = stack + 8 * (count + 2);
        while rank.is_none() || size.is_none() || space.is_none() {
            let variable = self.word(at)?;
            if variable == 0 {
                self.observed.violate(format!("a process of program {} is not told its rank", numbers[0]));
                break;
            }
            let text = self.text(variable)?;
            let says = |name: &[u8]| text.strip_prefix(name).and_then(number).and_then(|it| u32::try_from(it).ok());
            rank = rank.or_else(|| says(b"PMI_RANK="));
            size = size.or_else(|| says(b"PMI_SIZE="));
            space = space.or_else(|| text.strip_prefix(b"PMIX_NAMESPACE=").map(<[u8]>::to_vec));
            at += 8;
        }
        let space = String::from_utf8_lossy(&space.unwrap_or_default()).into_owned();
        Ok((numbers, rank.unwrap_or(u32::MAX), size.unwrap_or(1).max(1), space))
    }

    pub(super) fn put_facts(&self, rank: u32, size: u32, numbers: [u64; SCRIPT_NUMBERS]) -> Result<(), UserExit> {
        let words = std::iter::once(u64::from(size) << 32 | u64::from(rank)).chain(numbers);
        self.put(NOTES, &words.flat_map(u64::to_le_bytes).collect::<Vec<_>>())
    }

    pub(super) fn read_facts(&self) -> Result<(u32, u32, [u64; SCRIPT_NUMBERS]), UserExit> {
        let mut bytes = [0; 8 * (SCRIPT_NUMBERS + 1)];
        self.read(NOTES, &mut bytes)?;
        let mut words = bytes.chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_le_bytes));
        let who = words.next().unwrap_or(u64::MAX);
        let mut numbers = [0; SCRIPT_NUMBERS];
        numbers.iter_mut().zip(words).for_each(|(slot, word)| *slot = word);
        Ok((who as u32, (who >> 32) as u32, numbers))
    }

    pub(super) fn put_count(&self, line: u64) -> Result<(), UserExit> {
        self.put(COUNT, &line.to_le_bytes())
    }

    pub(super) fn read_count(&self) -> Result<u64, UserExit> {
        self.word(COUNT)
    }

    pub(super) fn put_name(&self, name: &str) -> Result<(), UserExit> {
        let bytes = name.as_bytes().get(..name.len().min(NAME_BYTES_MAX)).unwrap_or_default();
        self.put(NAME + 8, bytes)?;
        self.put(NAME, &(bytes.len() as u64).to_le_bytes())
    }

    /// The name that it was told, if it was told one.
    pub(super) fn read_name(&self) -> Result<String, UserExit> {
        let length = usize::try_from(self.word(NAME)?).unwrap_or(usize::MAX).min(NAME_BYTES_MAX);
        let mut name = vec![0; length];
        self.read(NAME + 8, &mut name)?;
        Ok(String::from_utf8_lossy(&name).into_owned())
    }

    /// The first bytes of what PMI has answered.
    pub(super) fn read_answer(&self, length: u64) -> Result<Vec<u8>, UserExit> {
        let mut answer = vec![0; length.min(ANSWER_BYTES) as usize];
        self.read(ANSWER, &mut answer)?;
        Ok(answer)
    }

    /// Bytes of PMIx's answer, as far as it was kept.
    pub(super) fn read_message(&self, length: u64) -> Result<Vec<u8>, UserExit> {
        let mut message = vec![0; length.min(MESSAGE_BYTES) as usize];
        self.read(MESSAGE, &mut message)?;
        Ok(message)
    }

    /// How many events of other ranks it was told of, and how many of their ends.
    pub(super) fn read_told(&self) -> Result<(u64, u64), UserExit> {
        Ok((self.word(TOLD)?, self.word(TOLD + 8)?))
    }

    pub(super) fn put_told(&self, (events, ends): (u64, u64)) -> Result<(), UserExit> {
        self.put(TOLD, &[events, ends].map(u64::to_le_bytes).concat())
    }

    /// Puts the name of a port of its own node where a call finds it, and says how long that is.
    pub(super) fn put_address(&self, port: u16) -> Result<(u64, u64), UserExit> {
        let [high, low] = port.to_be_bytes();
        // `sockaddr_in`, of `AF_INET`.
        let address = [2, 0, high, low, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
        self.put(ADDRESS, &address)?;
        Ok((ADDRESS, address.len() as u64))
    }

    pub(super) fn put_pause(&self, pause_ns: u64) -> Result<u64, UserExit> {
        let time = [pause_ns / 1_000_000_000, pause_ns % 1_000_000_000];
        self.put(PAUSE, &time.map(u64::to_le_bytes).concat())?;
        Ok(PAUSE)
    }

    pub(super) fn put_path(&self, rank: u32) -> Result<u64, UserExit> {
        self.put_path_text(&format!("/{rank}"))
    }

    pub(super) fn put_path_text(&self, path: &str) -> Result<u64, UserExit> {
        self.put(PATH, format!("{path}\0").as_bytes())?;
        Ok(PATH)
    }

    /// Puts a line where it can be written from, and notes how long it is.
    pub(super) fn put_line(&mut self, line: &[u8]) -> Result<(), UserExit> {
        self.put(LINE, line)?;
        self.regs.r12 = line.len() as u64;
        Ok(())
    }

    /// Whether all pages are as they must be before anything was written but to the notes.
    pub(super) fn look(&mut self, facts: &Facts) -> Result<(), UserExit> {
        let text = (TEXT..TEXT + facts.program.text_bytes).step_by(PAGE_BYTES);
        let data = (DATA..facts.program.data_end()).step_by(PAGE_BYTES);
        let pages = text.chain(data).chain(self.touched(facts));
        // The first rank looks at all of them, the others at where scripts write.
        let looks_at = if facts.rank == 0 { PAGE_BYTES } else { WRITTEN_BYTES };
        for address in pages.skip(self.regs.r14 as usize) {
            let of_file = facts.program.page_at(address).unwrap_or_default();
            for offset in (0..looks_at).step_by(WRITTEN_BYTES) {
                let of_file = of_file.get(offset..).unwrap_or_default();
                self.look_at(facts, address + offset as u64, &of_file[..of_file.len().min(WRITTEN_BYTES)])?;
            }
            self.regs.r14 += 1;
        }
        Ok(())
    }

    /// Whether a part of a page is as the file has it, and zeros behind that.
    fn look_at(&self, facts: &Facts, address: u64, of_file: &[u8]) -> Result<(), UserExit> {
        let mut found = [0; WRITTEN_BYTES];
        self.read(address, &mut found)?;
        let (same, zeros) = found.split_at(of_file.len());
        if same != of_file || zeros != &[0; WRITTEN_BYTES][..zeros.len()] {
            let expected = of_file.iter().chain(std::iter::repeat(&0));
            let at = found.iter().zip(expected).position(|(is, must)| is != must).unwrap_or_default();
            let (rank, number, at) = (facts.rank, facts.script.program, address + at as u64);
            let what = format!("rank {rank} of program {number} begins with something else at {at:#x}");
            self.observed.violate(what);
        }
        Ok(())
    }

    /// Pages that it writes beyond those that the file has. Lines are elsewhere.
    fn touched(&self, facts: &Facts) -> impl Iterator<Item = u64> + use<> {
        (0..facts.script.touches).map(|page| TOUCHED + page * PAGE)
    }

    /// What a process writes into a page: nobody else writes the same.
    fn own(&self, facts: &Facts, address: u64) -> [u8; 16] {
        let mark = u64::from(facts.rank) << 40 ^ facts.script.pause_ns;
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&address.to_le_bytes());
        bytes[8..].copy_from_slice(&(!mark).to_le_bytes());
        bytes
    }

    fn written(&self, facts: &Facts) -> impl Iterator<Item = u64> + use<> {
        (DATA..facts.program.data_end()).step_by(PAGE_BYTES).chain(self.touched(facts))
    }

    pub(super) fn write_all(&mut self, facts: &Facts) -> Result<(), UserExit> {
        for address in self.written(facts).skip(self.regs.r14 as usize) {
            self.put(address + 64, &self.own(facts, address))?;
            self.regs.r14 += 1;
        }
        Ok(())
    }

    /// Writes to all its instructions but those that come next.
    pub(super) fn spoil(&mut self, facts: &Facts) -> Result<(), UserExit> {
        for address in (TEXT..TEXT + facts.program.text_bytes).step_by(PAGE_BYTES) {
            self.put(address + 0x300, &self.own(facts, address))?;
        }
        Ok(())
    }

    /// Whether what it wrote is there.
    pub(super) fn look_again(&mut self, facts: &Facts) -> Result<(), UserExit> {
        for address in self.written(facts).skip(self.regs.r14 as usize) {
            let mut found = [0; 16];
            self.read(address + 64, &mut found)?;
            self.regs.r14 += 1;
            if found != self.own(facts, address) {
                let (rank, number) = (facts.rank, facts.script.program);
                self.observed
                    .violate(format!("rank {rank} of program {number} has lost what it wrote at {address:#x}"));
            }
        }
        Ok(())
    }
}
