#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A list with an unknown, malformed or missing name is refused with a message
# that names it, and nothing changes; a name twice is once.  No name reaches the
# protocol as anything but a name.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

puppet p VSLEEP_TAGS=later=offload
for tag in a b; do
	ctl 0 tag "${PID[p]}" "$tag"
	ask p "alloc $tag 100000"
	ask p "fill $tag 1"
done
ctl 0 tag --clear "${PID[p]}"

# same: the program's state is what it was
same() {
	status p
	grep -v -e held- -e last-error <<<"$OUT"
}

# refused STATUS PATTERN VERB LIST: and nothing has changed
refused() {
	local before
	before=$(same)
	ctl "$1" "$3" --tags "$4" "${PID[p]}"
	matches "$3 --tags '$4'" "$2" "$ERR"
	equal "the state after $3 --tags '$4'" "$before" "$(same)"
}

long=$(printf 'x%.0s' {1..1000})
for verb in sleep wake sleep; do
	[[ $verb == sleep ]] || sleeps p
	refused 1 '*refused: unknown tag "zzz"*' "$verb" a,zzz
	refused 1 '*refused: unknown tag "zzz"*' "$verb" zzz,a
	refused 1 '*refused: empty list of tags*' "$verb" ''
	refused 1 '*refused: bad tag ""*' "$verb" a,
	refused 1 '*refused: bad tag ""*' "$verb" a,,b
	refused 1 '*refused: bad tag "a b"*' "$verb" 'a b'
	refused 1 '*refused: bad tag "xxx*1 to 64*' "$verb" "$long"
	refused 1 '*refused: unknown tag "A"*' "$verb" A
	refused 2 '*tags: only printable ASCII*' "$verb" $'k\303\251'
	refused 2 '*tags: only printable ASCII*' "$verb" $'a\nlevel=2'
	[[ $verb == sleep ]] || wakes p
done

sleeps p --tags b,b
equal "b" asleep "$(of_tag b state)"
equal "a" awake "$(of_tag a state)"
wakes p --tags b,b,later
expect state awake
sequence=$(value sequence)
# known by its policy, though without a byte: nothing to release
ctl 5 sleep --tags later "${PID[p]}"
equal "later" asleep "$(of_tag later state)"
equal "a" awake "$(of_tag a state)"
wakes p
at_most "sequence" $((sequence + 2)) "$(value sequence)"

# a marker that is no name
before=$(same)
for name in '' 'a b' "$long" a=b a,b 'a/b'; do
	ctl 1 tag "${PID[p]}" "$name"
	matches "tag '$name'" '*refused: bad tag*' "$ERR"
done
ctl 2 tag "${PID[p]}" $'x\nclear=yes'
ctl 2 tag "${PID[p]}" $'\303\251'
equal "the state after bad markers" "$before" "$(same)"

# the names of a process are limited; the one too many is refused and the
# marker stays
for i in {1..100}; do
	"$VSLEEPCTL" tag "${PID[p]}" "t$i" >/dev/null 2>"$WORK/full" || break
done
matches "the message for one tag too many" \
	"*refused: no room for tag \"t$i\": 64 are in use" "$(<"$WORK/full")"
equal "the marker" "t$((i - 1))" "$(now p marker)"
ask p "check all" "ok bad=0"
ctl 0 tag --clear "${PID[p]}"
sleeps p
wakes p
ask p "check all" "ok bad=0"
leave p
