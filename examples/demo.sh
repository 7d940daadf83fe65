#!/usr/bin/env bash
# Two scripted agents talk by messages, in a folder of their own that is removed afterwards. `make demo` runs this.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
unset "${!BEAM_@}"
cp "$here/demo/beam.yaml" "$folder"
cd "$folder"
export BEAM_ROOT="$folder/.beam" BEAM_TRUST=1 XDG_STATE_HOME="$folder/state"

heading() { printf '\n== %s\n\n' "$1"; }

# Nothing waits, nothing runs, nothing was given up on. The agents are looked at one after the other: ask twice.
is_quiet() { [[ -z $(beam queue list --json) ]]; }

heading 'reviewer asks planner; every answer is routed back as a message'
id=$(beam send planner 'Our client gives up too early. What do you propose?' --from reviewer --no-wait)
echo "$id"

heading 'the first answer, waited for'
beam wait "$id"

for ((tries = 0; ; tries++)); do
  if is_quiet && is_quiet; then break; fi
  if ((tries == 30)); then
    echo 'they are still talking, or one of them failed:' >&2
    beam status >&2
    beam queue list >&2
    exit 1
  fi
  sleep 0.1
done

heading 'the journal of planner: beam log planner'
beam log planner

heading 'what both of them did: beam watch --now'
beam watch --now

heading 'where they stand: beam status'
beam status
