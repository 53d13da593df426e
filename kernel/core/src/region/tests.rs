//! A region whose engine and host are played: what is filled is found, and what is not whole is not there.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use coppice_hal::frames::{Frame, FrameKind, FramePool};
use coppice_hal::region::Region as Device;
use coppice_protocol::checkpoint::{ObjectId, PartOf};
use coppice_protocol::ids::{JobId, Rank};
use coppice_protocol::region::index;
use coppice_protocol::region::{
    BLOCK_BYTES, Extent, HEADER_BYTES, SLOTS, Section, Slot, SlotKey, State, TablePart, check, header_offset,
};
use spin::Once;

use super::{NotWritten, Region};
use crate::executor;
use crate::limits::REGION_LOOK_NS;
use crate::quota::tests::quota;

const JOB: JobId = JobId(7);
const BLOCKS: u64 = 24;

fn frames() -> &'static FramePool {
    static POOL: Once<&'static FramePool> = Once::new();
    POOL.call_once(|| FramePool::for_host(32 * 1024 * 1024))
}

fn run<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> T {
    executor::run_to_end(future).expect("nothing is waited for but the engine, which is done at once")
}

/// One of so many blocks that begins with what it is to.
fn region(blocks: u64) -> (&'static Device, Arc<Region>) {
    let device = Device::new((blocks * BLOCK_BYTES) as usize);
    let region = Region::new(device, frames()).expect("not too small");
    run(Arc::clone(&region).prepare());
    (device, region)
}

/// Pages of that byte.
fn pages(byte: u8, count: usize) -> Vec<Frame> {
    let page = |_| {
        let frame = frames().alloc(FrameKind::User).expect("memory");
        frame.write(0, &[byte; 4096]);
        frame
    };
    (0..count).map(page).collect()
}

fn part(sections: Vec<Section>) -> Vec<TablePart> {
    vec![TablePart { of: PartOf::Rank(Rank(0)), record_bytes: 0, sections }]
}

/// Fills a slot with one object of two pages of each byte.
fn filled(region: &Arc<Region>, key: u64, bytes: &'static [u8]) -> Result<(SlotKey, Vec<Extent>), NotWritten> {
    let region = Arc::clone(region);
    run(async move {
        let quota = quota();
        let mut filling = region.fill((JOB, key), None, &quota).await?.expect("a free slot");
        let mut extents = Vec::new();
        for byte in bytes {
            extents.push(filling.put(pages(*byte, 2)).await?);
        }
        let sections = extents.iter().map(|extent| Section::New(*extent)).collect();
        Ok((filling.commit(part(sections)).await?, extents))
    })
}

/// Does what the I/O node does with a slot that is whole; gives the names of its objects.
fn drain(device: &Device, region: &Region, key: SlotKey) -> Vec<ObjectId> {
    let slot = region.slot(key.slot).expect("a header");
    assert_eq!((slot.state, slot.key, slot.job), (State::Local, key.key, JOB));
    let table = region.table(&slot).expect("whole");
    let objects = table.extents().map(|extent| {
        let bytes = region.read(extent.offset, extent.bytes).expect("inside");
        assert_eq!(check(&bytes), extent.check);
        (ObjectId::of(&bytes), extent)
    });
    let objects: Vec<_> = objects.collect();
    let index = index::build(objects.clone());
    assert!(index.len() as u64 <= slot.index.bytes, "there is room for it");
    device.host_write(slot.index.offset, &index);
    let index = Extent { bytes: index.len() as u64, check: check(&index), ..slot.index };
    device.host_write(header_offset(key.slot), &Slot { state: State::Drained, index, ..slot }.bytes());
    objects.into_iter().map(|(name, _)| name).collect()
}

#[test]
fn what_was_filled_and_drained_is_found_by_name() {
    let (device, region) = region(BLOCKS);
    let (key, extents) = filled(&region, 1, &[3, 4]).expect("written");
    let twos = [3, 4].map(|byte| vec![byte; 8192]);
    let names = twos.each_ref().map(|bytes| ObjectId::of(bytes));
    assert_eq!(region.object(&names[0]), None, "nobody has named it yet");
    assert_eq!(drain(device, &region, key), names);
    assert_eq!(region.object(&names[0]).as_ref(), Some(&twos[0]));
    assert_eq!(region.object(&names[1]).as_ref(), Some(&twos[1]));
    assert_eq!(region.object(&ObjectId::of(b"else")), None);
    let known = region.names(key, &quota()).expect("memory").expect("drained");
    assert_eq!(extents.iter().map(|extent| known.at(extent.offset)).collect::<Vec<_>>(), names.map(Some));
    assert_eq!(known.at(extents[0].offset + 1), None);
    assert!(region.names(SlotKey { key: 2, ..key }, &quota()).expect("memory").is_none(), "another filling of it");
}

#[test]
fn it_outlives_the_node() {
    let (device, region) = region(BLOCKS);
    let (key, _) = filled(&region, 1, &[3]).expect("written");
    let names = drain(device, &region, key);
    let again = Region::new(device, frames()).expect("not too small");
    assert_eq!(again.object(&names[0]), None, "it was not looked at yet");
    run(Arc::clone(&again).prepare());
    assert!(again.object(&names[0]).is_some());
    // And is another one when it does not begin as it should.
    device.host_write(3, &[0xff]);
    let other = Region::new(device, frames()).expect("not too small");
    run(Arc::clone(&other).prepare());
    assert_eq!(other.object(&names[0]), None);
}

#[test]
fn what_is_damaged_is_not_there() {
    let (device, region) = region(BLOCKS);
    let (key, extents) = filled(&region, 1, &[3, 4]).expect("written");
    let names = drain(device, &region, key);
    device.host_write(extents[0].offset + 4095, &[0]);
    assert_eq!(region.object(&names[0]), None);
    assert!(region.object(&names[1]).is_some());
    let slot = region.slot(key.slot).expect("a header");
    device.host_write(slot.index.offset + 40, &[0xff; 8]);
    assert!(region.names(key, &quota()).expect("memory").is_none());
    device.host_write(header_offset(key.slot) + 13, &[0xff]);
    assert_eq!(region.object(&names[1]), None);
}

#[test]
fn blocks_of_others_are_left_alone() {
    let (device, region) = region(BLOCKS);
    let (first, of_first) = filled(&region, 1, &[1, 2, 3]).expect("written");
    let names = drain(device, &region, first);
    let (second, of_second) = filled(&region, 2, &[4, 5]).expect("written");
    let (third, of_third) = filled(&region, 3, &[6]).expect("written");
    let slots = [first.slot, second.slot, third.slot];
    assert!(slots[0] != slots[1] && slots[1] != slots[2] && slots[0] != slots[2], "{slots:?}");
    let extents = [of_first, of_second, of_third].concat();
    for (index, extent) in extents.iter().enumerate() {
        assert!(extents[..index].iter().all(|other| other.blocks() != extent.blocks()), "{extents:?}");
    }
    assert!(names.iter().all(|name| region.object(name).is_some()));
    assert!(device.read(header_offset(second.slot), &mut [0; HEADER_BYTES as usize]));
}

#[test]
fn without_a_free_slot_or_room_it_goes_elsewhere() {
    let (_, region) = region(BLOCKS);
    for key in 0..u64::from(SLOTS) {
        filled(&region, key, &[1]).expect("written");
    }
    let elsewhere = |region: &Arc<Region>| {
        let region = Arc::clone(region);
        run(async move { region.fill((JOB, 9), None, &quota()).await.map(|filling| filling.is_none()) })
    };
    assert_eq!(elsewhere(&region), Ok(true), "all slots are taken");
    let (_, small) = self::region(16);
    let fills = run({
        let small = Arc::clone(&small);
        async move {
            let quota = quota();
            let mut filling = small.fill((JOB, 1), None, &quota).await?.expect("a free slot");
            assert!(small.fill((JOB, 2), None, &quota).await?.is_none(), "one at a time");
            let mut sections = Vec::new();
            while filling.has_room() {
                sections.push(Section::New(filling.put(pages(1, 1)).await?));
            }
            assert_eq!(filling.put(pages(1, 1)).await, Err(NotWritten::Full));
            assert_eq!(filling.put_bytes(&[1]).await, Err(NotWritten::Full));
            // The table and the index have room still.
            assert!(sections.len() > 8, "{}", sections.len());
            filling.commit(part(sections)).await
        }
    });
    assert!(fills.is_ok());
    assert_eq!(elsewhere(&small), Ok(true), "too little is left");
}

#[test]
fn what_the_host_does_not_write_is_not_there() {
    for good in 0..6 {
        let (device, region) = region(BLOCKS);
        device.fail_after(Some(good));
        // A header, three objects, a table, and the header again.
        assert_eq!(filled(&region, 1, &[1, 2, 3]).map(drop), Err(NotWritten::Engine), "after {good}");
        device.fail_after(None);
        assert_eq!(region.whole().count(), 0, "after {good}");
        let (key, _) = filled(&region, 2, &[1, 2, 3]).expect("its slot and blocks are free");
        assert_eq!(key.slot, 0);
    }
}

#[test]
fn what_is_given_up_is_not_there() {
    let (_, region) = region(BLOCKS);
    let given_up = Arc::clone(&region);
    run(async move {
        let mut filling = given_up.fill((JOB, 1), None, &quota()).await.expect("written").expect("a free slot");
        filling.put(pages(9, 32)).await.expect("written");
    });
    assert_eq!(region.whole().count(), 0);
    assert_eq!(filled(&region, 2, &[1]).map(|(key, _)| key.slot), Ok(0));
}

/// Whether these bytes are anywhere in it.
fn has(device: &Device, byte: u8) -> bool {
    let mut all = vec![0; device.bytes() as usize];
    assert!(device.read(0, &mut all));
    all.windows(4096).step_by(4096).any(|page| page == [byte; 4096])
}

#[test]
fn what_is_given_up_becomes_zeros_and_nothing_else_does() {
    let (device, region) = region(BLOCKS);
    let (first, _) = filled(&region, 1, &[3]).expect("written");
    let names = drain(device, &region, first);
    let (second, _) = filled(&region, 2, &[4]).expect("written");
    let given_up = Arc::clone(&region);
    run(async move {
        let mut filling = given_up.fill((JOB, 3), None, &quota()).await.expect("written").expect("a free slot");
        for _ in 0..9 {
            filling.put(pages(5, 32)).await.expect("written");
        }
        given_up.answered(|| given_up.device.is_idle().then_some(())).await.expect("it answers");
        assert!(has(given_up.device, 5), "it is there until then");
    });
    // Whoever fills the next one waits for that.
    let (third, _) = filled(&region, 4, &[6]).expect("written");
    assert!(!has(device, 5) && [3, 4, 6].iter().all(|byte| has(device, *byte)));
    assert!(region.object(&names[0]).is_some());
    let slots = [first, second, third].map(|key| region.slot(key.slot).map(|slot| slot.key));
    assert_eq!(slots, [1, 2, 4].map(Some));
}

#[test]
fn a_slot_whose_header_is_being_written_keeps_its_blocks() {
    let (device, region) = region(BLOCKS);
    let (key, _) = filled(&region, 1, &[3]).expect("written");
    let next = run({
        let region = Arc::clone(&region);
        async move {
            let mut filling = region.fill((JOB, 2), None, &quota()).await?.expect("a free slot");
            filling.put(pages(5, 2)).await?;
            let at = header_offset(key.slot);
            let mut whole = [0; HEADER_BYTES as usize];
            assert!(device.read(at, &mut whole));
            device.host_write(at, b"torn");
            drop(filling);
            executor::sleep(3 * REGION_LOOK_NS).await;
            device.host_write(at, &whole);
            region.fill((JOB, 3), None, &quota()).await.map(|filling| filling.is_some())
        }
    });
    assert_eq!(next, Ok(true));
    assert!(has(device, 3) && !has(device, 5));
    assert_eq!(region.slot(key.slot).map(|slot| slot.key), Some(1));
}

#[test]
fn what_was_written_when_the_node_went_becomes_zeros() {
    let (device, region) = region(BLOCKS);
    let (key, _) = filled(&region, 1, &[3]).expect("written");
    let (_, free) = run({
        let region = Arc::clone(&region);
        async move { region.free(None).await }
    })
    .expect("memory");
    free.free_runs().for_each(|run| device.host_write(run.offset, &vec![5; run.bytes as usize]));
    assert!(has(device, 5));
    let again = Region::new(device, frames()).expect("not too small");
    run(Arc::clone(&again).prepare());
    assert!(!has(device, 5) && has(device, 3));
    assert_eq!(again.slot(key.slot).map(|slot| slot.key), Some(1));
}

#[test]
fn an_engine_that_does_not_answer_is_left_alone_until_it_does() {
    let (device, region) = region(BLOCKS);
    let fill = |key| {
        let region = Arc::clone(&region);
        run(async move {
            let Some(mut filling) = region.fill((JOB, key), None, &quota()).await? else { return Ok(None) };
            region.device.be_silent(key == 1);
            let extent = filling.put(pages(5, 2)).await?;
            filling.commit(part(vec![Section::New(extent)])).await.map(Some)
        })
    };
    assert_eq!(fill(1), Err(NotWritten::Silent));
    let before = executor::now_ns();
    assert_eq!(fill(2), Ok(None), "it goes elsewhere");
    assert_eq!(executor::now_ns(), before, "at once");
    device.be_silent(false);
    region.changed.wake_all();
    assert!(fill(3).is_ok_and(|key| key.is_some()));
    assert_eq!(region.whole().count(), 1);
}

#[test]
fn ranks_that_stand_do_not_wait_for_the_engine() {
    for (pending, engine_has) in [(0, 0), (2, 2), (u8::MAX, 7)] {
        let (device, region) = region(BLOCKS);
        let copied = run({
            let region = Arc::clone(&region);
            async move {
                let mut filling = region.fill((JOB, 1), Some(pending), &quota()).await?.expect("a free slot");
                let mut sections = Vec::new();
                region.device.be_silent(true);
                for byte in 0..12 {
                    sections.push(Section::New(filling.put(pages(byte, 1)).await?));
                }
                assert_eq!(device.under_way(), engine_has, "the processor has copied the others");
                region.device.be_silent(false);
                filling.commit(part(sections)).await
            }
        });
        let slot = region.slot(copied.expect("written").slot).expect("a header");
        for (extent, byte) in region.table(&slot).expect("whole").extents().zip(0_u8..) {
            assert_eq!(region.read(extent.offset, extent.bytes), Some(vec![byte; 4096]));
        }
    }
}

#[test]
fn what_was_being_filled_when_the_node_went_is_emptied() {
    let (device, region) = region(BLOCKS);
    let (key, _) = filled(&region, 1, &[3]).expect("written");
    let names = drain(device, &region, key);
    let nowhere = Extent { offset: 0, bytes: 0, check: 0 };
    let filling = Slot { state: State::Filling, job: JOB, key: 2, table: nowhere, index: nowhere };
    device.host_write(header_offset(1), &filling.bytes());
    device.host_write(header_offset(2), b"torn");
    let again = Region::new(device, frames()).expect("not too small");
    run(Arc::clone(&again).prepare());
    for slot in [1, 2] {
        let mut header = [1; 64];
        assert!(device.read(header_offset(slot), &mut header) && header == [0; 64], "{slot}");
    }
    assert!(again.object(&names[0]).is_some(), "what is whole stays");
}
