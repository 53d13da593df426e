//! Programs that run on nodes, compiled from `tests/guests` when a test first wants them.
//!
//! They are ordinary Linux programs; the same file runs on the host.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// Debian's busybox: an unmodified static glibc program with 270 commands in it.
pub const BUSYBOX: &str = "/bin/busybox";

/// What a guest is compiled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Toolchain {
    /// gcc and glibc, linked at a fixed address.
    Glibc,
    /// gcc and glibc, position-independent.
    GlibcPie,
    /// gcc and musl.
    Musl,
    /// g++ and glibc; sources in `tests/guests/cpp`.
    CPlusPlus,
    /// Rust's std on musl (position-independent by default).
    Rust,
    /// Rust's std on glibc.
    RustGlibc,
    /// gcc and glibc, dynamically linked, with libraries beside the program, too.
    Dynamic,
    /// The same with musl.
    MuslDynamic,
    /// A library: gcc and glibc.
    Library,
    /// The same with musl.
    MuslLibrary,
    /// MPICH's compiler, from `cargo xtask mpich`; sources in `tests/guests/mpi`.
    Mpi,
    /// gcc and glibc with OpenMP. There is none with musl: gcc's library for it is made for glibc.
    OpenMp,
    /// MPICH's compiler with OpenMP; sources in `tests/guests/mpi`.
    MpiOpenMp,
    /// Open MPI's compiler, from `cargo xtask openmpi`; sources in `tests/guests/mpi`.
    OpenMpi,
    /// gcc, glibc and OpenPMIx, from `cargo xtask pmix`; sources in `tests/guests/pmix`.
    Pmix,
    /// The compiler of the MPICH with the client of PMI version 2, from `cargo xtask mpich --pmi pmi2`, with OpenMP;
    /// sources in `tests/guests/mpi`.
    MpichPmi2,
    /// The compiler of the MPICH with OpenPMIx's client, from `cargo xtask mpich --pmi pmix`, with OpenMP; sources in
    /// `tests/guests/mpi`.
    MpichPmix,
    /// gcc, glibc and Debian's SQLite.
    Sqlite,
    /// gcc without a C library, laid out by the linker script beside the source, in `tests/guests/bare`.
    Bare,
}

/// Nothing in the program but what its source and its linker script say.
const BARE: [&str; 10] = [
    "-O2",
    "-Wall",
    "-ffreestanding",
    "-nostdlib",
    "-static",
    "-no-pie",
    "-fno-stack-protector",
    "-fno-asynchronous-unwind-tables",
    "-fcf-protection=none",
    "-Wl,-z,max-page-size=4096,-z,noexecstack,--build-id=none",
];

/// One compiler at a time, so that two tests do not write one file.
static COMPILING: Mutex<()> = Mutex::new(());

/// The compiled program `tests/guests/{c,cpp,rust,mpi,pmix,bare}/NAME`.
///
/// # Panics
/// If the compiler is missing or complains.
#[track_caller]
pub fn program(name: &str, toolchain: Toolchain) -> PathBuf {
    let _one = COMPILING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("guests");
    let output = crate::cluster::binaries().join("../guests");
    std::fs::create_dir_all(&output).expect("directory for guests");
    let output = output.canonicalize().expect("directory for guests").join(format!("{name}-{toolchain:?}"));
    let mpi = mpi(toolchain);
    let (directory, extension) = match toolchain {
        Toolchain::Rust | Toolchain::RustGlibc => ("rust", "rs"),
        Toolchain::CPlusPlus => ("cpp", "cpp"),
        Toolchain::Pmix => ("pmix", "c"),
        _ if mpi.is_some() => ("mpi", "c"),
        Toolchain::Bare => ("bare", "c"),
        _ => ("c", "c"),
    };
    let source = sources.join(directory).join(name).with_extension(extension);
    let script = source.with_extension("ld");
    let mut inputs = headers(&sources.join(directory));
    inputs.extend(headers(&sources.join(directory).join(name)));
    inputs.extend(headers(&sources.join("../../docs/include")));
    if toolchain == Toolchain::Bare {
        inputs.push(script.clone());
    }
    if toolchain == Toolchain::Pmix {
        inputs.push(pmix().join("lib/libpmix.a"));
    }
    inputs.extend(mpi.as_ref().map(|mpi| mpi.join("lib/libmpi.a")));
    inputs.push(source.clone());
    if inputs.iter().all(|input| is_newer(&output, input)) {
        return output;
    }
    // Compiled beside its place and moved there, so that a test that is interrupted leaves no half program.
    let staged = output.with_extension("new");
    let mut command = match toolchain {
        Toolchain::Glibc | Toolchain::Sqlite => compiler("gcc", &["-O2", "-Wall", "-static", "-no-pie"]),
        Toolchain::GlibcPie => compiler("gcc", &["-O2", "-Wall", "-static-pie", "-fPIE"]),
        Toolchain::Musl => compiler("musl-gcc", &["-O2", "-Wall", "-static"]),
        Toolchain::Dynamic => compiler("gcc", &["-O2", "-Wall", "-Wl,-rpath,$ORIGIN"]),
        Toolchain::MuslDynamic => compiler("musl-gcc", &["-O2", "-Wall", "-Wl,-rpath,$ORIGIN"]),
        Toolchain::Library => compiler("gcc", &["-O2", "-Wall", "-shared", "-fPIC"]),
        Toolchain::MuslLibrary => compiler("musl-gcc", &["-O2", "-Wall", "-shared", "-fPIC"]),
        Toolchain::CPlusPlus => compiler("g++", &["-O2", "-Wall", "-std=c++17", "-static", "-no-pie"]),
        Toolchain::Rust => compiler("rustc", &["--edition=2024", "-O", "--target=x86_64-unknown-linux-musl"]),
        Toolchain::RustGlibc => compiler("rustc", &["--edition=2024", "-O", "-Ctarget-feature=+crt-static"]),
        Toolchain::OpenMp => compiler("gcc", &["-O2", "-Wall", "-static", "-no-pie", "-fopenmp"]),
        Toolchain::Mpi | Toolchain::MpiOpenMp | Toolchain::MpichPmi2 | Toolchain::MpichPmix | Toolchain::OpenMpi => {
            let mpicc = mpi.unwrap_or_default().join("bin/mpicc");
            assert!(mpicc.exists(), "no {}: build it first, see `cargo xtask mpich --help`", mpicc.display());
            // gcc takes MPI_STATUSES_IGNORE for an array that is too short.
            let mut mpicc = compiler(&mpicc.to_string_lossy(), &["-O2", "-Wall", "-Wno-stringop-overflow", "-static"]);
            if toolchain != Toolchain::Mpi {
                mpicc.arg("-fopenmp");
            }
            mpicc
        }
        Toolchain::Pmix => {
            let built = pmix();
            assert!(built.join("lib").exists(), "no {}: build it first with `cargo xtask pmix`", built.display());
            let mut gcc = compiler("gcc", &["-O2", "-Wall", "-static", "-no-pie", "-I"]);
            gcc.arg(built.join("include"));
            gcc
        }
        Toolchain::Bare => compiler("gcc", &BARE),
    };
    if toolchain == Toolchain::Bare {
        command.arg("-T").arg(&script);
    }
    command.arg(source).arg("-o").arg(&staged);
    if toolchain == Toolchain::Sqlite {
        command.arg("-lsqlite3");
    }
    if matches!(toolchain, Toolchain::Sqlite | Toolchain::Glibc | Toolchain::GlibcPie | Toolchain::Musl) {
        command.arg("-lm");
    }
    if toolchain == Toolchain::Pmix {
        command.arg("-L").arg(pmix().join("lib")).args(["-lpmix", "-lhwloc", "-levent_pthreads", "-levent_core"]);
        command.args(["-lm", "-lpthread"]);
    }
    let ran = crate::cluster::finish(command);
    assert_eq!(ran.status, 0, "cannot compile {name} ({toolchain:?}): {}", ran.stderr);
    std::fs::rename(&staged, &output).expect("move the program into place");
    output
}

/// Where `cargo xtask mpich` puts MPICH.
#[must_use]
pub fn mpich() -> PathBuf {
    crate::cluster::binaries().join("../mpich")
}

/// One of the programs that `cargo xtask file-suites` builds.
#[must_use]
pub fn file_suite(name: &str) -> PathBuf {
    let path = crate::cluster::binaries().join("../file-suites/bin").join(name);
    assert!(path.exists(), "no {}: build it first with `cargo xtask file-suites`", path.display());
    path
}

/// Where `cargo xtask pmix` puts OpenPMIx.
#[must_use]
pub fn pmix() -> PathBuf {
    crate::cluster::binaries().join("../pmix")
}

/// Where `cargo xtask pmix` puts OpenPMIx's own tests.
#[must_use]
pub fn pmix_tests() -> PathBuf {
    pmix().with_file_name("pmix-tests")
}

/// The MPI that a tool chain is of.
fn mpi(toolchain: Toolchain) -> Option<PathBuf> {
    match toolchain {
        Toolchain::Mpi | Toolchain::MpiOpenMp => Some(mpich()),
        Toolchain::MpichPmi2 => Some(mpich().with_file_name("mpich-pmi2")),
        Toolchain::MpichPmix => Some(mpich().with_file_name("mpich-pmix")),
        Toolchain::OpenMpi => Some(mpich().with_file_name("openmpi")),
        _ => None,
    }
}

fn compiler(name: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(name);
    command.args(arguments);
    command
}

/// What sources of a directory may include.
fn headers(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "h"))
        .collect()
}

fn is_newer(output: &Path, source: &Path) -> bool {
    let changed = |path: &Path| std::fs::metadata(path).and_then(|metadata| metadata.modified());
    matches!((changed(output), changed(source)), (Ok(output), Ok(source)) if output >= source)
}
