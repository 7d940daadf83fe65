"""Secrets go, whatever way they come; everything else stays, to the letter."""

from __future__ import annotations

import itertools
import json
import re
import time

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam.model import events
from beam.secrets import kinds
from beam.secrets import redact as redacting
from beam.secrets.redact import (
    _PREFIXES,
    _PREFIXES_ANY_CASE,
    KINDS,
    Stream,
    _any_prefix,
    is_open,
    may_contain_secret,
    redact,
    redact_beginning,
    redact_event,
    redact_json,
    redact_pieces,
)
from tests.support.secrets import BASE64, LETTERS, PLANTED, SECRETS

secrets = pytest.mark.parametrize(("text", "left", "secret"), SECRETS.values(), ids=SECRETS)


def streamed(*pieces: str) -> str:
    stream = Stream()
    return "".join([*(stream.feed(piece) for piece in pieces), stream.end()])


@pytest.mark.slow
@secrets
def test_a_secret_is_blanked_and_nothing_else(text: str, left: str, secret: str) -> None:
    around = [("", ""), ("say ", " and go on"), ("line\n", "\nline"), ('"', '"'), ("(", ")")]
    if secret.startswith("-----BEGIN") and "END" not in secret:
        around = [("", ".")]  # without its end a key goes on as long as it looks like one
    for before, after in around:
        assert redact(before + text + after) == (before + left + after, 1)


@pytest.mark.slow
@secrets
def test_a_secret_cut_anywhere_is_found_in_a_stream(text: str, left: str, secret: str) -> None:
    whole = f"say {text}; done"
    expected, _ = redact(whole)
    assert secret not in expected
    for cut in range(len(whole) + 1):
        assert streamed(whole[:cut], whole[cut:]) == expected, cut
    assert streamed(*whole) == expected


@secrets
def test_redacting_twice_changes_nothing_more(text: str, left: str, secret: str) -> None:
    once, _ = redact(text)
    assert redact(once) == (once, 0)


@secrets
def test_a_secret_behind_json_escapes_is_found_and_the_json_stays_valid(text: str, left: str, secret: str) -> None:
    hidden = '{"out": "' + "".join(f"\\u{ord(letter):04x}" for letter in text) + '", "n": 1}'
    blanked, count = redact_json(hidden)
    assert (json.loads(blanked), count) == ({"out": left, "n": 1}, 1)
    assert may_contain_secret(hidden.encode())


@secrets
def test_every_part_of_an_event_is_blanked(text: str, left: str, secret: str) -> None:
    line = json.dumps({"content": [{"text": text}]})
    event = events.ToolCalled(call_id="1", name="Bash", input=msgspec.Raw(json.dumps({"a": [text]}).encode()), raw=line)
    blanked, count = redact_event(event)
    encoded = events.encode(blanked)
    assert json.dumps(secret).strip('"') not in encoded.decode()
    assert count == 1
    assert json.loads(encoded)["input"] == {"a": [left]}
    assert json.loads(json.loads(encoded)["raw"]) == {"content": [{"text": left}]}


def test_nested_values_and_tuples_of_an_event_are_blanked() -> None:
    key = f"ghp_{LETTERS[:36]}"
    plan = events.PlanUpdated(steps=(events.PlanStep(text="rest"), events.PlanStep(text=f"use {key}")))
    assert redact_event(plan) == (
        events.PlanUpdated(steps=(events.PlanStep(text="rest"), events.PlanStep(text="use [redacted:github-token]"))),
        1,
    )


def test_an_event_without_secrets_is_the_same_object() -> None:
    event = events.Text(text="see https://example.org/a:b?c=d@e and task-force", raw='{"text": "\\u001b[1m"}')
    blanked, count = redact_event(event)
    assert blanked is event
    assert count == 0


def test_a_name_and_its_value_in_json_are_seen_together() -> None:
    blanked = redact_json('{"SecretAccessKey": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}')
    assert blanked == ('{"SecretAccessKey": "[redacted:aws-secret-key]"}', 1)


def test_json_is_never_broken_by_what_is_blanked_in_it() -> None:
    document = json.dumps({"api-key": 1234567890123456789, "n": f"hf_{LETTERS[:34]}"})
    blanked, count = redact_json(document)
    assert (json.loads(blanked)["n"], count) == ("[redacted:huggingface-token]", 1)


def test_a_lone_surrogate_does_not_hide_a_secret() -> None:
    blanked, count = redact_event(events.Text(text=f"\ud800 ghp_{LETTERS[:36]}"))
    assert (blanked.text, count) == ("\ud800 [redacted:github-token]", 1)


@pytest.mark.parametrize(
    "prose",
    [
        "the task-force at desk-12 asked for the risk-assessment-of-the-whole-new-building",
        "disk-0123456789abcdef0123456789abcdef0123456789abcdef",
        "a bearer of good news; Authorization: none; Bearer <token>; api-key: $KEY",
        "https://example.org:8080/a@b http://localhost:3000 ssh://git@example.org:22/x git@github.com:a/b.git",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "eyJ is how a token begins, and eyJhbGciOiJIUzI1NiJ9 alone is none",
        'if "-----BEGIN" in text: raise',
        "secret_access_key = os.environ['X']",
        "\u0130 \u017f \u212a bearer",
        "",
    ],
)
def test_prose_stays_as_it_is(prose: str) -> None:
    assert redact(prose) == (prose, 0)
    assert streamed(*prose) == prose


def test_at_least_twelve_kinds_are_in_the_table_and_each_is_proven_here() -> None:
    assert len(KINDS) >= 12
    assert set(KINDS) == {name.split()[0] for name in SECRETS}


RED, BOLD, PLAIN = "\x1b[31m", "\x1b[1;38;5;208m", "\x1b[0m"


@pytest.mark.slow
@pytest.mark.parametrize(
    "colour",
    [RED, BOLD, "\x1b(B\x1b[m", "\x1b[2K", "\x1b]8;;http://x\x07", "\\u001b[31m", "\\x1b[1m", "\\033[0;1m", "\\e[m"],
)
def test_a_secret_in_colours_is_found_wherever_they_change(colour: str) -> None:
    for (text, _, secret), part in itertools.product(SECRETS.values(), (0.0, 0.5, 1.0)):
        if "\\" in colour and (secret.startswith("-----BEGIN") or "\\" in text):
            continue  # in source code the whole key is; in a key with escapes of its own nobody colours
        cut = 1 + int((len(text) - 2) * part)
        painted = f"{colour}{text[:cut]}{colour}{text[cut:]}{PLAIN}! and on"
        shown, count = redact(painted)
        assert count == 1, painted
        assert longest_part(secret, shown) < 12, (painted, shown)
        assert streamed(painted[:cut], painted[cut : cut + 3], painted[cut + 3 :]) == shown
        assert shown.endswith(f"{PLAIN}! and on") and shown.startswith(colour)
        assert may_contain_secret(json.dumps({"x": painted}).encode()) and may_contain_secret(painted.encode())


def longest_part(secret: str, text: str) -> int:
    """How many characters of the secret stand in the text one behind the other, at most."""
    starts = ((at, size) for size in range(1, 13) for at in range(len(secret) - size + 1))
    return max((size for at, size in starts if secret[at : at + size] in text), default=0)


def framed(text: str, width: int, edge: str = "\u2502", end: str = "\n", dim: str = "") -> str:
    """A box around the text, which is broken where its rows are full."""
    rows = [text[at : at + width] for at in range(0, len(text), width)]
    plain = PLAIN if dim else ""
    side = f"{dim}{edge}{plain}"
    return end.join(f"{side} {row:<{width}} {side}" for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize("edge", ["\u2502", "\u2503", "\u2551", "\u258c"])
@pytest.mark.parametrize(("end", "dim"), [("\n", ""), ("\r\n", "\x1b[2m")])
@pytest.mark.parametrize("width", [13, 30, 60, 76])
def test_a_key_that_a_frame_breaks_over_rows_is_found_whole(edge: str, end: str, dim: str, width: int) -> None:
    for kind in ("anthropic-key", "github-token", "jwt", "xai-key"):
        key, secret = PLANTED[kind]
        shown, count = redact(framed(f"use {key} now", width, edge, end, dim))
        assert count == 1 and longest_part(secret, shown) < 6, shown
        assert streamed(*framed(f"use {key} now", width, edge, end, dim)) == shown


def test_rows_of_a_frame_that_are_not_full_are_words_of_their_own() -> None:
    key = f"ghp_{LETTERS[:36]}"
    text = f"\u2502 {key:<60} \u2502\n\u2502 {'next':<60} \u2502"
    assert redact(text) == (text.replace(key, "[redacted:github-token]"), 1)
    assert redact(f"{key}\nnext") == ("[redacted:github-token]\nnext", 1)


def test_what_a_frame_and_colours_hold_besides_secrets_stays_to_the_letter() -> None:
    text = (
        framed("the task-force at desk-12 asked for https://example.org/x", 20, dim="\x1b[2m")
        + "\\u001b[1m \\e[0m \x1b"
    )
    assert redact(text) == (text, 0)
    assert streamed(*text) == text


@secrets
def test_a_secret_in_several_pieces_is_gone_from_all_of_them(text: str, left: str, secret: str) -> None:
    for cut in range(1, len(text)):
        first, second, third = redact_pieces([f"say {text[:cut]}", text[cut:], "; done"])
        assert first + second + third == f"say {left}; done"
        assert third == "; done"


def test_a_secret_directly_behind_another_is_blanked_too() -> None:
    both = f"AKIAIOSFODNN7EXAMPLEsk-{LETTERS[:20]}T3BlbkFJ{LETTERS[:20]}"
    left = "[redacted:aws-key-id][redacted:openai-key]"
    assert redact(both) == (left, 2)
    assert streamed(*both) == left


def test_of_a_secret_whose_beginning_is_out_already_the_rest_is_blanked() -> None:
    key = f"sk-ant-api03-{LETTERS}"
    assert redact_pieces([key]) == ["[redacted:anthropic-key]"]
    assert redact_pieces([]) == []
    assert redact_pieces(["so s", f"{key[1:]} y"], out=4) == ["so s", "[redacted:anthropic-key] y"]
    assert redact_pieces([f"{key} a", f" {key}"], out=len(key) + 2)[1] == " [redacted:anthropic-key]"


def test_a_text_is_open_while_its_end_may_be_the_beginning_of_a_secret() -> None:
    assert all(map(is_open, ["use sk-ant-", f"AIza{LETTERS[:20]}", f"ghp_{LETTERS[:36]}", "Authorization: Bearer "]))
    assert not any(
        map(is_open, ["", "this is", "use sk", "sk-ant- is how they begin", f"ghp_{LETTERS[:36]}.", "done."])
    )


_texts = st.lists(
    st.one_of(
        st.sampled_from([text for text, _, _ in SECRETS.values()]),
        st.sampled_from([text[: len(text) // 2] for text, _, _ in SECRETS.values()]),
        st.sampled_from(
            ["sk-", "eyJ", "AIza", "-----", "-----BEGIN PRIVATE KEY-----", "-----END X-----", "://", ":", "@"]
        ),
        st.sampled_from([RED, PLAIN, "\x1b", "\x1b[3", "\x1b]8;;x\x1b\\", "\x9b1m", "\x1b(B", "\\u001b[1m", "\\e[m"]),
        st.sampled_from(["\u2502", "\u2502\n\u2502", " \u2502\r\n\u2502 ", "\r\n", "  ", "    "]),
        st.sampled_from(
            ["\\n", "\\", "n", " ", "\n", '"', "[redacted:jwt]", "bearer ", "Authorization: ", "é", "A" * 1100]
        ),
        st.text(max_size=6),
    ),
    max_size=6,
).map("".join)


@pytest.mark.slow
@given(whole=_texts, data=st.data())
@settings(max_examples=200)
def test_a_stream_adds_up_to_the_whole_wherever_it_is_cut(whole: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=4)))
    pieces = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    expected, count = redact(whole)
    stream = Stream()
    shown = "".join([*(stream.feed(piece) for piece in pieces), stream.end()])
    assert (shown, stream.count) == (expected, count)


@pytest.mark.slow
@given(whole=_texts)
@settings(max_examples=100)
def test_redacting_any_text_twice_is_redacting_it_once(whole: str) -> None:
    once, count = redact(whole)
    assert redact(once) == (once, 0)
    assert (once is whole) == (count == 0)


@pytest.mark.slow
@given(whole=_texts)
@settings(max_examples=100)
def test_maybe_never_overlooks_a_secret(whole: str) -> None:
    _, count = redact(whole)
    if count:
        assert may_contain_secret(whole.encode("utf-8", "surrogatepass"))
        assert may_contain_secret(json.dumps({"x": whole}).encode())


def test_prose_flows_through_a_stream_at_once() -> None:
    stream = Stream()
    assert stream.feed("The answer is 42. ") == "The answer is 42. "
    assert stream.feed("We have sk") == "We have "
    assert stream.feed("ills. ") == "skills. "
    assert stream.feed("see https://example.org/ now ") == "see https://example.org/ now "


def test_a_key_is_shown_as_soon_as_it_has_ended() -> None:
    stream = Stream()
    assert stream.feed(f"key sk-ant-api03-{LETTERS}") == "key "
    assert stream.feed("! ok ") == "[redacted:anthropic-key]! ok "
    assert stream.count == 1


@pytest.mark.slow
def test_a_private_key_without_an_end_is_held_only_up_to_a_cap() -> None:
    stream = Stream()
    line = BASE64 + "\n"
    shown = stream.feed("-----BEGIN PRIVATE KEY-----\n")
    fed = 0
    while not shown:
        shown = stream.feed(line)
        fed += len(line)
    assert shown.startswith("[redacted:private-key]")
    assert fed <= 17 * 1024


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit",
    [
        *(
            "sk-",
            "sk-ant-",
            "eyJ",
            "eyJ.",
            "eyJaaaaaaaa.",
            "://",
            "://a:",
            "://a:a@",
            "bearer ",
            "authorization: ",
            "A",
        ),
        *(
            "-----BEGIN PRIVATE KEY-----",
            "-----BEGIN",
            "-----",
            "-",
            "xoxb-",
            "aws_secret_access_key=",
            "\\n",
            "\\u0041",
        ),
        *(
            RED,
            "\x1b",
            "\x1b[",
            "\x1b]",
            "\u2502",
            "\u2502 ",
            " \u2502\n",
            "\u2502\n\u2502",
            "\n\u2502",
            "\\u001b[",
            "\\\\e",
            f"sk-{RED}",
            f"a {RED}",
        ),
        *("hooks.slack.com/services/", "authorization:" + " " * 8, "api-key" + '"' * 8, "s", "\n eyJaaaaaaaaa"),
    ],
)
def test_a_long_text_made_to_be_slow_is_not(unit: str) -> None:
    text = (unit * (250_000 // len(unit) + 1))[:250_000]
    began = time.process_time()
    redact(text)
    may_contain_secret(text.encode())
    stream = Stream()
    for start in range(0, len(text), 25_000):
        stream.feed(text[start : start + 25_000])
    stream.end()
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    "text", ["_eyJ" * 20_000, "-eyJ" * 20_000 + ".eyJ!", ("_eyJ" * 1_000 + ".") * 20], ids=["long", "no end", "several"]
)
def test_a_long_word_of_beginnings_is_searched_a_few_times_and_not_once_for_each(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = []
    match = kinds.SecretForm.match

    def counted(self: kinds.SecretForm, text: str, start: int) -> re.Match[str] | None:
        tries.append(start)
        return match(self, text, start)

    monkeypatch.setattr(kinds.SecretForm, "match", counted)
    assert redact(text) == (text, 0)
    assert len(tries) <= 40


def test_a_token_behind_a_word_of_beginnings_is_found() -> None:
    token = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl"
    assert redact(f"{'_eyJ' * 20_000} {token}")[0].endswith(" [redacted:jwt]")
    assert redact(f"{'_eyJ' * 20_000}.{token}")[0].endswith(".[redacted:jwt]")
    assert "eyJhbGci" not in redact(f"xeyJ_{token}")[0]


@pytest.mark.parametrize("length", [9, 12, 30, 49])
def test_the_beginning_of_a_text_has_no_part_of_a_secret_that_goes_on_after_it(length: int) -> None:
    text = f"My key: {'ghp_' + 'A1b2' * 9} is here. " + "x" * 100
    assert redact_beginning(text, length) == f"My key: [redacted:github-token]{text[48:length]}"
    assert redact_beginning(text, 8) == "My key: "
    keys = f"-----BEGIN RSA PRIVATE KEY-----{'A' * 9000}-----END RSA PRIVATE KEY----- "
    assert "A1b2" not in redact_beginning(f"{keys}{'x' * 20_000} {text}", 25_000)


@pytest.mark.slow
@given(st.lists(st.sampled_from([*(row.prefix for row in kinds.SECRET_FORMS), "-", "_", "o", "x", "a", " ", "K", ":"])))
def test_a_long_text_has_the_prefixes_that_a_short_one_has(parts: list[str]) -> None:
    text = "".join(parts)
    for any_case, forms in ((False, _PREFIXES), (True, _PREFIXES_ANY_CASE)):
        searched = text.lower() if any_case else text
        has_one = any(prefix in searched for _, prefix in forms)
        assert (_any_prefix(any_case=any_case).search(searched) is not None) == has_one


@pytest.mark.slow
@secrets
def test_a_secret_in_a_long_text_is_found(text: str, left: str, secret: str) -> None:
    around = "the quick brown fox\n" * 10_000
    found = redact(f"{around}{text}\n{around}")[0]
    assert left in found and secret not in found
    assert redact_event(events.Text(text=f"{around}{text}\n{around}"))[0].text == found


def test_a_long_text_that_is_harmless_is_searched_once_however_often_it_is_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searched: list[int] = []
    search = redacting.may_contain_secret
    monkeypatch.setattr(redacting, "may_contain_secret", lambda data: bool(searched.append(len(data))) or search(data))
    text = "the quick brown fox\n" * 50_000
    for event in (events.TextDelta(text=text), events.Text(text=text), events.Thinking(text=text)):
        assert redact_event(event) == (event, 0)
    assert sum(searched) < 1.1 * len(text) + 1000
    leak = events.Text(text=text, raw=f"ghp_{'a' * 36}")
    assert "ghp_" not in str(redact_event(leak)[0].raw)
