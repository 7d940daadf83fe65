"""The table at each width: its columns, and rows that can be told apart."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from beam.board.columns import draw_row, header_line, layout
from beam.board.rows import Row, agent_key, rows_of
from beam.board.words import as_text
from beam.cli.render.text import display_width
from tests.board.made import HOSTILE, NOW_S, agent, snapshot

WIDTHS = [40, 60, 80, 100, 120, 200]


def row(folder: str, name: str = "claude", **more: object) -> Row:
    project = Path(folder)
    given = {"name": name, "kind": "agent", "place": folder, "state": "idle", "project": project, **more}
    return Row(key=agent_key(project, name), **given)  # type: ignore[arg-type]


def table(rows: list[Row], width: int) -> list[str]:
    shown = layout(rows, width)
    return ["".join(piece.text for piece in draw_row(each, shown, NOW_S, NOW_S - 75)) for each in rows]


@pytest.mark.parametrize("width", WIDTHS)
def test_a_row_is_as_wide_as_the_table_whatever_is_in_it(width: int) -> None:
    wide = "日本語" * 30
    for name in ("writer", HOSTILE, wide, "x" * 500):
        rows = rows_of(snapshot(agent(name, "blocked", blocked=HOSTILE + wide, waiting=12)))
        for text in table(rows, width):
            assert display_width(text) == width and "\x1b" not in text
        assert display_width(header_line(layout(rows, width))[0].text) == width


def test_a_row_says_where_since_when_and_what_runs() -> None:
    busy = row("/p/x", "builder", state="running", tool="Bash make", waiting=2)
    assert table([busy], 80)[0].split() == ["builder", "x", "running", "+2", "1m", "Bash", "make"]


def test_of_the_columns_those_go_first_that_are_needed_least() -> None:
    long = [structs.replace(row(f"/p/{'f' * 20}", "n" * 20), tokens=9, cost_usd=0.5)]
    shown = {width: as_text(header_line(layout(long, width))).split() for width in range(40, 121)}
    order = ["WHO", "WHERE", "STATE", "FOR", "COST", "TOKENS"]
    for width, names in shown.items():
        kept = [name for name in order if name in names]
        assert kept == order[: len(kept)] and len(kept) >= 3 and names[-1] == "DOES", (width, names)
    assert (len(shown[80]), len(shown[120])) == (6, 7)


LONG = "/home/me/" + "a-folder-with-a-long-name/" * 4
FOLDERS = [
    ["/home/me/app", "/home/me/site"],
    ["/home/me/app", "/srv/app"],
    ["/home/me/north/services/api/app", "/home/me/south/services/api/app"],
    [f"{LONG}north/services/api/app", f"{LONG}south/services/api/app"],
    [f"/work/{'x' * 60}-north/app", f"/work/{'x' * 60}-south/app"],
    [f"/work/{'x' * 30}-1-{'y' * 30}/app", f"/work/{'x' * 30}-2-{'y' * 30}/app"],
    ["/a/x/app", "/a/y/app", "/b/x/app", "/b/y/app", "/app", "/", "/b/…/app"],
    ["/a/m/app", "/x/a/n/app", "/y/a/n/app", "/b/m/app"],
    [f"/{'日本' * 30}/北/app", f"/{'日本' * 30}/南/app"],
    [f"/w/{number}/{'same-last-part' * 3}" for number in range(30)],
]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("folders", FOLDERS, ids=range(len(FOLDERS)))
def test_agents_of_one_name_in_several_folders_have_different_rows_at_each_width(
    folders: list[str], width: int
) -> None:
    rows = [row(folder) for folder in folders]
    assert len(set(table(rows, width))) == len(rows)


def test_a_session_whose_folder_is_not_known_has_none() -> None:
    rows = [Row(key="codex~1", name="codex~1", kind="session", place="", state="idle"), row("/", "claude")]
    assert [text[:19] for text in table(rows, 80)] == ["codex~1       idle ", "claude  /     idle "]


def test_folders_that_look_the_same_are_told_apart_by_a_number() -> None:
    rows = [structs.replace(row(f"/p/a{' ' * number}b"), place="/p/a b") for number in (1, 2)]
    assert {text[:14] for text in table(rows, 80)} == {"claude a b   i", "claude a b~2 i"}


@pytest.mark.parametrize("width", WIDTHS)
def test_long_names_that_differ_anywhere_have_different_rows(width: int) -> None:
    names = (
        [f"{'a' * 30}{end}" for end in "12"] + [f"{start}{'a' * 30}" for start in "12"] + ["a" * 15 + "1" + "a" * 15]
    )
    rows = [row("/p", name) for name in names]
    assert len(set(table(rows, width))) == len(rows)


def test_a_folder_is_shown_by_its_name_and_where_that_is_not_enough_by_where_it_differs() -> None:
    folders = ["/home/me/north/services/api/app", "/home/me/south/services/api/app", "/srv/app", "/home/me/site"]
    rows = [row(folder) for folder in folders]
    shown = [text[7:22].rstrip() for text in table(rows, 80)]
    assert shown == ["north/…/app idl", "south/…/app idl", "srv/app     idl", "site        idl"]
