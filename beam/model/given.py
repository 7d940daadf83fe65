"""A message that a person or a program wrote as a JSON object, with the fields of a message file.

Such an object says who speaks to whom, what, and under which key. Whatever else a message has, beam knows itself.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct, field

from beam.base.errors import UsageError
from beam.model.message import Message, Payload, SessionContext

TYPES = ("message", "inject")
_NESTED = {"payload": Payload, "session_context": SessionContext}
_FIELDS = {each.encode_name for each in msgspec.structs.fields(Message)}
_HINT = 'at least {"payload": {"text": "…"}}; docs/files.md has the fields'


class GivenMessage(Struct, frozen=True, kw_only=True):
    """A message as an object. Everything but the text may be missing. `id` is the sender's own name for the message: it
    is the message's key, unless the object has a `key`."""

    payload: Payload
    to: str | None = None
    sender: str | None = field(name="from", default=None)
    type: str = "message"
    id: str | None = None
    key: str | None = None
    session_context: SessionContext = SessionContext()
    reply: str | None = None
    replies: int | None = None
    deadline: str | None = None
    options: dict[str, Raw] = {}

    @property
    def own_key(self) -> str | None:
        return self.id if self.key is None else self.key


def decode_given(data: bytes | str) -> GivenMessage:
    """Return the message in the text of a JSON object. Raises UsageError with the reason if this is none, or if it says
    what only the sender's command may say."""
    try:
        given = _decoder.decode(data)
        unknown_fields(data).decode()  # they are kept as they are, so they must be UTF-8, too
    except (ValueError, RecursionError) as error:
        raise UsageError(f"not a message: {error}", _HINT) from error
    if given.type not in TYPES:
        raise UsageError(
            f"there is no type of message {given.type[:80]!r}",
            f"the types are {', '.join(TYPES)}; an answer is sent with beam reply ID TEXT",
            subject=given.type[:80],
        )
    named = next((name for name, value in given.options.items() if bytes(value) not in (b"null", b"false")), None)
    if named is not None:
        raise UsageError(
            f"a message as an object has no options of its turn, and this one has `{named[:80]}`",
            f"what a turn may do is said by the command: --{named[:80].removesuffix('_usd').replace('_', '-')}",
        )
    return given


def unknown_fields(data: bytes | str) -> bytes:
    """Return the JSON object with only those fields that beam does not know, also in its nested objects."""
    fields = _raw.decode(data)
    found: dict[str, object] = {name: value for name, value in fields.items() if name not in _FIELDS}
    for name, kind in _NESTED.items():
        if name in fields and bytes(fields[name])[:1] == b"{":
            nested = _raw.decode(fields[name])
            found[name] = {key: value for key, value in nested.items() if key not in kind.__struct_fields__}
    return msgspec.json.encode(found)


_decoder: msgspec.json.Decoder[GivenMessage] = msgspec.json.Decoder(GivenMessage)
_raw: msgspec.json.Decoder[dict[str, Raw]] = msgspec.json.Decoder(dict[str, Raw])
