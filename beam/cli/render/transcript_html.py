"""A conversation as one HTML file without scripts. The page loads nothing, all texts are escaped, and the details of
tool calls can be unfolded."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from html import escape

from beam import transcripts
from beam.cli.render import transcript_text as words
from beam.cli.render.text import escape_controls

_FENCE = re.compile(r"^(`{3,}|~{3,})[^\n]*\n(.*?)(?:^\1[`~]*[ \t]*$\n?|\Z)", re.MULTILINE | re.DOTALL)
_STYLE = """
:root{color-scheme:light dark;--line:#8884;--soft:#8881;--bad:#c33}
body{font:16px/1.5 system-ui,sans-serif;max-width:52rem;margin:0 auto;padding:1rem;overflow-wrap:anywhere}
h1{font-size:1.4rem}h2{font-size:1.1rem;margin:2rem 0 0;border-top:1px solid var(--line);padding-top:1rem}
.about,.ended{color:#888;font-size:.85rem;margin:.2rem 0}
.bad{color:var(--bad)}
.text,.prompt,.thinking{white-space:pre-wrap;margin:.7rem 0}
.prompt{background:var(--soft);border-radius:.5rem;padding:.6rem .8rem}
.thinking{color:#888;font-style:italic}
.sub{margin-left:1.2rem;border-left:2px solid var(--line);padding-left:.8rem}
pre{font:.85rem/1.4 ui-monospace,monospace;white-space:pre-wrap;background:var(--soft)}
pre{border-radius:.4rem;padding:.5rem .7rem;margin:.4rem 0}
summary,.line{font:.85rem/1.4 ui-monospace,monospace;cursor:pointer;color:#777;margin:.3rem 0}
.line{cursor:default}
@media print{body{max-width:none}h2{break-after:avoid}}
"""
_STYLE_DIGEST = b64encode(sha256(_STYLE.encode()).digest()).decode()
_POLICY = f"default-src 'none'; style-src 'sha256-{_STYLE_DIGEST}'; base-uri 'none'; form-action 'none'"


def html(found: transcripts.Transcript) -> str:
    """Return the HTML page. No text of an agent or a person acts as markup in it."""
    return "".join(_page(found))


def _page(found: transcripts.Transcript) -> Iterator[str]:
    name = _escaped(found.agent)
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    yield f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield f'<meta name="referrer" content="no-referrer">\n<title>{name}</title>\n<style>{_STYLE}</style>\n</head>\n'
    yield f"<body>\n<h1>{name}</h1>\n"
    for place, turn in enumerate(found.turns, 1):
        yield f'<h2 id="t{place}">{_escaped(words.title(turn))}</h2>\n'
        yield f'<p class="about">{_escaped(words.turn_line(turn))}</p>\n'
        if turn.prompt:
            yield f'<div class="prompt">{_escaped(turn.prompt)}</div>\n'
        for item in words.items(turn):
            yield _item(item)
        if ended := words.end_line(turn):
            bad = " bad" if turn.exit_code else ""
            yield f'<p class="ended{bad}">{_escaped(ended)}</p>\n'
    yield "</body>\n</html>\n"


def _item(item: transcripts.Item) -> str:
    if item.kind == "text":
        body = f'<div class="text">{"".join(_with_code(item.text))}</div>'
    elif item.kind == "thinking":
        body = f'<details><summary>thinking</summary><div class="thinking">{_escaped(item.text)}</div></details>'
    elif item.kind == "plan":
        body = f"<pre>{_escaped(item.text)}</pre>"
    else:
        line, bad = _escaped(words.summary(item)), ' class="bad"' if item.is_error else ""
        shown = "".join(f"<pre>{_escaped(text)}</pre>" for text in words.details(item))
        body = (
            f"<details><summary{bad}>{line}</summary>{shown}</details>" if shown else f'<div class="line">{line}</div>'
        )
    return (f'<div class="sub">{body}</div>' if item.parent else body) + "\n"


def _with_code(text: str) -> Iterator[str]:
    """Yield the text as HTML, with its fenced code blocks as `<pre>` elements."""
    text, at = text.strip("\n"), 0
    for block in _FENCE.finditer(text):
        yield _escaped(text[at : block.start()].rstrip("\n"))
        yield f"<pre>{_escaped(block[2].rstrip())}</pre>"
        at = block.end()
    yield _escaped(text[at:])


def _escaped(text: str) -> str:
    return escape(escape_controls(text))
