"""The terminal of a chat: an input line stays at the bottom, and all other text is printed above it.

This module handles keys, history and completion. The owner of the `Composer` decides what an entered line means. All
texts that are given to the `Composer` must be free of control characters.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Sequence

from prompt_toolkit import PromptSession
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.data_structures import Size
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import create_input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output.vt100 import Vt100_Output

from beam.cli.render.text import ascii_only, is_ascii, write

_REFRESH_S = 0.5
_GREETING_S = 0.02
_MENU_ROWS = 6
_QUESTION_S = 0.5  # text that is typed sooner after a question appeared is not an answer to it

Completions = Callable[[str], Iterable[tuple[str, int, str]]]  # text before the cursor -> (word, start, what it is)


class Composer:
    """An input line at the bottom of the terminal.

    `submit` is called with each entered text; while a question is shown, `answer` is called instead. `interrupt` is
    called at ^C and returns whether there was a turn to end. If there was none and no question is shown, the input is
    cleared. `leave` is called at ^D if the input is empty. `live` is called with the terminal's width in columns and
    returns the rows to show above the input. `words` is called with the text before the cursor and yields the possible
    completions. `history` contains earlier inputs, which the arrow keys bring back.
    """

    def __init__(
        self,
        *,
        live: Callable[[int], list[str]],
        words: Completions,
        history: Sequence[str],
        submit: Callable[[str], None],
        answer: Callable[[str], None],
        interrupt: Callable[[], bool],
        leave: Callable[[], None],
    ) -> None:
        self._live = live
        self._submit = submit
        self._answer = answer
        self._interrupt = interrupt
        self._leave = leave
        self._words = _Completer(words)
        self._question = ""
        self._asked_at = 0.0
        self._draft = Document()
        self._drawn: list[str] = []
        self._is_over = False
        self._ascii = is_ascii(sys.stdout)
        self._session: PromptSession[str] = PromptSession(
            self._prompt_text,
            multiline=True,
            key_bindings=self._key_bindings(),
            completer=self._words,
            complete_while_typing=Condition(lambda: _may_complete(self._buffer.document)),
            reserve_space_for_menu=_MENU_ROWS,
            history=InMemoryHistory(list(history)),
            prompt_continuation="  ",
            erase_when_done=True,
            input=create_input(sys.stdin),
            output=_terminal_output(),
        )

    @property
    def _buffer(self) -> Buffer:
        return self._session.default_buffer

    @property
    def text(self) -> str:
        """Return the text that is in the input now."""
        return self._buffer.text

    async def run(self, greeting: str) -> None:
        """Show the input line, print the greeting above it, and handle keys until `close` is called or the terminal is
        gone."""
        # The greeting must not invite typing before the terminal's own line editing is off: Enter is another key then.
        asyncio.get_running_loop().call_later(_GREETING_S, self._greet, greeting)
        ticks = asyncio.ensure_future(self._tick())
        try:
            if not self._is_over:
                with contextlib.suppress(EOFError, KeyboardInterrupt):
                    await self._session.prompt_async(handle_sigint=False)
        finally:
            self._is_over = True
            ticks.cancel()

    def _greet(self, greeting: str) -> None:
        """Print the greeting as soon as the input line is shown."""
        if self._session.app.is_running and self._drawn:
            self.say([greeting])
        elif not self._is_over:
            asyncio.get_running_loop().call_later(_GREETING_S, self._greet, greeting)

    async def _tick(self) -> None:
        """Show the live rows anew when their text has changed; check this every half second."""
        while True:
            await asyncio.sleep(_REFRESH_S)
            if self._live_rows() != self._drawn:
                self.refresh()

    def close(self) -> None:
        """End `run`."""
        self._is_over = True
        app = self._session.app
        if app.is_running and not app.is_done:
            app.exit(result="")

    def say(self, lines: Iterable[str]) -> None:
        """Print lines above the input; if no input is shown, print them at the end of the output."""
        said = list(lines)
        app = self._session.app
        if not said:
            return
        if not app.is_running or app.is_done:
            _print(said)
            return
        # `run_in_terminal` would give the keys back to the terminal meanwhile, and a ^C would then be a signal.
        app.renderer.erase()
        _print(said)
        app.renderer.reset()
        app.invalidate()

    def refresh(self) -> None:
        """Show the live rows anew."""
        if self._session.app.is_running:
            self._session.app.invalidate()

    def ask(self, question: str) -> None:
        """Show a question in place of the input's prompt sign. The next text that the person enters is the answer.
        `ask("")` removes the question and restores the text that was being typed before the question."""
        if question and not self._question:
            self._draft = self._buffer.document
            self._buffer.document = Document()
        elif self._question and not question:
            self._buffer.document = self._draft
        if question != self._question:
            self._asked_at = asyncio.get_running_loop().time()
        self._question = question
        self.refresh()

    def put_back(self, text: str) -> None:
        """Insert a text into the input, on lines of its own before the text that is there already."""
        if self._question:
            self._draft = Document("\n".join(filter(None, [text, self._draft.text])))
        else:
            self._buffer.document = Document("\n".join(filter(None, [text, self._buffer.text])))

    # -- what is shown -------------------------------------------------------------------------------------------------

    def _live_rows(self) -> list[str]:
        return self._live(self._session.output.get_size().columns)

    def _prompt_text(self) -> StyleAndTextTuples:
        self._drawn = self._live_rows()
        fit = ascii_only if self._ascii else str
        last = len(self._drawn) - 1
        shown: StyleAndTextTuples = [
            ("fg:ansibrightblack" if at == last else "", f"{fit(row)}\n") for at, row in enumerate(self._drawn)
        ]
        return [*shown, ("bold", f"{self._question} " if self._question else "> ")]

    # -- keys ----------------------------------------------------------------------------------------------------------

    def _key_bindings(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("enter")
        def _(event: KeyPressEvent) -> None:
            self._handle_entered_text(event.current_buffer)

        @keys.add("escape", "enter")
        @keys.add("c-j")
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @keys.add("c-c")
        @keys.add("<sigint>")
        def _(event: KeyPressEvent) -> None:
            if not self._interrupt() and event.current_buffer.text and not self._question:
                event.current_buffer.append_to_history()
                event.current_buffer.reset()

        @keys.add("tab")
        def _(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            if buffer.complete_state is not None:
                buffer.complete_next()
                return
            found = list(self._words.get_completions(buffer.document, CompleteEvent(completion_requested=True)))
            if len(found) == 1:
                buffer.apply_completion(found[0])
            elif found:
                buffer.start_completion(insert_common_part=True)

        @keys.add("c-d")
        def _(event: KeyPressEvent) -> None:
            if event.current_buffer.text:
                event.current_buffer.delete()
            else:
                self._leave()

        return keys

    def _handle_entered_text(self, buffer: Buffer) -> None:
        if buffer.complete_state is not None and buffer.complete_state.current_completion is not None:
            buffer.complete_state = None  # the chosen word is in the text already
            return
        if buffer.document.current_line.endswith("\\") and buffer.document.is_cursor_at_the_end:
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
            return
        text = buffer.text
        if self._question:
            buffer.reset()
            if asyncio.get_running_loop().time() - self._asked_at >= _QUESTION_S:
                self._answer(text)
            return
        buffer.reset(append_to_history=bool(text.strip()))
        self._submit(text)


class _Completer(Completer):
    """A completer for prompt_toolkit that offers the completions which `words` yields."""

    def __init__(self, words: Completions) -> None:
        self._words = words

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        for word, start, what in self._words(document.text_before_cursor):
            yield Completion(word, start_position=start, display_meta=what)


def _terminal_output() -> Vt100_Output:
    """Return the terminal as an output for prompt_toolkit. Requests for the cursor's position are switched off, because
    some terminals do not answer them."""
    return Vt100_Output(sys.stdout, _terminal_size, term=os.environ.get("TERM"), enable_cpr=False)


def _terminal_size() -> Size:
    try:
        found = os.get_terminal_size(1)
    except OSError:
        return Size(rows=24, columns=80)
    return Size(rows=found.lines or 24, columns=found.columns or 80)


def _may_complete(document: Document) -> bool:
    word = document.get_word_before_cursor(WORD=True)
    return word.startswith("@") or (word.startswith("/") and document.text_before_cursor == word)


def _print(lines: Sequence[str]) -> None:
    for line in lines:
        write(sys.stdout, f"{line}\n")
    sys.stdout.flush()
