#!/usr/bin/env bash
# Two scripted agents talk by messages, in a folder of their own that is removed afterwards. `make demo` runs this.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
state=$(mktemp -d)  # beside the folder: what lies in it, agents may write
remove() {  # again, where an agent that is still at work makes a file meanwhile
  for _ in {1..50}; do rm -rf "$folder" "$state" 2>/dev/null && return; sleep 0.1; done
  echo "could not remove $folder and $state" >&2
}
trap remove EXIT
unset "${!BEAM_@}"
cp "$here/demo/beam.yaml" "$folder"
cd "$folder"
export BEAM_TRUST=1 BEAM_STATE="$state"

heading() { printf '\n== %s\n\n' "$1"; }

# Nothing waits, nothing runs, nothing was given up on. The agents are looked at one after the other: ask twice.
is_quiet() { [[ -z $(beam queue list --json) ]]; }

heading 'reviewer asks planner; ten answers are routed, each as a message'
id=$(beam send planner 'Our client gives up too early. What do you propose?' --from reviewer --no-wait --replies 10 < /dev/null)
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
