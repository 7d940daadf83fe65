"""Rules about calls of tools, as settings, flags and messages carry them: lists of texts. The meaning of a text is
defined in `beam.rules`."""

from msgspec import Struct


class RuleLists(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Three lists of rules about tool calls: which calls are denied, asked about, and allowed. A rule is a text like
    `Bash(git log *)`, `Edit(src/**)` or `Read` (docs/access.md)."""

    deny: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()

    def plus(self, other: "RuleLists") -> "RuleLists":
        """Return the rules of both, without duplicates."""
        return RuleLists(
            deny=tuple(dict.fromkeys((*self.deny, *other.deny))),
            ask=tuple(dict.fromkeys((*self.ask, *other.ask))),
            allow=tuple(dict.fromkeys((*self.allow, *other.allow))),
        )
