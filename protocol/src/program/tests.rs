#[test]
fn busybox() {
    let bytes = std::fs::read("/bin/busybox").unwrap();
    super::parse(&bytes[..4096], bytes.len() as u64).unwrap();
}
