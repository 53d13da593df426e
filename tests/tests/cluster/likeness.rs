//! What calls say on a node is what they say on Linux: random sequences of them, compared one by one.

use coppice_tests::likeness::{Chance, compare, guest};
use coppice_tests::{Cluster, host};

/// Always the same ones; `COPPICE_SEED` and `COPPICE_CALLS` have others made.
#[test]
fn random_calls_say_what_they_say_on_the_host() {
    let cluster = Cluster::up(1);
    let chance = Chance { seed: 20_261_122, calls: 30_000 }.or_as_told();
    match compare(&cluster, chance) {
        Ok(equal) => assert!(equal >= chance.calls, "{equal} calls of {chance:?}"),
        Err(difference) => panic!("{difference}"),
    }
}

/// Every difference that is meant is said where users look for it.
#[test]
fn meant_differences_are_documented() {
    let documented = include_str!("../../../docs/linux.md");
    let told = host::run(&std::env::temp_dir(), &guest(), &["differences"]).success().text();
    assert!(told.lines().count() > 1, "{told}");
    // Lines are broken anywhere in a document.
    let words = |text: &str| text.split_whitespace().map(|word| word.trim_matches('`').to_owned()).collect::<Vec<_>>();
    let documented = words(documented).join(" ");
    for line in told.lines() {
        assert!(documented.contains(&words(line).join(" ")), "not in docs/linux.md: {line}");
    }
}
