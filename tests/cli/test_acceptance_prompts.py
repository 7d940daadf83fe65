"""What a prompt may hold and where it comes from: nothing of it is lost, read as an option, or changed in silence."""

from __future__ import annotations

import json
import shlex
import socket
import subprocess

import pytest

from tests.support.claims import refused, said_once
from tests.support.cli import BEAM_WORDS, Cli

pytestmark = pytest.mark.acceptance

ECHO = """
agents:
  echo: {command: [cat]}
  argv: {command: [printf, "%s", "{prompt}"]}
"""


def test_the_words_of_the_command_line_are_one_prompt(beam: Cli) -> None:
    assert beam("send", "scripted", "two", "words").out == "You said: two words\n"


def test_stdin_is_the_prompt_where_nothing_else_is(beam: Cli) -> None:
    beam.config(ECHO)
    assert beam("send", "echo", stdin="from\na pipe\n").out == "from\na pipe\n"


def test_words_stdin_and_files_are_parted_by_blank_lines(beam: Cli) -> None:
    beam.config(ECHO)
    (beam.project / "notes.txt").write_text("a file\n")
    done = beam("send", "echo", "say", "this", "-", "then", "-f", "notes.txt", stdin="piped\n")
    assert (done.out, done.err) == ("say this\n\npiped\n\nthen\n\na file\n", "")


@pytest.mark.parametrize("producer", ["echo piped", "(sleep 0.5; echo piped)", "(printf pip; sleep 0.5; echo ed)"])
def test_what_is_piped_in_stands_behind_the_words_however_slow_it_comes(producer: str, beam: Cli) -> None:
    beam.config(ECHO)
    (beam.project / "notes.txt").write_text("a file\n")
    done = beam.shell(f"{producer} | beam send echo the words -f notes.txt")
    assert (done.code, done.out, done.err) == (0, "the words\n\na file\n\npiped\n", "")


def test_a_file_on_stdin_stands_behind_the_words_and_one_that_a_loop_reads_is_the_loop_s(beam: Cli) -> None:
    beam.config(ECHO)
    (beam.project / "lines.txt").write_text("one\ntwo\n")
    assert beam.shell("beam send echo words < lines.txt").out == "words\n\none\ntwo\n"
    done = beam.shell('while read -r line; do beam send echo "$line"; done < lines.txt')
    assert done.out == "one\ntwo\n"


@pytest.mark.parametrize("stdin", ["</dev/null", "<&-", "< /dev/zero"])
def test_a_stdin_without_text_is_no_matter(stdin: str, beam: Cli) -> None:
    done = beam.shell(f"beam send scripted words {stdin}")
    assert (done.code, done.out) == (0, "You said: words\n")


@pytest.mark.parametrize(
    "line",
    [
        "true | beam send scripted words",
        "true | beam send scripted words -",
        "true | beam send scripted words -f -",
        "true | beam send scripted words -f notes.txt",
        "echo | beam send scripted words",
        "true | timeout 60 {beam} send scripted words",
        "beam send scripted words < empty.txt",
        "beam send scripted words - </dev/null",
        "export -f beam; false | bash -c 'beam send scripted words -'",
    ],
)
def test_an_empty_text_from_a_pipe_is_refused_before_anything_is_sent(line: str, beam: Cli) -> None:
    (beam.project / "notes.txt").write_text("a file\n")
    (beam.project / "empty.txt").touch()
    refused(beam.shell(line.replace("{beam}", BEAM_WORDS)), 2, "stdin ended without any text", "</dev/null")
    assert beam.box("scripted", "new") == []


def test_a_pipe_that_stays_silent_is_told_and_waited_for(beam: Cli) -> None:
    beam.config(ECHO)
    sent = beam.start_cold("send", "echo", "words", stdin=subprocess.PIPE)
    assert sent.stdin is not None and sent.stderr is not None
    assert sent.stderr.readline() == b"beam: waiting for stdin (</dev/null if nothing comes)\n"
    out, err = sent.communicate(b"at last\n", timeout=60)
    assert (sent.returncode, out, err) == (0, b"words\n\nat last\n", b"")


def test_a_socket_is_read_where_it_holds_text_and_left_alone_where_it_holds_none(beam: Cli) -> None:
    """An SSH connection and a program of Node give such a stdin; the other end stays open."""
    beam.config(ECHO)
    for text, reply in ((b"", "words\n"), (b"from a socket\n", "words\n\nfrom a socket\n")):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            sent = beam.start_cold("send", "echo", "words", stdin=theirs)
            if text:
                ours.sendall(text)
                ours.shutdown(socket.SHUT_WR)
            out, err = sent.communicate(timeout=60)
            assert (sent.returncode, out.decode(), err) == (0, reply, b"")


def test_the_empty_stdin_that_a_runner_gives_to_a_script_is_no_input(beam: Cli) -> None:
    """GitHub's runner starts `bash -e FILE` with a pipe that it closes at once."""
    line = f"{BEAM_WORDS} send scripted words"
    (beam.project / "step.sh").write_text(
        f"{line}\nsh -c {shlex.quote(line + '; true')}\ntrue | {line} || echo refused\n"
    )
    done = subprocess.run(
        ["bash", "-e", "step.sh"], cwd=beam.project, env=beam.env, input=b"", capture_output=True, timeout=60
    )
    assert done.stdout == b"You said: words\n" * 2 + b"refused\n", done


@pytest.mark.parametrize(
    "line", ["echo words | xargs {beam} send scripted", "nohup setsid {beam} send scripted words </dev/null"]
)
def test_what_starts_beam_without_a_terminal_gives_no_input(line: str, beam: Cli) -> None:
    done = beam.shell(line.replace("{beam}", BEAM_WORDS))
    assert (done.code, done.out) == (0, "You said: words\n"), done


def test_an_agent_s_own_stdin_is_no_input(beam: Cli) -> None:
    beam.config(
        f"""\
        agents:
          outer: {{command: [sh, -c, {json.dumps(f"{BEAM_WORDS} send scripted inner")}]}}
        """
    )
    done = beam("send", "outer", "the prompt")
    assert (done.code, done.out) == (0, "You said: inner\n"), done


@pytest.mark.parametrize("stdin", ["", "  \n\t\n"])
def test_an_empty_prompt_is_refused(beam: Cli, stdin: str) -> None:
    refused(beam("send", "scripted", stdin=stdin), 2, "empty")
    assert not beam.root.exists()


def test_an_empty_word_is_an_empty_prompt(beam: Cli) -> None:
    refused(beam("send", "scripted", ""), 2, "empty")


def test_a_prompt_over_the_limit_is_refused_with_its_size(beam: Cli) -> None:
    refused(beam("send", "scripted", stdin="x" * (1024 * 1024 + 1)), 7, "1048577 bytes", "1048576")
    assert beam.box("scripted", "new") == []


@pytest.mark.parametrize("command", ["yes | beam send scripted", "beam send scripted -f /dev/zero"])
def test_a_prompt_without_end_is_refused(beam: Cli, command: str) -> None:
    refused(beam.shell(command), 7, "more than 67108864 bytes")


def test_a_prompt_of_exactly_the_limit_arrives_whole(beam: Cli) -> None:
    beam.config(ECHO)
    text = "é" * (512 * 1024)
    done = beam("send", "echo", stdin=text)
    assert (done.code, done.out) == (0, text + "\n")


def test_a_program_that_takes_the_prompt_as_an_argument_has_the_kernels_limit(beam: Cli) -> None:
    beam.config(ECHO)
    done = beam("send", "argv", stdin="x" * (120 * 1024 + 1))
    refused(done, 7, "122881 bytes", "122880")


@pytest.mark.parametrize("text", ["-x", "--json", "--", "-", "/clear", "/help me", "  /indented", "@file", "!ls", "#x"])
def test_a_prompt_that_looks_like_something_else_arrives_verbatim(beam: Cli, text: str) -> None:
    beam.config(ECHO)
    done = beam("send", "echo", stdin=text)
    assert (done.code, done.out, done.err) == (0, text + "\n", "")


@pytest.mark.parametrize("text", ["-x", "--json", "/clear"])
def test_after_two_dashes_everything_is_text(beam: Cli, text: str) -> None:
    beam.config(ECHO)
    done = beam("send", "echo", "--", text)
    assert (done.code, done.out, done.err) == (0, text + "\n", "")


def test_a_text_that_begins_with_a_dash_is_told_the_two_dashes(beam: Cli) -> None:
    refused(beam("send", "scripted", "--nonsense"), 2, "--nonsense", "`--`")


def test_a_nul_on_stdin_reaches_a_program_that_reads_stdin(beam: Cli) -> None:
    beam.config(ECHO)
    done = beam("send", "echo", stdin=b"a\0b")
    assert (done.code, done.out) == (0, "a\0b\n")


def test_a_nul_for_a_program_that_takes_arguments_fails_clearly(beam: Cli) -> None:
    beam.config(ECHO)
    done = beam("send", "argv", stdin=b"a\0b")
    refused(done, 10, "argv", "NUL")


def test_invalid_utf8_on_stdin_is_replaced_with_a_note(beam: Cli) -> None:
    beam.config(ECHO)
    done = beam("send", "echo", stdin=b"caf\xe9 ok")
    assert (done.code, done.out) == (0, "caf\ufffd ok\n")
    said_once(done, "stdin", "UTF-8")


def test_invalid_utf8_on_the_command_line_is_replaced_with_a_note(beam: Cli) -> None:
    beam.config(ECHO)
    done = beam("send", "echo", "caf\udce9")
    assert (done.code, done.out) == (0, "caf\ufffd\n")
    said_once(done, "command line", "UTF-8")


@pytest.mark.parametrize("option", ["--model", "--key", "--via"])
def test_an_option_that_is_not_text_is_refused(beam: Cli, option: str) -> None:
    refused(beam("send", "scripted", "hi", option, "\udcff"), 2)


def test_a_name_that_is_not_text_is_refused_in_json_too(beam: Cli) -> None:
    done = beam("send", "\udcff\udcfe", "hi", "--json")
    assert done.code in (2, 4)
    assert done.json["error"]["exit_code"] == done.code
    said_once(done)


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".", "A B", "x" * 65, "\n", "\x1b[2J"])
def test_a_name_that_could_be_a_path_is_never_one(beam: Cli, name: str) -> None:
    done = beam("send", name, "hi")
    assert done.code in (2, 4), done
    assert "\x1b" not in done.err
    said_once(done)
    assert not beam.root.exists()


def test_a_missing_file_is_named(beam: Cli) -> None:
    refused(beam("send", "scripted", "-f", "absent.md"), 4, "absent.md")


def test_a_directory_as_a_file_is_refused(beam: Cli) -> None:
    refused(beam("send", "scripted", "-f", "."), 2, "can't read .")
