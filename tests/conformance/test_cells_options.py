"""What a message may ask beside its text: a schema, files, limits."""

from __future__ import annotations

import base64
import json

from tests.conformance.cases import case, refused
from tests.conformance.subject import Subject

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}


def _schema(subject: Subject) -> str:
    path = subject.cli.project / "schema.json"
    path.write_text(json.dumps(SCHEMA))
    return str(path)


@case("schema", "schema", otherwise=lambda subject: refused("--schema", _schema(subject))(subject))
def test_schema(subject: Subject) -> str:
    outcome = subject.send(subject.data.structured, "--new", "--schema", _schema(subject)).json
    assert (outcome["status"], outcome["structured"]) == ("completed", {"n": 3}), outcome
    assert '"n"' in subject.last_request()
    return "the model was sent the schema, and the outcome has `structured`"


def _image(subject: Subject) -> str:
    path = subject.cli.project / "a pixel.png"
    path.write_bytes(base64.b64decode(PIXEL))
    return str(path)


@case("image", "attach", otherwise=lambda subject: refused("--attach", _image(subject))(subject))
def test_image(subject: Subject) -> str:
    outcome = subject.send("what is in it?", "--new", "--attach", _image(subject)).json
    assert outcome["status"] == "completed", outcome
    assert PIXEL[:24] in subject.last_request()
    return "the model was sent the picture with the prompt"


def _look(subject: Subject) -> str:
    assert subject.data.look
    note = subject.cli.project / "note.txt"
    note.write_text("the text of the note\n")
    return subject.data.look.prompt(path=str(note))


@case("limit of model calls", "max_turns", otherwise=refused("--max-turns", "1"))
def test_max_turns(subject: Subject) -> str:
    done = subject.send(_look(subject), "--new", "--max-turns", "1")
    assert (done.code, done.json["status"]) == (7, "limit"), done
    return f"limit (exit code 7): {done.json['reason']}"


@case("limit of cost", "budget", otherwise=refused("--budget", "1"), by_proxy=True)
def test_budget(subject: Subject) -> str:
    done = subject.send(_look(subject) if subject.data.look else "hello", "--new", "--budget", "0.0001")
    assert (done.code, done.json["status"]) == (7, "limit"), done
    return f"limit (exit code 7): {done.json['reason']}"
