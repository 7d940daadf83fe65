"""The pure parts: masks, differences, the ladder's steps, packing, moving, blanking."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam.agents import registry
from beam.agents.masks import GENERAL_MASKS, Masks, all_masks, masks_of
from beam.base.errors import CorruptError
from beam.proxy.canonical import Canonicalizer
from beam.proxy.differences import differences, is_in_tool_result
from beam.proxy.ladder import Match, RequestMatcher
from beam.proxy.packing import Packer, Unpacker, blob_name
from beam.proxy.private import Blanker, answer_headers, credentials, request_headers, stored_path
from beam.proxy.recording import AnswerLine, Exchange, RequestLine, split_events
from beam.proxy.shared import FolderReplacer
from beam.proxy.wire import dialects

PLAIN = Canonicalizer(GENERAL_MASKS, {})
TOLD = "sk-ant-api03-" + "A1b2C3d4" * 6


def canonical(body: Any, **places: str) -> Any:
    return Canonicalizer(GENERAL_MASKS, places).canonical("POST", "/v1/messages", body)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Today is 2026-11-24.", "Today is 2027-01-02."),
        ("at 2026-11-24T10:11:12.123Z", "at 2026-11-25T00:00:00Z"),
        ("Tuesday, November 24, 2026", "Wednesday, November 25, 2026"),
        ("Tue Nov 24 10:11:12 UTC 2026", "Wed Nov 25 09:00:01 UTC 2026"),
        ("11/24/2026", "1/2/2027"),
        ("id 0f8fad5b-d9cb-469f-a165-70867728950e", "id 7c9e6679-7425-40de-944b-e07fc1f90ae7"),
        ("http://127.0.0.1:4711/x", "http://127.0.0.1:1234/x"),
        ("commit " + "a" * 40, "commit " + "0" * 40),
        ("since 1764000000123", "since 1764999999999"),
    ],
)
def test_what_changes_from_day_to_day_is_masked(one: str, other: str) -> None:
    assert canonical({"text": one}).digest == canonical({"text": other}).digest


@pytest.mark.parametrize(("one", "other"), [("a", "b"), ("1 file", "2 files"), ("v1.2", "v1.3")])
def test_what_means_something_else_is_not(one: str, other: str) -> None:
    assert canonical({"text": one}).digest != canonical({"text": other}).digest


def test_folders_are_named_the_deepest_first_and_only_as_a_whole() -> None:
    form = canonical(
        {"text": "/a/home/work/x.txt /a/home/y /a/homely -a-home-work"}, cwd="/a/home/work", home="/a/home"
    )
    assert form.value["body"]["text"] == "<cwd>/x.txt <home>/y /a/homely -a-home-work".replace("-a-home-work", "<cwd>")


def test_a_folder_is_named_only_where_a_path_begins_and_at_the_end_of_a_sentence() -> None:
    def named(folder: str) -> Any:
        return canonical({"text": f"src/app ./app ${{ROOT}}/app -I{folder} in {folder}."}, cwd=folder)

    assert named("/app").value["body"]["text"] == "src/app ./app ${ROOT}/app -I<cwd> in <cwd>."
    assert named("/app").digest == named("/elsewhere/it").digest


def test_tool_ids_become_positions_and_stay_linked() -> None:
    def body(first: str, second: str, answered: str) -> Any:
        calls = [{"type": "tool_use", "id": each, "name": "x"} for each in (first, second)]
        return {"messages": [{"content": calls}, {"content": [{"type": "tool_result", "tool_use_id": answered}]}]}

    same = canonical(body("toolu_a", "toolu_b", "toolu_b"))
    assert same.digest == canonical(body("toolu_x", "toolu_y", "toolu_y")).digest
    assert same.digest != canonical(body("toolu_x", "toolu_y", "toolu_x")).digest


def test_fields_are_dropped_by_their_paths() -> None:
    body = {"a": {"b": 1, "c": 2}, "list": [{"x": 1, "y": 2}]}
    form = Canonicalizer(Masks(drop=("a.b", "list.*.x")), {}).canonical("", "", body)
    assert form.value["body"] == {"a": {"c": 2}, "list": [{"y": 2}]}


def test_what_git_says_when_claude_starts_is_no_difference_but_for_changed_files() -> None:
    def digest(branch: str, user: str, status: str, *commits: str) -> str:
        text = f"Current branch: {branch}\n\nGit user: {user}\n\nStatus:\n{status}\n\nRecent commits:\n"
        body = {"text": text + "\n".join(commits) + "\n\nClaude Code attached this."}
        digest: str = Canonicalizer(masks_of("claude"), {}).canonical("POST", "/v1/messages", body).digest
        return digest

    one = digest("main", "A", "M x.txt", "f290267 Begin")
    assert one == digest("HEAD", "CI", "M x.txt", "0123456 Next", "f290267 Begin")
    assert one != digest("main", "A", "(clean)", "f290267 Begin")


def test_every_clis_masks_can_be_used() -> None:
    for name in registry.ADAPTERS:
        Canonicalizer(masks_of(name), {})
    Canonicalizer(all_masks(), {})


@pytest.mark.slow
def test_a_difference_is_of_one_field_and_of_few_characters_wherever_else_ids_stand() -> None:
    text = "line\n" * 300
    before = canonical({"system": f"session aaaa\n{text}", "tools": [{"d": f"{text}x"}, {"d": "end bbbb"}]})
    after = canonical({"system": f"session cccc\n{text}", "tools": [{"d": f"{text}x"}, {"d": "end dddd"}]})
    found = differences(before, after)
    assert [(each.path, each.characters) for each in found] == [("body.system", 4), ("body.tools[1].d", 4)]
    assert (found[0].recorded, found[0].got) == ("session aaaa", "session cccc")


def test_a_field_that_is_not_there_is_a_difference() -> None:
    (found,) = differences(canonical({"a": "x"}), canonical({"a": "x", "b": "new"}))
    assert (found.path, found.recorded, found.got) == ("body.b", None, "new")


# -- the ladder --------------------------------------------------------------------------------------------------------


def exchange(number: int, body: Any) -> Exchange:
    request = RequestLine(n=number, at="", format="anthropic", kind="ask", method="POST", path="/v1/messages")
    return Exchange(request=request, body=body, answer=AnswerLine(n=number, status=200), data=b"{}")


def conversation(prompt: str, *results: str, system: str = "be brief") -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": prompt}]
    for number, result in enumerate(results):
        messages.append({"role": "assistant", "content": [{"type": "tool_use", "id": f"t{number}", "name": "x"}]})
        block = {"type": "tool_result", "tool_use_id": f"t{number}", "content": result}
        messages.append({"role": "user", "content": [block]})
    return {"model": "m", "system": system, "messages": messages}


def match(recorded: list[Any], got: Any) -> Match:
    ladder = RequestMatcher(tuple(exchange(n + 1, body) for n, body in enumerate(recorded)), PLAIN, PLAIN)
    return ladder.match(format="anthropic", kind="ask", method="POST", path="/v1/messages", body=got)


def test_an_equal_request_is_exact() -> None:
    assert match([conversation("a"), conversation("b")], conversation("b")).nearest == 2


def test_a_small_change_outside_of_results_is_minor() -> None:
    found = match([conversation("a", "ok")], conversation("a", "ok", system="be very brief"))
    assert (found.step, found.differences[0].path) == ("minor", "body.system")


def test_a_large_change_is_major() -> None:
    assert match([conversation("a", "ok")], conversation("a", "ok", system="x" * 2000)).step == "major"


def test_a_change_in_what_a_tool_returned_is_major() -> None:
    recorded, got = conversation("a", "took 12 ms"), conversation("a", "took 13 ms")
    found = match([recorded], got)
    assert found.step == "major"
    assert is_in_tool_result(found.differences[0], canonical(got))


def test_another_prompt_is_never_answered() -> None:
    found = match([conversation("delete nothing")], conversation("delete everything"))
    assert (found.step, found.exchange, found.nearest) == ("unmatched", None, 1)


def test_another_kind_of_request_is_never_answered() -> None:
    ladder = RequestMatcher((exchange(1, conversation("a")),), PLAIN, PLAIN)
    other = ladder.match(format="chat", kind="ask", method="POST", path="/v1/chat/completions", body=conversation("a"))
    assert (other.step, other.nearest) == ("unmatched", None)


def test_the_same_request_gets_one_recorded_call_after_the_other() -> None:
    ladder = RequestMatcher((exchange(1, conversation("a")), exchange(2, conversation("a"))), PLAIN, PLAIN)
    asked = {"format": "anthropic", "kind": "ask", "method": "POST", "path": "/v1/messages", "body": conversation("a")}
    assert [ladder.match(**asked).nearest for _ in range(3)] == [1, 2, 2]


# -- packing -----------------------------------------------------------------------------------------------------------

KEYS = st.sampled_from(["a", "$blob", "$after", "$is"])
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=400),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner),
    max_leaves=12,
)


@pytest.mark.slow
@settings(max_examples=60)
@given(st.lists(st.dictionaries(st.sampled_from(["messages", "tools", "system"]), values, max_size=3), max_size=4))
def test_what_was_packed_is_unpacked(bodies: list[Any]) -> None:
    blobs: dict[str, tuple[bytes, bool]] = {}

    def put(data: bytes, is_text: bool) -> str:
        name = blob_name(data, is_text=is_text)
        blobs[name] = data, is_text
        return name

    packer, unpacker = Packer(put), Unpacker(blobs.__getitem__)
    for number, body in enumerate(bodies, start=1):
        packed = json.loads(json.dumps(packer.pack(number, body)))
        assert unpacker.unpack(number, packed) == body


@pytest.mark.parametrize(
    "packed",
    [
        {"messages": {"$after": 7, "keep": 1, "then": []}},
        {"messages": {"$after": 1, "keep": "x", "then": []}},
    ],
)
def test_what_no_packer_made_is_damage(packed: Any) -> None:
    with pytest.raises(CorruptError):
        Unpacker(lambda name: (b"", True)).unpack(2, packed)


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n"])
def test_events_are_split_behind_their_blank_lines(end: bytes) -> None:
    data = b"data: a" + end + b"data: b" + end + b"data: tor"
    assert split_events(data) == [b"data: a" + end, b"data: b" + end, b"data: tor"]


# -- moving and blanking -----------------------------------------------------------------------------------------------


def test_paths_in_an_answer_are_moved_also_where_they_lie_in_several_events() -> None:
    pieces = ['{"path": "/old/pro', 'ject/file.txt", "other": "/old/projector"}']
    bodies = [{"type": "content_block_delta", "index": 0, "delta": {"partial_json": piece}} for piece in pieces]
    events = [b"data: " + json.dumps(body).encode() + b"\n\n" for body in bodies]
    moved = FolderReplacer({"cwd": "/old/project"}, {"cwd": "/new/place"}).events(events)
    text = "".join(json.loads(event[6:])["delta"]["partial_json"] for event in moved)
    assert text == '{"path": "/new/place/file.txt", "other": "/old/projector"}'
    assert len(moved) == 2


def moved_both_ways(text: str, then: dict[str, str], now: dict[str, str]) -> set[str]:
    """The text moved as a part of a whole answer, of one event of a stream, and of two events."""
    replacer = FolderReplacer(then, now)
    whole = json.loads(replacer.data(json.dumps({"content": [{"text": text}]}).encode()))["content"][0]["text"]
    found = {whole}
    for at in (0, len(text) // 2):
        bodies = [
            {"type": "content_block_delta", "index": 0, "delta": {"text": part}} for part in (text[:at], text[at:])
        ]
        events = replacer.events([b"data: " + json.dumps(body).encode() + b"\n\n" for body in bodies])
        found.add("".join(json.loads(event[6:])["delta"]["text"] for event in events))
    return found


WORKTREE = {"cwd": "/home/a/p"}, {"cwd": "/home/a/p/.worktrees/w"}
SCRATCH = {"cwd": "/home/a/p", "tmp": "/tmp"}, {"cwd": "/srv/ci/p", "tmp": "/var/scratch"}
CONTAINER = {"cwd": "/app"}, {"cwd": "/home/u/proj"}


@pytest.mark.parametrize(
    ("text", "places", "moved"),
    [
        ("/home/a/p/tmp/x.py", WORKTREE, "/home/a/p/.worktrees/w/tmp/x.py"),
        ("/home/a/p/tmp/x.py /tmp/y", SCRATCH, "/srv/ci/p/tmp/x.py /var/scratch/y"),
        ("src/app/y.py ./app ~/app ${R}/app", CONTAINER, "src/app/y.py ./app ~/app ${R}/app"),
        (
            "cc -I/app/include x=/app/y (/app) `/app`",
            CONTAINER,
            "cc -I/home/u/proj/include x=/home/u/proj/y (/home/u/proj) `/home/u/proj`",
        ),
        ("/app.py /app-2 /app. /app", CONTAINER, "/app.py /app-2 /home/u/proj. /home/u/proj"),
        (r'"a\n/app/x"', CONTAINER, r'"a\n/home/u/proj/x"'),
        ("/work/a.py", ({"cwd": "/work"}, {"cwd": "/home/u/work"}), "/home/u/work/a.py"),
        ("\x007\x00 /app", CONTAINER, "\x007\x00 /home/u/proj"),
        (f"\x00{'9' * 5000}\x00", CONTAINER, f"\x00{'9' * 5000}\x00"),
    ],
)
def test_a_folder_is_replaced_once_and_only_where_a_path_begins_and_ends(
    text: str, places: tuple[dict[str, str], dict[str, str]], moved: str
) -> None:
    assert moved_both_ways(text, *places) == {moved}


def test_half_a_character_in_an_answer_does_not_keep_its_paths_from_being_moved() -> None:
    moved = FolderReplacer({"cwd": "/old"}, {"cwd": "/new"}).data(rb'{"path": "/old/a", "text": "\ud83d"}')
    assert json.loads(moved.decode("utf-8", "surrogatepass")) == {"path": "/new/a", "text": "\ud83d"}


def test_only_harmless_headers_and_parameters_are_stored() -> None:
    kept = {"User-Agent": "claude", "Anthropic-Beta": "y"}
    headers = {"Authorization": "Bearer x", "Cookie": "a=b", "X-Api-Key": "k", **kept}
    assert request_headers(headers, Blanker()) == {"anthropic-beta": "y", "user-agent": "claude"}
    assert stored_path("/v1/x?key=AIzaSecret&alt=sse&token=t", Blanker()) == "/v1/x?alt=sse"


def test_the_credential_of_a_request_is_blanked_wherever_it_is_also_in_ids_names_and_headers() -> None:
    secret = "an-unusual-credential-0123456789"
    blanker = Blanker([secret])
    value = {"text": f"it is {secret}", "id": secret, secret: 1}
    gone = "[redacted:credential]"
    assert blanker.value(value, json.dumps(value).encode()) == {"text": f"it is {gone}", "id": gone, gone: 1}
    assert answer_headers({"Request-Id": secret}, blanker) == {"request-id": gone}
    assert answer_headers({"Content-Type": "text/plain;\r\n charset=x"}, blanker) == {
        "content-type": "text/plain; charset=x"
    }
    assert stored_path(f"/v1/{secret}/x", blanker) == f"/v1/{gone}/x"


def test_credentials_are_found_in_headers_cookies_and_the_query() -> None:
    headers = {"Authorization": "Bearer a-token-of-a-person", "Cookie": "a=1; session=a-cookie-of-a-person"}
    found = credentials(headers, "/v1/x?alt=sse-and-something-long&key=a-key-of-a-person")
    assert found == ("a-token-of-a-person", "a-cookie-of-a-person", "a-key-of-a-person")


@pytest.mark.parametrize(
    "value",
    [
        {"type": "tool_use", "id": "toolu_1", "input": {"id": TOLD, "data": TOLD, "deep": [{"signature": TOLD}]}},
        {"functionCall": {"name": "x", "args": {"id": TOLD}}},
        {"functionResponse": {"id": "1", "response": {"id": TOLD}}},
        {"error": {"data": TOLD}},
        {TOLD: "x"},
    ],
)
def test_a_key_that_a_tool_got_or_returned_is_no_id(value: Any) -> None:
    assert TOLD not in json.dumps(Blanker().value(value, json.dumps(value).encode()))


@pytest.mark.parametrize(
    "value",
    [
        {"type": "tool_use", "id": TOLD, "input": {}},
        {"type": "redacted_thinking", "data": TOLD},
        {"type": "base64", "media_type": "image/png", "data": TOLD},
        {"inlineData": {"mimeType": "image/png", "data": TOLD}},
        {"response": {"output": [{"id": TOLD, "encrypted_content": TOLD}]}},
        {"input": [{"type": "function_call_output", "call_id": TOLD}]},
        {"functionResponse": {"id": TOLD, "response": {}}},
    ],
)
def test_what_the_api_gave_out_stays_whole_whatever_it_looks_like(value: Any) -> None:
    assert Blanker().value(value, json.dumps(value).encode()) == value


def test_half_a_character_is_replaced_so_that_the_request_can_be_stored() -> None:
    data = b'{"a": "x\\ud83d y", "\\udc00": 1, "whole": "\\ud83d\\ude00"}'
    value = Blanker().value(json.loads(data), data)
    assert value == {"a": "x\ufffd y", "\ufffd": 1, "whole": "\U0001f600"}


@pytest.mark.parametrize("text", [f"caf\xe9 {TOLD}", f"\x00\xff{TOLD}"])
def test_a_body_that_is_no_utf_8_loses_its_keys_and_nothing_else(text: str) -> None:
    got = Blanker().body(text.encode("latin-1"))
    assert got == text.replace(TOLD, "[redacted:anthropic-key]").encode("latin-1")


@pytest.mark.parametrize(
    ("path", "usual"),
    [
        ("/api/v1/messages", "/v1/messages"),
        ("/openai/chat/completions", "/v1/chat/completions"),
        ("/chat/completions", "/v1/chat/completions"),
        ("/backend-api/codex/responses", "/v1/responses"),
        ("/proxy/v1beta/models/gemini-2.5-pro:generateContent", "/v1beta/models/gemini-2.5-pro:generateContent"),
        ("/v1/files", "/v1/files"),
    ],
)
def test_a_prefix_before_an_apis_path_changes_nothing(path: str, usual: str) -> None:
    assert dialects.usual_path(path) == usual


_CLAUDE = {"input_tokens": 5, "cache_creation_input_tokens": 2, "cache_read_input_tokens": 9, "output_tokens": 3}
_CHAT = {"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}
_GEMINI = {"promptTokenCount": 9, "candidatesTokenCount": 2, "thoughtsTokenCount": 3}


@pytest.mark.parametrize(
    ("format", "value", "figures"),
    [
        ("anthropic", {"usage": _CLAUDE}, (7, 3, 9)),
        ("anthropic", {"type": "message_delta", "usage": {"output_tokens": 4}}, (None, 4, None)),
        ("chat", {"usage": _CHAT}, (6, 2, 4)),
        ("responses", {"response": {"usage": {"input_tokens": 10, "output_tokens": 2}}}, (10, 2, None)),
        ("gemini", {"usageMetadata": _GEMINI}, (9, 5, None)),
        ("chat", {"usage": None}, None),
        ("gemini", {}, None),
    ],
)
def test_figures_are_read_in_each_format(format: str, value: Any, figures: Any) -> None:
    found = dialects.by_name(format).used(value)
    assert (None if found is None else (found.input_tokens, found.output_tokens, found.cached_tokens)) == figures
