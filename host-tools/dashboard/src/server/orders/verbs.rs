//! What can be ordered: a verb of the tool each, with the fields of its form.

/// See this module.
#[derive(Debug)]
pub(super) struct Verb {
    /// Its name in addresses.
    pub(super) name: &'static str,
    /// What its button says.
    pub(super) title: &'static str,
    /// What comes of it.
    pub(super) does: &'static str,
    /// Something is lost by it.
    pub(super) is_grave: bool,
    /// What the tool says of it is to be seen; what comes of others is on the page that they are about.
    pub(super) is_told: bool,
    /// What its command line begins with.
    pub(super) words: &'static [&'static str],
    /// And what it ends with.
    pub(super) ends: &'static [&'static str],
    pub(super) fields: &'static [Field],
    /// The page that it is about.
    pub(super) about: About,
}

/// The page that an order is about, and where it leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum About {
    Cluster,
    /// The job of the field `job`.
    Job,
    /// The job whose number is printed.
    NewJob,
    Nodes,
    Programs,
    Links,
    Checkpoints,
}

/// A field of a form.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) label: &'static str,
    pub(super) help: &'static str,
    pub(super) kind: Kind,
    pub(super) part: Part,
    /// There must be something in it.
    pub(super) is_needed: bool,
    /// What is in it first.
    pub(super) value: &'static str,
}

/// What can be put into a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Number,
    Lines,
    /// One of these, with what is shown of each.
    Choice(&'static [(&'static str, &'static str)]),
}

/// What is made of it on the command line, if there is something in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The value of an option.
    Value(&'static str),
    /// The value of an option for each line.
    Values(&'static str),
    /// An option itself: only of a choice.
    Option,
    /// What comes after options.
    Operand,
    /// As many operands as a shell would make of it.
    Operands,
}

const fn text(name: &'static str, label: &'static str, part: Part) -> Field {
    Field { name, label, help: "", kind: Kind::Text, part, is_needed: false, value: "" }
}

const fn number(name: &'static str, label: &'static str, part: Part) -> Field {
    Field { kind: Kind::Number, ..text(name, label, part) }
}

const fn choice(
    name: &'static str,
    label: &'static str,
    part: Part,
    of: &'static [(&'static str, &'static str)],
) -> Field {
    Field { kind: Kind::Choice(of), ..text(name, label, part) }
}

impl Field {
    const fn needed(self) -> Self {
        Self { is_needed: true, ..self }
    }

    const fn with(self, value: &'static str) -> Self {
        Self { value, ..self }
    }

    const fn help(self, help: &'static str) -> Self {
        Self { help, ..self }
    }
}

const JOB: Field = number("job", "Job", Part::Operand).needed();

const NODE: Field = number("node", "Node", Part::Operand).needed();

const NODES_LIST: Field =
    text("nodes", "Nodes", Part::Value("--nodes-list")).help("Exactly these, such as 0,3-5; otherwise any");

const SAMPLE: Field = number("sample", "Samples a second", Part::Value("--sample"))
    .help("Look so often where each rank is in its program, such as 100, for the flame graph");

const LENGTHS: &[(&str, &str)] =
    &[("1", "A second"), ("5", "5 seconds"), ("30", "Half a minute"), ("300", "5 minutes")];

const SIGNALS: &[(&str, &str)] = &[
    ("TERM", "TERM: end, unless it is handled"),
    ("KILL", "KILL: end in any case"),
    ("INT", "INT: as Ctrl-C"),
    ("HUP", "HUP"),
    ("QUIT", "QUIT"),
    ("USR1", "USR1"),
    ("USR2", "USR2"),
    ("STOP", "STOP: stand still"),
    ("CONT", "CONT: go on"),
];

const OVERLAYS: &[(&str, &str)] =
    &[("", "No"), ("1", "Once a second"), ("10", "Ten times a second"), ("0.1", "Every ten seconds")];

const CUTS: &[(&str, &str)] = &[("", "As it is"), ("--cut", "Cut: nothing passes"), ("--mend", "Mended: frames pass")];

const DIRECTIONS: &[(&str, &str)] = &[("both", "Both ways"), ("to", "To the node"), ("from", "From the node")];

/// What a verb has that is not said.
const PLAIN: Verb = Verb {
    name: "",
    title: "",
    does: "",
    is_grave: false,
    is_told: false,
    words: &[],
    ends: &[],
    fields: &[],
    about: About::Cluster,
};

/// All of them.
pub(super) const VERBS: &[Verb] = &[
    Verb {
        name: "up",
        title: "Bring the cluster up",
        does: "Boots nodes, and waits until all of them are ready.",
        words: &["up"],
        fields: &[
            number("nodes", "Nodes", Part::Value("--nodes")).with("4"),
            number("cores", "Cores of each", Part::Value("--cores")).with("1"),
            text("memory", "Memory of each", Part::Value("--memory")).with("64M").help("Such as 64M or 1G"),
        ],
        ..PLAIN
    },
    Verb {
        name: "down",
        title: "Bring the cluster down",
        does: "Ends its jobs, nodes and processes; what was recorded stays.",
        is_grave: true,
        words: &["down"],
        ..PLAIN
    },
    Verb {
        name: "run",
        title: "Run a program",
        does: "Runs a Linux program as a job of its own, which goes on whatever becomes of this page.",
        words: &["run", "--detach"],
        fields: &[
            text("program", "Program", Part::Operand)
                .needed()
                .help("A path on this host from where the dashboard was started, or a name in its PATH"),
            text("arguments", "Arguments", Part::Operands).help("As a shell would split them"),
            number("ranks", "Ranks", Part::Value("--ranks")).with("1"),
            number("ranks_per_node", "Ranks on each node", Part::Value("--ranks-per-node")).with("1"),
            NODES_LIST,
            text("root", "Root", Part::Value("--root")).help("Directory of this host that the program sees as /"),
            text("directory", "Working directory", Part::Value("--cwd")).help("Inside the root"),
            Field {
                kind: Kind::Lines,
                ..text("environment", "Environment", Part::Values("--env")).help("NAME=VALUE, one a line")
            },
            choice("overlay", "Look at what ranks do", Part::Value("--overlay"), OVERLAYS).with("1"),
            SAMPLE,
            text("checkpoint_every", "A checkpoint every", Part::Value("--checkpoint-every"))
                .help("Such as 30s or 10m, or auto"),
            number("timeout", "Seconds at most", Part::Value("--timeout")).help("It is killed when it ran that long"),
        ],
        about: About::NewJob,
        ..PLAIN
    },
    Verb {
        name: "kill",
        title: "Send a signal",
        does: "The process of each rank gets it. A job that waits is taken out of the queue.",
        is_grave: true,
        words: &["kill"],
        fields: &[JOB, choice("signal", "Signal", Part::Value("--signal"), SIGNALS).with("TERM")],
        about: About::Job,
        ..PLAIN
    },
    Verb {
        name: "checkpoint",
        title: "Make a checkpoint",
        does: "All ranks stand for a moment and go on; it is done when the checkpoint is on the disk.",
        words: &["checkpoint"],
        fields: &[JOB],
        about: About::Checkpoints,
        ..PLAIN
    },
    Verb {
        name: "restart",
        title: "Go on from a checkpoint",
        does: "A new job goes on where the checkpoint was made of another one.",
        words: &["restart", "--detach"],
        fields: &[
            text("checkpoint", "Checkpoint", Part::Operand).needed().help("JOB, for its newest one, or JOB@N"),
            NODES_LIST,
        ],
        about: About::NewJob,
        ..PLAIN
    },
    Verb {
        name: "verify",
        title: "Verify checkpoints",
        does: "Reads all that is in them, and notes which are what was written.",
        is_told: true,
        words: &["checkpoints"],
        fields: &[text("checkpoint", "Checkpoint", Part::Value("--verify"))
            .needed()
            .help("JOB@N, or JOB for all that were made of it")],
        about: About::Checkpoints,
        ..PLAIN
    },
    Verb {
        name: "delete",
        title: "Delete checkpoints",
        does: "Gives back the room that no other checkpoint needs. Nothing brings them back.",
        is_grave: true,
        is_told: true,
        words: &["checkpoints"],
        fields: &[text("checkpoint", "Checkpoint", Part::Value("--delete"))
            .needed()
            .help("JOB@N, or JOB for all that were made of it")],
        about: About::Checkpoints,
        ..PLAIN
    },
    Verb {
        name: "overlay",
        title: "Look at what ranks do",
        does: "Begins a performance overlay in a job, or another one in place of the one that it has.",
        words: &["overlay"],
        ends: &["on"],
        fields: &[
            JOB,
            text("rate", "Times a second", Part::Value("--rate")).with("1").help("Such as 10 or 0.5"),
            SAMPLE,
        ],
        about: About::Job,
        ..PLAIN
    },
    Verb {
        name: "overlay-off",
        title: "Look no longer",
        does: "Ends the overlay of a job. What it recorded stays.",
        words: &["overlay"],
        ends: &["off"],
        fields: &[JOB],
        about: About::Job,
        ..PLAIN
    },
    Verb {
        name: "objects",
        title: "List what is open",
        does: "Files, pipes, sockets and timers that the ranks of a job have open.",
        is_told: true,
        words: &["objects"],
        fields: &[JOB, number("rank", "Rank", Part::Value("--rank")).help("Only this one")],
        about: About::Job,
        ..PLAIN
    },
    Verb {
        name: "trace",
        title: "Show what ranks call",
        does: "The system calls of a job's ranks for a while, as strace shows them; ranks may be slower meanwhile.",
        is_told: true,
        words: &["trace"],
        fields: &[
            JOB,
            number("rank", "Rank", Part::Value("--rank")).help("Only this one"),
            choice("seconds", "How long", Part::Value("--seconds"), LENGTHS).with("5"),
        ],
        about: About::Job,
        ..PLAIN
    },
    Verb {
        name: "gdb",
        title: "Debug a rank",
        does: "Says the command that has gdb debug it, which is to be typed on a terminal of this host. Nothing is \
               started, and the rank goes on.",
        is_told: true,
        words: &["gdb", "--print"],
        fields: &[JOB, number("rank", "Rank", Part::Operand).needed().with("0")],
        about: About::Job,
        ..PLAIN
    },
    Verb {
        name: "core",
        title: "Write a core file",
        does: "Writes core.JOB.RANK where the dashboard was started, for a debugger; the rank goes on.",
        is_told: true,
        words: &["core"],
        fields: &[JOB, number("rank", "Rank", Part::Operand).needed().with("0")],
        about: About::Job,
        ..PLAIN
    },
    Verb {
        name: "stage",
        title: "Keep a file on nodes",
        does: "Sends a file into the memory of nodes, where jobs that come find it.",
        is_told: true,
        words: &["stage"],
        fields: &[
            text("file", "File", Part::Operand)
                .needed()
                .help("A path on this host from where the dashboard was started"),
            text("nodes", "Nodes", Part::Value("--nodes")).help("Such as 0,3-5; otherwise all"),
        ],
        about: About::Programs,
        ..PLAIN
    },
    Verb {
        name: "forget",
        title: "Have nodes forget",
        does: "Nodes give back the pages and files that they hold of a program, which is loaded the next time.",
        is_grave: true,
        is_told: true,
        words: &["forget"],
        fields: &[text("program", "Program or file", Part::Operand)
            .help("Four or more digits that its hash starts with; otherwise all")],
        about: About::Programs,
        ..PLAIN
    },
    Verb {
        name: "reboot",
        title: "Boot a node anew",
        does: "A job on it ends, and what it held is lost.",
        is_grave: true,
        words: &["reboot"],
        fields: &[NODE],
        about: About::Nodes,
        ..PLAIN
    },
    Verb {
        name: "console",
        title: "Show a node's console",
        does: "What it printed on its serial line since its last boot.",
        is_told: true,
        words: &["console"],
        fields: &[NODE],
        about: About::Nodes,
        ..PLAIN
    },
    Verb {
        name: "link",
        title: "Change links",
        does: "What is left empty stays as it is. A node whose link stays cut is lost after some seconds.",
        is_grave: true,
        is_told: true,
        words: &["link"],
        fields: &[
            text("links", "Nodes and I/O nodes", Part::Operand).needed().help("Such as 2, 0,3-5 or io0"),
            text("bandwidth", "Bits a second", Part::Value("--bandwidth")).help("Such as 1G or 100M, or none"),
            text("latency", "Latency", Part::Value("--latency")).help("Such as 50us or 2ms"),
            text("loss", "Loss", Part::Value("--loss")).help("Such as 1% or 0.05%"),
            choice("cut", "Frames", Part::Option, CUTS),
            choice("direction", "Direction", Part::Value("--direction"), DIRECTIONS).with("both"),
        ],
        about: About::Links,
        ..PLAIN
    },
    Verb {
        name: "doctor",
        title: "Examine this host",
        does: "Says what is missing on it, and the command that mends it.",
        is_told: true,
        words: &["doctor"],
        ..PLAIN
    },
];

impl Verb {
    /// The one of that name.
    pub(super) fn find(name: &str) -> Option<&'static Self> {
        VERBS.iter().find(|verb| verb.name == name)
    }
}
