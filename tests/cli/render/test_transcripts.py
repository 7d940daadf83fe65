"""A conversation as Markdown and as HTML: what is shown, and that no text in it is taken for the page's own."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam.cli.render.transcript_html import html
from beam.cli.render.transcript_md import markdown
from beam.model.transcript import Item, Transcript, TurnRecord

HOSTILE = "</details></pre><script>alert(1)</script>\n## Turn 9\n```\n\x1b[31mred\u202e</style><img src=x onerror=y>"
TAGS = {"html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "div", "details", "summary", "pre"}
ITEMS = st.builds(
    Item,
    kind=st.sampled_from(["text", "thinking", "tool", "file", "plan", "ask", "note"]),
    ts=st.just(""),
    text=st.text(),
    name=st.text(),
    input=st.text(),
    is_error=st.booleans(),
    is_open=st.booleans(),
    parent=st.none() | st.text(),
)


def page(*items: Item, prompt: str = "Do it.", reply: str | None = None) -> Transcript:
    turn = TurnRecord(
        number=1,
        begin="2026-03-01T10:00:00.000000Z",
        sender="human",
        prompt=prompt,
        adapter="claude",
        items=items,
        status="completed",
        reply=reply,
        duration_s=2.0,
    )
    return Transcript(agent="claude", turns=(turn,))


class Elements(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.open: list[str] = []
        self.shown = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.shown += data


def everywhere(text: str) -> Transcript:
    kinds = ("text", "thinking", "tool", "file", "plan", "ask", "note")
    items = (Item(kind=kind, ts="", text=text, name=text, input=text) for kind in kinds)
    return page(*items, prompt=text, reply=text)


def test_hostile_text_is_shown_in_html_and_is_no_part_of_the_page() -> None:
    found = Elements(html(everywhere(HOSTILE)))
    assert set(found.tags) <= TAGS
    assert found.open == []
    assert found.attributes <= {"lang", "charset", "http-equiv", "content", "name", "class", "id"}
    assert "<script>alert(1)</script>" in found.shown
    assert not set("\x1b\u202e") & set(found.shown)


@pytest.mark.slow
@given(st.lists(ITEMS, max_size=4), st.text())
def test_any_text_is_shown_in_html_and_is_no_part_of_the_page(items: list[Item], prompt: str) -> None:
    found = Elements(html(page(*items, prompt=prompt)))
    assert set(found.tags) <= TAGS
    assert found.open == []


def test_the_html_page_may_load_and_run_nothing() -> None:
    text = html(page(Item(kind="text", ts="", text="hi")))
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy.startswith("default-src &#x27;none&#x27;; style-src &#x27;sha256-")
    assert "unsafe" not in policy
    assert "<script" not in text


def test_the_policy_allows_the_style_of_the_page() -> None:
    from base64 import b64encode
    from hashlib import sha256

    text = html(page())
    style = text.partition("<style>")[2].partition("</style>")[0]
    assert b64encode(sha256(style.encode()).digest()).decode() in text.partition("<style>")[0]


def test_a_tool_folds_with_its_input_and_output_and_code_in_an_answer_is_code() -> None:
    text = html(
        page(
            Item(kind="tool", ts="", name="Bash", input='{"command":"make"}', text="ok"),
            Item(kind="text", ts="", text="Use:\n```sh\nmake < in\n```\nthen go."),
        )
    )
    tool = "<details><summary>Bash {&quot;command&quot;:&quot;make&quot;}</summary>"
    assert f"{tool}<pre>{{&quot;command&quot;:&quot;make&quot;}}</pre><pre>ok</pre></details>" in text
    assert '<div class="text">Use:<pre>make &lt; in</pre>then go.</div>' in text


def _outside_of_quotes_and_code(text: str) -> list[str]:
    lines, fence = [], ""
    for line in text.split("\n"):
        ticks = re.match("`{3,}", line)
        if fence:
            fence = "" if line == fence else fence
        elif ticks:
            fence = ticks[0]
        elif not line.startswith(">"):
            lines.append(line)
    assert not fence, "a block of code is not closed"
    return lines


def test_hostile_text_in_markdown_makes_no_heading_and_closes_no_block() -> None:
    lines = _outside_of_quotes_and_code(markdown(everywhere(HOSTILE)))
    assert [line for line in lines if line.startswith("#")] == ["# claude", "## Turn 1"]
    assert [line for line in lines if "script" in line and "<script" in line] == []
    assert sum("<details>" in line for line in lines) == sum(line == "</details>" for line in lines) == 2


@pytest.mark.slow
@given(st.lists(ITEMS, max_size=4), st.text())
def test_any_text_in_markdown_makes_no_heading(items: list[Item], prompt: str) -> None:
    lines = _outside_of_quotes_and_code(markdown(page(*items, prompt=prompt)))
    assert [line for line in lines if line.startswith("#")] == ["# claude", "## Turn 1"]


def test_markdown_quotes_what_was_said_and_ends_with_the_outcome() -> None:
    assert markdown(page(Item(kind="text", ts="", text="Two\nlines."), reply="Two\nlines.")) == (
        "# claude\n\n## Turn 1\n\n2026-03-01 10:00:00 UTC · from human · claude\n\n"
        "**Prompt**\n\n> Do it.\n\n**Answer**\n\n> Two\n> lines.\n\n*completed · 2s*\n"
    )


def test_a_reply_that_no_text_says_is_shown_and_one_that_is_said_is_not_repeated() -> None:
    assert markdown(page(reply="Only here.")).count("Only here.") == 1
    assert markdown(page(Item(kind="text", ts="", text="Only here."), reply="Only here.")).count("Only here.") == 1


def test_of_a_plan_that_changed_only_the_last_is_shown() -> None:
    text = markdown(page(Item(kind="plan", ts="", text="[ ] a"), Item(kind="plan", ts="", text="[x] a")))
    assert "[x] a" in text
    assert "[ ] a" not in text


def test_what_a_subagent_said_is_marked() -> None:
    item = Item(kind="text", ts="", text="From below.", parent="call")
    assert "**Answer** (subagent)" in markdown(page(item))
    assert '<div class="sub"><div class="text">From below.</div></div>' in html(page(item))
