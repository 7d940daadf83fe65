"""Directives: words in a prompt that say what the scripted model answers, so that a test needs no script file.

A directive is `!word` at the beginning of the prompt or after white space. Other words stay plain text.
Without a directive, the answer is the echo, `ECHO[prompt] turns=1`.

    !say TEXT              this text (to the end of the line) in place of the echo
    !think TEXT            a thinking block first (to the end of the line)
    !tool NAME {JSON}      a tool call; several are parallel calls; the next answer is RESULT[tool results] turns=1
    !then                  the directives after it answer the results of the tools before it
    !error STATUS [TIMES]  an API error, for this prompt's first TIMES requests (without TIMES: each)
    !error-mid             an error event in the middle of the stream
    !stall [SECONDS]       no byte of the answer for SECONDS, or until the client leaves
    !stall-mid [SECONDS]   no more bytes from the middle of the answer, as long as for !stall
    !drop, !drop-mid       the connection is cut before the first byte, or in the middle
    !refuse                the model refuses
    !max_tokens [TIMES]    the answer is cut off by its token limit; TIMES as for !error
    !empty                 an answer without any content
    !malformed             broken JSON in the middle of the answer
    !slow SECONDS          the text takes SECONDS
    !usage IN OUT          token figures
"""

from __future__ import annotations

import json
import re
from typing import Any

from msgspec import structs

from beam.proxy.wire.values import Answer, Error, Figures, ModelRequest, Tool
from beam.testing.fake_model.script import ECHO, RESULT, expand

_WORD = re.compile(
    r"(?:(?<=\s)|\A)!(say|think|tool|then|error-mid|error|stall-mid|stall|drop-mid|drop|refuse|max_tokens|empty|malformed"
    r"|slow|usage)(?![\w-])[ \t]*"
)
_LINE = re.compile(r"[^\n]*")
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)(?!\S)[ \t]*")
_NAME = re.compile(r"(\S+)[ \t]*")
_SLOW_PIECES = 10


def answer(asked: ModelRequest, *, before: int) -> Answer:
    """Return the answer that the prompt's directives ask for. `before` is the number of earlier requests with the same
    prompt and turn.

    If the arguments of a directive can't be parsed, the answer is an API error 400 that says so.
    """
    try:
        steps = _steps(asked, before)
    except ValueError as error:
        return Answer(error=Error(status=400, message=f"bad directive: {error}"))
    result = steps.pop()
    while steps:
        result = structs.replace(steps.pop(), then=result)
    return result


def _steps(asked: ModelRequest, before: int) -> list[Answer]:
    steps: list[dict[str, Any]] = [{}]
    text, position = asked.prompt, 0
    while found := _WORD.search(text, position):
        step, word, position = steps[-1], found[1], found.end()
        match word:
            case "say" | "think":
                rest = _LINE.match(text, position)
                assert rest
                step["text" if word == "say" else "thinking"], position = rest[0].strip(), rest.end()
            case "tool":
                tool, position = _tool(text, position)
                step["tools"] = (*step.get("tools", ()), tool)
            case "then":
                if "tools" not in step:
                    raise ValueError("!then needs a !tool before it")
                steps.append({})
            case "error":
                numbers, position = _numbers(text, position, 2)
                if not numbers or not 400 <= numbers[0] <= 599:
                    raise ValueError("!error needs a status of 400 to 599")
                if len(numbers) < 2 or before < numbers[1]:
                    step["error"] = Error(status=int(numbers[0]), message=f"scripted error {int(numbers[0])}")
            case "error-mid":
                step |= {"error": Error(status=529, message="scripted error in the stream"), "at": "middle"}
            case "stall" | "stall-mid":
                numbers, position = _numbers(text, position, 1)
                step |= {"stall": numbers[0] if numbers else True, "at": "middle" if word == "stall-mid" else "start"}
            case "drop" | "drop-mid":
                step |= {"drop": True, "at": "middle" if word == "drop-mid" else "start"}
            case "refuse":
                step["stop"] = "refusal"
            case "max_tokens":
                numbers, position = _numbers(text, position, 1)
                if not numbers or before < numbers[0]:
                    step["stop"] = "max_tokens"
            case "empty":
                step["text"] = ""
            case "malformed":
                step["malformed"] = True
            case "slow":
                numbers, position = _numbers(text, position, 1)
                if not numbers:
                    raise ValueError("!slow needs seconds")
                step["slow"] = numbers[0]
            case "usage":
                numbers, position = _numbers(text, position, 2)
                if len(numbers) < 2:
                    raise ValueError("!usage needs two numbers")
                step["usage"] = Figures(input_tokens=int(numbers[0]), output_tokens=int(numbers[1]))
    if "tools" in steps[-1]:
        steps.append({"text": RESULT})
    return [_answer(step, asked) for step in steps]


def _answer(step: dict[str, Any], asked: ModelRequest) -> Answer:
    slow = step.pop("slow", None)
    if slow is not None:
        length = len(expand(step.get("text", ECHO), asked))
        chunk = -(-length // _SLOW_PIECES) or 1
        step |= {"chunk": chunk, "delay": slow / max(1, -(-length // chunk))}
    return Answer(**step)


def _numbers(text: str, position: int, most: int) -> tuple[list[float], int]:
    numbers: list[float] = []
    while len(numbers) < most and (found := _NUMBER.match(text, position)):
        numbers.append(float(found[1]))
        position = found.end()
    return numbers, position


def _tool(text: str, position: int) -> tuple[Tool, int]:
    name = _NAME.match(text, position)
    if name is None:
        raise ValueError("!tool needs a name and a JSON object")
    try:
        value, end = json.JSONDecoder().raw_decode(text, name.end())
    except json.JSONDecodeError as error:
        raise ValueError(f"!tool {name[1]} needs a JSON object: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"!tool {name[1]} needs a JSON object")  # noqa: TRY004 - one kind of error: a bad directive
    return Tool(name=name[1], input=value), end
