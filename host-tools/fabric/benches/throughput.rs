//! How fast the switch carries frames between two stations of this host, and what that costs it in processor time.
//!
//! `cargo bench -p coppice-fabric`. Sender, switch and receiver share the host's cores, so the switch's own processor
//! time per frame says more about it than the rate.

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::BorrowedFd;
use std::process::{Command as Process, Stdio};
use std::time::{Duration, Instant};

use coppice_fabric::command::{Command, Request};
use coppice_fabric::limits::FRAME_BYTES_MAX;
use coppice_fabric::names::LinkName;
use coppice_fabric::station::Station;
use coppice_protocol::ids::MacAddress;
use coppice_qemu::cpu_time::CpuTime;
use rustix::event::{PollFd, PollFlags, Timespec};

const DURATION: Duration = Duration::from_secs(2);
const ROUND_TRIPS: u32 = 20_000;

fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let mut switch = Process::new(env!("CARGO_BIN_EXE_coppice-fabric"))
        .arg("--directory")
        .arg(directory.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut input = switch.stdin.take().ok_or("no input")?;
    let mut output = BufReader::new(switch.stdout.take().ok_or("no output")?).lines();
    output.next().ok_or("no greeting")??;
    let mut stations = Vec::new();
    for number in 0..2 {
        let link = LinkName::new(format!("s{number}"))?;
        stations.push(Station::open(directory.path(), &link)?);
        let request = Request { id: 0, command: Command::AddPort { link, mac: mac(number) } };
        writeln!(input, "{}", serde_json::to_string(&request)?)?;
        output.next().ok_or("no reply")??;
    }
    for bytes in [60, 1514, 9014] {
        stream(&stations, bytes, switch.id())?;
    }
    round_trips(&stations, switch.id())?;
    drop(input);
    switch.wait()?;
    Ok(())
}

fn mac(number: u8) -> MacAddress {
    MacAddress([2, 0, 10, 0, 0, number])
}

fn frame(to: u8, from: u8, bytes: usize) -> Vec<u8> {
    let mut frame = [mac(to).0, mac(from).0].concat();
    frame.resize(bytes, 0x55);
    frame
}

fn wait(socket: BorrowedFd<'_>, flags: PollFlags) -> Result<bool, rustix::io::Errno> {
    let limit = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
    Ok(rustix::event::poll(&mut [PollFd::from_borrowed_fd(socket, flags)], Some(&limit))? > 0)
}

/// One station sends as fast as the switch takes, the other counts.
fn stream(stations: &[Station], bytes: usize, switch: u32) -> Result<(), Box<dyn Error>> {
    let frame = frame(1, 0, bytes);
    let cpu_before = CpuTime::of(switch)?;
    let start = Instant::now();
    let received = std::thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            let (mut buffer, mut count) = (vec![0; FRAME_BYTES_MAX], 0_u64);
            while let Ok(true) = wait(stations[1].receiver(), PollFlags::IN) {
                while stations[1].receive(&mut buffer).is_ok() {
                    count += 1;
                }
            }
            count
        });
        while start.elapsed() < DURATION {
            if stations[0].send(&frame).is_err() {
                let _room = wait(stations[0].sender(), PollFlags::OUT);
            }
        }
        receiver.join()
    });
    let received = received.map_err(|_| "the receiver failed")?;
    let cpu = CpuTime::of(switch)?.total() - cpu_before.total();
    let rate = received as f64 / DURATION.as_secs_f64();
    println!(
        "{bytes:5} bytes: {rate:9.0} frames/s, {:6.3} GB/s; the switch itself: {:.2} µs/frame",
        rate * bytes as f64 / 1e9,
        cpu.as_secs_f64() * 1e6 / received.max(1) as f64
    );
    Ok(())
}

/// One frame there and back at a time.
fn round_trips(stations: &[Station], switch: u32) -> Result<(), Box<dyn Error>> {
    let (there, back) = (frame(1, 0, 60), frame(0, 1, 60));
    let mut buffer = vec![0; FRAME_BYTES_MAX];
    let cpu_before = CpuTime::of(switch)?;
    let start = Instant::now();
    for _ in 0..ROUND_TRIPS {
        for (from, to, frame) in [(0, 1, &there), (1, 0, &back)] {
            let (from, to): (usize, usize) = (from, to);
            stations[from].send(frame)?;
            if !wait(stations[to].receiver(), PollFlags::IN)? {
                return Err("a frame was lost".into());
            }
            stations[to].receive(&mut buffer)?;
        }
    }
    let each = start.elapsed() / ROUND_TRIPS;
    let cpu = CpuTime::of(switch)?.total() - cpu_before.total();
    println!("round trip: {each:?}; the switch itself: {:?}", cpu / ROUND_TRIPS);
    Ok(())
}
