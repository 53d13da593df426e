//! Debian's Linux on a machine as a node's, with files of the host through NFS (nfs-ganesha, by a tap device) and
//! through virtiofs (QEMU's daemon): what file calls of a node are held against.
//!
//! Server, daemon and machine live in name spaces for processes and networks, and end with the first process in there.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::super::guest::compile;
use super::super::linux;

/// Longest that one may take, seconds.
const SECONDS_MAX: &str = "200";

/// Drivers, beside those of virtio: with NFS those of the network card go before.
const NFS: [&str; 8] = ["sunrpc", "grace", "lockd", "netfs", "fscache", "nfs", "dns_resolver", "nfsv4"];
const VIRTIOFS: [&str; 2] = ["fuse", "virtiofs"];

/// Debian's programs.
const GANESHA: &str = "/usr/bin/ganesha.nfsd";
const GANESHA_VFS: &str = "/usr/lib/x86_64-linux-gnu/ganesha/libfsalvfs.so";
const VIRTIOFSD: &str = "/usr/lib/qemu/virtiofsd";

/// What the machine is called with, beside its kernel: it mounts as soon as it is answered. Of NFS, large calls.
const NFS_MOUNT: &str = "192.0.2.2 nfs4 192.0.2.1:/files \
     addr=192.0.2.1,clientaddr=192.0.2.2,vers=4.2,sec=sys,rsize=1048576,wsize=1048576";
const VIRTIOFS_MOUNT: &str = "- virtiofs files rw";

/// Sets up the host's end of the network, whose name it is told.
const TAP_UP: &str =
    "#!/bin/sh\nbusybox ip address add 192.0.2.1/24 dev \"$1\" && busybox ip link set \"$1\" mtu 9000 up\n";

/// Outside the name spaces: the time there is, in seconds, a directory to remove in the end, what runs inside, and what
/// that is given. Ctrl-C at a terminal is meant for all processes there; these end when their input does.
const OUTSIDE: &str = r#"
trap "" HUP INT TERM
seconds=$1 directory=$2 inside=$3
shift 3
timeout --kill-after=5 "$seconds" unshare --fork --pid --kill-child --mount-proc --net \
    /bin/sh -c "$inside" peer "$directory" "$@"
status=$?
[ "$status" = 0 ] || cat -- "$directory/server.log" >&2
rm -rf -- "$directory"
exit "$status"
"#;

/// Inside: the directory, the server, and the machine. When the input ends, all of it does.
const BEGIN: &str = r#"
cd "$1" || exit 1
server=$2
shift 2
exec 3<&0
(cat >/dev/null; kill -KILL -1) <&3 &
"#;
const WITH_NFS: &str = r#"
busybox ip link set lo up || exit 1
"$server" -F -f "$PWD/ganesha.conf" -L "$PWD/server.log" -p "$PWD/ganesha.pid" </dev/null >server.log 2>&1 &
"$@" </dev/null
"#;
const WITH_VIRTIOFS: &str = r#"
"$server" --socket-path="$PWD/daemon" -o source="$PWD/files" -o cache=auto </dev/null >server.log 2>&1 &
turns=0
until [ -S daemon ]; do
    turns=$((turns + 1))
    [ "$turns" -le 100 ] || exit 1
    busybox usleep 50000
done
"$@" </dev/null
"#;

/// How a machine has the host's files.
#[derive(Clone, Copy)]
pub(super) enum Peer {
    Nfs,
    Virtiofs,
}

impl Peer {
    /// What people call it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Nfs => "NFS",
            Self::Virtiofs => "virtiofs",
        }
    }

    /// Runs the program in a directory of the host and returns what it printed, or, if this machine cannot, why not.
    ///
    /// # Errors
    /// If the kernel cannot be had or the machine does not stop by itself.
    pub(super) fn run(self, program: &Path, arguments: &str) -> Result<Result<String, &'static str>> {
        if !rustix::process::geteuid().is_root() {
            return Ok(Err("wants root"));
        }
        match self {
            Self::Nfs if !Path::new(GANESHA).exists() || !Path::new(GANESHA_VFS).exists() => {
                return Ok(Err("wants Debian's nfs-ganesha and nfs-ganesha-vfs"));
            }
            Self::Virtiofs if !Path::new(VIRTIOFSD).exists() => return Ok(Err("wants QEMU's virtiofsd")),
            _ => {}
        }
        self.measure(program, arguments).with_context(|| format!("Linux with {}", self.name())).map(Ok)
    }

    fn measure(self, program: &Path, arguments: &str) -> Result<String> {
        let kernel = linux::kernel()?;
        let init = compile("peer_files")?;
        let (drivers, mount, server, script) = match self {
            Self::Nfs => ([&linux::VIRTIO[..], &linux::CARD, &NFS].concat(), NFS_MOUNT, GANESHA, WITH_NFS),
            Self::Virtiofs => ([&linux::VIRTIO[..], &VIRTIOFS].concat(), VIRTIOFS_MOUNT, VIRTIOFSD, WITH_VIRTIOFS),
        };
        let modules = linux::modules(&drivers)?;
        let mut files = vec![("init", init.as_path()), ("program", program)];
        files.extend(modules.iter().map(|(name, path)| (name.as_str(), path.as_path())));
        let scene = tempfile::Builder::new().prefix("cop").tempdir()?;
        let at = scene.path();
        let archive = at.join("initramfs");
        linux::pack(&files, &at.join("archive"), &archive)?;
        self.prepare(at)?;
        let arguments = format!("{} {mount} /program {arguments}", drivers.join(","));
        let mut command = Command::new("/bin/sh");
        command.args(["-c", OUTSIDE, "peer", SECONDS_MAX]).arg(at).arg([BEGIN, script].concat()).arg(server);
        command.args(linux::like_a_node(&kernel, &archive, &arguments)).args(self.devices(at));
        command.args(["-serial", "stdio"]).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("cannot start /bin/sh")?;
        // Until it has ended; or this process has, and then that ends, too.
        let input = child.stdin.take();
        let ran = child.wait_with_output().context("cannot wait for the machine")?;
        drop(input);
        let said = String::from_utf8_lossy(&ran.stdout).into_owned();
        if !ran.status.success() || said.contains("peer:") {
            bail!("{}: {said}{}", ran.status, String::from_utf8_lossy(&ran.stderr));
        }
        Ok(said)
    }

    /// Puts what is served, and how, into the directory.
    fn prepare(self, at: &Path) -> Result<()> {
        let put = |name: &str, text: &str| {
            std::fs::write(at.join(name), text).with_context(|| format!("cannot write {name} in {}", at.display()))
        };
        for name in ["files", "recovery"] {
            std::fs::create_dir(at.join(name)).with_context(|| format!("cannot make {name} in {}", at.display()))?;
        }
        if let Self::Nfs = self {
            put("ganesha.conf", &ganesha(at))?;
            put("tap-up", TAP_UP)?;
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(at.join("tap-up"), mode)?;
        }
        Ok(())
    }

    /// The machine's device, as QEMU is told of it.
    fn devices(self, at: &Path) -> Vec<OsString> {
        let in_scene = |name: &str| -> PathBuf { at.join(name) };
        let words = match self {
            Self::Nfs => vec![
                "-netdev".into(),
                format!("tap,id=wire,script={},downscript=no", in_scene("tap-up").display()),
                "-device".into(),
                "virtio-net-pci,netdev=wire,romfile=,host_mtu=9000".into(),
            ],
            Self::Virtiofs => vec![
                "-object".into(),
                "memory-backend-memfd,id=memory,size=256M,share=on".into(),
                "-numa".into(),
                "node,memdev=memory".into(),
                "-chardev".into(),
                format!("socket,id=daemon,path={}", in_scene("daemon").display()),
                "-device".into(),
                "vhost-user-fs-pci,chardev=daemon,tag=files".into(),
            ],
        };
        words.into_iter().map(OsString::from).collect()
    }
}

/// What the NFS server is to do: that directory, without waiting for clients of an earlier life.
fn ganesha(at: &Path) -> String {
    let (files, recovery) = (at.join("files"), at.join("recovery"));
    format!(
        "NFS_CORE_PARAM {{ Protocols = 4; Enable_NLM = false; Enable_RQUOTA = false; }}\n\
         NFSv4 {{ Graceless = true; RecoveryBackend = fs; RecoveryRoot = {}; Only_Numeric_Owners = true; }}\n\
         EXPORT {{ Export_Id = 1; Path = {}; Pseudo = /files; Access_Type = RW; Squash = No_Root_Squash; \
         SecType = sys; Protocols = 4; Transports = TCP; FSAL {{ Name = VFS; }} }}\n\
         LOG {{ Default_Log_Level = WARN; }}\n",
        recovery.display(),
        files.display()
    )
}
