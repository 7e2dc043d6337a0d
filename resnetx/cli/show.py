"""Output of the command line: prose, tables and progress on a terminal; one JSON object per line for programs.

The verbs' own screens are in the modules `show_*`, all made of what is here.
"""

import os
import re
import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import msgspec
from rich.console import Console as _RichConsole
from rich.console import ConsoleOptions, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.segment import Segment
from rich.table import Column as ProgressCell
from rich.text import Text

from resnetx.cli.table_layout import beside, lay_out, width_of, wrapped
from resnetx.errors import UNSHOWN, on_one_line, visible
from resnetx.progress import SKIPPED, Counter
from resnetx.progress import Progress as Reports
from resnetx.table import ALWAYS, ONLY_WITH_ALL, Column, parted
from resnetx.units import duration

# The console for all output that is not JSON: it shows control characters instead of executing them.
#
# Names and texts in records, studies and traces come from anywhere. A terminal would obey the escapes in them (clear
# the screen, set its title, show a line as another one), so these are shown written out: `\x1b`.


class Console(_RichConsole):
    """rich's console without markup; a closed pipe is not an error (`cli` then exits silently)."""

    def __init__(self, **more: Any) -> None:
        # COLUMNS=0 is no limit (`table_layout`); rich would print nothing in so many.
        environment = {name: value for name, value in os.environ.items() if (name, value) != ("COLUMNS", "0")}
        super().__init__(highlight=False, markup=False, _environ=environment, **more)

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError

    def render_str(self, text: str, **more: Any) -> Text:
        """A string or cell, escaped before its width is measured."""
        return super().render_str(visible(text), **more)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Whatever else is shown, as the description of a progress bar; rich's own controls stay what they are."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)


T = TypeVar("T")


out = Console()
err = Console(stderr=True)


LINES, LINES_OF_SEVERAL = 15, 30  # of a screen: of one subject, of a comparison
ROWS = 12  # of a table at most; of more, those at both ends
SURE_BRIEF, BRIEF, BRIEFEST = 1, 2, 3
# Of a screen with too many lines: how it is said, with so many rows at least.
STEPS = ((SURE_BRIEF, ROWS), (BRIEF, 4), (BRIEFEST, 2))


@dataclass
class _Screen:
    everything: bool = False  # the flag --all
    quiet: bool = False  # the flag -q
    stored: bool = False  # out= was given
    rows: int = ROWS
    shown: int = 0  # rows of the longest table of which there may be fewer
    brief: int = 0  # SURE_BRIEF: how sure it is, in brief; BRIEF: all; BRIEFEST: nor is said what is left out
    left_out: list[str] = field(default_factory=list)  # of tables: rows, and headings of columns
    assumed: list[str] = field(default_factory=list)  # settings that nobody typed
    skipped: list[str] = field(default_factory=list)  # files that cannot be read, each with the reason


_screen = _Screen()


def begin(options: Namespace, stored: bool = False) -> None:
    """Takes the flags --all and -q from a command line, and whether it has `out=`, for what is shown from here on."""
    _screen.everything = getattr(options, "all", False)
    _screen.quiet = getattr(options, "quiet", False)
    _screen.stored = stored
    _screen.rows, _screen.brief = ROWS, 0
    _screen.left_out.clear()
    _screen.assumed.clear()
    _screen.skipped.clear()


def leave_out(what: str) -> None:
    """Something that a verb does not show without `--all`, for `more`."""
    _screen.left_out.append(what)


def more(text: str = "") -> None:
    """One line for the rest: what else there is, and what of the tables above had no room, where `--all` is named."""
    left = "" if _screen.brief == BRIEFEST and "--all" in text else "; ".join(dict.fromkeys(_screen.left_out))
    _screen.left_out.clear()
    if left and "--all" in text:
        text = text.replace("--all", f"--all ({left})", 1)
    elif left:
        text = "; ".join(filter(None, [text, f"{left}: --all"]))
    parts = [part for part in text.split("; ") if not (_screen.stored and part.endswith("out=FOLDER"))]
    if text and (parts or _screen.assumed):
        say(f"more: {'; '.join([*parts, *_screen.assumed])}")


def rest(hidden: Sequence[str], then: str = "") -> None:
    """The line `more` of a screen that has left something out, and has a page."""
    behind = f"{', '.join(hidden)}: --all" if hidden and not _screen.everything else ""
    more("; ".join(filter(None, [behind, then, "page: out=FOLDER"])))


FEW_SKIPPED = 2  # files of which each is told


def say_skipped() -> None:
    """Says what cannot be read: of many files that share a reason, as those of a killed study, how many and which."""
    by_reason: dict[str, list[str]] = {}
    for sentence in dict.fromkeys(_screen.skipped):
        name, _, reason = sentence.partition(": ")
        by_reason.setdefault(reason, []).append(name)
    for reason, names in by_reason.items():
        if _screen.everything or len(names) <= FEW_SKIPPED or not reason:
            for name in names:
                say(f"{SKIPPED}{': '.join(filter(None, [name, reason]))}", err)
        else:
            say(f"{SKIPPED}{len(names)} files: {reason}; the first is {names[0]}, each: --all", err)
    _screen.skipped.clear()


def conclude(
    options: Namespace,
    answer: Sequence[str],
    records: Callable[[], Iterable[Any]],
    screen: Callable[[], None],
    failed: bool = False,
    most: int = LINES,
) -> None:
    """Shows what a verb answers: in sentences and then its screen; with -q the first sentence, with --json records.

    `failed`: there is no answer, and the sentence that says so goes to standard error. `most`: lines that it should
    take; where there are more, tables show fewer of their rows.
    """
    sentences = list(filter(None, answer))
    say_skipped()
    if options.json:
        json_lines(records(), " ".join(sentences))
        for assumed in _screen.assumed:
            say(assumed, err)
        return
    if sentences:
        say(" ".join(sentences[:1] if _screen.quiet else sentences), err if failed else out)
    if not _screen.quiet:
        _fitted(
            screen,
            bool(sentences) and not failed,
            most - 1 - len(wrapped(" ".join(sentences), _width(out)).split("\n")),
        )


def _fitted(screen: Callable[[], None], apart: bool, most: int) -> None:
    """Shows a screen, `apart` from what is above; a long one in brief, with fewer rows of its tables, in briefest."""
    text, said = _made(screen)
    for brief, fewest in STEPS if text.count("\n") > most and not _screen.everything else ():
        _screen.brief, _screen.rows = brief, ROWS
        text, said = _made(screen)
        while text.count("\n") > most and _screen.shown > fewest:
            _screen.rows = max(fewest, _screen.shown - (text.count("\n") - most))
            text, said = _made(screen)
        if text.count("\n") <= most:
            break
    out.file.write("\n" * (apart and bool(text)) + text)
    err.file.write(said)


def _made(screen: Callable[[], None]) -> tuple[str, str]:
    """What a screen prints as it is now, on standard output and on standard error."""
    _screen.shown = 0
    _screen.left_out.clear()
    with out.capture() as shown, err.capture() as said:
        screen()
        more()  # what it has not said itself
    return shown.get(), said.get()


def fitting_rows(most: int = ROWS) -> int:
    """How many rows of so many a table shows."""
    most = min(most, _screen.rows)
    _screen.shown = max(_screen.shown, most)
    return most


def in_brief(step: int = BRIEF) -> bool:
    """Whether a screen was too long, and is said in brief; `step`: how briefly at least."""
    return _screen.brief >= step


def everything() -> bool:
    """Whether --all was given: nothing is left out then."""
    return _screen.everything


def first(things: Sequence[T], count: int) -> Sequence[T]:
    """The first so many things, or all of them with --all."""
    return things if _screen.everything else things[:count]


def _width(console: Console) -> int | None:
    return width_of(console.file)


def room(before: str) -> int | None:
    """How many columns a line has behind its first words; None: as many as it likes, as with --all."""
    width = None if _screen.everything else _width(out)
    return width and width - len(before)


# ---- words ----------------------------------------------------------------------------------------------------------


def say(
    text: str = "", to: Console = out, *, indent: int = 0, style: str | None = None, brief: str = "", at: int = BRIEF
) -> None:
    """Prints a sentence or several, broken between words where a terminal is narrower; see `table_layout`.

    A line break in it is of a text that it repeats, and is written out. `brief`: what a long screen has instead, `at`
    which of its steps.
    """
    text = brief if brief and _screen.brief >= at else text
    to.print(wrapped(on_one_line(text), _width(to), indent), style=style, soft_wrap=True)


def line(text: str, to: Console = out) -> None:
    """Prints one line as it is, whatever its length: one that is copied, as a path or a command."""
    to.print(on_one_line(text), soft_wrap=True)


def comment(text: str) -> None:
    """Prints a sentence among commands, so that a shell passes over it."""
    width = _width(out)
    for each in wrapped(on_one_line(text), width and width - 2).split("\n"):
        line(f"# {each}")


def lines(text: str, to: Console = out) -> None:
    """Prints a text of several lines as it is: a script, the end of a log."""
    to.print(text, soft_wrap=True)


def entries(found: Iterable[tuple[str, str]], indent: int = 0) -> None:
    """Prints names, each with its description beside it."""
    pairs = [(" " * indent + on_one_line(name), on_one_line(text)) for name, text in found]
    at = max((len(name) for name, _ in pairs), default=0) + 2
    for name, text in pairs:
        out.print(beside(name, text, at, _width(out)), soft_wrap=True)


def json_lines(objects: Iterable[Any], answer: str = "") -> None:
    """Prints each object as one line of JSON, with `answer` before its fields if there is one.

    What a terminal would obey is escaped as JSON does it.
    """
    said = f'{{"answer":{msgspec.json.encode(answer).decode()}' if answer else ""
    for item in objects:
        text = msgspec.json.encode(item).decode()
        if said:
            text = f"{said}{',' * (text != '{}')}{text[1:]}"
        print(UNSHOWN.sub(lambda match: f"\\u{ord(match[0]):04x}", text))


# ---- tables ---------------------------------------------------------------------------------------------------------


def matrix(title: str, corner: str, rows: Mapping[str, Sequence[str]], columns: Sequence[str], note: str = "") -> None:
    """Prints a cell for each pair of a row and a column, by their names; `corner`: what rows are.

    A column whose heading starts with ">" is right-aligned.
    """
    cells = {title: [[name, *row] for name, row in rows.items()]}
    tables([corner, *columns], cells, note)


def listing(
    columns: Sequence[Column[T]],
    rows: Sequence[T],
    title: str = "",
    note: str = "",
    rank: Callable[[T], float] | None = None,
    by: str = "",
    every: bool = False,
    constant: bool = False,
    keep: Callable[[T], bool] | None = None,
    among: Sequence[T] = (),
) -> None:
    """Prints rows in the columns of their kind; of too many those at both ends, by `rank` if there is one.

    A column that says the same in all rows becomes a clause, unless `constant` ones stay where there is room; legends
    are those of columns that are shown. `every`: all rows are shown, as of what is no measurement. `keep`: which rows
    are shown in any case, as the answer names them. `among`: all rows, of which these are some.
    """
    shown_columns = [column for column in columns if _screen.everything or column.importance > ONLY_WITH_ALL]
    shown: list[T | None] = list(rows)
    gaps: list[int] = []  # rows that are left out at each place
    if not every and len(rows) > (most := fitting_rows(min(ROWS, len(rows)))) and not _screen.everything:
        ordered = sorted(rows, key=rank) if rank else rows
        places = _both_ends(len(rows), most, [place for place, row in enumerate(ordered) if keep and keep(row)])
        shown = [ordered[place] for place in places]
        if by:
            which = f", {by}" * (_screen.brief < BRIEFEST)
            note = " ".join(filter(None, [note, f"{len(shown)} of {len(rows):,}{which}."]))
            leave_out("each row")
        else:
            for at in range(len(places), -1, -1):
                if between := [*places, len(rows)][at] - [-1, *places][at] - 1:
                    shown.insert(at, None)
                    gaps.insert(0, between)
    least = sorted(
        (column for column in shown_columns if column.importance < ALWAYS), key=lambda column: column.importance
    )
    whole = [[column.cell(row) for column in shown_columns] for row in among or rows]
    headings = [column.heading for column in shown_columns]
    telling, same = list(range(len(headings))), ""
    if not constant and not _screen.everything:
        telling, same = parted(headings, whole)
    left = iter(gaps)
    cells = [
        _gap(next(left), headings, telling) if row is None else [column.cell(row) for column in shown_columns]
        for row in shown
    ]
    told = [shown_columns[place] for place in telling]
    legend = [
        f"{column.heading.lstrip('>~')}: {column.help}"
        for place, column in zip(telling, told, strict=True)
        if column.help and any(row[place] for row in cells)
    ]
    if not told:  # names alone
        if title:
            say(title, style="bold")
        say(" ".join(filter(None, [same, note])))
        return
    tables(
        [column.heading for column in told],
        {title: [[row[place] for place in telling] for row in cells]},
        [same, " ".join([*legend, note]).strip()],
        [column.heading.lstrip(">~") for column in least if column in told],
        [[row[place] for place in telling] for row in whole],
    )


def _gap(rows: int, headings: Sequence[str], telling: Sequence[int]) -> list[str]:
    """The cells in place of rows that are left out: "..." and, in the next column with room, how many they are."""
    first, *others = telling or [0]
    more = f"{rows:,} more"
    at = next((place for place in others if len(headings[place].lstrip(">~")) >= len(more)), None)
    told = {first: "..." if at is not None else f"... {more}", at: more}
    return [told.get(place, "") for place in range(len(headings))]


def _both_ends(count: int, most: int, kept: Sequence[int]) -> list[int]:
    """So many of the places below a count: those that are kept, and others from both ends on."""
    ends = sorted(range(count), key=lambda place: min(2 * place + 1, 2 * (count - 1 - place)))
    return sorted(list(dict.fromkeys([*kept, *ends]))[: max(most, len(kept))])


class _Figure(Protocol):
    @property
    def group(self) -> str: ...
    @property
    def source(self) -> str: ...


class _Group(Protocol):
    @property
    def group(self) -> str: ...
    @property
    def about(self) -> str: ...
    @property
    def holds(self) -> bool: ...


F = TypeVar("F", bound=_Figure)


def figures_of_groups(groups: Sequence[_Group], columns: Sequence[Column[F]], rows: Sequence[F], what: str) -> None:
    """Published figures beside what is said of them, of the groups that do not hold; with --all of every group.

    `what`: of all rows, "figures beside what is predicted".
    """
    shown = [group for group in groups if everything() or not group.holds]
    if len(shown) < len(groups):
        leave_out(f"all {len(rows):,} {what}")
    for group in shown:
        own = [row for row in rows if row.group == group.group]
        say()
        listing(columns, own, group.about, every=True)
        say(f"From: {'; '.join(dict.fromkeys(row.source for row in own))}")


def tables(
    columns: Sequence[str],
    found: Mapping[str, Sequence[Sequence[str]]],
    note: str | Sequence[str] = "",
    least: Sequence[str] = (),
    among: Sequence[Sequence[str]] = (),
) -> None:
    """Prints tables with the same columns, each under its title, and a note or several below them all.

    `among`: all rows, where those that are found are some of them.
    """
    shown = {title: [list(map(on_one_line, row)) for row in rows] for title, rows in found.items()}
    laid = lay_out(columns, shown, _width(out), least, _screen.everything, among)
    for index, title in enumerate(shown):
        if index:
            say()
        if title:
            say(title, style="bold")
        for block in laid.blocks:
            out.print(block.heading, style="bold", soft_wrap=True)
            for row in block.lines[title]:
                lines(row)  # of which a column of prose goes on below itself
    notes = [note] if isinstance(note, str) else list(note)
    if laid.same and notes[0].startswith(_IN_ALL):  # of columns that are no columns here
        notes[0] = f"{laid.same.removesuffix('.')}, {notes[0].removeprefix(_IN_ALL)}"
    else:
        notes.insert(0, laid.same)
    for sentence in filter(None, notes):
        say(_of_shown(sentence, laid.left_out))
    _screen.left_out += laid.left_out


_IN_ALL = "In all rows: "


def _of_shown(note: str, left_out: Sequence[str]) -> str:
    """The note without sentences that explain columns which are left out: "exposed: ..." of "exposed ms"."""
    words = {heading.split()[0] for heading in left_out} | set(left_out)
    return " ".join(
        sentence for sentence in re.split(r"(?<=\.) (?=\S)", note) if sentence.partition(":")[0] not in words
    )


# ---- progress -------------------------------------------------------------------------------------------------------


BETWEEN_LINES_s = 10.0
FORETELLING = 50  # of as many tasks one tells how long all take


class _Progress(Progress):
    """Progress, and below it the folder that it is about; both vanish at the end."""

    def __init__(self, *columns: ProgressColumn, where: object) -> None:
        self.where = on_one_line(f"{where}")
        super().__init__(*columns, console=err, transient=True, disable=not err.is_terminal)

    def get_renderables(self) -> Iterator[RenderableType]:
        yield from super().get_renderables()
        if self.where:
            yield Text(self.where, overflow="fold")


@contextmanager
def progress(what: str, total: int, where: object = "") -> Iterator[Counter]:
    """A progress bar with the remaining time, on standard error; `what`: a few words, `where`: a path.

    Where that is no terminal, a line at most every ten seconds, and none beside lines of the task's own.
    """
    bar = _Progress(
        TextColumn("{task.description}"),
        BarColumn(None, table_column=ProgressCell(max_width=40)),
        MofNCompleteColumn(table_column=_whole()),
        TimeElapsedColumn(table_column=_whole()),
        TextColumn("left"),
        TimeRemainingColumn(table_column=_whole()),
        where=where,
    )
    with bar:
        task = bar.add_task(_short(what), total=total)
        began_s = told_s = time.monotonic()

        def advance(done: int, line: str = "", /) -> None:
            nonlocal told_s
            bar.update(task, advance=done)
            now_s, count = time.monotonic(), bar.tasks[0].completed
            if line:
                say(line, err, indent=4)
            elif bar.disable and not _screen.quiet and now_s - told_s >= BETWEEN_LINES_s and 0 < count < total:
                left_s = (now_s - began_s) * (total - count) / count
                told = f"; {duration(left_s)} left" * (count > total / FORETELLING)
                say(f"[{count:,.0f}/{total:,}] {what}{told}", err)
                told_s = now_s

        yield advance


@contextmanager
def waiting(what: str, where: object = "") -> Iterator[None]:
    """A spinner with the elapsed time, on standard error; `what`: a few words, `where`: a path."""
    with _Progress(TextColumn("{task.description}"), TimeElapsedColumn(table_column=_whole()), where=where) as bar:
        bar.add_task(_short(what), total=None)
        yield


def _whole() -> ProgressCell:
    """A column that keeps its width where others give way."""
    return ProgressCell(no_wrap=True)


def _short(description: str) -> str:
    """A description short enough for bar and times on a narrow terminal."""
    what = on_one_line(description)
    room = max(err.width - 42, 12)
    return what if len(what) <= room else f"{what[: room - 1]}…"


def _keep_skipped(text: str) -> bool:
    """Keeps what says that a file is skipped for `say_skipped`; whether it does."""
    if kept := text.startswith(SKIPPED):
        _screen.skipped.append(text.removeprefix(SKIPPED))
    return kept


class Quiet(Reports):
    """Warnings alone, as with -q; what is skipped in one go, before the answer."""

    def note(self, text: str, *, indent: int = 0, warning: bool = False) -> None:
        """Prints a warning."""
        if not _keep_skipped(text) and warning:
            say(text, err, indent=indent)

    def assumed(self, text: str) -> None:
        """Keeps it for the record, and for the line `more`."""
        _screen.assumed.append(text)


class Terminal(Quiet):
    """Notes and progress of `resnetx.progress`, on standard error."""

    @property
    def shows_time(self) -> bool:
        """Whether there is a progress bar, which shows the time that is left."""
        return err.is_terminal

    def note(self, text: str, *, indent: int = 0, warning: bool = False) -> None:
        """Prints prose; what is skipped in one go, before the answer."""
        if not _keep_skipped(text):
            say(text, err, indent=indent)

    def command(self, text: str) -> None:
        """Prints a line as it is."""
        line(text, err)

    def counting(self, what: str, total: int, where: object = "") -> AbstractContextManager[Counter]:
        """A progress bar."""
        return progress(what, total, where)

    def waiting(self, what: str, where: object = "") -> AbstractContextManager[None]:
        """A sign of life."""
        return waiting(what, where)
