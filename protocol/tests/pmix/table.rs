//! What docs/process-management.md says is answered.

use coppice_protocol::pmix::{Dialect, Reader, Status};

use crate::nodes::Nodes;

#[test]
fn what_is_said_to_be_answered_is() {
    let text = include_str!("../../../docs/process-management.md");
    let rows = text.lines().filter_map(|line| {
        let mut cells = line.trim_matches('|').split('|').map(str::trim);
        Some((cells.next()?.parse::<u8>().ok()?, cells.nth(1)?.starts_with("yes")))
    });
    let rows: Vec<_> = rows.collect();
    assert!(rows.iter().map(|(number, _)| *number).eq(0..=32), "{rows:?}");
    for (number, is_answered) in rows {
        let mut nodes = Nodes::new(&[1], Dialect::Short);
        let call = nodes.command(number);
        nodes.call(0, &call);
        let heard = nodes.hear(0);
        let status = heard.first().map(|(_, answer)| {
            let mut reader = Reader::new(answer, Dialect::Short);
            reader.packed(1).and_then(|()| reader.i32()).map_or(Status::SUCCESS, Status)
        });
        assert_eq!(status != Some(Status::NOT_SUPPORTED), is_answered, "{number}");
    }
}
