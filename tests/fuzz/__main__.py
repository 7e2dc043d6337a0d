"""Fuzzes the readers of files by hand.

    nice python -m tests.fuzz                                      # 1,000 inputs for each
    nice python -m tests.fuzz kineto system --inputs 100000 --seed 1
    nice python -m tests.fuzz kineto --keep                        # adds what crashes to the corpus, for the tests
    nice python -m tests.fuzz steering points --content            # what is in the files alone: zeros, nulls, types

A crash is anything but a value or a sentence that names the file; see `harness`. If Python itself dies, the input that
it read is the one left in the folder that is printed first.
"""

import argparse
import faulthandler
import hashlib
import resource
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.harness import CORPUS, fuzz, has_content
from tests.fuzz.targets import TARGETS

MEMORY_BYTES = 4 * 2**30
IN_MEMORY = Path("/dev/shm")  # where there is such: inputs, and records that are kept with fsync, wait for no disk


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "targets", nargs="*", metavar="PARSER", help=f"one of {', '.join(TARGETS)}; all of them unless given"
    )
    parser.add_argument("--inputs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--content", action="store_true", help="change only what the files hold; they stay well formed")
    parser.add_argument("--keep", action="store_true", help="keep what crashes in tests/fuzz/corpus")
    asked = parser.parse_args()
    if unknown := set(asked.targets) - TARGETS.keys():
        parser.error(f"{', '.join(unknown)}: no such parser; known are {', '.join(TARGETS)}")
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    crashed = False
    where = IN_MEMORY if IN_MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="resnetx-fuzz-", dir=where) as folder:
        print(f"inputs are read from {folder}")
        tempfile.tempdir = folder
        for name in asked.targets or TARGETS:
            if asked.content and not has_content(TARGETS[name]):
                continue
            started = time.perf_counter()
            found = fuzz(TARGETS[name], asked.inputs, asked.seed, Path(folder) / name, asked.content)
            peak_MB = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
            print(f"{found}, {time.perf_counter() - started:.0f} s, {peak_MB:,.0f} MB at most so far", flush=True)
            for place, count in found.crashes.most_common():
                example = found.examples[place]
                print(f"    {count:6,} x {place}: {example[:300]!r}", flush=True)
                if asked.keep:
                    kept = CORPUS / name / hashlib.sha256(example).hexdigest()[:12]
                    kept.parent.mkdir(parents=True, exist_ok=True)
                    kept.write_bytes(example)
            crashed |= bool(found.crashes)
    return int(crashed)


sys.exit(main())
