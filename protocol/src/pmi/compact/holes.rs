//! Where keys or values of the same length differ: holes in what is the same.
//!
//! Of most cards of a job it is the same few bytes that differ from rank to rank – a port, an address, a random
//! number –, wherever they are. So the places are said once, and from then on only what is in them.

use alloc::vec::Vec;

use super::digits::Form;
use super::number::{Reader, length, put};
use crate::limits::PMI_HOLES_MAX;

/// So few bytes that are the same between two that differ belong to the hole: to say that they are the same would take
/// as many, and they are the same by chance more often than not.
const BETWEEN_MAX: usize = 2;

/// The forms are in so many bits of a number that has the length, too.
const FORM_BITS: u32 = 2;

const FORMS: [Form; 3] = [Form::Plain, Form::Lower, Form::Upper];

/// Some bytes that differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hole {
    begin: usize,
    end: usize,
    form: Form,
}

impl Hole {
    /// How many bytes are written for what is in it.
    const fn written(self) -> usize {
        self.form.packed(self.end - self.begin)
    }

    /// Its form and length as one number.
    fn code(self) -> u64 {
        (self.written() as u64) << FORM_BITS | self.form as u64
    }
}

/// The holes of an item, in order, no two at the same place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Holes(Vec<Hole>);

impl Holes {
    /// Where an item differs from another one of its length, if that is in so many bytes at most.
    pub(super) fn between(last: &[u8], item: &[u8], may_pack: bool, bytes_max: usize) -> Option<Self> {
        let differs = |(one, other): &(&u8, &u8)| one != other;
        // Most are told apart by that, which takes few instructions.
        if last.iter().zip(item).filter(differs).count() > bytes_max {
            return None;
        }
        let mut holes = Vec::<Hole>::new();
        for (place, _) in last.iter().zip(item).enumerate().filter(|(_, pair)| differs(pair)) {
            let is_full = holes.len() == PMI_HOLES_MAX;
            match holes.last_mut() {
                Some(hole) if is_full || place - hole.end <= BETWEEN_MAX => hole.end = place + 1,
                _ => holes.push(Hole { begin: place, end: place + 1, form: Form::Plain }),
            }
        }
        let mut before = 0;
        for hole in holes.iter_mut().filter(|_| may_pack) {
            // An odd number of digits may be even with one that is the same.
            let even = hole.begin - ((hole.end - hole.begin) % 2).min(hole.begin - before);
            let form = Form::of(item.get(even..hole.end).unwrap_or_default());
            if form != Form::Plain {
                (hole.begin, hole.form) = (even, form);
            }
            before = hole.end;
        }
        Some(Self(holes))
    }

    /// How many bytes of an item are in holes for nothing, as they are the same as in another one of its length;
    /// `None`: the item has not only these holes, or they do not suit it.
    pub(super) fn idle(&self, last: &[u8], item: &[u8]) -> Option<usize> {
        let (mut from, mut idle) = (0, 0);
        for hole in &self.0 {
            let in_hole = item.get(hole.begin..hole.end)?;
            if item.get(from..hole.begin)? != last.get(from..hole.begin)? || !hole.form.suits(in_hole) {
                return None;
            }
            let was = last.get(hole.begin..hole.end)?;
            idle += in_hole.iter().zip(was).filter(|(one, other)| one == other).count();
            from = hole.end;
        }
        if item.get(from..)? == last.get(from..)? { Some(idle) } else { None }
    }

    /// Whether an item has nothing but decimal digits in them.
    pub(super) fn are_decimal(&self, item: &[u8]) -> bool {
        let is_decimal =
            |hole: &Hole| item.get(hole.begin..hole.end).is_some_and(|it| it.iter().all(u8::is_ascii_digit));
        self.0.iter().all(is_decimal)
    }

    /// How many bytes what is in them takes.
    pub(super) fn filling_bytes(&self) -> usize {
        self.0.iter().map(|hole| hole.written()).sum()
    }

    /// How many bytes they take themselves, of an item of this length.
    pub(super) fn bytes(&self, item_bytes: usize) -> usize {
        let mut bytes = 0;
        self.said(item_bytes, |number| bytes += length(number));
        bytes
    }

    /// Appends them to a body, without what is in them: for each how many bytes before it are the same, and its form
    /// and length; then the bytes behind the last, if there are some.
    pub(super) fn put(&self, item_bytes: usize, body: &mut Vec<u8>) {
        self.said(item_bytes, |number| put(body, number));
    }

    fn said(&self, item_bytes: usize, mut say: impl FnMut(u64)) {
        let mut from = 0;
        for hole in &self.0 {
            say((hole.begin - from) as u64);
            say(hole.code());
            from = hole.end;
        }
        if from < item_bytes {
            say((item_bytes - from) as u64);
        }
    }

    /// Appends what an item has in them.
    pub(super) fn put_filling(&self, item: &[u8], body: &mut Vec<u8>) {
        for hole in &self.0 {
            hole.form.put(item.get(hole.begin..hole.end).unwrap_or_default(), body);
        }
    }

    /// The holes of an item of this length, from a body.
    pub(super) fn read(reader: &mut Reader<'_>, item_bytes: usize) -> Option<Self> {
        let (mut holes, mut from) = (Vec::new(), 0_usize);
        while from < item_bytes {
            let begin = from.checked_add(reader.size()?).filter(|begin| *begin <= item_bytes)?;
            if begin == item_bytes {
                break;
            }
            let code = reader.number()?;
            let form = *FORMS.get((code & ((1 << FORM_BITS) - 1)) as usize)?;
            let bytes = form.unpacked(usize::try_from(code >> FORM_BITS).ok().filter(|written| *written > 0)?);
            from = begin.checked_add(bytes).filter(|end| *end <= item_bytes)?;
            if holes.len() == PMI_HOLES_MAX {
                return None;
            }
            holes.push(Hole { begin, end: from, form });
        }
        Some(Self(holes))
    }

    /// Fills an item's holes from a body.
    pub(super) fn fill(&self, reader: &mut Reader<'_>, item: &mut [u8]) -> Option<()> {
        for hole in &self.0 {
            hole.form.read(reader.bytes(hole.written())?, item.get_mut(hole.begin..hole.end)?);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::{Holes, Reader};
    use crate::limits::PMI_HOLES_MAX;

    /// Two of the same length, with stretches that are the same.
    fn pairs() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
        let one = vec(
            (select(&b"0af\xff"[..]), prop_oneof![2 => Just(None), 1 => select(&b"19bC"[..]).prop_map(Some)]),
            0..300,
        );
        one.prop_map(|bytes| bytes.into_iter().map(|(last, other)| (last, other.unwrap_or(last))).unzip())
    }

    #[test]
    fn holes_are_where_bytes_differ() {
        let said = |last: &[u8], item: &[u8]| {
            let (holes, mut body) = (Holes::between(last, item, true, usize::MAX).unwrap(), Vec::new());
            holes.put(item.len(), &mut body);
            holes.put_filling(item, &mut body);
            body
        };
        assert_eq!((said(b"", b""), said(b"same", b"same")), (Vec::new(), [4].into()));
        // A hole of two, one of one, and what is behind.
        assert_eq!(said(b"to and fro", b"up and bro"), b"\0\x08\x05\x04\x02upb");
        // Two between belong to the hole, three do not.
        assert_eq!(
            (said(b"-ab-", b"+ab+"), said(b"-abc-", b"+abc+")),
            (b"\0\x10+ab+".into(), b"\0\x04\x03\x04++".into())
        );
        // Digits, with one that is the same; and such that are not packed.
        assert_eq!(
            (said(b"#12345", b"#1abcd"), said(b"#a23#", b"#ABC#")),
            (b"\x02\x09\xab\xcd".into(), b"\x01\x0c\x01ABC".into())
        );
        assert_eq!(said(b"a123", b"a456"), b"\0\x09\xa4\x56");
    }

    #[test]
    fn what_fits_has_no_other_holes() {
        let holes = Holes::between(b"port 1234", b"port 9abc", true, 4).unwrap();
        let idle = |item: &[u8]| holes.idle(b"port 1234", item);
        assert_eq!((idle(b"port 5678"), idle(b"port 1299"), idle(b"port 1234")), (Some(0), Some(2), Some(4)));
        assert_eq!((holes.are_decimal(b"port 5678"), holes.are_decimal(b"port 567a")), (true, false));
        assert_eq!((idle(b"Port 5678"), idle(b"port 567g"), idle(b"port 567A")), (None, None, None));
    }

    proptest! {
        #[test]
        fn what_is_in_holes_fills_them_again((last, item) in pairs(), may_pack: bool, cut in 0..400_usize) {
            let holes = Holes::between(&last, &item, may_pack, item.len()).unwrap();
            let differing = last.iter().zip(&item).filter(|(one, other)| one != other).count();
            prop_assert!(Holes::between(&last, &item, may_pack, differing).is_some());
            prop_assert!(differing == 0 || Holes::between(&last, &item, may_pack, differing - 1).is_none());
            prop_assert!(holes.0.len() <= PMI_HOLES_MAX);
            let mut body = Vec::new();
            holes.put(item.len(), &mut body);
            prop_assert_eq!(body.len(), holes.bytes(item.len()));
            holes.put_filling(&item, &mut body);
            prop_assert_eq!(body.len(), holes.bytes(item.len()) + holes.filling_bytes());
            prop_assert!(holes.idle(&last, &item).is_some());
            let read = |body: &[u8]| {
                let (mut reader, mut read) = (Reader(body), last.clone());
                let holes = Holes::read(&mut reader, last.len())?;
                holes.fill(&mut reader, &mut read)?;
                reader.is_empty().then_some((holes, read))
            };
            prop_assert!(cut >= body.len() || read(&body[..cut]).is_none());
            prop_assert_eq!(read(&body), Some((holes, item)));
        }
    }
}
