"""Scenario files that beam refuses: where the mistake is, and what beam says of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Wrong:
    """A file, the line and column that beam names, and a part of what it says."""

    name: str
    text: str
    line: int
    column: int
    says: str


HEAD = "beam: 1\nsteps:\n"
SEND = "- send: a\n  prompt: x\n"


def step(name: str, text: str, line: int, column: int, says: str) -> Wrong:
    """A file whose second line begins the steps."""
    return Wrong(name, HEAD + text, line, column, says)


MALFORMED = [
    Wrong("empty", "", 1, 1, "this is no scenario"),
    Wrong("a list", "- a\n", 1, 1, "this is no scenario"),
    Wrong("a text", "hello\n", 1, 1, "this is no scenario"),
    Wrong("no version", "steps: []\n", 1, 1, "begin with `beam: 1`"),
    Wrong("another version", "beam: 2\nsteps: []\n", 1, 1, "version 2 is unknown"),
    Wrong("a version as text", 'beam: "1"\nsteps: []\n', 1, 1, "expected a whole number, got text.*without quotes"),
    Wrong("no steps", "beam: 1\n", 1, 1, "has no `steps`"),
    Wrong("no step", "beam: 1\nsteps: []\n", 2, 1, "the list is empty"),
    Wrong("steps as keys", "beam: 1\nsteps: {a: b}\n", 2, 1, "expected a list"),
    Wrong("a mistyped key", "beam: 1\nstep: []\n", 2, 1, "did you mean steps"),
    Wrong("an unknown key", "beam: 1\nfoo: 1\nsteps: []\n", 2, 1, "there are: beam"),
    Wrong("a tab", "beam: 1\nsteps:\n\t- send: a\n", 3, 1, "not tabs"),
    Wrong("a bracket left open", "beam: 1\nsteps: [\n", 3, 1, "node content|while parsing"),
    Wrong("a key twice", "beam: 1\nbeam: 1\n", 2, 1, "said twice"),
    Wrong("two documents", f"{HEAD}{SEND}---\nbeam: 1\n", 5, 1, "a second document begins here"),
    Wrong("a bad name", "beam: 1\nname: A B\nsteps: []\n", 2, 1, "not the name of a scenario"),
    Wrong("variables as a list", "beam: 1\nvariables: [a]\nsteps: []\n", 2, 1, "NAME: VALUE"),
    Wrong("a variable's bad name", "beam: 1\nvariables:\n  A-b: x\nsteps: []\n", 3, 3, "not the name of a variable"),
    Wrong("a variable that is a list", "beam: 1\nvariables:\n  a: [1]\nsteps: []\n", 3, 3, "expected text"),
    Wrong("a variable without a value", f"beam: 1\nvariables:\n  a:\nsteps:\n{SEND}", 3, 3, "--set a=VALUE"),
    Wrong("agents as a text", "beam: 1\nagents: claude\nsteps: []\n", 2, 1, "expected names and values"),
    Wrong("an agent's bad name", "beam: 1\nagents: {A: {adapter: x}}\nsteps: []\n", 2, 10, "not an agent's name"),
    Wrong("an agent's unknown key", "beam: 1\nagents:\n  a: {modle: x}\nsteps: []\n", 3, 7, "did you mean model"),
    Wrong("an agent without settings", "beam: 1\nagents:\n  a:\nsteps: []\n", 3, 3, "an agent's settings"),
    Wrong("limits as a number", "beam: 1\nlimits: 3\nsteps: []\n", 2, 1, "expected keys and values"),
    Wrong("a limit below nothing", "beam: 1\nlimits: {cost_usd: -1}\nsteps: []\n", 2, 10, "out of range"),
    Wrong("a limit as text", "beam: 1\nlimits: {tokens: many}\nsteps: []\n", 2, 10, "expected a whole number"),
    Wrong("an unknown word to allow", "beam: 1\nallow: [deneid]\nsteps: []\n", 2, 9, "did you mean denied"),
    Wrong("a repeat without times", "beam: 1\nrepeat: {pass_rate: 1}\nsteps: []\n", 2, 1, "has no `times`"),
    Wrong("a pass rate above one", "beam: 1\nrepeat: {times: 2, pass_rate: 2}\nsteps: []\n", 2, 20, "out of range"),
    Wrong("a work tree as a number", "beam: 1\nworktree: 1\nsteps: []\n", 2, 1, "expected true"),
    Wrong("a work tree's unknown key", "beam: 1\nworktree: {kept: true}\nsteps: []\n", 2, 12, "did you mean keep"),
    step("a step as text", "- hello\n", 3, 3, "expected step|begins with one of"),
    step("an empty step", "- {}\n", 3, 3, "is empty"),
    step("a step of no kind", "- sned: a\n", 3, 3, "did you mean send"),
    step("a step of two kinds", "- send: a\n  run: x\n", 4, 3, "make two of it"),
    step("a send without a prompt", "- send: a\n", 3, 3, "has no `prompt`"),
    step("a mistyped key of a step", "- send: a\n  promt: x\n", 4, 3, "did you mean prompt"),
    step("an empty prompt", "- send: a\n  prompt: ''\n", 4, 3, "is empty"),
    step("a number as a prompt", "- send: a\n  prompt: 3\n", 4, 3, "in quotes"),
    step("a truth as a prompt", "- send: a\n  prompt: yes\n", 4, 3, "in quotes"),
    step("no part of a prompt", "- send: a\n  prompt: [{}]\n", 4, 12, "has none of its keys"),
    step("two parts in one", "- send: a\n  prompt: [{text: x, reply: y}]\n", 4, 22, "exactly one of"),
    step("an unknown part", "- send: a\n  prompt: [{txt: x}]\n", 4, 13, "did you mean text"),
    step("a file that is not there", "- send: a\n  prompt: {file: no.md}\n", 4, 12, "there is no file no.md"),
    step("a reply of nobody", f"{SEND}- send: a\n  prompt: {{reply: pln}}\n", 6, 12, "give an earlier step an `id:`"),
    step("a reply of a later step", "- send: a\n  prompt: {reply: later}\n- send: a\n  id: later\n  prompt: x\n", 4, 12, "no step before"),
    step("an unknown variable", "- send: a\n  prompt: {template: '${x}'}\n", 4, 12, "declare it"),
    step("no variable's name", "- send: a\n  prompt: {template: '${X Y}'}\n", 4, 12, "no variable"),
    step("an agent's session", "- send: claude@docs\n  prompt: x\n", 3, 3, "not an agent's name"),
    step("an agent twice", "- send: [a, a]\n  prompt: x\n", 3, 13, "named twice"),
    step("no agent", "- send: []\n  prompt: x\n", 3, 3, "the list is empty"),
    step("two steps of one name", "- send: a\n  id: x\n  prompt: x\n- send: a\n  id: x\n  prompt: x\n", 7, 3, "another step is called"),
    step("a bad id", "- send: a\n  id: 1x\n  prompt: x\n", 4, 3, "not the name of a step"),
    step("an unknown access", "- send: a\n  prompt: x\n  access: write\n", 5, 3, "not one of read"),
    step("a timeout of no time", "- send: a\n  prompt: x\n  timeout: soon\n", 5, 3, "not a duration"),
    step("a budget of nothing", "- send: a\n  prompt: x\n  budget_usd: 0\n", 5, 3, "out of range"),
    step("a timeout of nothing", "- send: a\n  prompt: x\n  timeout: 0\n", 5, 3, "out of range"),
    step("an unknown check", "- send: a\n  prompt: x\n  expect: {contain: y}\n", 5, 12, "did you mean contains"),
    step("checks as text", "- send: a\n  prompt: x\n  expect: good\n", 5, 3, "expected keys and values"),
    step("a pattern without end", "- send: a\n  prompt: x\n  expect: {regex: '(a+)+Z$'}\n", 5, 12, "takes too long"),
    step("a bad pattern", "- send: a\n  prompt: x\n  expect: {regex: '['}\n", 5, 12, "not a regular expression"),
    step("a bad schema", "- send: a\n  prompt: x\n  expect: {schema: {type: texts}}\n", 5, 12, "not a JSON Schema"),
    step("a schema with a reference to nothing", "- send: a\n  prompt: x\n  expect: {schema: {$ref: '#/$defs/no'}}\n", 5, 12, "not a JSON Schema: '#/\\$defs/no'"),
    step("a schema that is elsewhere", "- send: a\n  prompt: x\n  schema: {items: {$ref: 'http://127.0.0.1:8799/s.json'}}\n", 5, 3, "is no place in it.*fetched"),
    step("a schema with a reference to no schema", "- send: a\n  prompt: x\n  schema: {type: [string], $ref: '#/type/0'}\n", 5, 3, "not a JSON Schema"),
    step("a schema with a part of another draft", "- send: a\n  prompt: x\n  schema: {not: {$schema: 'http://json-schema.org/draft-04/schema#', id: 3}}\n", 5, 3, "not a JSON Schema: a part"),
    step("a bad status", "- send: a\n  prompt: x\n  expect: {status: complete}\n", 5, 12, "did you mean completed"),
    step("an exit code above all", "- run: x\n  expect: {exit_code: 256}\n", 4, 12, "out of range"),
    step("a sequence of one word", "- send: a\n  prompt: x\n  expect: {tool_sequence: Bash}\n", 5, 12, "expected a list"),
    step("arguments of no tool", "- send: a\n  prompt: x\n  expect: {tool_args: {args: {a: b}}}\n", 5, 12, "has no `tool`"),
    step("a judge without a rubric", "- send: a\n  prompt: x\n  expect: {judge: {agent: b}}\n", 5, 12, "has no `rubric`"),
    step("a score above ten", "- send: a\n  prompt: x\n- judge: b\n  rubric: x\n  score: 11\n", 7, 3, "out of range"),
    step("a judge of nothing", "- judge: b\n  rubric: x\n", 3, 3, "name one: `of: STEP`"),
    step("a check of nothing", "- check: {file_absent: x, not_contains: x}\n", 3, 3, "no step before it.*`of: STEP`"),
    step("a check of a step beside it", "- parallel:\n  - run: x\n  - check: {exit_code: 0}\n", 5, 5, "no step before it"),
    step("a judge of a check", f"{SEND}- check: {{contains: x}}\n  id: c\n- judge: b\n  of: c\n  rubric: x\n", 8, 3, "says nothing"),
    step("a chat of one", "- chat: [a]\n  prompt: x\n", 3, 3, "needs two agents"),
    step("a chat of a text", "- chat: a\n  prompt: x\n", 3, 3, "expected a list"),
    step("an unknown order", "- chat: [a, b]\n  prompt: x\n  order: round\n", 5, 3, "did you mean|not one of round_robin"),
    step("a moderator without the order", "- chat: [a, b]\n  prompt: x\n  moderator: c\n", 5, 3, "go together"),
    step("a moderator who takes part", "- chat: [a, b]\n  prompt: x\n  order: moderator\n  moderator: a\n", 6, 3, "takes part itself"),
    step(
        "a check that always holds while a chat goes on",
        "- chat: [a, b]\n  prompt: x\n  until: {check: {exit_code: 0}}\n", 5, 19, "unknown key",
    ),
    step(
        "another such check", "- chat: [a, b]\n  prompt: x\n  until: {check: {time: 9s}}\n", 5, 19, "unknown key",
    ),
    step("an end of a chat that is none", "- chat: [a, b]\n  prompt: x\n  until: {turn: 3}\n", 5, 11, "did you mean turns"),
    step("no command", "- run: []\n", 3, 3, "the list is empty"),
    step("a number in a command", "- run: [sleep, 3]\n", 3, 16, "in quotes"),
    step("a parallel step in another", "- parallel:\n  - parallel:\n    - send: a\n      prompt: x\n", 3, 3, "inside of one"),
    step("parallel steps that know each other", "- parallel:\n  - send: a\n    id: x\n    prompt: x\n  - send: b\n    prompt: {reply: x}\n", 8, 14, "no step before"),
    step("a context of nobody", "- send: a\n  prompt: x\n  context: full\n", 5, 3, "means nothing without `context_from`"),
    step("an unknown context", f"{SEND}- send: b\n  prompt: x\n  context_from: a\n  context: ful\n", 8, 3, "did you mean full"),
    step("a context of an agent that takes no part", "- send: b\n  prompt: x\n  context_from: a\n", 5, 3, "put a step before it"),
    step("a context of a mistyped agent", "- send: boss\n  prompt: x\n- send: b\n  prompt: x\n  context_from: bos\n", 7, 3, "did you mean boss"),
    step("a context of the agent itself", f"{SEND}- send: a\n  prompt: x\n  context_from: a\n", 7, 3, "knows what it did itself"),
    step("a context of one at the same time", "- parallel:\n  - send: a\n    prompt: x\n  - send: b\n    prompt: x\n    context_from: a\n", 8, 5, "in no step before"),
    step("a context for a chat", f"{SEND}- chat: [b, c]\n  prompt: x\n  context_from: a\n", 7, 3, "unknown key"),
    step("a NUL", '- send: a\n  prompt: "a\\0b"\n', 4, 3, "NUL"),
]  # fmt: skip

# What depends on other parts of the file, on files, or on what a pattern means.
ONLY_BEAM = frozenset(
    {
        "a variable without a value",
        "a file that is not there",
        "a reply of nobody",
        "a reply of a later step",
        "an unknown variable",
        "no variable's name",
        "an agent twice",
        "two steps of one name",
        "a bad pattern",
        "a pattern without end",
        "a bad schema",
        "a schema with a reference to nothing",
        "a schema that is elsewhere",
        "a schema with a reference to no schema",
        "a schema with a part of another draft",
        "a check of nothing",
        "a check of a step beside it",
        "a judge of nothing",
        "a judge of a check",
        "a chat of one",
        "a moderator without the order",
        "a moderator who takes part",
        "a parallel step in another",
        "parallel steps that know each other",
        "a NUL",
        "a context of an agent that takes no part",
        "a context of a mistyped agent",
        "a context of the agent itself",
        "a context of one at the same time",
    }
)
