"""The last lines, which are printed at the end, and what follows them."""

from __future__ import annotations

import io

from beam.cli.render.last_lines import LastLines


def test_what_comes_after_the_last_lines_is_printed_at_once_below_its_date() -> None:
    out = io.StringIO()
    lines = LastLines(out, 2)
    for number, ts in enumerate(("2026-01-02T10:00:00Z", "2026-01-02T11:00:00Z", "2026-01-03T12:00:00Z")):
        assert lines.heading(ts) == ""
        lines.position = number
        lines.write(f"{number}\n")
    assert (out.getvalue(), lines.is_full, lines.first_position) == ("", True, 1)
    lines.print()
    assert out.getvalue() == "── 2026-01-02 ──\n1\n── 2026-01-03 ──\n2\n"
    assert (lines.heading("2026-01-03T13:00:00Z"), lines.heading("2026-01-04T13:00:00Z")) == ("", "── 2026-01-04 ──")
    lines.write("3\n")
    assert out.getvalue().endswith("2\n3\n")
