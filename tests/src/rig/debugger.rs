//! QEMU's stub for debuggers, which lets each core of a machine run or not.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::physical::{ANSWER_TIME_MAX, connect_when_served};

/// Where an ELF says at which address it starts.
const ELF_START_AT: usize = 24;

/// A debugger's connection to a machine. Cores stay as they are when it ends.
pub struct Debugger(BufReader<UnixStream>);

impl Debugger {
    /// Lets the firmware, which needs all cores, come to the first instruction of the image, where all stop.
    pub(super) fn at_start(socket: &Path, image: &Path) -> Self {
        let mut debugger = Self(BufReader::new(connect_when_served(socket, ANSWER_TIME_MAX)));
        let image = std::fs::read(image).expect("image");
        let start = u64::from_le_bytes(image[ELF_START_AT..][..8].try_into().expect("eight bytes"));
        assert_eq!(debugger.ask(&format!("Z1,{start:x},1")), "OK");
        let stopped = debugger.ask("vCont;c");
        assert!(stopped.starts_with("T05"), "{stopped} where the image starts");
        assert_eq!(debugger.ask(&format!("z1,{start:x},1")), "OK");
        debugger
    }

    /// Lets these cores run, and no others. The first one is 0.
    ///
    /// # Panics
    /// If QEMU does not take the order.
    pub fn let_run(&mut self, cores: &[u16]) {
        self.say(&cores.iter().fold("vCont".to_owned(), |order, core| format!("{order};c:{:x}", core + 1)));
    }

    /// Gives an order.
    fn say(&mut self, order: &str) {
        let sum = order.bytes().fold(0_u8, u8::wrapping_add);
        write!(self.0.get_mut(), "${order}#{sum:02x}").expect("order");
        let mut taken = [0];
        self.0.read_exact(&mut taken).expect("QEMU's answer");
        assert_eq!(taken, *b"+", "QEMU does not understand {order}");
    }

    /// Gives an order and waits for the answer to it.
    fn ask(&mut self, order: &str) -> String {
        self.say(order);
        let (mut answer, mut sum) = (Vec::new(), [0; 2]);
        self.0.read_until(b'#', &mut answer).expect("QEMU's answer");
        self.0.read_exact(&mut sum).expect("QEMU's answer");
        self.0.get_mut().write_all(b"+").expect("thanks");
        String::from_utf8_lossy(&answer).trim_matches(['$', '#']).to_owned()
    }
}
