"""Feeds a reader of files with what files may hold, and tells what it made of it.

A reader may read content, or refuse it with a `ConfigError` that names the file in one short sentence. Anything else is
a crash: another error, a sentence that names nothing, more time or memory than an input is worth.
"""

import io
import signal
import traceback
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from resnetx.errors import ConfigError
from tests.fuzz import mutations

CORPUS = Path(__file__).parent / "corpus"  # inputs that once crashed, in a folder for each target
LIMIT_s = 20.0  # CPU time of one input: nothing that is read within bounds takes a second, but on a machine that stalls
WAITING = 10  # times as long by the clock, for what waits and computes nothing
LONGEST = 2500  # characters of a sentence


@dataclass(frozen=True)
class Target:
    """One reader: `use` reads the file at a path, and does with it what verbs do."""

    name: str
    file: str  # what the file is called
    samples: Callable[[], list[bytes]]
    use: Callable[[Path], object]
    named: bool = True  # a refusal names the file; not of what is no file
    pack: Callable[[bytes], bytes] | None = None  # applied to what was changed, and then changed again at times
    # The mutator of what is packed in a sample: decodes it, changes it, and encodes it again, with valid checksums. Of
    # JSON it is `mutations.fields`, packed by `pack`.
    content: Callable[[Random, bytes], bytes] | None = None


@dataclass
class Found:
    """What came of a target's inputs."""

    target: str
    inputs: int = 0
    read: int = 0
    refused: int = 0
    crashes: Counter[str] = field(default_factory=Counter)  # by place
    examples: dict[str, bytes] = field(default_factory=dict)  # of each place, the shortest

    def crash(self, place: str, content: bytes) -> None:
        self.crashes[place] += 1
        if place not in self.examples or len(content) < len(self.examples[place]):
            self.examples[place] = content

    def __str__(self) -> str:
        crashes = sum(self.crashes.values())
        said = f"{self.target:14} {self.inputs:7,} inputs: {self.read:7,} read, {self.refused:7,} refused, "
        return said + f"{crashes} crashes at {len(self.crashes)} places"


def has_content(target: Target) -> bool:
    """Whether a target has a mutator of its content."""
    return bool(target.content or _trees(target.samples()))


def _trees(samples: Sequence[bytes]) -> list[bytes]:
    """The samples that are JSON."""
    return [sample for sample in samples if sample.lstrip()[:1] in (b"{", b"[")]


def inputs(target: Target, count: int, seed: int, content_alone: bool = False) -> Iterator[bytes]:
    """As many inputs; the same for the same seed. `content_alone`: those of the mutator of its content."""
    random = Random(f"{target.name} {seed}")
    samples = target.samples()
    trees = _trees(samples)
    for _ in range(count):
        if content_alone or ((trees or target.content) and random.random() < 0.4):
            yield _other_content(random, target, samples, trees)
            continue
        content, times = random.choice(samples), random.choice((1, 1, 1, 2, 4))
        if trees and random.random() < 0.5:
            content, times = mutations.tree(random, random.choice(trees), trees), random.choice((0, 0, 0, 0, 1))
        content = _changed(random, content, samples, times)
        if target.pack:
            content = target.pack(content)
            content = _changed(random, content, [content], random.choice((0, 0, 0, 1)))
        yield content


def _other_content(random: Random, target: Target, samples: Sequence[bytes], trees: Sequence[bytes]) -> bytes:
    if target.content:
        return target.content(random, random.choice(samples))
    content = mutations.fields(random, random.choice(trees))
    return target.pack(content) if target.pack else content


def _changed(random: Random, content: bytes, samples: Sequence[bytes], times: int) -> bytes:
    for _ in range(times):
        content = random.choice(mutations.BYTES)(random, content, samples)
    return content


def fuzz(target: Target, count: int, seed: int, folder: Path, content_alone: bool = False) -> Found:
    """Uses the target on as many inputs. The one that is being read lies in the folder: it is left if Python dies."""
    found = Found(target.name)
    for content in inputs(target, count, seed, content_alone):
        found.inputs += 1
        try_one(target, content, folder, found)
    return found


def of_two(act: Callable[[], object]) -> None:
    """What is said of a file and something else together need not name the one."""
    with suppress(ConfigError):
        act()


def seldom(path: Path, of: int = 16) -> bool:
    """Whether an input is one of the few, one in `of`, on which what takes long is tried, too: tables, fits, pages."""
    return zlib.crc32(path.read_bytes()) % of == 0


def try_one(target: Target, content: bytes, folder: Path, found: Found) -> None:
    """One input; `found` is told of what came of it."""
    path = folder / target.file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    try:
        with _limited(LIMIT_s), redirect_stdout(_Nobody()), redirect_stderr(_Nobody()):
            target.use(path)
        found.read += 1
    except ConfigError as refusal:
        found.refused += 1
        if fault := _sentence_fault(str(refusal), path if target.named else None):
            found.crash(f"{fault}: {str(refusal)[:60]}", content)
    except (Exception, RecursionError, MemoryError) as error:
        found.crash(_place(error), content)


def _sentence_fault(sentence: str, path: Path | None) -> str:
    if path is not None and path.name not in sentence:
        return "a refusal that names no file"
    if len(sentence) > LONGEST:
        return "a refusal without end"
    if "\n" in sentence.replace(str(path), ""):
        return "a refusal of several lines"
    return ""


def _place(error: BaseException) -> str:
    """Where in resnetx an error came from, and what it says: the same for the same mistake."""
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if "/resnetx/" in frame.filename]
    where = f"{Path(own[-1].filename).name}:{own[-1].lineno} {own[-1].name}" if own else "outside"
    return f"{type(error).__name__} in {where}"


class _Nobody(io.TextIOBase):
    """Reads what is printed: screens are made, and have to be text."""

    def write(self, text: str) -> int:
        return len(text.encode())


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TimeoutError(f"more than {seconds} s")

    timers = {
        signal.SIGPROF: (signal.ITIMER_PROF, seconds),
        signal.SIGALRM: (signal.ITIMER_REAL, WAITING * seconds),
    }
    before = {number: signal.signal(number, stop) for number in timers}
    for timer, limit in timers.values():
        signal.setitimer(timer, limit)
    try:
        yield
    finally:
        for number, (timer, _) in timers.items():
            signal.setitimer(timer, 0)
            signal.signal(number, before[number])
