"""A prompt arrives at the model verbatim, whatever its beginning and content."""

from __future__ import annotations

from beam.testing.conformance.cells import cell, refused
from beam.testing.conformance.subject import Subject

DASH = "-x --help 'single' \"double\" `ticks` $HOME \\n <b>é</b>"
SLASH = "/help me\n\n  indented\n- 漢字 🙂\n/clear\nnobody, the end"
MENTIONS = "mail to a@b.example\n@nobody, the end:\n\n@first\n@second\n    def go(): ...  # @here"
LARGE = "word " * 40_000 + "!say ok"


def check_arrival(subject: Subject, text: str) -> str:
    """Check that the model's request contains the whole text. Return the evidence, which describes the text around
    it."""
    done = subject.run_once(text, lambda: subject.send(text, "--new"))
    assert (done.code, done.json["status"]) == (0, "completed"), done
    found = [prompt for prompt in subject.model.prompts() if text in prompt]
    assert found, subject.model.prompts()
    shortest = min(found, key=len)
    before, _, after = shortest.partition(text)
    if not before and not after:
        return "verbatim"
    if not before.strip() and not after.strip():
        return f"verbatim, between {before!r} and {after!r}"
    return f"verbatim, with {len(before)} characters of the CLI's own before it and {len(after)} after it"


@cell("a prompt that begins with -")
def prompt_with_a_dash(subject: Subject) -> str:
    return check_arrival(subject, DASH)


@cell("a prompt that begins with /")
def prompt_with_a_slash(subject: Subject) -> str:
    return check_arrival(subject, SLASH)


@cell("a prompt with quotes and $")
def prompt_with_quotes(subject: Subject) -> str:
    return check_arrival(subject, DASH)


@cell("a prompt of many lines")
def prompt_of_many_lines(subject: Subject) -> str:
    return check_arrival(subject, SLASH)


def _only_blanks_changed(subject: Subject) -> str:
    """Check that only blanks of the prompt changed, and that a notice of the turn says so. Return the evidence."""
    done = subject.send(MENTIONS, "--new")
    assert (done.code, done.json["status"]) == (0, "completed"), done
    assert "".join(MENTIONS.split()) in "".join("".join(subject.model.prompts()).split())
    (notice,) = [event for event in subject.events("notice", done.json["turn"]) if event["code"] == "prompt_changed"]
    return f"it arrives with other blanks, and a notice says so: {notice['text']}"


@cell("a prompt with @", "not rewrites", otherwise=_only_blanks_changed)
def prompt_with_mentions(subject: Subject) -> str:
    return check_arrival(subject, MENTIONS)


@cell("a prompt of 200 kB", "not prompt_in_argv", otherwise=refused(text=LARGE))
def prompt_of_200_kilobytes(subject: Subject) -> str:
    return check_arrival(subject, LARGE)
