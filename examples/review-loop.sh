#!/usr/bin/env bash
# One agent writes, another reviews, until the reviewer says OK. Usage: review-loop.sh WRITER REVIEWER TASK
# Each keeps its own session, so they know what was said before.
set -euo pipefail
[[ $# == 3 ]] || { echo "usage: review-loop.sh WRITER REVIEWER TASK" >&2; exit 2; }
writer=$1 reviewer=$2 task=$3

draft=$(beam send "$writer" "$task" < /dev/null)
for round in 1 2 3; do
  verdict=$(beam send "$reviewer" "Say OK, or what is wrong with this:" - <<<"$draft")
  echo "round $round: $verdict" >&2
  if [[ $verdict =~ ^OK($|[^[:alnum:]_]) ]]; then
    echo "$draft"
    exit 0
  fi
  draft=$(beam send "$writer" "The reviewer says: $verdict" < /dev/null)
done
echo "no agreement in $round rounds" >&2
exit 1
