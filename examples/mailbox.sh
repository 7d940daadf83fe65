#!/usr/bin/env bash
# A shell script is an agent: it answers each message of a mailbox with the number of its words, until none came for a
# while. Usage: beam agent add counter mailbox; mailbox.sh counter 1h
[[ $# == 2 ]] || { echo "usage: mailbox.sh MAILBOX DURATION" >&2; exit 2; }
mailbox=$1 patience=$2
note=$(mktemp)
while text=$(beam recv "$mailbox" --wait --timeout "$patience" 2>"$note"); do
  id=$(grep -o "$mailbox-[0-9a-z]*" "$note")
  beam reply "$id" "$(wc -w <<<"$text" | tr -d ' ') words"
done
rm "$note"
