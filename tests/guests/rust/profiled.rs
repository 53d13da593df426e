//! Computes in functions whose parts of the time are known, and says what these were by its own clock: `profiled [MS]`,
//! for about so long (3000). Before that and after it, it sleeps for a while, so that all of it is within epochs that
//! are looked at as a whole.
//!
//! `heavy`, `medium` and `light` take about 60, 30 and 10 % of the time. Nothing is said of frame pointers, so only
//! which function a thread is in is sure to be known, not who has called it.
//!
//! Prints for each of the three `NAME NS SHARE`, the time of the processor that it took and its part of that of all
//! three, and `total NS`.

use std::ffi::{c_int, c_long};
use std::hint::black_box;
use std::thread::sleep;
use std::time::Duration;

#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: c_long,
}

unsafe extern "C" {
    fn clock_gettime(clock: c_int, time: *mut Timespec) -> c_int;
}

/// What the process has used of the processor.
fn processor() -> Duration {
    const CLOCK_PROCESS_CPUTIME_ID: c_int = 2;
    let mut time = Timespec { seconds: 0, nanoseconds: 0 };
    assert_eq!(unsafe { clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &mut time) }, 0);
    Duration::new(time.seconds as u64, time.nanoseconds as u32)
}

mod shapes {
    /// Steps of a tenth of a round.
    const TENTH: u64 = 1_000_000;

    /// Waits for the one before.
    fn step(sum: u64, number: u64) -> u64 {
        sum.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(number)
    }

    #[inline(never)]
    pub fn heavy(sum: u64) -> u64 {
        (0..6 * TENTH).fold(sum, step)
    }

    #[inline(never)]
    pub fn medium(sum: u64) -> u64 {
        (0..3 * TENTH).fold(sum, step)
    }

    #[inline(never)]
    pub fn light(sum: u64) -> u64 {
        (0..TENTH).fold(sum, step)
    }
}

const FUNCTIONS: [(&str, fn(u64) -> u64); 3] =
    [("heavy", shapes::heavy), ("medium", shapes::medium), ("light", shapes::light)];

#[inline(never)]
fn one_round(took: &mut [Duration; 3], mut sum: u64) -> u64 {
    for ((_, function), took) in FUNCTIONS.iter().zip(took) {
        let begun = processor();
        sum = function(sum);
        *took += processor() - begun;
    }
    sum
}

fn main() {
    let ms = std::env::args().nth(1).map_or(3000, |ms| ms.parse().expect("milliseconds"));
    let (mut took, mut sum) = ([Duration::ZERO; 3], 0);
    sleep(Duration::from_millis(1200));
    while took.iter().sum::<Duration>() < Duration::from_millis(ms) {
        sum = one_round(&mut took, sum);
    }
    black_box(sum);
    sleep(Duration::from_millis(1200));
    let total: Duration = took.iter().sum();
    for ((name, _), took) in FUNCTIONS.iter().zip(took) {
        println!("{name} {} {:.4}", took.as_nanos(), took.as_secs_f64() / total.as_secs_f64());
    }
    println!("total {}", total.as_nanos());
}
