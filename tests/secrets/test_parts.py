"""The parts of the search for secrets, each by itself: rows, gaps between what belongs together, and the keyring."""

from __future__ import annotations

import re
import sys
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from beam.base.errors import BeamError
from beam.model import events
from beam.secrets import keyring, kinds, redact
from beam.secrets.kinds import MOVE, SECRET_FORMS, PatternPart, fold

KEY = "ghp_" + "aB3" * 12
MARK = "[redacted:github-token]"


# -- rows --------------------------------------------------------------------------------------------------------------


def test_a_row_keeps_its_prefix_and_first_parts_visible_if_so_wanted() -> None:
    digits, letters = PatternPart("[0-9]", 2, 4), PatternPart("[a-z]", 3)
    plain = kinds._form("kind", "a.b", digits, letters)
    assert (plain.kind, plain.prefix, plain.span, plain.any_case, plain.at_word_start) == (
        "kind",
        "a.b",
        1024,
        False,
        False,
    )
    assert plain.whole == "a\\.b[0-9]{2,4}[a-z]{3,}"
    kept = kinds._form("kind", "x", digits, letters, keep=1, until=PatternPart("[@]", 1, 1), span=9, how="any_case")
    assert (kept.whole, kept.span, kept.any_case, kept.at_word_start) == (
        "(x[0-9]{2,4})[a-z]{3,}(?=[@])",
        9,
        True,
        False,
    )
    start = kinds._form("kind", "x", digits, keep=0, how="at_word_start")
    assert (start.whole, start.any_case, start.at_word_start) == ("(x)[0-9]{2,4}", False, True)
    assigned = kinds._assigned_value_form("kind", "name", letters, digits, span=7)
    assert (assigned.span, assigned.any_case) == (7, True)
    assert [(part.chars, part.least, part.most) for part in kinds._letters("eyJ")] == [
        ("[e]", 1, 1),
        ("[y]", 1, 1),
        ("[J]", 1, 1),
    ]


def test_the_row_of_a_private_key_ends_where_the_key_does() -> None:
    row = kinds._private_key_form()
    assert (row.kind, row.prefix, row.span) == ("private-key", "-----BEGIN", kinds.WIDEST)
    begin, end = "-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----"
    body = "\nabc+/=\\nx\n"
    assert [
        redact.redact(text)
        for text in (
            f"a {begin}{body}{end} b",
            f"a {begin}{body}{end}{begin}{body}{end} b",
            f"a {begin}{body}! b",
            f"a {begin.replace('KEY', 'KEY BLOCK')}{body}{end} b",
            f"a {begin.replace('RSA ', '')}{body}{end} b",
            "a -----BEGIN CERTIFICATE-----",
        )
    ] == [
        ("a [redacted:private-key] b", 1),
        ("a [redacted:private-key][redacted:private-key] b", 2),
        ("a [redacted:private-key]! b", 1),
        ("a [redacted:private-key] b", 1),
        ("a [redacted:private-key] b", 1),
        ("a -----BEGIN CERTIFICATE-----", 0),
    ]
    assert [
        redact.is_open(text)
        for text in (
            "-----BEGIN",
            "-----BEGIN RSA PRI",
            f"{begin}\nabc",
            f"{begin}\nabc{end[:9]}",
            f"{begin}\nabc{end}",
            "-----BEGIN rsa",
        )
    ] == [True, True, True, True, False, False]
    jwt = kinds._jwt_form(PatternPart("[a-z]", 2))
    assert (jwt.kind, jwt.prefix, jwt.span, jwt.at_word_start) == ("jwt", "eyJ", 16384, True)


@pytest.mark.slow
def test_the_table_of_secrets_by_what_they_begin_with() -> None:
    assert [(row.kind, row.prefix, row.span, row.any_case, row.at_word_start) for row in SECRET_FORMS] == [
        ("private-key", "-----BEGIN", 16384, False, False),
        ("anthropic-key", "sk-ant-", 1024, False, False),
        ("openrouter-key", "sk-or-", 1024, False, False),
        ("openai-key", "sk-proj-", 1024, False, False),
        ("openai-key", "sk-svcacct-", 1024, False, False),
        ("openai-key", "sk-admin-", 1024, False, False),
        ("openai-key", "sk-", 1024, False, True),
        ("google-key", "AIza", 1024, False, True),
        ("google-token", "ya29.", 1024, False, False),
        ("xai-key", "xai-", 1024, False, False),
        ("groq-key", "gsk_", 1024, False, False),
        ("huggingface-token", "hf_", 1024, False, False),
        ("perplexity-key", "pplx-", 1024, False, False),
        ("github-token", "ghp_", 1024, False, False),
        ("github-token", "gho_", 1024, False, False),
        ("github-token", "ghu_", 1024, False, False),
        ("github-token", "ghs_", 1024, False, False),
        ("github-token", "ghr_", 1024, False, False),
        ("github-token", "github_pat_", 1024, False, False),
        ("gitlab-token", "glpat-", 1024, False, False),
        ("aws-key-id", "AKIA", 1024, False, False),
        ("aws-key-id", "ASIA", 1024, False, False),
        ("aws-secret-key", "secret_access_key", 1024, True, False),
        ("aws-secret-key", "secretaccesskey", 1024, True, False),
        ("aws-secret-key", "secret-access-key", 1024, True, False),
        ("aws-secret-key", "aws_secret_key", 1024, True, False),
        ("aws-session-token", "aws_session_token", 8192, True, False),
        ("aws-session-token", "sessiontoken", 8192, True, False),
        ("slack-token", "xox", 1024, False, False),
        ("slack-token", "xapp-", 1024, False, False),
        ("slack-webhook", "hooks.slack.com", 1024, False, False),
        ("npm-token", "npm_", 1024, False, False),
        ("pypi-token", "pypi-", 1024, False, False),
        ("stripe-key", "sk_live_", 1024, False, False),
        ("stripe-key", "rk_live_", 1024, False, False),
        ("jwt", "eyJ", 16384, False, True),
        ("authorization", "authorization", 8192, True, False),
        ("authorization", "authorization", 8192, True, False),
        ("authorization", "authorization", 8192, True, False),
        ("bearer-token", "bearer", 8192, True, False),
        ("api-key", "api-key", 1024, True, False),
        ("url-credentials", "://", 512, False, False),
    ]
    for row in SECRET_FORMS:
        assert re.compile(row.whole) and re.compile(row.open)


# -- gaps ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "plain",
        "a\x1b[1mb",
        "a\x1b[1m\x1b[0mb\x1b[2Jc",
        "a\x9b1mb",
        "a\\u001b[1mb",
        "a\\x1b[1mb\\033[0mc\\e[0md",
        "│ one │\n│ two │",
        "│ one │\r\n│ two │",
        "one │\n│ two",
        "┌──┐\nx",
        "ä b",
        "a\x1b]0;title\x07b",
        "a\x1b[3",
        "a\\u00",
        "│ one │\n",
        "│ one  ",
        "│ one     ",
    ],
)
def test_what_stands_unseen_in_a_text_is_folded_away(text: str) -> None:
    found = {}
    for is_all in (True, False):
        folded = fold(text, is_all=is_all)
        found[is_all] = None if folded is None else (folded.text, folded.starts, folded.original_starts, folded.end)
    assert found == _FOLDED[text]


def test_a_folded_text_knows_where_each_character_was() -> None:
    folded = fold("ab\x1b[1mcd\x1b[2Je")
    assert folded is not None and folded.text == f"abcd{MOVE}e"
    assert [folded.origin(index) for index in range(8)] == [0, 1, 6, 7, 8, 12, 13, 13]
    assert [folded.origin_end(index) for index in range(7)] == [0, 1, 2, 7, 8, 9, 13]
    assert [folded.is_behind_gap(index) for index in range(6)] == [False, False, True, False, False, True]
    assert (kinds.sequences("a\x1b[1mb\\u001b[0mc"), kinds.first_border("a│b"), kinds.first_border("ab")) == (
        "\x1b[1m",
        2,
        None,
    )
    framed = fold("one │\n│ two", is_framed=True)
    assert framed is not None and framed.text == "onetwo"


@pytest.mark.parametrize(
    "text",
    [
        f"say {KEY[:9]}\x1b[1m{KEY[9:]} on",
        f"say {KEY[:9]}\\u001b[1m{KEY[9:]} on",
        f"│ {KEY[:9]} │\n│ {KEY[9:]} │",
        f"say\x1b[1m{KEY}\x1b[0m on",
        f"{KEY} {KEY}{KEY}",
        f"x{KEY}",
        KEY[:-1],
    ],
)
def test_a_secret_in_pieces_is_blanked_and_colours_stay(text: str) -> None:
    stream, whole = redact.Stream(), redact.redact(text)
    assert whole == _BLANKED[text[:20], len(text)]
    shown = "".join([*(stream.feed(letter) for letter in text), stream.end()])
    assert (shown, stream.count) == whole
    assert (stream.feed("q "), stream.end()) == ("q ", "")


@pytest.mark.parametrize(
    ("data", "may"),
    [
        (b"", False),
        (b"plain text", False),
        (b"ghp_", True),
        (b"AUTHORIZATION", True),
        (b"sk-short", False),
        (b"sk-" + b"a" * 16, True),
        (b"http://x/y@z", False),
        (b"http://a:b@z", True),
        (b"bearer of news", True),
        (b"bearer", False),
        (b"a\x1b[1m", True),
        ("─".encode(), True),
        ("ä".encode(), False),
        (b"\\u0041", True),
        (b"\\u00e4", False),
        (b"\\u001b", True),
        (b"\\/", True),
    ],
)
def test_what_may_contain_a_secret_is_looked_at_and_nothing_else(data: bytes, may: bool) -> None:
    assert redact.may_contain_secret(data) is may


def test_only_what_holds_a_secret_of_an_event_is_made_anew() -> None:
    plain = events.Text(text="hi")
    assert redact.redact_event(plain) == (plain, 0) and redact.redact_event(plain)[0] is plain
    steps = (events.PlanStep(text="a"), events.PlanStep(text=KEY), events.PlanStep(text=f"{KEY} {KEY}"))
    plan = events.PlanUpdated(steps=steps, raw='{"x": "' + KEY + '"}')
    found, count = redact.redact_event(plan)
    blanked = (events.PlanStep(text="a"), events.PlanStep(text=MARK), events.PlanStep(text=f"{MARK} {MARK}"))
    assert (found, count) == (events.PlanUpdated(steps=blanked, raw='{"x":"' + MARK + '"}'), 3)
    called = events.ToolCalled(call_id="c", name="Bash", input=msgspec.Raw(f'{{"{KEY}": [1, "{KEY}"]}}'.encode()))
    found_call, count = redact.redact_event(called)
    assert (bytes(found_call.input), count) == (f'{{"{MARK}":[1,"{MARK}"]}}'.encode(), 2)
    assert redact.redact_event(called, b"{}") == (called, 0)
    alone = events.Text(text="x", raw=f'"{KEY}"')
    assert redact.redact_event(alone) == (events.Text(text="x", raw=f'"{MARK}"'), 1)


@pytest.mark.parametrize(
    ("text", "expected", "count"),
    [
        ("not JSON " + KEY, "not JSON " + MARK, 1),
        ('{"a": 1}', '{"a": 1}', 0),
        ('{"a": "\\ud800 ' + KEY + '"}', '{"a":"\\ud800 ' + MARK + '"}', 1),
        ('{"a": "ä ' + KEY + '"}', '{"a":"ä ' + MARK + '"}', 1),
        ("[" * 5000, "[" * 5000, 0),
        ('{"api-key": 1234567890123456789}', '{"api-key": 1234567890123456789}', 0),
        ('{"api-key": "abcdefghijklmnop1234"}', '{"api-key": "[redacted:api-key]"}', 1),
    ],
    ids=range(7),
)
def test_a_document_stays_one_whatever_is_blanked_in_it(text: str, expected: str, count: int) -> None:
    assert redact.redact_json(text) == (expected, count)


# -- the keyring -------------------------------------------------------------------------------------------------------


def refused(call: Any) -> tuple[str, str, str, str | None]:
    with pytest.raises(BeamError) as caught:
        call()
    return type(caught.value).__name__, caught.value.message[:70], caught.value.hint[:80], caught.value.subject


def test_each_way_in_which_a_keyring_has_no_key_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    removed: list[object] = []
    played = SimpleNamespace(
        get_keyring=lambda: SimpleNamespace(priority=played.priority),
        get_password=lambda *_: None,
        delete_password=lambda *name: removed.append(name),
        priority=1,
    )
    monkeypatch.setitem(sys.modules, "keyring", played)
    said = [
        refused(lambda: keyring.read("work")),
        refused(lambda: keyring.remove("work")),
        refused(lambda: keyring.store("x!" * 30 + "y" * 30, "k")),
        refused(lambda: keyring.store("work", "a b")),
    ]
    played.priority = 0
    said.append(refused(lambda: keyring.read("work")))
    played.get_keyring = object
    said.append(refused(lambda: keyring.store("work", "k")))
    monkeypatch.setitem(sys.modules, "keyring", None)
    said.append(refused(lambda: keyring.read("work")))
    assert (said, removed) == (
        [
            ("NotFoundError", "the keyring has no key 'work' of beam's", "beam secret set work", "work"),
            ("NotFoundError", "the keyring has no key 'work' of beam's", "beam secret set work", "work"),
            (
                "UsageError",
                "'x!x!x!x!x!x!x!x!x!x!x!x!x!x!x!x!x!x!x!x!x!x!x!x!x!x!x!x!x!x!yyyyyyyyy",
                "letters, digits, _ . and -",
                "x!x!x!x!x!x!x!x!x!x!x!x!x!x!x!x!x!x!x!x!x!x!x!x!x!x!x!x!x!x!yyyyyyyyyyyyyyyyyyyy",
            ),
            ("UsageError", "that is no key", "give it on stdin: beam secret set NAME < FILE", ""),
            (
                "UnsupportedError",
                "this system has no keyring",
                "give the key on a descriptor: --shield fd:3 3< <(a command that prints it)",
                "",
            ),
            (
                "UnsupportedError",
                "this system has no keyring",
                "give the key on a descriptor: --shield fd:3 3< <(a command that prints it)",
                "",
            ),
            (
                "UnsupportedError",
                "the package `keyring` is not installed",
                "pip install 'beam-agents[keyring]', or give --shield fd:3",
                "",
            ),
        ],
        [],
    )


_BLANKED = {
    ("say ghp_aB3aB\x1b[1m3aB", 51): ("say [redacted:github-token]\x1b[1m on", 1),
    ("say ghp_aB3aB\\u001b[", 56): ("say [redacted:github-token] on", 1),
    ("│ ghp_aB3aB │\n│ 3aB3", 49): ("│ [redacted:github-token] │", 1),
    ("say\x1b[1mghp_aB3aB3aB3", 54): ("say\x1b[1m[redacted:github-token]\x1b[0m on", 1),
    ("ghp_aB3aB3aB3aB3aB3a", 121): (
        "[redacted:github-token] [redacted:github-token]_aB3aB3aB3aB3aB3aB3aB3aB3aB3aB3aB3aB3",
        2,
    ),
    ("xghp_aB3aB3aB3aB3aB3", 41): ("x[redacted:github-token]", 1),
    ("ghp_aB3aB3aB3aB3aB3a", 39): ("ghp_aB3aB3aB3aB3aB3aB3aB3aB3aB3aB3aB3aB", 0),
}


_FOLDED = {
    "plain": {True: None, False: None},
    "a\x1b[1mb": {True: ("ab", [0, 1, 1], [0, 1, 5], 6), False: ("ab", [0, 1, 1], [0, 1, 5], 6)},
    "a\x1b[1m\x1b[0mb\x1b[2Jc": {
        True: ("ab\x00c", [0, 1, 1, 2, 3], [0, 1, 9, 10, 14], 15),
        False: ("ab\x00c", [0, 1, 1, 2, 3], [0, 1, 9, 10, 14], 15),
    },
    "a\x9b1mb": {True: ("ab", [0, 1, 1], [0, 1, 4], 5), False: ("ab", [0, 1, 1], [0, 1, 4], 5)},
    "a\\u001b[1mb": {True: ("ab", [0, 1, 1], [0, 1, 10], 11), False: ("ab", [0, 1, 1], [0, 1, 10], 11)},
    "a\\x1b[1mb\\033[0mc\\e[0md": {
        True: ("abcd", [0, 1, 1, 2, 2, 3, 3], [0, 1, 8, 9, 16, 17, 22], 23),
        False: ("abcd", [0, 1, 1, 2, 2, 3, 3], [0, 1, 8, 9, 16, 17, 22], 23),
    },
    "│ one │\n│ two │": {
        True: ("│ onetwo │", [0, 5, 5], [0, 5, 10], 15),
        False: ("│ onetwo", [0, 5, 5, 8, 8, 8, 8], [0, 5, 10, 13, 15, 15, 15], 15),
    },
    "│ one │\r\n│ two │": {
        True: ("│ onetwo │", [0, 5, 5], [0, 5, 11], 16),
        False: ("│ onetwo", [0, 5, 5, 8, 8, 8, 8], [0, 5, 11, 14, 16, 16, 16], 16),
    },
    "one │\n│ two": {True: None, False: None},
    "┌──┐\nx": {True: None, False: None},
    "ä b": {True: None, False: None},
    "a\x1b]0;title\x07b": {True: ("ab", [0, 1, 1], [0, 1, 11], 12), False: ("ab", [0, 1, 1], [0, 1, 11], 12)},
    "a\x1b[3": {True: None, False: ("a", [0], [0], 1)},
    "a\\u00": {True: None, False: ("a", [0], [0], 1)},
    "│ one │\n": {True: None, False: ("│ one", [0, 5, 5, 5, 5], [0, 5, 8, 8, 8], 8)},
    "│ one  ": {True: None, False: ("│ one", [0], [0], 7)},
    "│ one     ": {True: None, False: None},
}
