//! QEMU's stub for debuggers, which lets each core of a machine run or not, and changes its memory.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde_json::json;

use crate::cluster::Cluster;
use crate::physical::{ANSWER_TIME_MAX, Monitor, connect_when_served};

/// Where an ELF says at which address it starts.
const ELF_START_AT: usize = 24;

/// A debugger's connection to a machine. Cores stay as they are when it ends.
pub struct Debugger(BufReader<UnixStream>);

impl Debugger {
    /// Lets the firmware, which needs all cores, come to the first instruction of the image, where all stop.
    pub(crate) fn at_start(socket: &Path, image: &Path) -> Self {
        let mut debugger = Self(BufReader::new(connect_when_served(socket, ANSWER_TIME_MAX)));
        let image = std::fs::read(image).expect("image");
        let start = u64::from_le_bytes(image[ELF_START_AT..][..8].try_into().expect("eight bytes"));
        assert_eq!(debugger.ask(&format!("Z1,{start:x},1")), "OK");
        let stopped = debugger.ask("vCont;c");
        assert!(stopped.starts_with("T05"), "{stopped} where the image starts");
        assert_eq!(debugger.ask(&format!("z1,{start:x},1")), "OK");
        debugger
    }

    /// Stops the machine of a cluster's node, until [`Self::leave`].
    ///
    /// # Panics
    /// If QEMU does not take a debugger.
    #[must_use]
    #[track_caller]
    pub fn stop_node(cluster: &Cluster, node: u32) -> Self {
        let socket = cluster.home_path().join(format!("run/default/n{node}.gdb"));
        let line = format!("gdbserver unix:{},server=on,wait=off", socket.display());
        let said = Monitor::of_node(cluster, node).command("human-monitor-command", &json!({ "command-line": line }));
        let stream = connect_when_served(&socket, ANSWER_TIME_MAX);
        // It has a name no longer than it needs one.
        std::fs::remove_file(&socket).unwrap_or_else(|error| panic!("{error}: {said}"));
        let mut debugger = Self(BufReader::new(stream));
        let stopped = debugger.answer();
        assert!(stopped.starts_with("T02"), "{stopped} where the machine stops");
        assert_eq!(debugger.ask("Qqemu.PhyMemMode:1"), "OK");
        debugger
    }

    /// Writes a byte of the machine's memory.
    ///
    /// # Panics
    /// If there is none at that address.
    pub fn write(&mut self, address: usize, byte: u8) {
        assert_eq!(self.ask(&format!("M{address:x},1:{byte:02x}")), "OK");
    }

    /// Lets the machine go on without a debugger.
    ///
    /// # Panics
    /// If QEMU does not take the order.
    pub fn leave(mut self) {
        assert_eq!(self.ask("D"), "OK");
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
        self.answer()
    }

    /// What QEMU says next.
    fn answer(&mut self) -> String {
        let (mut answer, mut sum) = (Vec::new(), [0; 2]);
        self.0.read_until(b'#', &mut answer).expect("QEMU's answer");
        self.0.read_exact(&mut sum).expect("QEMU's answer");
        self.0.get_mut().write_all(b"+").expect("thanks");
        String::from_utf8_lossy(&answer).trim_matches(['$', '#']).to_owned()
    }
}
