"""`beam rules`: the rules that deny, ask about or allow the tool calls of an agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from beam import UsageError
from beam.cli.commands import App
from beam.cli.context import Context
from beam.cli.parameters import argument, option
from beam.cli.render.text import write_json, write_json_lines, write_line

if TYPE_CHECKING:
    from beam import Behavior

app = App("List, test, add and remove the rules of agents.")
_AGENT = argument(..., metavar="AGENT")
_ALLOW = option([], "--allow", metavar="RULE", help="A rule that allows.")
_ASK = option([], "--ask", metavar="RULE", help="A rule to ask a person.")
_DENY = option([], "--deny", metavar="RULE", help="A rule that denies.")
_BY_NOBODY = "nobody: no turn begins"


@app.verb("list")
def list_(
    call: Context,
    agent: str = _AGENT,
    as_json: bool = option(False, "--json", help="Print JSON Lines, one object per rule."),
) -> None:
    """List the rules of an agent, in the order in which they decide: deny, ask, allow."""
    from beam.cli.render.tables import print_columns

    found = call.beam.rules(agent)
    if as_json:
        write_json_lines(found)
        return
    if not found:
        call.note(f"{agent} has no rules; its access decides")
        return
    rows = [(line.decision, line.rule, line.whose, _modes_text(line.faces)) for line in found]
    print_columns(("DECISION", "RULE", "WRITTEN IN", "ENFORCED BY"), rows)


@app.verb()
def test(
    call: Context,
    agent: str = _AGENT,
    tool: str = argument(..., metavar="CALL", help="A call: 'Bash(git push)', 'Edit(src/a)'."),
    access: str | None = option(None, "--access", metavar="WORD", help="read, edit, full or ask."),
    via: str | None = option(None, "--via", metavar="MODE", help="The mode: exec, dialogue or terminal."),
    allow: list[str] = _ALLOW,
    ask: list[str] = _ASK,
    deny: list[str] = _DENY,
    as_json: bool = option(False, "--json", help="Print one JSON object."),
) -> None:
    """Show which rule decides about a call, who wrote the rule, and who enforces it. Nothing is run.

    The rules given here count as if a message had them.
    """
    from msgspec import UNSET

    from beam.cli import prompt

    rules = prompt.rule_lists(allow=allow, ask=ask, deny=deny)
    more = None if rules is UNSET else rules
    asked = prompt.parse_word("--access", access, prompt.ACCESSES)
    mode = prompt.parse_word("--via", via, prompt.MODES)
    found = call.beam.try_rules(agent, tool, access=asked, via=mode, more=more)
    if as_json:
        write_json(found)
        return
    write_line(f"{found.decision or 'no rule'}: {found.why}")
    for line in found.faces:
        mark = " (the mode of its next message)" if line.face == found.face else ""
        write_line(f"  {line.face}: enforced by {line.by or _BY_NOBODY}{f'; {line.why}' if line.why else ''}{mark}")


@app.verb()
def add(
    call: Context, agent: str = _AGENT, allow: list[str] = _ALLOW, ask: list[str] = _ASK, deny: list[str] = _DENY
) -> None:
    """Add rules to an agent's own settings (agent.json)."""
    for behavior, rule in _given_rules(allow, ask, deny):
        path = call.beam.add_rule(agent, behavior, rule)
        call.note(f"{agent}: {behavior} {rule} ({path})")


@app.verb()
def remove(
    call: Context, agent: str = _AGENT, allow: list[str] = _ALLOW, ask: list[str] = _ASK, deny: list[str] = _DENY
) -> None:
    """Remove rules from an agent's own settings (agent.json)."""
    for behavior, rule in _given_rules(allow, ask, deny):
        path = call.beam.remove_rule(agent, behavior, rule)
        call.note(f"{agent}: no longer {behavior} {rule} ({path})")


def _modes_text(faces: dict[str, str]) -> str:
    return ", ".join(f"{face}: {by or 'nobody'}" for face, by in faces.items())


def _given_rules(allow: list[str], ask: list[str], deny: list[str]) -> list[tuple[Behavior, str]]:
    found: list[tuple[Behavior, str]] = [("deny", rule) for rule in deny]
    found += [("ask", rule) for rule in ask]
    found += [("allow", rule) for rule in allow]
    if not found:
        raise UsageError("no rule is given", "give --allow, --ask or --deny with one: --deny 'Bash(git push *)'")
    return found
