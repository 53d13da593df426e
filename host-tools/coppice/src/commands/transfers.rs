//! What the transfers of files to a job's nodes took, a line for each.

use coppice_api::counted;
use coppice_api::staging::Scheme;
use coppice_api::transfer::TransferView;

use crate::units::{show_bytes, show_ns, show_ranges};

/// One of them. Of a number that nobody has said nothing is said.
pub(super) fn line(transfer: &TransferView) -> String {
    let what = match &transfer.path {
        Some(path) => path.to_string(),
        None => "the program".to_owned(),
    };
    let scheme = match (transfer.scheme, transfer.branches) {
        (Scheme::TwoTrees, _) => "two trees".to_owned(),
        (Scheme::Tree, None) => "a tree".to_owned(),
        (Scheme::Tree, Some(branches)) => format!("a tree with {}", counted(branches, "head")),
    };
    let stated = if transfer.link_is_stated { "" } else { " as nobody stated another" };
    let why = transfer.readers.map(|readers| format!(", as {} had it open", counted(readers, "node")));
    let why = why.unwrap_or_default();
    let mut line = format!(
        "transfer of {what}{why}: {} to {} by {scheme} in {}, {:.2} times what a link takes ({} MB/s{stated}); the I/O \
         node sent {}",
        show_bytes(transfer.bytes),
        counted(transfer.nodes, "node"),
        show_ns(transfer.elapsed_ns),
        f64::from(transfer.times_bound),
        transfer.link_bytes_per_second as f64 / 1e6,
        show_bytes(transfer.home_bytes),
    );
    if transfer.home_answered > 0 {
        line.push_str(&format!(", {} of it asked for", counted(transfer.home_answered, "piece")));
    }
    if let Some(members) = transfer.members {
        let of = match members.nodes {
            all if all == transfer.nodes => "nodes".to_owned(),
            some => counted(some, "node"),
        };
        let asked = counted(members.asked, "piece");
        line.push_str(&format!("; {of} asked for {asked}, gave each other {}", members.answered));
        if members.crossed_bytes > 0 {
            line.push_str(&format!(", got {} from other psets", show_bytes(members.crossed_bytes)));
        }
        if members.wrong > 0 {
            line.push_str(&format!(", and got {} that failed the hash", members.wrong));
        }
    }
    if transfer.lost > 0 {
        line.push_str(&format!("; {} did not say that they have it: ", counted(transfer.lost, "node")));
        line.push_str(&show_ranges(&transfer.lost_nodes));
        if usize::try_from(transfer.lost).is_ok_and(|lost| lost > transfer.lost_nodes.len()) {
            line.push_str(", …");
        }
    }
    line
}

#[cfg(test)]
pub(super) mod tests {
    use coppice_api::staging::Scheme;
    use coppice_api::transfer::{MembersView, Ratio, TransferView};

    use super::line;

    /// 4 MiB that nothing happened to.
    pub(in crate::commands) fn transfer() -> TransferView {
        TransferView {
            path: Some("/in/a".into()),
            bytes: 4 << 20,
            readers: None,
            scheme: Scheme::TwoTrees,
            branches: None,
            pieces: 128,
            nodes: 8,
            link_bytes_per_second: 12_500_000,
            link_is_stated: true,
            elapsed_ns: 400_000_000,
            times_bound: Ratio::of(1192, 1000),
            home_bytes: 4_400_000,
            home_answered: 0,
            lost: 0,
            lost_nodes: vec![],
            members: None,
        }
    }

    #[test]
    fn a_transfer_is_one_line_and_what_nobody_said_is_not_in_it() {
        assert_eq!(
            line(&transfer()),
            "transfer of /in/a: 4.0 MiB to 8 nodes by two trees in 400 ms, 1.19 times what a link takes (12.5 MB/s); \
             the I/O node sent 4.2 MiB"
        );
        assert!(
            line(&TransferView { readers: Some(5), ..transfer() })
                .starts_with("transfer of /in/a, as 5 nodes had it open: 4.0 MiB to 8 nodes by two trees")
        );
        let members = Some(MembersView { nodes: 6, asked: 9, answered: 7, wrong: 1, crossed_bytes: 3 << 20 });
        let (lost_nodes, branches) = (vec![4, 5], Some(3));
        let hurt = TransferView {
            path: None,
            scheme: Scheme::Tree,
            branches,
            link_is_stated: false,
            home_answered: 2,
            lost: 3,
            lost_nodes,
            members,
            ..transfer()
        };
        assert_eq!(
            line(&hurt),
            "transfer of the program: 4.0 MiB to 8 nodes by a tree with 3 heads in 400 ms, 1.19 times what a link \
             takes (12.5 MB/s as nobody stated another); the I/O node sent 4.2 MiB, 2 pieces of it asked for; 6 nodes \
             asked for 9 pieces, gave each other 7, got 3.0 MiB from other psets, and got 1 that failed the hash; 3 \
             nodes did not say that they have it: 4-5, …"
        );
    }
}
