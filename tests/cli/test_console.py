"""The console shows what a file says and obeys none of it, wherever the text stands."""

import io
import json

import pytest
from rich.progress import Progress, TextColumn
from rich.table import Table

from resnetx import progress
from resnetx.cli import main, show
from resnetx.cli.show import Console

ESCAPE = "a\x1b[31mred\x07\x9b2J\u202etxt.exe"
SHOWN = r"a\x1b[31mred\x07\x9b2J\u202etxt.exe"


@pytest.fixture
def console():
    return Console(file=io.StringIO(), width=200, force_terminal=True)


def printed(console):
    return console.file.getvalue()


def test_text_is_shown_with_the_style_that_is_ours(console):
    console.print(ESCAPE, style="bold", soft_wrap=True)
    assert printed(console) == f"\x1b[1m{SHOWN}\x1b[0m\n"


def test_markup_is_text_and_breaks_of_lines_stay(console):
    console.print("[red]two[/red]\nlines\t!")
    assert printed(console) == "[red]two[/red]\nlines   !\n"


def test_cells_and_headings_are_as_wide_as_what_is_shown(console):
    sheet = Table(ESCAPE, "b", box=None)
    sheet.add_row(ESCAPE, "c")
    console.print(sheet)
    assert printed(console).count(SHOWN) == 2
    assert "\x9b" not in printed(console)


def test_what_goes_on_is_described_without_escapes(console):
    with Progress(TextColumn("{task.description}"), console=console) as bar:
        bar.add_task(ESCAPE)
    assert r"a\x1b[31mred" in printed(console)  # cut where the place for what is given ends
    assert "\x1b[31m" not in printed(console)


BROKEN = "a\nresnetx: every record was verified\r\x1b[2K"
ON_ONE_LINE = r"a\x0aresnetx: every record was verified\x0d\x1b[2K"
SCREENS = {
    "a sentence": lambda: show.say(f"warning: {BROKEN}"),
    "a line": lambda: show.line(BROKEN),
    "names": lambda: show.entries([(BROKEN, BROKEN)]),
    "a table": lambda: show.tables([">a", "b"], {BROKEN: [[BROKEN, "c"]]}, BROKEN),
    "notes of a table": lambda: show.tables(["a"], {"t": [["b"]]}, ["one.", BROKEN]),
    "a note": lambda: progress.note(BROKEN, warning=True),
    "a refusal": lambda: main(["describe", f"model={BROKEN}"]),
}


@pytest.mark.parametrize("shown", SCREENS.values(), ids=SCREENS)
def test_a_text_from_a_file_prints_no_line_of_its_own(shown, capsys, caplog):
    shown()
    printed = capsys.readouterr()
    lines = [line for text in (printed.out, printed.err, *caplog.messages) for line in text.splitlines()]
    assert not any(line.startswith("resnetx: every record") for line in lines)
    assert any(ON_ONE_LINE in line for line in lines)


def test_json_says_the_same_with_escapes_of_its_own(capsys):
    show.json_lines([{"a": ESCAPE}])
    out = capsys.readouterr().out
    assert json.loads(out) == {"a": ESCAPE}
    assert not {"\x1b", "\x9b", "\u202e", "\x07"} & set(out)


def test_a_refusal_shows_what_was_given(capsys):
    assert main(["report", ESCAPE]) == 2
    assert SHOWN in capsys.readouterr().err
