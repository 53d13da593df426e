//! Numbers of things, in lines for people.

/// So many of them: `1 page`, `2 pages`. What takes more than an `s` is not counted by this.
#[must_use]
pub fn counted(count: impl TryInto<u64>, what: &str) -> String {
    let count = count.try_into().unwrap_or(u64::MAX);
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn one_is_no_plural() {
        assert_eq!(
            [counted(0_u32, "node"), counted(1_usize, "node"), counted(2_u64, "node")],
            ["0 nodes", "1 node", "2 nodes"]
        );
    }
}
