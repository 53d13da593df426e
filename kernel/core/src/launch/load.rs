//! Getting a program ready to run: its headers, its working directory, its address space and start stack.
//!
//! If the node has retained the program's page table, or another rank of the job runs here already, the program is not
//! read at all: its headers are known, its pages are there.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_hal as hal;
use coppice_protocol::control::Launch;
use coppice_protocol::limits::RANKS_PER_NODE_MAX;
use coppice_protocol::program::{self, ProgramImage};
use coppice_protocol::ship::{Call, Location, Reply};
use coppice_protocol::text::ByteString;

use super::interpreter::Interpreter;
use crate::errno::Errno;
use crate::files::{Closer, pipeline::Pipeline, special};
use crate::memory::{AddressSpace, BesideError, StartInfo};
use crate::process::{JobOnNode, NodeFacts, list_bytes};
use crate::quota::Quota;
use crate::random;
use crate::ship::{Client, ProgramFile};

/// What was found out about a program before it is loaded.
pub(super) struct Prepared {
    /// Its layout.
    pub(super) image: ProgramImage,
    /// Its working directory: absolute, no links in it.
    pub(super) directory: ByteString,
}

impl Prepared {
    /// The program's dynamic linker, if it needs one.
    ///
    /// # Errors
    /// One line for the user.
    pub(super) async fn interpreter(
        &self,
        order: &Launch,
        closer: &Closer,
        quota: &Arc<Quota>,
    ) -> Result<Option<Interpreter>, String> {
        let Some(path) = &self.image.interpreter else { return Ok(None) };
        match Interpreter::open(path, closer, quota).await {
            Ok(interpreter) => Ok(Some(interpreter)),
            Err(why) => Err(format!("{}: {why}", order.path)),
        }
    }
}

/// Reads the program's headers, unless they are known, and finds the working directory, both at once.
pub(super) async fn prepare(
    order: &Launch,
    client: &Client,
    job: &JobOnNode,
    node: &NodeFacts,
) -> Result<Prepared, String> {
    // What the job's other ranks left here or have here is its own.
    let is_first = job.is_first();
    if is_first && !order.use_retained {
        node.retention.discard(Some(order.program));
    }
    let known = node.retention.layout(order.program).or_else(|| job.layout(order.program));
    let mut calls = Pipeline::new();
    let has_manifest = is_first && order.has_manifest;
    if has_manifest {
        calls.push(async move {
            job.cache.load_names(client).await;
            Ok((Reply::Done, Vec::new()))
        });
    }
    if known.is_none() {
        let file = ProgramFile { program: order.program, bytes: order.program_bytes };
        calls.push(async move { Ok((Reply::Data, job.program_pages(client, file, 0, 1).await?)) });
    }
    let directory = match special::locate(b"/", &order.directory, 0) {
        // The root needs no asking, nor does what the kernel makes itself.
        Ok(special::Place::Shipped(path)) if path != "/" => {
            calls.push(client.call(Call::Resolve(Location { directory: None, path }), Vec::new()));
            None
        }
        Ok(special::Place::Shipped(path)) => Some(path),
        Ok(special::Place::Special(node)) if node.is_directory() => Some(node.path().into()),
        Ok(special::Place::Special(_)) => return Err(bad_directory(order, Errno::ENOTDIR)),
        Ok(special::Place::Shared(_)) => return Err(bad_directory(order, Errno::ENOENT)),
        Err(errno) => return Err(bad_directory(order, errno)),
    };
    if has_manifest {
        // Without it, names are looked up one by one.
        let _ = calls.next().await;
    }
    let image = match known {
        Some(image) => image,
        None => {
            let (_, header) = calls.next().await.map_err(|errno| match errno {
                Errno::EBADMSG => String::from("program could not be read: its first page is not the program's"),
                errno => format!("program could not be read: {errno}"),
            })?;
            program::parse(&header, order.program_bytes).map_err(|error| format!("{}: {error}", order.path))?
        }
    };
    let directory = match directory {
        Some(directory) => directory,
        None => match calls.next().await {
            Ok((Reply::Path(path), _)) => path,
            Ok(_) => return Err(bad_directory(order, Errno::EIO)),
            Err(errno) => return Err(bad_directory(order, errno)),
        },
    };
    Ok(Prepared { image, directory })
}

fn bad_directory(order: &Launch, errno: Errno) -> String {
    format!("working directory {}: {errno}", order.directory)
}

/// The address space with the program in it: on the retained page table if there is one, beside that of another rank
/// if one runs here, else with no page in it.
pub(super) fn space_for(
    order: &Launch,
    image: &ProgramImage,
    job: &JobOnNode,
    node: &NodeFacts,
) -> Result<AddressSpace, BesideError> {
    let retention = || Arc::clone(&node.retention);
    if let Some(retained) = node.retention.take(order.program) {
        return Ok(AddressSpace::on_retained(node.frames, retention(), retained)?);
    }
    for sibling in job.processes() {
        let mut beside = sibling.space.lock();
        if let Some(space) = AddressSpace::beside(node.frames, retention(), order.program, &mut beside)? {
            return Ok(space);
        }
    }
    let mut space = AddressSpace::new(node.frames, retention())?;
    space.load_image(image, order.program)?;
    Ok(space)
}

/// What the arguments and the environment of a launch take of the heap, bytes.
pub(super) fn strings_bytes(order: &Launch, environment: &[ByteString]) -> usize {
    list_bytes(&order.arguments) + list_bytes(environment)
}

/// How many ranks of the job there may be on the node.
pub(super) fn on_the_node(order: &Launch) -> u32 {
    order.world.ranks_per_node.min(order.size).clamp(1, RANKS_PER_NODE_MAX)
}

/// Makes the address space with the program and its start stack. Gives the stack pointer too.
pub(super) fn load(
    order: &Launch,
    environment: &[ByteString],
    (image, interpreter): (&ProgramImage, Option<&Interpreter>),
    job: &JobOnNode,
    node: &NodeFacts,
) -> Result<(AddressSpace, u64), String> {
    let mut space = space_for(order, image, job, node).map_err(|error| format!("{}: {error}", order.path))?;
    if let Some(interpreter) = interpreter {
        interpreter.map(&mut space).map_err(|why| format!("{}: {why}", order.path))?;
    }
    space.share_room(on_the_node(order), &node.quota);
    let info = StartInfo {
        arguments: &order.arguments,
        environment,
        path: &order.path,
        interpreter: interpreter.map_or(0, |interpreter| interpreter.image.load_bias()),
        random: random::bytes(),
        user: order.user,
        group: order.group,
        features: hal::cpu::hwcap().into(),
        features2: 0,
    };
    let stack = space.build_stack(&info).map_err(|errno| format!("arguments and environment: {errno}"))?;
    Ok((space, stack))
}
