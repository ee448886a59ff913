#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# On a terminal vsleepctl speaks in sentences: small sizes in bytes, one thing
# in the singular, any name.  Elsewhere it does not.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

script -qec true /dev/null </dev/null >/dev/null 2>&1 ||
	skip "needs script(1)"

# said ARGUMENT...: what vsleepctl says to a terminal, in OUT
said() {
	OUT=$(script -qec "$VSLEEPCTL $*" /dev/null </dev/null | tr -d '\r')
}

puppet p
ask p "alloc a $M"
pid=${PID[p]}
said status "$pid"
matches "an awake one" "$pid puppet awake: +([0-9]) allocations, 2.0 MiB\
 resident, 0 asleep, 0 unmanaged, 0 calls held*" "$OUT"
said sleep "$pid"
matches "a sleep" "*$pid asleep: 2.0 MiB released (2.0 MiB copied*), 0 kept,\
 0 unmanaged, +([0-9.]) s" "$OUT"
tell p "fill a 3"
held p 1
said status "$pid"
matches "a held one" "*, 1 call held*" "$OUT"
said wake "$pid"
matches "a wake" "*$pid awake: 2.0 MiB restored (2.0 MiB copied*), 0 asleep,\
 +([0-9.]) s" "$OUT"
answer p
said cancel "$pid"
equal "nothing to take back" "$pid awake: 0 requests taken back" "$OUT"
ask p "shared b 8"
said sleep --dry-run "$pid"
matches "a dry run" "$pid awake: would release 2.0 MiB *" "$OUT"
said status "$pid"
matches "eight bytes" "*, 8 bytes unmanaged, *" "$OUT"
ask p "free b"

# without a verb, with the options of list
said
matches "the list" "*PID *STATE *NAME*puppet*" "$OUT"
said --plain
matches "plain lines" "pid=$pid state=awake * name=puppet" "$OUT"
ctl 0 --json
matches "JSON" "\[{\"pid\": $pid, *}\]" "$OUT"
leave p

# a name that is no ASCII, and has a space
name=$'tr\xc3\xa4um er'
cp "$BUILDDIR/puppet" "$WORK/$name"
talk q "$WORK/$name"
ready q
ask q "alloc a $M"
said
matches "the list" "*tr??um er" "$OUT"
ctl 0 sleep --name "$name"
equal "the state" asleep "$(now q state)"
ctl 0 wake --json --name "$name"
ctl 6 sleep --name "${name% *}"
ctl 6 sleep --name tr
leave q
