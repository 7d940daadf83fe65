"""What a secret looks like in a text: the forms that beam recognises, as one table, and the gaps that a terminal leaves
inside a word.

Each form has a pattern for a complete secret, and a pattern for a text that may become one. A gap is an escape sequence
such as a colour, or the border where a program wraps a word over two rows. The text without gaps has the original index
of each character. A gap that moves the cursor ends a word, and becomes `MOVE`. Pure. Does not depend on events or
streams, or on what is done with a secret.
"""

import functools
import re
from bisect import bisect_right
from itertools import accumulate
from typing import Literal

from msgspec import Struct, structs

BORDERS = "\u2502\u2503\u2506\u2507\u250a\u250b\u254e\u254f\u2551\u258c\u258f\u2590\u2595"  # │ ┃ ┆ ┇ ┊ ┋ ╎ ╏ ║ ▌ ▏ ▐ ▕

_SEQUENCE = (
    r"(?:(?:\x1b\[|\x9b)[0-?]{0,256}[ -/]{0,16}[@-~]"
    r"|\x1b\][^\x07\x1b\x9c]{0,4096}(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]{0,16}[0-OQ-WYZ\\`-~])"
)
# A colour sequence in escaped form, as in a program's source.
_ESCAPED_COLOUR = r"(?:\\{1,8}(?:u00[19][bB]|x[19][bB]|033|e)\[[0-9;:]{0,64}m)"
_INVISIBLE = rf"(?:{_SEQUENCE}|{_ESCAPED_COLOUR})"
_HALF_SEQUENCE = (
    r"(?:(?:\x1b\[|\x9b)[0-?]{0,256}[ -/]{0,16}"
    r"|\x1b\][^\x07\x1b\x9c]{0,4096}\x1b?"
    r"|\x1b[ -/]{0,16}"
    r"|\\{1,8}(?:u(?:0(?:0(?:[19](?:[bB](?:\[[0-9;:]{0,64})?)?)?)?)?|x(?:[19](?:[bB](?:\[[0-9;:]{0,64})?)?)?"
    r"|0(?:3(?:3(?:\[[0-9;:]{0,64})?)?)?|e(?:\[[0-9;:]{0,64})?)?)\Z"
)
_BLANKS = rf"(?:[ \t]|{_INVISIBLE}){{0,512}}"
# The blanks beside a border. A row is wrapped where it is full, so there are few of them.
_PADDING = rf"(?:{_INVISIBLE}{{0,32}}[ \t]){{0,3}}{_INVISIBLE}{{0,32}}"
_BREAK = rf"{_PADDING}[{BORDERS}]{_BLANKS}\r?\n{_BLANKS}[{BORDERS}]{_PADDING}"
_OPEN_BREAK = (
    rf"{_PADDING}(?:[{BORDERS}]{_BLANKS}(?:\r\Z|\r?\n{_BLANKS}(?:[{BORDERS}]{_PADDING})?)?)?\Z"  # later text decides
)
_BREAK_CORE = rf"[{BORDERS}]{_BLANKS}\r?\n{_BLANKS}[{BORDERS}]"  # a gap between two rows, without its padding
_OPEN_BREAK_CORE = rf"[{BORDERS}]{_BLANKS}(?:\r|\r?\n{_BLANKS})?\Z"
_WITHOUT_CURSOR_MOVE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]{0,256}[mKhl]|\x1b\][^\x07\x1b\x9c]{0,4096}(?:\x07|\x1b\\|\x9c)|\x1b[()][0-Z]|\x1b[=>]|\x1b\\"
)
MOVE = "\0"
_ESCAPED_SIGN = r"\\(?:u00[19][bB]|x[19][bB]|033|e)\["
_BLANK = " \t"
_HALF_WRITTEN = 80  # characters that a match of `_ESCAPED_COLOUR` may have
_HALF_CHARACTERS = 5000  # at the end of a text: only there is a half sequence looked for
_MAX_PADDING = 3


class Folded(Struct, frozen=True):
    """A text without its gaps.

    `text` consists of runs, the pieces between the gaps. `starts` are the indexes of the runs in `text`, and
    `original_starts` their indexes in the original. `end` is the number of characters of the original that were
    processed. The characters after `end` may be half an escape sequence, and are left for later.
    """

    text: str
    starts: list[int]
    original_starts: list[int]
    end: int

    def origin(self, index: int) -> int:
        """Return the index in the original of the character at `index`, which is after the gap before it.

        For the index after the last character, return the end of the processed original.
        """
        if index >= len(self.text):
            return self.end
        run = bisect_right(self.starts, index) - 1
        return self.original_starts[run] + index - self.starts[run]

    def origin_end(self, index: int) -> int:
        """Return the index in the original after the character at `index - 1`. The gap between that character and the
        one at `index` begins there."""
        return self.origin(index - 1) + 1 if index > 0 else 0

    def is_behind_gap(self, index: int) -> bool:
        """Return whether a gap is directly before the character at `index`."""
        return self.origin(index) > self.origin_end(index)


def fold(text: str, *, is_all: bool = True, is_framed: bool = False) -> Folded | None:
    """Return the text without its gaps; None if it has no gaps.

    `is_all`: no more text follows. Otherwise half an escape sequence at the end is left out, and an end that may become
    a gap between two rows counts as a gap. `is_framed`: an earlier text had a border.
    """
    if not is_framed and text.isascii() and "\x1b" not in text and "\\" not in text:
        return None
    frame = 0 if is_framed else first_border(text)
    end = len(text) if is_all else _end_of_whole(text)
    folded = _fold(text[:end], frame, is_all=is_all)
    if not is_all and frame is not None:
        shown = folded.text.rstrip(_BLANK)
        if len(folded.text) - len(shown) <= _MAX_PADDING:
            folded = Folded(shown, folded.starts, folded.original_starts, end)
    return folded if len(folded.text) < len(text) else None  # a gap is longer than its mark


def first_border(text: str) -> int | None:
    """Return the index after the first border in the text; None if there is no border. The text from this index on
    counts as framed."""
    found = None if text.isascii() else _compiled_gap(f"[{BORDERS}]").search(text)
    return found.end() if found else None


@functools.lru_cache(512)
def _moves_cursor(gap: str) -> bool:
    """Return whether the gap moves the cursor, or may do so."""
    return "\x1b" in _WITHOUT_CURSOR_MOVE.sub("", gap) or "\x9b" in _WITHOUT_CURSOR_MOVE.sub("", gap)


def _fold(text: str, frame: int | None, *, is_all: bool) -> Folded:
    inside = len(text) if frame is None else min(frame, len(text))
    parts, more = _parts(text[:inside], ""), _parts(text[inside:], _breaks(text[inside:], is_all=is_all))
    parts[-1:] = [parts[-1] + more[0], *more[1:]]
    original_starts = list(accumulate(map(len, parts), initial=0))[:-1]
    pieces = [part if n % 2 == 0 else MOVE if _moves_cursor(part) else "" for n, part in enumerate(parts)]
    return Folded("".join(pieces), list(accumulate(map(len, pieces), initial=0))[:-1], original_starts, len(text))


def _breaks(text: str, *, is_all: bool) -> str:
    """Return the pattern of the gaps between rows in this text; "" if it has no such gaps."""
    if is_all:
        return _BREAK if _compiled_gap(_BREAK_CORE).search(text) else ""
    return rf"{_BREAK}|{_OPEN_BREAK}" if _compiled_gap(rf"{_BREAK_CORE}|{_OPEN_BREAK_CORE}").search(text) else ""


def _parts(text: str, breaks: str) -> list[str]:
    """Return the pieces of the text and the gaps between them, in turn; the first and the last are pieces."""
    has_sequences = "\x1b" in text or "\x9b" in text or _compiled_gap(_ESCAPED_SIGN).search(text)
    expression = "|".join(filter(None, (breaks, rf"{_INVISIBLE}+" if has_sequences else "")))
    return _compiled_gap(f"({expression})").split(text) if expression else [text]


def _end_of_whole(text: str) -> int:
    """Return the index of the half escape sequence at the end of the text; the length of the text if there is none."""
    at = text.rfind("\\", -_HALF_WRITTEN)
    if (
        "\x1b" in text
        or (at >= 0 and _compiled_gap(_HALF_SEQUENCE).match(text, at))
        or (not text.isascii() and "\x9b" in text)
    ):
        for found in _compiled_gap(rf"{_SEQUENCE}|({_HALF_SEQUENCE})").finditer(
            text, max(0, len(text) - _HALF_CHARACTERS)
        ):
            if found[1]:
                return found.start()
    return len(text)


def sequences(text: str) -> str:
    """Return the escape sequences of the text, joined. They are kept because they also colour the text after them."""
    return "".join(_compiled_gap(_SEQUENCE).findall(text))


@functools.cache
def _compiled_gap(expression: str) -> re.Pattern[str]:
    return re.compile(expression)


WIDEST = 16 * 1024  # characters: no secret is looked at beyond this


class PatternPart(Struct, frozen=True):
    """A part of a regular expression: `least` to `most` characters of the class `chars` (`most` None: no limit)."""

    chars: str
    least: int = 1
    most: int | None = None

    def times(self, least: int) -> str:
        return f"{self.chars}{{{least},{'' if self.most is None else self.most}}}"


class SecretForm(Struct, frozen=True, kw_only=True):
    """One form of one kind of secret.

    A secret begins with the literal `prefix`. The regular expression `whole` matches a secret from its prefix on; its
    group 1 (if any) stays visible. The regular expression `open` matches from the prefix on if later text may create a
    match or extend it. Only the first `span` characters from the prefix on are searched. `any_case`: the prefix and the
    expressions match upper and lower case. `at_word_start`: no letter or digit may come directly before the prefix, but
    a JSON escape like \\n may. `run`: the class of the characters that follow the prefix, if a match must reach the end
    of their run: after a failed match no other prefix in the same run needs a try.
    """

    kind: str
    prefix: str
    whole: str
    open: str
    span: int
    any_case: bool = False
    at_word_start: bool = False
    run: str = ""

    def may_continue(self, text: str, start: int) -> bool:
        """Return whether more text could make the secret that begins at `start`, where a prefix was found, longer or
        no match at all."""
        return len(text) - start < self.span and _compiled(self.open, self.any_case).match(text, start) is not None

    def match(self, text: str, start: int) -> re.Match[str] | None:
        """Return the match of the secret at `start`, the index of a prefix; None if there is no secret."""
        return _compiled(self.whole, self.any_case).match(text, start, start + self.span)

    def next_start(self, text: str, start: int) -> int:
        """Return the lowest index above `start` at which a match is possible, after the match at `start` failed."""
        if not self.run:
            return start + 1
        found = _compiled(f"{self.run}*+", self.any_case).match(text, start)
        end = found.end() if found else start
        return max(start + 1, end if end - start <= self.span else end - self.span)


@functools.cache
def _compiled(expression: str, any_case: bool) -> re.Pattern[str]:
    return re.compile(expression, re.ASCII | (re.IGNORECASE if any_case else 0))


_ALNUM = "[A-Za-z0-9]"
_WORD = "[A-Za-z0-9_-]"
_TOKEN = "[A-Za-z0-9._~+/=-]"
_GAP = PatternPart(r"[\"'\\\s]", 0, 8)
_SPACE = PatternPart(r"[\s]", 1, 8)
_SLASH = (PatternPart(r"[\\]", 0, 1), PatternPart("[/]", 1, 1))
_IN_URL = r"[^\s/\"'<>\\\[\]]"
_ASSIGNED = (_GAP, PatternPart("[:=>]", 1, 1), _GAP)


def _form(
    kind: str,
    prefix: str,
    *parts: PatternPart,
    keep: int | None = None,
    until: PatternPart | None = None,
    span: int = 1024,
    how: Literal["", "any_case", "at_word_start"] = "",
) -> SecretForm:
    """Return the form of secrets that consist of the prefix and then these parts.

    The prefix and the first `keep` parts stay visible; if `keep` is None, no part does. The part `until` must follow
    the secret, and stays visible.
    """
    looks = [re.escape(prefix), *(part.times(part.least) for part in parts)]
    if keep is not None:
        looks = ["(", *looks[: keep + 1], ")", *looks[keep + 1 :]]
    if until is not None:
        looks.append(f"(?={until.chars})")
    open_ = "(?!)"
    for part in reversed((*parts, until) if until else parts):
        open_ = rf"(?:{part.times(0)}\Z|{part.times(part.least)}{open_})"
    return SecretForm(
        kind=kind,
        prefix=prefix,
        whole="".join(looks),
        open=re.escape(prefix) + open_,
        span=span,
        any_case=how == "any_case",
        at_word_start=how == "at_word_start",
    )


def _assigned_value_form(
    kind: str, name: str, value: PatternPart, *before: PatternPart, span: int = 1024
) -> SecretForm:
    """Return the form of secrets in `name: value` and `name = value`, in any quotes; only the value is secret."""
    return _form(kind, name, *_ASSIGNED, *before, value, keep=3 + len(before), span=span, how="any_case")


def _letters(text: str) -> tuple[PatternPart, ...]:
    return tuple(PatternPart(f"[{letter}]", 1, 1) for letter in text)


def _private_key_form() -> SecretForm:
    """Return the form of a private key. The key is the text from BEGIN to END; without an END, it is the text that
    looks like a key.

    Newlines may be JSON escapes.
    """
    begin = r"-----BEGIN[A-Z0-9 ]{1,50}PRIVATE KEY(?: BLOCK)?-----"
    until_dashes = r"[^-]*+(?:-(?!----)[^-]*+)*+"
    end = r"-----END[A-Z0-9 ]{1,60}-----"
    body = r"(?:[A-Za-z0-9+/=\s→|>:,]|\\+[nrt]|-(?!----))*+"
    half_begin = r"-----BEGIN[A-Z0-9 ]{0,70}-{0,4}\Z"
    half_end = r"(?:-----(?:E(?:N(?:D[A-Z0-9 ]{0,60}-{0,4})?)?)?)?\Z"
    return SecretForm(
        kind="private-key",
        prefix="-----BEGIN",
        whole=f"{begin}(?:{until_dashes}{end}|{body})",
        open=f"{half_begin}|{begin}{until_dashes}{half_end}",
        span=WIDEST,
    )


def _jwt_form(run: PatternPart) -> SecretForm:
    dot = PatternPart("[.]", 1, 1)
    row = _form("jwt", "eyJ", run, dot, *_letters("eyJ"), run, dot, run, span=WIDEST, how="at_word_start")
    return structs.replace(row, run=run.chars)


SECRET_FORMS: tuple[SecretForm, ...] = (
    _private_key_form(),
    _form("anthropic-key", "sk-ant-", PatternPart(_WORD, 16)),
    _form("openrouter-key", "sk-or-", PatternPart(_WORD, 24)),
    _form("openai-key", "sk-proj-", PatternPart(_WORD, 20)),
    _form("openai-key", "sk-svcacct-", PatternPart(_WORD, 20)),
    _form("openai-key", "sk-admin-", PatternPart(_WORD, 20)),
    _form("openai-key", "sk-", PatternPart(_ALNUM, 32), how="at_word_start"),
    _form("google-key", "AIza", PatternPart(_WORD, 35), how="at_word_start"),
    _form("google-token", "ya29.", PatternPart(_WORD, 20)),
    _form("xai-key", "xai-", PatternPart(_ALNUM, 40)),
    _form("groq-key", "gsk_", PatternPart(_ALNUM, 40)),
    _form("huggingface-token", "hf_", PatternPart(_ALNUM, 30)),
    _form("perplexity-key", "pplx-", PatternPart(_ALNUM, 40)),
    *(_form("github-token", f"gh{letter}_", PatternPart(_ALNUM, 36)) for letter in "pousr"),
    _form("github-token", "github_pat_", PatternPart("[A-Za-z0-9_]", 40)),
    _form("gitlab-token", "glpat-", PatternPart(_WORD, 20)),
    _form("aws-key-id", "AKIA", PatternPart("[A-Z0-9]", 16, 16)),
    _form("aws-key-id", "ASIA", PatternPart("[A-Z0-9]", 16, 16)),
    *(
        _assigned_value_form("aws-secret-key", name, PatternPart("[A-Za-z0-9/+=]", 40))
        for name in ("secret_access_key", "secretaccesskey", "secret-access-key", "aws_secret_key")
    ),
    *(
        _assigned_value_form("aws-session-token", name, PatternPart("[A-Za-z0-9/+=]", 80), span=8192)
        for name in ("aws_session_token", "sessiontoken")
    ),
    _form(
        "slack-token", "xox", PatternPart("[abceoprs]", 1, 1), PatternPart("[-]", 1, 1), PatternPart("[A-Za-z0-9-]", 10)
    ),
    _form("slack-token", "xapp-", PatternPart("[A-Za-z0-9-]", 20)),
    _form(
        "slack-webhook",
        "hooks.slack.com",
        *(
            *_SLASH,
            PatternPart("[a-z]", 4, 20),
            *_SLASH,
            PatternPart(_WORD, 4),
            *_SLASH,
            PatternPart(_WORD, 4),
            *_SLASH,
            PatternPart(_WORD, 8),
        ),
        keep=5,
    ),
    _form("npm-token", "npm_", PatternPart(_ALNUM, 36)),
    _form("pypi-token", "pypi-", PatternPart(_WORD, 50)),
    _form("stripe-key", "sk_live_", PatternPart(_ALNUM, 20)),
    _form("stripe-key", "rk_live_", PatternPart(_ALNUM, 20)),
    _jwt_form(PatternPart(_WORD, 8)),
    *(
        _assigned_value_form(
            "authorization", "authorization", PatternPart(_TOKEN, 8), *_letters(scheme), _SPACE, span=8192
        )
        for scheme in ("bearer", "basic", "token")
    ),
    _form("bearer-token", "bearer", _SPACE, PatternPart(_TOKEN, 20), keep=1, span=8192, how="any_case"),
    _assigned_value_form("api-key", "api-key", PatternPart(_WORD, 16)),
    _form(
        "url-credentials",
        "://",
        *(PatternPart(r"[^\s/:@\"'<>\\\[\]]", 0, 128), PatternPart("[:]", 1, 1), PatternPart(_IN_URL, 1, 256)),
        until=PatternPart("[@]", 1, 1),
        keep=0,
        span=512,
    ),
)

KINDS: dict[str, str] = {}  # kind -> the regular expression of its looks, for docs/security.md
for _each in SECRET_FORMS:
    KINDS[_each.kind] = f"{KINDS[_each.kind]}|{_each.whole}" if _each.kind in KINDS else _each.whole
