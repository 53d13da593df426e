//! Linux's system calls for x86-64.

#[cfg(test)]
mod document;
mod kind;
mod table;

pub use self::kind::{Interruption, Kind, Names, Place, Returns};

/// A system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemCall {
    /// Its number.
    pub number: u32,
    /// Its name.
    pub name: &'static str,
    /// What it takes.
    pub arguments: &'static [Kind],
    /// What it gives.
    pub returns: Returns,
    /// Where it is made.
    pub place: Place,
    /// What a signal does to it while it waits.
    pub interruption: Interruption,
    /// How far there is one, if there is less than on Linux.
    pub how_far: Option<&'static str>,
}

macro_rules! place {
    (Refused($errno:ident)) => {
        Place::Refused(stringify!($errno))
    };
    ($place:ident) => {
        Place::$place
    };
}

macro_rules! how_far {
    () => {
        None
    };
    ($how:literal) => {
        Some($how)
    };
}

macro_rules! calls {
    ([] $(
        $number:literal $constant:ident $name:ident($($kind:expr),*) $returns:ident,
        $place:ident $(($errno:ident))?, $interruption:ident $($how:literal)?;
    )*) => {
        $(
            #[doc = concat!("`", stringify!($name), "`.")]
            pub const $constant: u32 = $number;
        )*

        /// All calls that Linux 6.10 has, by their numbers.
        pub static CALLS: &[SystemCall] = {
            use self::kind::*;
            use self::kind::Kind::*;
            &[$(SystemCall {
                number: $number,
                name: stringify!($name),
                arguments: &[$($kind),*],
                returns: Returns::$returns,
                place: place!($place $(($errno))?),
                interruption: Interruption::$interruption,
                how_far: how_far!($($how)?),
            },)*]
        };
    };
}

crate::for_each_call!(calls);

/// The call with this number, if Linux 6.10 has one.
#[must_use]
pub fn call(number: u64) -> Option<&'static SystemCall> {
    let number = u32::try_from(number).ok()?;
    // Up to here there is one for each number.
    if let Some(call) = CALLS.get(number as usize)
        && call.number == number
    {
        return Some(call);
    }
    let index = CALLS.binary_search_by_key(&number, |call| call.number).ok()?;
    CALLS.get(index)
}

/// The call's name, if Linux 6.10 has one by that number.
#[must_use]
pub fn name(number: i32) -> Option<&'static str> {
    Some(call(u64::try_from(number).ok()?)?.name)
}

#[cfg(test)]
mod tests {
    use super::{CALLS, EXIT_GROUP, FCHMODAT2, Interruption, Kind, Place, READ, call, name};

    #[test]
    fn names_follow_numbers() {
        assert_eq!((READ, name(0)), (0, Some("read")));
        assert_eq!((EXIT_GROUP, name(231)), (231, Some("exit_group")));
        assert_eq!((FCHMODAT2, name(452)), (452, Some("fchmodat2")));
        assert_eq!(name(400), None);
        assert_eq!(name(-1), None);
        assert_eq!(call(u64::MAX), None);
    }

    #[test]
    fn the_table_is_in_the_order_of_numbers_and_in_itself_right() {
        assert!(CALLS.is_sorted_by(|one, other| one.number < other.number));
        for found in CALLS {
            assert_eq!(call(found.number.into()), Some(found));
            let (name, arguments) = (found.name, found.arguments);
            assert!(arguments.len() <= 6, "{name}");
            for kind in arguments {
                let (Kind::In(other) | Kind::Iovec(other) | Kind::OutIovec(other) | Kind::NewMode(other)) = kind else {
                    continue;
                };
                assert!(usize::from(*other) < arguments.len(), "{name}");
            }
            let is_absent = found.place == Place::Absent;
            assert!(is_absent || !arguments.contains(&Kind::Unknown), "{name}");
            assert!(found.interruption == Interruption::Waits || !is_absent, "{name}");
        }
    }
}
