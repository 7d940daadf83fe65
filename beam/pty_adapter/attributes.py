"""The attributes of a cell (colours, bold, …), and how an SGR sequence (ECMA-48, `ESC [ … m`) changes them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

_CACHED_SEQUENCES = 2048
_COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_SWITCHES = {1: "bold", 3: "italics", 4: "underscore", 5: "blink", 7: "reverse", 9: "strikethrough"}
_SWITCHES_OFF = {22: "bold", 23: "italics", 24: "underscore", 25: "blink", 27: "reverse", 29: "strikethrough"}
_FIRST_16_COLOURS = (  # xterm's
    *("000000", "cd0000", "00cd00", "cdcd00", "0000ee", "cd00cd", "00cdcd", "e5e5e5"),
    *("7f7f7f", "ff0000", "00ff00", "ffff00", "5c5cff", "ff00ff", "00ffff", "ffffff"),
)
_CUBE_LEVELS = (0, 95, 135, 175, 215, 255)  # of the 6 x 6 x 6 cube
PALETTE = (  # of the 256 colours
    *(f"#{colour}" for colour in _FIRST_16_COLOURS),
    *(f"#{red:02x}{green:02x}{blue:02x}" for red in _CUBE_LEVELS for green in _CUBE_LEVELS for blue in _CUBE_LEVELS),
    *(f"#{8 + 10 * step:02x}" + f"{8 + 10 * step:02x}" * 2 for step in range(24)),
)


class Attributes(NamedTuple):
    """The appearance of a cell: `colour` of the text, `ground` (the background colour) and switches. A colour is ""
    (the terminal's default), a name (`red`, `bright red`) or `#rrggbb`."""

    colour: str = ""
    ground: str = ""
    bold: bool = False
    italics: bool = False
    underscore: bool = False
    strikethrough: bool = False
    reverse: bool = False
    blink: bool = False


PLAIN = Attributes()
_CHANGES: dict[int, dict[str, str | bool]] = {
    0: PLAIN._asdict(),
    39: {"colour": ""},
    49: {"ground": ""},
    **{number: {name: True} for number, name in _SWITCHES.items()},
    **{number: {name: False} for number, name in _SWITCHES_OFF.items()},
    **{30 + n: {"colour": name} for n, name in enumerate(_COLOURS)},
    **{40 + n: {"ground": name} for n, name in enumerate(_COLOURS)},
    **{90 + n: {"colour": f"bright {name}"} for n, name in enumerate(_COLOURS)},
    **{100 + n: {"ground": f"bright {name}"} for n, name in enumerate(_COLOURS)},
}


@lru_cache(maxsize=_CACHED_SEQUENCES)
def changes(parameters: str) -> dict[str, Any]:
    """Return the attributes that an SGR sequence with these parameters sets, by name, with their new values.

    A colour that does not exist changes nothing. The colour of the underline (58) is ignored.
    """
    found: dict[str, Any] = {}
    rest = list(reversed(_numbers(parameters)))
    while rest:
        number = rest.pop()
        if number not in (38, 48, 58):
            found.update(_CHANGES.get(number, {}))
            continue
        kind = rest.pop() if rest else 0
        size = {5: 1, 2: 3}.get(kind, 0)
        values = [rest.pop() for _ in range(min(size, len(rest)))]
        valid = len(values) == size and size > 0 and all(value < len(PALETTE) for value in values)
        if valid and number != 58:
            colour = PALETTE[values[0]] if kind == 5 else f"#{bytes(values).hex()}"
            found["colour" if number == 38 else "ground"] = colour
    return found


def _numbers(parameters: str) -> list[int]:
    """Return the numbers of an SGR sequence in a uniform notation: `38:2::r:g:b` becomes `38;2;r;g;b`, `4:3` becomes
    `4`."""
    found: list[int] = []
    for part in parameters.split(";"):
        number, *sub = part.split(":")
        if number in ("38", "48", "58") and sub:
            values = [_number(value) for value in sub if value]
            values = [values[0], *values[-3:]] if values and values[0] == 2 else values
            found += [int(number), *values]
        elif number == "4" and sub[:1] == ["0"]:
            found.append(24)
        else:
            found.append(_number(number))
    return found


def _number(text: str) -> int:
    return min(int(text), 9999) if text.isascii() and text.isdigit() else 0
