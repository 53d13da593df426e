"""What Python programs do every day, in the order of the alphabet; says the same on a node and on the host."""

import array
import base64
import bisect
import bz2
import collections
import contextlib
import csv
import ctypes
import datetime
import decimal
import fractions
import functools
import glob
import gzip
import hashlib
import heapq
import itertools
import json
import lzma
import mmap
import multiprocessing.pool
import os
import pathlib
import pickle
import queue
import random
import re
import selectors
import shutil
import signal
import socket
import sqlite3
import statistics
import struct
import sys
import tempfile
import threading
import time
import traceback
import unicodedata
import uuid
import xml.etree.ElementTree
import zipfile
import zlib

work = pathlib.Path(sys.argv[1])


def say(name, *what):
    print(f"{name}: {' '.join(str(each) for each in what)}")


say("array", array.array("d", [1.5, 2]).tobytes().hex())
say("base64", base64.b64encode(bytes(range(20))))
say("bisect", bisect.bisect([1, 3, 5], 4))
for name, module in [("bz2", bz2), ("gzip", gzip), ("lzma", lzma), ("zlib", zlib)]:
    packed = module.compress(b"all work and no play " * 1000)
    say(name, len(packed) < 500, module.decompress(packed)[:8])
say("collections", collections.Counter("abracadabra").most_common(2))
with open(work / "a.csv", "w", newline="") as file:
    csv.writer(file).writerows([[1, "zwei", 3.5], ["a,b", 'say "x"', ""]])
say("csv", list(csv.reader(open(work / "a.csv", newline=""))))
library = ctypes.CDLL("libm.so.6")
library.cos.restype, library.cos.argtypes = ctypes.c_double, [ctypes.c_double]
say("ctypes", library.cos(1.0))
compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
numbers = (ctypes.c_int * 5)(5, 1, 4, 2, 3)
ctypes.CDLL(None).qsort(numbers, 5, 4, compare(lambda a, b: a[0] - b[0]))
say("ctypes calls back", list(numbers))
say("datetime", datetime.datetime(2024, 2, 29, tzinfo=datetime.timezone.utc) + datetime.timedelta(days=365))
say("decimal", decimal.Decimal(2).sqrt(decimal.Context(prec=50)))
say("fractions", sum((fractions.Fraction(1, n) for n in range(1, 10)), fractions.Fraction()))
say("functools", functools.reduce(lambda a, b: a * b, range(1, 30)))
say("hashlib", *(hashlib.new(name, b"x").hexdigest()[:12] for name in ["md5", "sha1", "sha256", "sha3_512", "blake2b"]))
say("heapq", heapq.nsmallest(3, [5, 1, 4, 2]))
say("json", json.dumps({"ä": [1, 2.5, None, True], "b": {"c": "\n"}}, sort_keys=True))
with open(work / "mapped", "w+b") as file:
    file.truncate(10000)
    with mmap.mmap(file.fileno(), 0) as mapped:
        mapped[5000:5005] = b"hello"
        mapped.flush()
    file.seek(5000)
    say("mmap", file.read(5), os.stat(work / "mapped").st_size)
with multiprocessing.pool.ThreadPool(3) as pool:
    say("a pool of threads", pool.map(lambda n: n * n, range(10)))
say("os", sorted(os.listdir(work)), os.path.exists("/nothing"), os.getpid() > 0)
say("pickle", pickle.loads(pickle.dumps({"a": [1, {2, 3}], "b": complex(1, 2)})))
say("random", random.Random(7).random(), random.Random("x").sample(range(100), 5))
say("re", re.findall(r"(?<=\b)(\w)\w*(\d+)", "a1 bc23 d"), re.sub(r"(?P<x>o+)", r"<\g<x>>", "foo boo"))
left, right = socket.socketpair()
poller = selectors.DefaultSelector()
poller.register(right, selectors.EVENT_READ)
say("select", len(poller.select(0)), left.send(b"abc"), len(poller.select(1)), right.recv(10))
server = socket.create_server(("127.0.0.1", 0))
answers = []


def serve():
    peer, _ = server.accept()
    with peer:
        answers.append(peer.recv(100))
        peer.sendall(b"pong")


thread = threading.Thread(target=serve)
thread.start()
with socket.create_connection(server.getsockname()) as client:
    client.sendall(b"ping")
    answers.append(client.recv(100))
thread.join()
say("socket", answers)
caught = []
signal.signal(signal.SIGUSR1, lambda number, frame: caught.append(number))
os.kill(os.getpid(), signal.SIGUSR1)
say("signal", caught)
with contextlib.closing(sqlite3.connect(work / "data.db")) as database:
    with database:
        database.execute("create table t (a integer primary key, b text)")
        database.executemany("insert into t (b) values (?)", [(f"row {n}",) for n in range(500)])
    say("sqlite3", database.execute("select count(*), sum(a), max(b) from t where b like '%7%'").fetchone())
say("statistics", statistics.mean([1, 2, 4]), statistics.stdev([1, 2, 4]))
say("struct", struct.pack(">IhQ4s", 1, -2, 3, b"abcd").hex())
with tempfile.TemporaryDirectory(dir=work) as directory:
    pathlib.Path(directory, "x").write_text("text")
    say("tempfile", [entry.name for entry in pathlib.Path(directory).iterdir()])
    shutil.copytree(directory, work / "copied")
say("glob", [pathlib.Path(found).name for found in glob.glob(str(work / "copied/*"))])
jobs, results = queue.Queue(), queue.Queue()


def worker():
    while (job := jobs.get()) is not None:
        results.put((job, sum(itertools.islice(itertools.count(job), 1000))))


workers = [threading.Thread(target=worker) for _ in range(4)]
for each in workers:
    each.start()
for job in range(20):
    jobs.put(job)
for _ in workers:
    jobs.put(None)
for each in workers:
    each.join()
say("threading", sorted(results.get() for _ in range(20))[-1], threading.active_count())
started = time.monotonic()
time.sleep(0.01)
say("time", time.monotonic() - started >= 0.01, time.strftime("%Y-%m-%d", time.gmtime(86400 * 365)))
try:
    {}["nothing"]
except KeyError:
    say("traceback", traceback.format_exc().splitlines()[-1])
say("unicodedata", unicodedata.name("ß"), "STRASSE".casefold() == "straße".casefold())
say("uuid", uuid.uuid5(uuid.NAMESPACE_DNS, "example.org"))
tree = xml.etree.ElementTree.fromstring("<a><b c='1'>x</b><b c='2'/></a>")
say("xml", [each.get("c") for each in tree.iter("b")])
with zipfile.ZipFile(work / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
    archive.writestr("inside", "text " * 100)
say("zipfile", zipfile.ZipFile(work / "a.zip").read("inside")[:9])
