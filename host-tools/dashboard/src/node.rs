//! A node as it is shown: what it is and does, and what it holds.

use coppice_api::counted;
use coppice_api::node::NodeView;
use coppice_api::program::ProgramView;
use coppice_api::retain::RetainedView;
use coppice_api::show::{show_bytes, show_ns};

use crate::cluster::{HASH_DIGITS, LinkRow};
use crate::job::Fact;

/// What it holds of a program or a file.
pub(crate) struct Held {
    pub(crate) hash: String,
    /// Where it was last submitted from, if that is known.
    pub(crate) path: String,
    pub(crate) kind: &'static str,
    pub(crate) pages: u64,
    pub(crate) bytes: String,
}

/// See this module.
pub(crate) struct Node {
    pub(crate) number: u32,
    pub(crate) state: &'static str,
    pub(crate) job: Option<u64>,
    pub(crate) facts: Vec<Fact>,
    pub(crate) held: Vec<Held>,
    pub(crate) link: Option<LinkRow>,
}

impl Node {
    pub(crate) fn of(view: &NodeView, programs: &[ProgramView], link: Option<LinkRow>) -> Self {
        let path =
            |hash: &str| programs.iter().find(|program| program.hash == hash).map(|known| known.path.to_string());
        let held = view.retained.iter().map(|held| Held {
            hash: held.program.chars().take(HASH_DIGITS).collect(),
            path: path(&held.program).unwrap_or_default(),
            kind: match held {
                RetainedView { is_file: true, .. } => "file",
                RetainedView { is_read: true, .. } => "files it read",
                _ => "program",
            },
            pages: held.pages,
            bytes: show_bytes(held.bytes),
        });
        Self {
            number: view.node,
            state: view.state.as_str(),
            job: view.job,
            facts: facts(view),
            held: held.collect(),
            link,
        }
    }
}

fn facts(view: &NodeView) -> Vec<Fact> {
    let memory = view.memory.map(|memory| {
        let [free, total, kernel] = [memory.free_bytes, memory.total_bytes, memory.kernel_bytes].map(show_bytes);
        format!("{free} free of {total}; {kernel} are the kernel's")
    });
    let region = (view.region_bytes > 0).then(|| show_bytes(view.region_bytes));
    let facts = [
        ("Pset", Some(view.pset.to_string())),
        ("Address", Some(view.address.to_string())),
        ("Cores", view.cores.map(|cores| counted(cores, "core"))),
        ("Memory", memory),
        ("Region", region),
        ("Boots", Some(view.generation.to_string())),
        ("Booted in", view.boot_ns.map(show_ns)),
        ("Kernel", view.kernel.clone()),
        ("Last program", view.last_program.as_ref().map(|last| last.path.to_string())),
        ("QEMU", view.pid.map(|pid| format!("process {pid}"))),
        ("Console", Some(coppice_api::shown(&view.console).to_string())),
    ];
    facts.into_iter().filter_map(|(name, value)| Some(Fact { name, value: value? })).collect()
}

#[cfg(test)]
mod tests {
    use coppice_api::node::{NodeState, NodeView};
    use coppice_api::retain::RetainedView;

    use super::Node;
    use crate::tests::node;

    #[test]
    fn what_it_holds_has_its_name_if_that_is_known() {
        let held = |program: &str, is_file| RetainedView {
            program: program.repeat(16),
            pages: 3,
            bytes: 12288,
            is_file,
            is_read: false,
        };
        let view = NodeView { retained: vec![held("ab12", false), held("cd34", true)], ..node(3, NodeState::Ready) };
        let shown = Node::of(&view, &[], None);
        let rows: Vec<_> = shown.held.iter().map(|held| (held.hash.as_str(), held.kind, held.bytes.as_str())).collect();
        assert_eq!(rows, [("ab12ab12ab12", "program", "12.0 KiB"), ("cd34cd34cd34", "file", "12.0 KiB")]);
    }
}
