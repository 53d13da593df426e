//! Slurm on this host, for one measurement: its controller and some nodes of it, as root, without anything of it
//! installed beyond Debian's package `slurm-wlm`.
//!
//! All of it lives in name spaces for processes and networks whose first process reads what to start from a pipe: when
//! that ends, because this process drops it or is gone, the host's kernel ends whatever is still there.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};

/// What has to be there, beside root's rights.
const NEEDED: [&str; 4] = ["/usr/bin/srun", "/usr/sbin/slurmctld", "/usr/sbin/slurmd", "/usr/bin/unshare"];

/// Outside the name spaces: the first argument is a directory to remove in the end, the second what runs inside.
const OUTSIDE: &str = r#"
trap "" HUP INT TERM
unshare --fork --pid --mount-proc --net /bin/sh -c "$2" slurm "$1" "$3"
rm -rf -- "$1"
"#;

/// Inside: the directory, and how many nodes. Then a line for each run, `TASKS PROGRAM`; what that prints is ended by a
/// line of ours. What the daemons said is shown if they do not come up. Where only the loopback has an address, nothing
/// is found to listen at.
const INSIDE: &str = r#"
busybox ip link set lo up
busybox ip address add 192.0.2.1/32 dev lo
cd "$1"
export SLURM_CONF="$1/slurm.conf" MPICH_INTERFACE_HOSTNAME=127.0.0.1
slurmctld -D -i >controller.log 2>&1 </dev/null &
controller=$!
for node in $(seq "$2"); do
    mkdir -p "spool/h$node"
    slurmd -D -N "h$node" >"h$node.log" 2>&1 </dev/null &
done
turns=0
until [ "$(timeout 2 sinfo -h -t idle -o %D 2>/dev/null)" = "$2" ]; do
    turns=$((turns + 1))
    if [ "$turns" -gt 100 ] || ! kill -0 "$controller" 2>/dev/null; then
        tail -n 3 controller.log h1.log >&2
        exit 1
    fi
    sleep 0.2
done
echo "slurm-status 0"
while read -r tasks program; do
    timeout -k 5 120 srun --mpi=pmi2 -N "$2" -n "$tasks" "$program" </dev/null 2>srun.log
    status=$?
    [ "$status" = 0 ] || tail -n 3 srun.log >&2
    echo "slurm-status $status"
done
"#;

/// What our line begins with.
const STATUS: &str = "slurm-status ";

/// A Slurm that is up.
pub(super) struct Slurm {
    /// Where all of it is; gone afterwards.
    #[cfg_attr(not(test), expect(dead_code, reason = "the shell removes it"))]
    directory: PathBuf,
    child: Child,
    orders: Option<ChildStdin>,
    said: BufReader<ChildStdout>,
}

/// Why there is none, in a word.
pub(super) fn missing() -> Option<&'static str> {
    if NEEDED.iter().any(|program| !Path::new(program).exists()) {
        return Some("absent");
    }
    (!rustix::process::geteuid().is_root()).then_some("rootless")
}

impl Slurm {
    /// Brings it up, with that many nodes for so many tasks each.
    ///
    /// # Errors
    /// If it does not come up.
    pub(super) fn up(nodes: u32, tasks: u32) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("slurm").tempdir_in("/tmp")?;
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").context("this host has no name")?;
        std::fs::create_dir(directory.path().join("state"))?;
        std::fs::write(
            directory.path().join("slurm.conf"),
            configuration(directory.path(), host.trim(), nodes, tasks),
        )?;
        // From here on the shell removes it.
        let directory = directory.keep();
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", OUTSIDE, "slurm"]).arg(&directory).args([INSIDE, &nodes.to_string()]);
        // Ctrl-C at a terminal is meant for all processes of the group.
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).current_dir("/").process_group(0);
        let mut child = shell.spawn().context("cannot start /bin/sh")?;
        let said = BufReader::new(child.stdout.take().context("a shell without output")?);
        let orders = child.stdin.take();
        let mut slurm = Self { directory, child, orders, said };
        slurm.answer().context("Slurm does not come up on this host")?;
        Ok(slurm)
    }

    /// Has a program run by `srun` and returns what it printed.
    ///
    /// # Errors
    /// If it fails.
    pub(super) fn run(&mut self, tasks: &str, program: &str) -> Result<String> {
        let orders = self.orders.as_mut().context("Slurm is going down")?;
        writeln!(orders, "{tasks} {program}").context("Slurm is gone")?;
        self.answer().with_context(|| format!("`srun -n {tasks} {program}` failed"))
    }

    /// What is printed until our line comes.
    fn answer(&mut self) -> Result<String> {
        let mut text = String::new();
        loop {
            let begun = text.len();
            if self.said.read_line(&mut text)? == 0 {
                bail!("it ended");
            }
            match text[begun..].trim_end().strip_prefix(STATUS) {
                Some("0") => {
                    text.truncate(begun);
                    return Ok(text);
                }
                Some(status) => bail!("status {status}"),
                None => {}
            }
        }
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        drop(self.orders.take());
        let _ = self.child.wait();
    }
}

/// Its settings: nodes that are this host, each with a port and a name of its own, and nobody who proves who he is.
fn configuration(directory: &Path, host: &str, nodes: u32, tasks: u32) -> String {
    let directory = directory.display();
    format!(
        "ClusterName=bench\n\
         SlurmctldHost={host}(127.0.0.1)\n\
         SlurmUser=root\n\
         SlurmdUser=root\n\
         AuthType=auth/none\n\
         CredType=cred/none\n\
         MpiDefault=none\n\
         ProctrackType=proctrack/linuxproc\n\
         TaskPlugin=task/none\n\
         SelectType=select/linear\n\
         SchedulerType=sched/builtin\n\
         JobAcctGatherType=jobacct_gather/none\n\
         AccountingStorageType=accounting_storage/none\n\
         SlurmdParameters=config_overrides\n\
         StateSaveLocation={directory}/state\n\
         SlurmdSpoolDir={directory}/spool/%n\n\
         SlurmctldPidFile={directory}/controller.pid\n\
         SlurmdPidFile={directory}/%n.pid\n\
         NodeName=h[1-{nodes}] NodeHostname={host} NodeAddr=127.0.0.1 Port=[17001-{}] CPUs={tasks} State=UNKNOWN\n\
         PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n",
        17000 + nodes
    )
}

#[cfg(test)]
mod tests {
    use super::{Slurm, missing};

    #[test]
    fn tasks_run_and_nothing_is_left() {
        if let Some(why) = missing() {
            eprintln!("not tried: {why}");
            return;
        }
        let mut slurm = Slurm::up(2, 2).expect("it comes up");
        for _ in 0..2 {
            let text = slurm.run("4", "/usr/bin/env").expect("it runs");
            let mut ranks: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("PMI_RANK=")).collect();
            ranks.sort_unstable();
            assert_eq!(ranks, ["0", "1", "2", "3"]);
        }
        assert!(slurm.run("2", "/bin/false").is_err());
        let directory = slurm.directory.clone();
        assert!(directory.exists());
        drop(slurm);
        assert!(!directory.exists());
        let of_it = |entry: std::fs::DirEntry| {
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(&*directory.to_string_lossy())
        };
        assert!(!std::fs::read_dir("/proc").expect("processes").flatten().any(of_it));
    }
}
