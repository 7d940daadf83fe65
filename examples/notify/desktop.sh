#!/bin/sh
# Shows a notification of beam on the desktop: it comes as JSON on stdin, and its sentence is the field "text".
# The sentence may hold what an agent wrote, so it is an argument, never a part of a command, and its markup is escaped.
set -eu
text=$(python3 -c 'import html, json, sys; print(html.escape(json.load(sys.stdin)["text"]))')
exec notify-send --app-name beam -- beam "$text"
