//! What is written to counters, and what is read from them.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use coppice_protocol::limits::OVERLAY_COUNTERS_MAX;
use proptest::collection::vec;
use proptest::prelude::{any, prop_assert_eq, proptest};

use super::{CounterFile, Offered};
use crate::errno::Errno;
use crate::quota::tests::quota;

fn file() -> CounterFile {
    CounterFile::new(&Offered::none(&quota()))
}

fn text(file: &CounterFile) -> String {
    String::from_utf8(file.read(0, 10_000).expect("memory")).expect("text")
}

#[test]
fn the_last_value_of_a_name_counts() {
    let file = file();
    assert_eq!(text(&file), "");
    for (written, there) in [
        ("steps 5\n", "steps 5\n"),
        ("steps 7\nerrors 0\nsteps 9\n", "errors 0\nsteps 9\n"),
        ("", "errors 0\nsteps 9\n"),
        ("errors 18446744073709551615\n", "errors 18446744073709551615\nsteps 9\n"),
    ] {
        assert_eq!(file.write(written.as_bytes()), Ok(()));
        assert_eq!((text(&file).as_str(), file.length()), (there, there.len() as u64));
    }
    assert_eq!(file.read(7, 3).as_deref(), Ok(&b"184"[..]));
    assert_eq!(file.read(u64::MAX, 3).as_deref(), Ok(&b""[..]));
}

#[test]
fn what_is_no_line_has_no_effect_nor_what_comes_with_it() {
    let file = file();
    file.write(b"steps 5\nbeg").expect("a line");
    for wrong in [
        "\n",
        "steps\n",
        "steps \n",
        " 5\n",
        "steps  5\n",
        "steps 5 \n",
        "Steps 5\n",
        "steps +5\n",
        "steps -5\n",
        "steps 1.5\n",
        "steps 18446744073709551616\n",
        "steps 6\nsteps x\n",
        &format!("{}\n", "a".repeat(100)),
        &"a".repeat(100),
        &format!("{} 1\n", "a".repeat(32)),
    ] {
        assert_eq!(file.write(wrong.as_bytes()), Err(Errno::EINVAL), "{wrong}");
        assert_eq!(text(&file), "steps 5\n", "{wrong}");
        assert_eq!(file.write(b""), Ok(()));
    }
    // What a line was begun with before it is forgotten, and the next one is as any.
    file.write(b"steps 6\n").expect("a line");
    assert_eq!(text(&file), "steps 6\n");
}

#[test]
fn there_are_only_so_many_names() {
    let file = file();
    let all: String = (0..OVERLAY_COUNTERS_MAX).map(|number| format!("n{number} 1\n")).collect();
    file.write(all.as_bytes()).expect("room");
    assert_eq!(file.write(b"n3 7\none.more 1\n"), Err(Errno::ENOSPC));
    assert_eq!(text(&file).lines().filter(|line| line.ends_with(" 1")).count(), OVERLAY_COUNTERS_MAX);
    file.write(b"n3 7\n").expect("known");
    assert!(text(&file).contains("n3 7\n"));
    let (file, more) = (self::file(), format!("{all}one.more 1\n"));
    assert_eq!((file.write(more.as_bytes()), text(&file).as_str()), (Err(Errno::ENOSPC), ""));
}

#[test]
fn what_is_kept_is_charged_once() {
    let quota = quota();
    let before = quota.taken();
    let offered = Offered::none(&quota);
    let file = CounterFile::new(&offered);
    file.write(b"a 1\n").expect("room");
    let with_one = quota.taken();
    file.write(b"b 1\nc 1\n").expect("room");
    assert!(before < with_one && quota.taken() == with_one);
    drop((file, offered));
    assert_eq!(quota.taken(), before);
}

proptest! {
    #[test]
    fn lines_may_come_in_any_pieces(
        values in vec((0_u8..16, any::<u64>()), 0..20), cuts in vec(any::<proptest::sample::Index>(), 0..8),
    ) {
        let all: String = values.iter().map(|(name, value)| format!("n.{name} {value}\n")).collect();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(all.len() + 1)).collect();
        cuts.sort_unstable();
        let (whole, mut pieces, mut from) = (file(), file(), 0);
        whole.write(all.as_bytes()).expect("lines");
        for to in cuts.into_iter().chain([all.len()]) {
            pieces.write(&all.as_bytes()[from..to]).expect("a piece");
            // As if it were made data in between.
            let offered = Offered::again(pieces.offered.all(), &quota()).expect("room");
            pieces = CounterFile::again(&offered, &pieces.begun()).expect("no longer than a line");
            from = to;
        }
        prop_assert_eq!(text(&pieces), text(&whole));
    }
}
