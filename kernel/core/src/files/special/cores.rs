//! What `/sys/devices/system/cpu` has of each core: a directory, and in that how the core lies among the others.
//!
//! Nodes are made like that: every core is one by itself, whose only thread it is, and all are in one package. There
//! are as many directories as the node has cores, whichever of them a rank has, as on Linux.

use alloc::format;
use alloc::string::String;

use super::{Kind, Node, Text, number};
use crate::errno::Errno;
use crate::executor;
use crate::limits::CORES_MAX;

/// Where the cores' directories are.
pub(super) const DIRECTORY: &str = "/sys/devices/system/cpu";

/// The first place behind those of descriptors; before those of threads.
const CORES_AT: u32 = 0x8_0000;

/// A path, and what it stands for, which may depend on the core.
type OfCore = (&'static str, fn(u32) -> Kind);

/// What there is of each core, by its path from the core's directory, sorted: the directory itself is the first.
const OF_CORE: [OfCore; 13] = [
    ("", |_| Kind::Directory),
    (ONLINE, |_| Kind::Text(Text::Fixed("1\n"))),
    ("/topology", |_| Kind::Directory),
    ("/topology/core_cpus", |core| Kind::Text(Text::CoreMask(Some(core)))),
    ("/topology/core_cpus_list", |core| Kind::Text(Text::Cores(Some(core)))),
    ("/topology/core_id", |core| Kind::Text(Text::Number(core))),
    // What came to be called packages later.
    ("/topology/core_siblings", |_| Kind::Text(Text::CoreMask(None))),
    ("/topology/core_siblings_list", |_| Kind::Text(Text::Cores(None))),
    ("/topology/package_cpus", |_| Kind::Text(Text::CoreMask(None))),
    ("/topology/package_cpus_list", |_| Kind::Text(Text::Cores(None))),
    ("/topology/physical_package_id", |_| Kind::Text(Text::Number(0))),
    ("/topology/thread_siblings", |core| Kind::Text(Text::CoreMask(Some(core)))),
    ("/topology/thread_siblings_list", |core| Kind::Text(Text::Cores(Some(core)))),
];

/// What the first core does not have: nobody can do without it.
const ONLINE: &str = "/online";

const _: () = assert!(CORES_AT as usize + CORES_MAX * OF_CORE.len() < super::THREADS_AT as usize);

/// What there is of a core, if there can be such a core.
pub(super) fn of_core(core: u32, place: u32) -> Option<Node> {
    let (name, kind) = OF_CORE.get(place as usize)?;
    let is_there = (core as usize) < CORES_MAX && (core > 0 || *name != ONLINE);
    is_there.then(|| Node { index: CORES_AT + core * OF_CORE.len() as u32 + place, kind: kind(core) })
}

/// Where a path leads whose name behind [`DIRECTORY`] is this, if there is such a core.
///
/// # Errors
/// `ENOENT`.
pub(super) fn find(name: &[u8], behind: &[u8]) -> Result<Node, Errno> {
    let core = name.strip_prefix(b"cpu").and_then(number::<u32>).ok_or(Errno::ENOENT)?;
    if name != directory(core).as_bytes() || core as usize >= executor::cores() {
        return Err(Errno::ENOENT);
    }
    let place = OF_CORE.iter().position(|(name, _)| name.as_bytes() == behind).ok_or(Errno::ENOENT)?;
    of_core(core, place as u32).ok_or(Errno::ENOENT)
}

/// The name of a core's directory.
fn directory(core: u32) -> String {
    format!("cpu{core}")
}

/// Calls `each` with the cores' directories.
pub(super) fn directories(mut each: impl FnMut(&str, Node)) {
    for core in 0..executor::cores() as u32 {
        if let Some(node) = of_core(core, 0) {
            each(&directory(core), node);
        }
    }
}

/// Calls `each` with what lies in a directory of a core's.
pub(super) fn children((core, place): (u32, u32), mut each: impl FnMut(&str, Node)) {
    let own = OF_CORE.get(place as usize).map_or("", |(name, _)| name);
    for ((path, _), place) in OF_CORE.iter().zip(0..) {
        let name = path.strip_prefix(own).and_then(|name| name.strip_prefix('/'));
        if let Some(name) = name.filter(|name| super::is_one_name(name))
            && let Some(node) = of_core(core, place)
        {
            each(name, node);
        }
    }
}

impl Node {
    /// Of which core it is, and which of what there is of each, if it is that.
    pub(super) fn core(self) -> Option<(u32, u32)> {
        // Threads may have any number.
        if self.thread().is_some() {
            return None;
        }
        let each = OF_CORE.len() as u32;
        let place = self.index.checked_sub(CORES_AT)?;
        ((place / each) < CORES_MAX as u32).then_some((place / each, place % each))
    }
}

/// The path of what there is of a core.
pub(super) fn path((core, place): (u32, u32)) -> String {
    let name = OF_CORE.get(place as usize).map_or("", |(name, _)| name);
    format!("{DIRECTORY}/{}{name}", directory(core))
}

#[cfg(test)]
mod tests {
    use alloc::string::{String, ToString};
    use alloc::vec::Vec;

    use super::{DIRECTORY, OF_CORE, of_core, path};
    use crate::errno::Errno;
    use crate::files::special::{Kind, Node, Place, Text, locate};
    use crate::limits::CORES_MAX;

    fn find(name: &str) -> Result<Node, Errno> {
        match locate(DIRECTORY.as_bytes(), name.as_bytes(), 1)? {
            Place::Special(node) => Ok(node),
            other => panic!("{name}: {other:?}"),
        }
    }

    fn names(node: Node) -> Vec<String> {
        let mut names = Vec::new();
        node.children(|name, child| {
            assert_eq!(child.path(), alloc::format!("{}/{name}", node.path()));
            names.push(name.to_string());
        });
        names
    }

    #[test]
    fn every_core_has_a_directory() {
        assert!(OF_CORE.is_sorted_by_key(|(name, _)| *name));
        // On the host there is one.
        let names_of_all = names(find(".").expect("the directory"));
        assert_eq!(names_of_all, ["offline", "online", "possible", "present", "cpu0"]);
        assert_eq!(names(find("cpu0").expect("a core")), ["topology"]);
        let topology = names(find("cpu0/topology").expect("its topology"));
        assert_eq!(topology.len(), OF_CORE.len() - 3);
        assert!(topology.iter().all(|name| find(&alloc::format!("cpu0/topology/{name}")).is_ok()));
        for none in ["cpu1", "cpu", "cpu00", "cpu+0", "cpu0/online", "cpu0/topology/", "cpu0/topology/x", "cpu-1"] {
            let found = find(none).map(|node| node.path());
            let expected =
                if none.ends_with('/') { Ok(String::from(DIRECTORY) + "/cpu0/topology") } else { Err(Errno::ENOENT) };
            assert_eq!(found, expected, "{none}");
        }
    }

    #[test]
    fn each_place_is_one_of_its_own() {
        let mut all = Vec::new();
        for core in 0..=CORES_MAX as u32 {
            for place in 0..=OF_CORE.len() as u32 {
                let Some(node) = of_core(core, place) else { continue };
                assert_eq!((node.core(), node.path()), (Some((core, place)), path((core, place))));
                all.push(node.inode());
            }
        }
        assert_eq!(all.len(), CORES_MAX * OF_CORE.len() - 1);
        assert!(all.is_sorted_by(|one, next| one < next));
        assert_eq!(Node::of_thread(0xffff_ffff).core(), None);
        let last = of_core(CORES_MAX as u32 - 1, 5).map(|node| node.kind);
        assert_eq!(last, Some(Kind::Text(Text::Number(CORES_MAX as u32 - 1))));
    }
}
