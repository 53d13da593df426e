//! Rust's std on a node: arguments, environment, files, collections, time, exit codes, panics.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, Write};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    println!("arguments {arguments:?}");
    let variables: BTreeMap<_, _> = std::env::vars().filter(|(name, _)| name.starts_with("GUEST_")).collect();
    println!("environment {variables:?}");

    let directory = std::path::Path::new("rust-work");
    std::fs::create_dir(directory)?;
    let file = directory.join("numbers");
    let mut out = std::io::BufWriter::new(std::fs::File::create(&file)?);
    for number in 0..50_000u32 {
        writeln!(out, "{}", number.wrapping_mul(2_654_435_761) % 1000)?;
    }
    drop(out);
    let mut counts: HashMap<u32, u32> = HashMap::new();
    for line in std::io::BufReader::new(std::fs::File::open(&file)?).lines() {
        *counts.entry(line?.parse()?).or_default() += 1;
    }
    let most = counts.iter().max_by_key(|&(number, count)| (*count, *number));
    println!("{} different, most {most:?}, file of {} bytes", counts.len(), std::fs::metadata(&file)?.len());
    let entries = std::fs::read_dir(directory)?;
    let mut names: Vec<_> = entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<Result<_, _>>()?;
    names.sort();
    println!("names {names:?}");
    println!("missing: {}", std::fs::read("rust-work/missing").unwrap_err());
    std::fs::remove_dir_all(directory)?;

    let started = std::time::Instant::now();
    std::thread::sleep(std::time::Duration::from_millis(20));
    println!("slept long enough {}", started.elapsed().as_millis() >= 20);
    let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    println!("year is plausible {}", since_1970.as_secs() > 1_700_000_000);
    let beyond = || std::hint::black_box([1, 2, 3])[std::hint::black_box(3)];
    println!("caught {:?}", std::panic::catch_unwind(beyond).is_err());

    match arguments.first().map(String::as_str) {
        Some("panic") => panic!("as asked"),
        Some(code) => std::process::exit(code.parse()?),
        None => Ok(()),
    }
}
