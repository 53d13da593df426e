"""Runs tests of Python's standard library by their modules' names, and says of each how it went:

    own_tests.py MODULE...

Whoever compares two machines wants lines that are the same, and those of what needs a second program apart."""

import io
import os
import sys
import unittest
import warnings

import test.support

# Neither the network beyond this machine nor what takes long.
test.support.use_resources = []
warnings.simplefilter("ignore")

# What a failure says in which a program or a process could not be started.
STARTS = ("_fork_exec", "os.fork()", "os.forkpty()", "posix_spawn", "_spawnvef", "_posixsubprocess", "forkserver")


class Result(unittest.TestResult):
    """Keeps how each test went."""

    def __init__(self):
        super().__init__()
        self.lines = {}

    def note(self, which, how):
        name = which.id()
        # What is worst is what counts, with subtests, too.
        if self.lines.get(name) in (None, "ok"):
            self.lines[name] = how

    def addSuccess(self, which):
        self.note(which, "ok")

    def addSkip(self, which, reason):
        self.note(which, "skipped")

    def addExpectedFailure(self, which, error):
        self.note(which, "ok")

    def addUnexpectedSuccess(self, which):
        self.note(which, "FAILED")

    def failed(self, which, error):
        text = self._exc_info_to_string(error, which) if isinstance(which, unittest.TestCase) else str(error[1])
        starts = any(word in text for word in STARTS)
        self.note(which, "starts another" if starts else "FAILED")
        if not starts:
            print(f"{which.id()}: {text}", file=sys.stderr)

    addError = addFailure = failed

    def addSubTest(self, which, part, error):
        if error is not None:
            self.failed(which, error)


for name in sys.argv[1:]:
    suite = unittest.defaultTestLoader.loadTestsFromName(f"test.{name}")
    result = Result()
    # What tests print is not of interest.
    said, sys.stdout = sys.stdout, io.StringIO()
    try:
        suite.run(result)
    finally:
        sys.stdout = said
    for which, how in sorted(result.lines.items()):
        print(f"{which}: {how}")
    sys.stdout.flush()
