//! Changes to an input: what tears, what somebody sends who means harm, and what makes a message of another one.

use crate::random::Random;

/// Longest input, bytes.
pub(crate) const INPUT_BYTES_MAX: usize = 1 << 16;
/// Most changes to one input.
const CHANGES_MAX: usize = 6;
/// Longest piece that is put in, taken out or repeated, bytes.
const PIECE_BYTES_MAX: usize = 64;

/// Numbers that limits are made of, as they are on the wire: little-endian, and as postcard has them.
const NUMBERS: [&[u8]; 12] = [
    &[0],
    &[0x7f],
    &[0x80],
    &[0xff],
    &[0xff; 2],
    &[0xff; 4],
    &[0xff, 0xff, 0xff, 0x7f],
    &[0xff; 8],
    &[0, 0, 0, 0, 0, 0, 0, 0x80],
    &[0xff, 0xff, 0xff, 0xff, 0x0f],
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
    &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80],
];

/// Changes `input` at random; pieces of `other` may get into it.
pub(crate) fn change(input: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    for _ in 0..=random.below(CHANGES_MAX) {
        change_once(input, other, random);
    }
    input.truncate(INPUT_BYTES_MAX);
}

fn change_once(input: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let at = random.below(input.len() + 1);
    let length = 1 + random.below(PIECE_BYTES_MAX);
    let end = (at + length).min(input.len());
    match random.below(9) {
        0 => {
            if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
        1 => {
            if let Some(byte) = input.get_mut(at) {
                *byte = random.byte();
            }
        }
        2 => {
            if let Some(byte) = input.get_mut(at) {
                *byte = byte.wrapping_add([1, 0xff][random.below(2)]);
            }
        }
        3 => put(input, at, end.min(at + 1), NUMBERS[random.below(NUMBERS.len())]),
        4 => {
            let number = NUMBERS[random.below(NUMBERS.len())];
            put(input, at, (at + number.len()).min(input.len()), number);
        }
        5 => {
            let piece: Vec<u8> = (0..length).map(|_| random.byte()).collect();
            put(input, at, at, &piece);
        }
        6 => put(input, at, end, &[]),
        7 => {
            let piece = input[at..end].to_vec();
            let to = random.below(input.len() + 1);
            put(input, to, to, &piece);
        }
        _ => {
            let from = random.below(other.len() + 1);
            let piece = &other[from..(from + length).min(other.len())];
            // From there on all of the other, or a piece of it.
            match random.below(2) {
                0 => put(input, at, input.len(), &other[from..]),
                _ => put(input, at, end, piece),
            }
        }
    }
}

/// Puts a piece in the place of another.
fn put(input: &mut Vec<u8>, start: usize, end: usize, piece: &[u8]) {
    input.splice(start..end, piece.iter().copied());
}
