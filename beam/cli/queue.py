"""`beam queue`: waiting messages, running messages, and dead letters."""

from __future__ import annotations

from beam import UsageError
from beam.cli.commands import App
from beam.cli.context import Context
from beam.cli.parameters import argument, option
from beam.cli.render.text import write_json_lines

app = App("List, retry, drop and edit messages; pause and resume agents.")


@app.verb("list")
def list_(
    call: Context,
    agent: list[str] | None = argument(None, metavar="[AGENT]...", help="Limit the output to these agents."),
    as_json: bool = option(False, "--json", help="Print JSON Lines, one object per message with its full text."),
) -> None:
    """List messages that run, wait, or are dead letters."""
    from beam.cli.render.tables import ago, print_columns
    from beam.cli.render.text import one_line

    found = call.beam.queue(agent or [])
    if as_json:
        write_json_lines(found)
        return
    if not found:
        call.note("the queues are empty, and there are no dead letters")
        return
    rows = [
        (
            item.id,
            item.box + (f" ({item.reason})" if item.reason else ""),
            item.sender,
            ago(item.timestamp) if item.timestamp else "",
            item.error or one_line(item.text, 200),
        )
        for item in found
    ]
    print_columns(("ID", "WHERE", "FROM", "AGE", "TEXT"), rows)


@app.verb()
def retry(call: Context, message: str = argument(..., metavar="ID")) -> None:
    """Run a dead letter again."""
    call.note(f"{call.beam.retry(message)}; beam wait {message}")


@app.verb()
def drop(
    call: Context,
    message: str | None = argument(None, metavar="[ID]", help="The message; with --dead an agent."),
    dead: bool = option(False, "--dead", help="Remove all dead letters, of one agent or of all."),
) -> None:
    """Remove a message from its queue, or all dead letters."""
    if dead:
        gone = call.beam.drop_dead([message] if message is not None else [])
        call.note(f"{len(gone)} dead letters were removed" if len(gone) != 1 else "1 dead letter was removed")
        return
    if message is None:
        raise UsageError("there is no message to remove", "beam queue drop ID, or beam queue drop --dead")
    call.note(call.beam.drop(message))


@app.verb()
def pause(call: Context, agent: str = argument(..., metavar="AGENT")) -> None:
    """Stop claiming messages from an agent's queue.

    The queue still accepts messages; they wait.
    """
    call.note(f"{agent}: {call.beam.pause(agent)}")


@app.verb()
def resume(call: Context, agent: str = argument(..., metavar="AGENT")) -> None:
    """Serve an agent's queue again."""
    call.note(f"{agent}: {call.beam.resume(agent)}")


@app.verb()
def edit(
    call: Context,
    message: str = argument(..., metavar="ID"),
    text: list[str] | None = argument(None, metavar="[TEXT]...", help="The new text; default: open your editor."),
) -> None:
    """Replace the text of a waiting message."""
    from beam.cli import prompt

    if text:
        new = prompt.read(text, [], call)
    else:
        item = next((item for item in call.beam.queue() if item.id.endswith(message) and item.box == "waiting"), None)
        if item is None:
            raise UsageError(f"{message} does not wait", "beam queue list", subject=message)
        edited = _edit_text(item.text)
        if edited is None or edited == item.text:
            call.note("nothing was changed")
            return
        new = edited
    call.note(call.beam.edit(message, new))


def _edit_text(text: str) -> str | None:
    """Return the text after the user has edited it in an editor; None if the editor ended with an error."""
    import os
    import shlex
    import subprocess
    import tempfile
    from pathlib import Path

    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        words = shlex.split(editor)
    except ValueError as error:
        raise UsageError(f"can't run the editor {editor}: {error}", "set EDITOR, or give the text") from error
    with tempfile.TemporaryDirectory(prefix="beam-edit-") as folder:
        path = Path(folder) / "message.md"
        path.write_text(text, encoding="utf-8")
        try:
            ended = subprocess.run([*words, str(path)], check=False)
        except OSError as error:
            raise UsageError(
                f"can't run the editor {editor}: {error.strerror}", "set EDITOR, or give the text"
            ) from error
        return path.read_text(encoding="utf-8", errors="replace").rstrip("\n") if ended.returncode == 0 else None
