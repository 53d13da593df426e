//! Machines and tethers on the real system. The harness is ours, because children come through this program's `main`.

mod support;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use coppice_qemu::cpu_time::CpuTime;
use coppice_qemu::launch::{Exit, Launcher, Running};
use coppice_qemu::locate::find_qemu;
use coppice_qemu::machine::{Accelerator, Machine, Nic, QmpChannel, Serial};
use coppice_qemu::probe::{Verdict, probe, probe_cached};
use coppice_qemu::qmp::QmpError;
use coppice_qemu::region::Region;
use coppice_qemu::tether::{self, Tether};
use support::{Then, image};
use tokio::io::AsyncReadExt;

/// Longest anything here may take; hosts may be busy.
const PATIENCE: Duration = Duration::from_secs(20);

const MIB: u64 = 1024 * 1024;

/// Argument that makes this program the parent in [`children_end_with_a_killed_parent`].
const PARENT: &str = "--be-the-parent";

fn main() {
    tether::intercept();
    if std::env::args().nth(1).as_deref() == Some(PARENT) {
        return be_the_parent();
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
    let step = |name: &str| println!("test {name}");
    step("children end with a killed parent");
    children_end_with_a_killed_parent();
    step("a tether says what is wrong");
    a_tether_says_what_is_wrong();
    runtime.block_on(async {
        let host = Host::new();
        step("guests end their machines");
        guests_end_their_machines(&host).await;
        step("QMP controls a machine");
        qmp_controls_a_machine(&host, false).await;
        qmp_controls_a_machine(&host, true).await;
        step("machines leave nothing");
        machines_leave_nothing(&host).await;
        step("a region is memory and a disk");
        for icount in [false, true] {
            a_region_is_memory_and_a_disk(&host, icount).await;
        }
        step("a frame's worth of network");
        network_sockets(&host).await;
        step("QEMU's complaints are kept");
        complaints_are_kept(&host).await;
        step("an idle machine costs little");
        idle_machine(&host).await;
        step("the probe decides and remembers");
        probe_decides(&host).await;
    });
}

/// What the tests share.
struct Host {
    directory: tempfile::TempDir,
    launcher: Launcher,
}

impl Host {
    fn new() -> Self {
        let qemu = find_qemu().expect("QEMU");
        assert!(qemu.path.is_absolute());
        Self { directory: tempfile::tempdir().expect("directory"), launcher: Launcher { qemu, tether: Tether::Own } }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    fn machine(&self, line: &str, then: Then) -> Machine {
        let kernel = self.path("kernel,with=comma.elf");
        std::fs::write(&kernel, image(line, then)).expect("image");
        Machine::new("test,machine", kernel, 16 * MIB, Accelerator::Tcg)
    }

    fn start(&self, machine: &Machine) -> Running {
        self.launcher.start(machine).expect("started")
    }
}

async fn end(running: &mut Running) -> Exit {
    tokio::time::timeout(PATIENCE, running.wait()).await.expect("in time").expect("status")
}

fn be_the_parent() {
    let mut child = tether::command("sleep").arg(PATIENCE.as_secs().to_string()).spawn().expect("child");
    println!("{}", child.id());
    std::io::stdout().flush().expect("flush");
    child.wait().expect("wait");
}

fn is_alive(pid: &str) -> bool {
    // A zombie nobody has waited for is dead.
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z'))
}

fn children_end_with_a_killed_parent() {
    let own = std::env::current_exe().expect("path");
    let mut parent = Command::new(own).arg(PARENT).stdout(Stdio::piped()).spawn().expect("parent");
    let mut pid = String::new();
    BufReader::new(parent.stdout.take().expect("piped")).read_line(&mut pid).expect("pid");
    let pid = pid.trim();
    let start = Instant::now();
    while std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() != "sleep") {
        assert!(start.elapsed() < PATIENCE, "the child became nothing");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(is_alive(pid));
    parent.kill().expect("kill");
    parent.wait().expect("wait");
    let start = Instant::now();
    while is_alive(pid) {
        assert!(start.elapsed() < PATIENCE, "the child lives on");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn a_tether_says_what_is_wrong() {
    let run = |mut command: Command| {
        let output = command.output().expect("run");
        assert_eq!(output.status.code(), Some(tether::FAILED_STATUS));
        String::from_utf8(output.stderr).expect("text")
    };
    assert!(run(tether::command("/no/such/program")).contains("cannot run /no/such/program"));
    let own = || Command::new("/proc/self/exe");
    let mut orphan = own();
    orphan.args(["--tether", "1", "--", "true"]);
    assert!(run(orphan).contains("process 1, is gone"));
    for arguments in [&["--tether"][..], &["--tether", "x", "--", "true"], &["--tether", "1", "true"]] {
        let mut wrong = own();
        wrong.args(arguments);
        assert!(run(wrong).contains("takes the parent's process id"));
    }
    let output = tether::command("echo").args(["--tether", "a b"]).output().expect("run");
    assert_eq!(output.stdout, b"--tether a b\n");
}

async fn guests_end_their_machines(host: &Host) {
    let log = host.path("serial,1.log");
    for (icount, status) in [(false, 1), (true, 42), (false, 127)] {
        let mut machine = host.machine("hello\n", Then::Exit(status));
        machine.icount = icount;
        machine.serial = Serial::File { path: log.clone(), append: status != 1 };
        assert_eq!(end(&mut host.start(&machine)).await, Exit::Guest { status });
    }
    assert_eq!(std::fs::read_to_string(&log).expect("log"), "hello\nhello\nhello\n");
    let mut machine = host.machine("once\n", Then::Exit(1));
    machine.serial = Serial::File { path: log.clone(), append: false };
    end(&mut host.start(&machine)).await;
    assert_eq!(std::fs::read_to_string(&log).expect("log"), "once\n");
    machine.serial = Serial::Stdio;
    let mut running = host.start(&machine);
    let mut said = String::new();
    running.serial().expect("a serial line").read_to_string(&mut said).await.expect("text");
    assert_eq!((said.as_str(), running.serial().is_none()), ("once\n", true));
    assert_eq!(end(&mut running).await, Exit::Guest { status: 1 });
}

async fn qmp_controls_a_machine(host: &Host, socket: bool) {
    let mut machine = host.machine("up\n", Then::Halt);
    let path = host.path("qmp,1");
    machine.qmp = if socket { QmpChannel::Socket(path.clone()) } else { QmpChannel::Stdio };
    let mut running = host.start(&machine);
    let mut qmp = running.qmp().await.expect("QMP");
    if !socket {
        assert!(matches!(running.qmp().await, Err(QmpError::None)));
    }
    assert!(qmp.query_status().await.expect("status").running);
    qmp.stop().await.expect("stop");
    assert_eq!(qmp.query_status().await.expect("status").status, "paused");
    assert_eq!(qmp.event().await.expect("event").name, "STOP");
    qmp.cont().await.expect("cont");
    assert_eq!(qmp.event().await.expect("event").name, "RESUME");
    // The image itself, at the place where it was loaded.
    let memory = host.path("memory");
    qmp.save_memory(0x10_0000, 4, &memory, PATIENCE).await.expect("saved");
    assert_eq!(std::fs::read(&memory).expect("memory"), b"\x7fELF");
    assert!(qmp.query_stats("vm").await.expect("stats").is_array());
    match qmp.execute("make-coffee", serde_json::Value::Null).await {
        Err(QmpError::Refused { command, description }) => {
            assert!(command == "make-coffee" && description.contains("not been found"), "{description}");
        }
        other => panic!("{other:?}"),
    }
    qmp.quit().await.expect("quit");
    assert_eq!(end(&mut running).await, Exit::Off);
    assert!(!path.exists());
    assert!(matches!(qmp.query_status().await, Err(QmpError::Closed | QmpError::Io(_))));
}

async fn a_region_is_memory_and_a_disk(host: &Host, icount: bool) {
    let path = host.path("a,b=\n\u{fc}");
    let mut machine = host.machine("up\n", Then::Halt);
    // An odd length: QEMU aligns what it shows.
    machine.region = Some(Region { path: path.clone(), bytes: 3 * MIB });
    // What is written to the disk is also said on standard output.
    (machine.icount, machine.qmp) = (icount, QmpChannel::Socket(host.path("qmp")));
    let file = std::fs::File::create(&path).expect("file");
    file.set_len(3 * MIB).expect("length");
    file.write_all_at(b"before", 2 * MIB).expect("written");
    let mut running = host.start(&machine);
    let mut qmp = running.qmp().await.expect("QMP");
    let devices = qmp.execute("query-memory-devices", serde_json::Value::Null).await.expect("devices");
    let data = &devices[0]["data"];
    assert_eq!((&devices[0]["type"], &data["size"]), (&"virtio-pmem".into(), &(3 * MIB).into()), "{devices}");
    let address = data["memaddr"].as_u64().expect("an address");
    // What the disk writes is in the memory, and what is written from outside is too.
    let disks = qmp.execute("query-block", serde_json::Value::Null).await.expect("disks");
    let disk = disks[0]["qdev"].as_str().expect("a device");
    let write = serde_json::json!({"command-line": format!("qemu-io -d {disk} \"write -P 0x61 2097153 4\"")});
    qmp.execute("human-monitor-command", write).await.expect("written");
    file.write_all_at(b"!", 3 * MIB - 1).expect("written");
    let memory = host.path("memory");
    for (offset, expected) in [(2 * MIB, b"baaaae"), (3 * MIB - 6, b"\0\0\0\0\0!")] {
        qmp.save_memory(address + offset, 6, &memory, PATIENCE).await.expect("saved");
        assert_eq!(std::fs::read(&memory).expect("memory"), expected);
    }
    qmp.quit().await.expect("quit");
    assert_eq!(end(&mut running).await, Exit::Off);
    assert_eq!(std::fs::read(&path).expect("it stays")[2 * MIB as usize..][..6], *b"baaaae");
}

fn wire(host: &Host) -> Nic {
    let (local, remote) = (host.path("n0,.sock"), host.path("n0,.sw"));
    Nic { mac: [2, 0, 10, 64, 0, 1], mtu: 9000, local, remote }
}

async fn wait_for(path: &Path) {
    let start = Instant::now();
    while !path.exists() {
        assert!(start.elapsed() < PATIENCE, "{} does not appear", path.display());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn machines_leave_nothing(host: &Host) {
    let mut machine = host.machine("", Then::Halt);
    machine.nic = Some(wire(host));
    machine.qmp = QmpChannel::Socket(host.path("qmp"));
    for dropped in [false, true] {
        let mut running = host.start(&machine);
        let pid = running.pid().to_string();
        let _connected = running.qmp().await.expect("QMP");
        assert!(machine.leftovers().iter().all(|path| path.exists()));
        assert!(is_alive(&pid));
        if dropped {
            drop(running);
        } else {
            assert_eq!(running.kill().await.expect("killed"), Exit::Signal(9));
            assert_eq!(running.kill().await.expect("still"), Exit::Signal(9));
            assert!(!is_alive(&pid));
        }
        assert_eq!(machine.leftovers().iter().filter(|path| path.exists()).count(), 0);
        let start = Instant::now();
        while is_alive(&pid) {
            assert!(start.elapsed() < PATIENCE, "QEMU lives on");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

async fn network_sockets(host: &Host) {
    let mut machine = host.machine("", Then::Halt);
    machine.nic = Some(wire(host));
    let switch = UnixDatagram::bind(host.path("n0,.sw")).expect("switch");
    let mut running = host.start(&machine);
    wait_for(&host.path("n0,.sock")).await;
    // It has no driver, so the frame goes nowhere, but the socket takes it.
    switch.send_to(&[0xff; 9014], host.path("n0,.sock")).expect("sent");
    running.kill().await.expect("killed");
    // The switch's socket is not the machine's to remove.
    assert!(host.path("n0,.sw").exists());
}

async fn complaints_are_kept(host: &Host) {
    let mut machine = host.machine("", Then::Halt);
    machine.serial = Serial::File { path: "/no/such/directory/log".into(), append: false };
    match end(&mut host.start(&machine)).await {
        Exit::Qemu { status: 1, message } => assert!(message.contains("/no/such/directory"), "{message}"),
        other => panic!("{other:?}"),
    }
    machine.kernel = host.path("absent.elf");
    let error = host.launcher.start(&machine).expect_err("no kernel");
    assert!(error.to_string().contains("absent.elf"), "{error}");
    let mut broken = host.launcher.clone();
    broken.qemu.path = host.path("no-qemu");
    match end(&mut broken.start(&host.machine("", Then::Halt)).expect("tether")).await {
        Exit::Qemu { status: tether::FAILED_STATUS, message } => assert!(message.contains("no-qemu"), "{message}"),
        other => panic!("{other:?}"),
    }
}

async fn idle_machine(host: &Host) {
    let mut machine = host.machine("halts\n", Then::Halt);
    machine.serial = Serial::Stdio;
    let mut running = host.start(&machine);
    let mut said = [0; 6];
    running.serial().expect("a serial line").read_exact(&mut said).await.expect("text");
    assert_eq!(&said, b"halts\n");
    // QEMU itself may have something to do for a while longer.
    let start = Instant::now();
    loop {
        let before = CpuTime::of(running.pid()).expect("time");
        tokio::time::sleep(Duration::from_secs(2)).await;
        let cost = CpuTime::of(running.pid()).expect("time").total() - before.total();
        println!("    {cost:?} in 2 s");
        // 1 % of a core, and a tick for the clock's resolution.
        if cost <= Duration::from_millis(30) {
            break;
        }
        assert!(start.elapsed() < PATIENCE, "{cost:?}");
    }
    running.kill().await.expect("killed");
}

async fn probe_decides(host: &Host) {
    let kernel = host.machine("alive\n", Then::Exit(1)).kernel;
    let cache = host.path("probe.json");
    let verdict = probe_cached(&host.launcher, &kernel, &cache).await;
    println!("    {verdict:?}");
    assert_eq!(verdict.accelerator == Accelerator::Kvm, verdict.kvm_refused.is_none());
    // The guest was late, or QEMU did not stand it: the host may only be busy or short of something.
    let may_pass = |verdict: &Verdict| {
        let passing = ["had not come to its end", "QEMU was ended by signal", "QEMU ended with"];
        verdict.kvm_refused.as_ref().is_some_and(|reason| passing.iter().any(|what| reason.contains(what)))
    };
    let passes = may_pass(&verdict);
    if !passes {
        // What is remembered is not tried again, and holds for this image alone.
        let text = std::fs::read_to_string(&cache).expect("cache");
        let altered = text.replace(
            &serde_json::to_string(&verdict).expect("json"),
            r#"{"accelerator":"tcg","kvm_refused":"because"}"#,
        );
        std::fs::write(&cache, altered).expect("cache");
        let because = Verdict { accelerator: Accelerator::Tcg, kvm_refused: Some("because".into()) };
        assert_eq!(probe_cached(&host.launcher, &kernel, &cache).await, because);
    }
    // What may pass is not remembered; the next guest may come to its end.
    assert_eq!(cache.exists(), !passes);
    std::fs::write(&kernel, image("another\n", Then::Exit(1))).expect("image");
    let another = probe_cached(&host.launcher, &kernel, &cache).await;
    assert!(passes || may_pass(&another) || another.accelerator == verdict.accelerator, "{another:?}");
    std::fs::write(&cache, "nonsense").expect("cache");
    let another = probe_cached(&host.launcher, &kernel, &cache).await;
    assert!(passes || may_pass(&another) || another.accelerator == verdict.accelerator, "{another:?}");
    // A guest that says something and then hangs is not trusted.
    std::fs::write(&kernel, image("hm\n", Then::Halt)).expect("image");
    let verdict = probe(&host.launcher, &kernel, Duration::from_millis(400)).await;
    println!("    {verdict:?}");
    assert_eq!(verdict.accelerator, Accelerator::Tcg);
    assert!(verdict.kvm_refused.is_some_and(|reason| !reason.is_empty()));
}
