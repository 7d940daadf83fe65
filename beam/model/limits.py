"""Every limit of beam, in one table. Sizes are in bytes, times in seconds."""

import msgspec

MIB = 1024 * 1024
KIB = 1024


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits that beam enforces when a message is put into a queue and during its turn, however beam was called.

    Each limit can be set under `limits:` in `beam.yaml`.
    """

    text_bytes: int = MIB
    argv_text_bytes: int = 120 * KIB  # one argument on Linux holds 128 KiB, its NUL included
    waiting: int = 100
    hops: int = 20
    replies: int = 1  # successive answers to one message between agents: an answer, then the answer to it, and so on
    sends: int = 100  # requests of one turn: messages, replies, interrupts and denials
    timeout: float = 30 * 60.0
    idle_timeout: float = 10 * 60.0
    ask_timeout: float = 10 * 60.0
    grace: float = 5.0
    lease: float = 10 * 60.0
    keep: float = 15 * 60.0  # how long an agent's process stays without a turn, if it is kept at all
    kept: int = 8  # processes that a broker keeps between turns; of more than these, the least recently used ends
    line_bytes: int = 64 * MIB  # one line of an agent's output; the rest of a longer one is dropped, with a notice
    stderr_lines: int = 500
    segment_bytes: int = 4 * MIB
    known_ids_days: int = 30
    deltas_per_second: int = 20
    deaths_before_prompt: int = 3
    start_attempts: int = 10  # of one message, while the system has no room to start its agent


DEFAULT = Limits()
