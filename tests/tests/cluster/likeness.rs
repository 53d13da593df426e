//! What calls say on a node is what they say on Linux: random sequences of them, compared one by one.

use coppice_tests::likeness::{Chance, compare, guest};
use coppice_tests::{Cluster, host};

/// Always the same ones; `COPPICE_SEED` and `COPPICE_CALLS` have others made.
#[test]
fn random_calls_say_what_they_say_on_the_host() {
    let cluster = Cluster::up(1);
    let chance = Chance { seed: 20_261_122, calls: 20_000 }.or_as_told();
    let compared = compare(&cluster, chance);
    let told = compared.differences.join("\n");
    println!("{} answers in {} sequences were the same", compared.equal, compared.sequences);
    assert!(compared.differences.is_empty(), "{} sequences differ:\n{told}", compared.differences.len());
    // Every call answers.
    assert!(compared.equal >= chance.calls, "{compared:?}");
}

/// Every difference that is meant is said where users look for it.
#[test]
fn meant_differences_are_documented() {
    let documented = include_str!("../../../docs/linux.md");
    let told = host::run(&std::env::temp_dir(), &guest(), &["differences"]).success().text();
    assert!(told.lines().count() > 1, "{told}");
    // Lines are broken anywhere in a document.
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
    let documented = words(documented);
    for line in told.lines() {
        assert!(documented.contains(&words(line)), "not in docs/linux.md: {line}");
    }
}
