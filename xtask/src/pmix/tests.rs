//! OpenPMIx's own tests, in `target/pmix-tests`: clients that are static and run on nodes, and servers for this host,
//! which show what the clients give under the library's own server.

use std::path::Path;

use anyhow::{Context, Result};

use crate::recipe::{Build, remove};

/// The directory of `target` that has them.
pub(super) const PLACE: &str = "pmix-tests";

/// Programs of one directory of the source.
struct Programs {
    /// Where their source is.
    source: &'static str,
    /// Where they go to in [`PLACE`]; empty for itself.
    place: &'static str,
    /// What make is told so that they are static, or not.
    flags: &'static str,
    names: &'static [&'static str],
}

/// `-all-static` is libtool's.
const STATIC: &str = "-all-static";

/// All that are built; clients before the servers, as flags hold for a whole directory.
const PROGRAMS: &[Programs] = &[
    Programs { source: "test", place: "", flags: STATIC, names: &["pmix_client"] },
    Programs {
        source: "test/simple",
        place: ".",
        flags: STATIC,
        names: &[
            "simpclient",
            "simppub",
            "simpdyn",
            "simpft",
            "simpdmodex",
            "simpdie",
            "simptimeout",
            "simpjctrl",
            "simpio",
            "simpcycle",
            "simpcoord",
            "quietclient",
            "doubleget",
            "get_put_example",
            "hybrid",
            "test_pmix",
            "gwclient",
        ],
    },
    Programs {
        source: "examples",
        place: "examples",
        flags: STATIC,
        names: &[
            "client",
            "client2",
            "dmodex",
            "dynamic",
            "fault",
            "pub",
            "pubi",
            "group",
            "group_dmodex",
            "group_lcl_cid",
            "asyncgroup",
            "hello",
            "nodeinfo",
            "alloc",
            "jctrl",
        ],
    },
    Programs { source: "test", place: "server", flags: "", names: &["pmix_test"] },
    Programs { source: "test/simple", place: "server", flags: "", names: &["simptest"] },
];

/// What is built, in one line.
pub(super) fn names() -> String {
    PROGRAMS.iter().flat_map(|programs| programs.names).copied().collect::<Vec<_>>().join(" ")
}

/// Builds them in the source, which is built already, and puts them in their place.
///
/// # Errors
/// If a step fails.
pub(super) fn build(build: &Build, source: &Path) -> Result<()> {
    let place = build.prefix.with_file_name(PLACE);
    remove(&place)?;
    for programs in PROGRAMS {
        let directory = source.join(programs.source);
        let flags = format!("LDFLAGS={} -L{}", programs.flags, build.prefix.join("lib").display());
        build.make(&directory, &[&[flags.as_str()], programs.names].concat())?;
        let to = place.join(programs.place);
        std::fs::create_dir_all(&to).with_context(|| format!("cannot make {}", to.display()))?;
        for name in programs.names {
            let to = to.join(name);
            std::fs::copy(directory.join(name), &to).with_context(|| format!("cannot write {}", to.display()))?;
        }
    }
    Ok(())
}
