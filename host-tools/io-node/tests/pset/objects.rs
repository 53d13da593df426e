//! Objects of checkpoints: they are kept in a directory of their own, whatever becomes of the job.

use std::path::PathBuf;
use std::time::Duration;

use coppice_io_node::wall::Wall;
use coppice_protocol::checkpoint::{OBJECT_BYTES_MAX, ObjectId};
use coppice_protocol::control::{Exit, RankReport, ToNode};
use coppice_protocol::pset::{FromPset, ToPset};
use coppice_protocol::ship::{Call, Reply};
use coppice_storage::Storage;

use crate::ESRCH;
use crate::common::{JOB, OWNER, Pset, RANK, run};
use crate::confined::{landlock, threads};
use crate::one_end;

const ENOENT: u16 = 2;
const EIO: u16 = 5;
const ENODEV: u16 = 19;
const EBADMSG: u16 = 74;

fn file_of(pset: &Pset, id: ObjectId) -> PathBuf {
    let name = id.to_string();
    pset.storage().join("objects").join(&name[..2]).join(name)
}

fn half_written(pset: &Pset) -> usize {
    std::fs::read_dir(pset.storage().join("temporary")).unwrap().count()
}

#[test]
fn what_was_put_is_got() {
    run(async {
        let (pset, mut node) = Pset::with_storage().await;
        let page: Vec<u8> = (0..OBJECT_BYTES_MAX).map(|index| (index / 11 % 251) as u8).collect();
        for bytes in [&b""[..], b"record", &page, b"record"] {
            let (reply, _) = node.call(Call::PutObject, bytes).await;
            assert_eq!(reply, Reply::Object(ObjectId::of(bytes)));
        }
        assert_eq!(node.call(Call::SettleObjects, &[]).await.0, Reply::Done);
        assert_eq!(node.call(Call::GetObject(ObjectId::of(&page)), &[]).await, (Reply::Data, page.clone()));
        assert_eq!(node.call(Call::GetObject(ObjectId::of(b"")), &[]).await, (Reply::Data, Vec::new()));
        // It is where the service node finds it.
        let storage = Storage::open(pset.storage()).unwrap();
        assert_eq!(storage.get(ObjectId::of(b"record")).unwrap(), b"record");
        assert_eq!(half_written(&pset), 0);
        let nobodys = ObjectId::of(b"nobody's");
        assert_eq!(node.call(Call::GetObject(nobodys), &[]).await.0, Reply::Failed(ENOENT));
        let path = file_of(&pset, ObjectId::of(&page));
        let mut file = std::fs::read(&path).unwrap();
        let last = file.len() - 1;
        file[last] ^= 1;
        std::fs::write(&path, file).unwrap();
        assert_eq!(node.call(Call::GetObject(ObjectId::of(&page)), &[]).await.0, Reply::Failed(EBADMSG));
    });
}

#[test]
fn without_a_directory_nothing_is_kept() {
    run(async {
        let (_pset, mut node) = Pset::with_job().await;
        for call in [Call::PutObject, Call::GetObject(ObjectId::of(b"a")), Call::SettleObjects] {
            assert_eq!(node.call(call, &[]).await.0, Reply::Failed(ENODEV));
        }
        // Nor in one that another version has made.
        let pset = Pset::start_with_storage(|storage| {
            drop(Storage::open(storage).unwrap());
            std::fs::write(storage.join("format"), "coppice-checkpoints 2\n").unwrap();
        });
        let (_pset, mut node) = pset.await.with_its_job().await;
        let (reply, _) = node.call(Call::PutObject, b"a").await;
        // Whoever was in line when that was found out had a thread until then.
        assert!(matches!(reply, Reply::Failed(ENODEV | EIO)), "{reply:?}");
        assert_eq!(node.call(Call::SettleObjects, &[]).await.0, Reply::Failed(ENODEV));
    });
}

#[test]
fn a_job_that_ends_meanwhile_leaves_nothing_behind() {
    run(async {
        let (mut pset, mut node) = Pset::with_storage().await;
        for round in 0..5_u8 {
            let objects: Vec<Vec<u8>> = (0..12).map(|index| vec![16 * round + index; OBJECT_BYTES_MAX]).collect();
            for object in &objects {
                node.request(OWNER, Call::PutObject, object);
            }
            node.control.send(0, &one_end(RankReport::ended(JOB, RANK, Exit::Status(0))), &[]);
            for _ in &objects {
                let (_, reply, _) = node.reply().await;
                assert!(matches!(reply, Reply::Object(_) | Reply::Failed(EIO | ESRCH)), "{reply:?}");
            }
            while !matches!(pset.receive().await, FromPset::Ended(_)) {}
            pset.send(ToPset::Forget { job: JOB }).await;
            let spec = pset.job();
            pset.send(ToPset::Start(spec)).await;
            while !matches!(node.control.message().await, ToNode::Launch(_)) {}
            assert_eq!(node.call(Call::SettleObjects, &[]).await.0, Reply::Done);
        }
        while half_written(&pset) > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // All that is there is whole.
        let storage = Storage::open(pset.storage()).unwrap();
        let mut found = 0;
        for directory in std::fs::read_dir(pset.storage().join("objects")).unwrap() {
            for file in std::fs::read_dir(directory.unwrap().path()).unwrap() {
                storage.get(file.unwrap().file_name().to_str().unwrap().parse().unwrap()).unwrap();
                found += 1;
            }
        }
        assert!(found <= 5 * 12, "{found}");
    });
}

/// The host's kernel holds them there, and the directory is no job's to see.
#[test]
fn the_threads_of_objects_reach_nothing_else() {
    run(async {
        if landlock() == Wall::Missing {
            return;
        }
        let (pset, mut node) = Pset::with_storage().await;
        assert!(matches!(node.call(Call::PutObject, b"a").await.0, Reply::Object(_)));
        let confined = || {
            let all = threads(pset.process(), "NoNewPrivs");
            all.into_iter().filter(|(name, value)| name.starts_with("objects") && value == "1").count()
        };
        while confined() < coppice_io_node::limits::OBJECT_THREADS {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // Outside of it is, of all places, what a link in it names.
        let id = ObjectId::of(b"b");
        let path = file_of(&pset, id);
        let outside = pset.dir.path().join("outside");
        std::fs::create_dir(&outside).unwrap();
        std::os::unix::fs::symlink(&outside, path.parent().unwrap()).unwrap();
        assert_eq!(node.call(Call::PutObject, b"b").await.0, Reply::Failed(13));
        assert_eq!(std::fs::read_dir(&outside).unwrap().count() + half_written(&pset), 0);
    });
}
