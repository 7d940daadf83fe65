#!/usr/bin/env bash
# A gate for CI: an agent reviews a change, and the exit code decides. Usage: git diff | ci-gate.sh AGENT
# Exit codes: 0 it said OK, 1 it found something, 2 the reviewer itself did not work. In CI set BEAM_TRUST=1.
[[ $# == 1 ]] || { echo "usage: git diff | ci-gate.sh AGENT" >&2; exit 2; }
agent=$1
answer=$(beam send "$agent" "Review this change. Begin with OK, or say what must be mended." - --once --timeout 10m)
code=$?

case $code in
  0) ;;
  3) echo "the reviewer was too slow; the change is not held up" && exit 0 ;;
  *) echo "the reviewer did not work: exit code $code of beam" >&2 && exit 2 ;;
esac
echo "$answer"
[[ $answer == OK* ]]
