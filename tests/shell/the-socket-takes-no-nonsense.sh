#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Whatever comes over the socket that is no request is answered by a message
# that names what is wrong with it; nothing changes, and the next one works.
# Other users get no answer but that.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

# raw TEXT [ANSWERS]: with escapes as printf has them; what comes back is in OUT
raw() {
	OUT=$(printf '%b' "$1" | "$BUILDDIR/raw" "$socket" "${2:-1}" \
		2>/dev/null)
}

# same: what must not change
same() {
	raw 'vsleep 1 status\n\n'
	equal "status of a status" ok "$(value status)"
	grep -v ^held- <<<"$OUT"
}

# refused STATUS PATTERN TEXT
refused() {
	raw "$3"
	equal "lines of the answer to '${3:0:60}'" 1 \
		"$(grep -c ^status= <<<"$OUT")"
	equal "status of '${3:0:60}'" "$1" "$(value status)"
	matches "message for '${3:0:60}'" "$2" "$(value message)"
	equal "the state after '${3:0:60}'" "$before" "$(same)"
}
bad() { refused bad-request "$@"; }

puppet p VSLEEP_TAGS=k=keep
socket=$VSLEEP_DIR/$(sock "${PID[p]}")
equal "the socket's mode" 600 "$(stat -c %a "$socket")"
equal "the directory's mode" 700 "$(stat -c %a "$VSLEEP_DIR")"
ask p "alloc a $((3 * M))"
ask p "fill a 1"
before=$(same)

first='the first line must be "vsleep 1 VERB"'
long=$(printf 'x%.0s' {1..1000})
huge=$(printf 'x%.0s' {1..8200})
for verb in sleep wake; do
	bad "$first" '\n'
	bad "$first" 'status\n\n'
	bad "$first" 'vsleep 1\n\n'
	bad "$first" 'vsleep 1 sleep wake\n\n'
	bad "$first" 'VSLEEP 1 sleep\n\n'
	bad "$first" 'GET / HTTP/1.1\n\n'
	bad '*byte 0x0d at offset 14*' 'GET / HTTP/1.1\r\n\r\n'
	bad '*byte 0x16 at offset 0*' '\x16\x03\x01\x02\x00\x01'
	bad '*byte 0x00 at offset 14*' 'vsleep 1 sleep\x00\n\n'
	bad '*byte 0xff at offset 8*' 'vsleep 1\xff sleep\n\n'
	bad '*byte 0xc3 at offset 21*' 'vsleep 1 sleep\ntags=k\xc3\xa9\n\n'
	bad '*version 2 is not known*version 1' 'vsleep 2 sleep\n\n'
	bad '*version -1 is not known*' 'vsleep -1 sleep\n\n'
	bad 'no verb "slumber"; there are: *status*sleep*wake*tag*' \
		'vsleep 1 slumber\n\n'
	bad "no verb \"${long:0:40}\"; *" "vsleep 1 $long\\n\\n"
	bad "$verb has no key \"colour\"; it takes: *tags*" \
		"vsleep 1 $verb\\ncolour=red\\n\\n"
	bad "$verb has no key \"\"; *" "vsleep 1 $verb\\n=red\\n\\n"
	bad "$verb has no key \"tags \"; *" "vsleep 1 $verb\\ntags =k\\n\\n"
	bad 'status has no key "tags"; it takes: none' \
		'vsleep 1 status\ntags=k\n\n'
	bad 'line "tags": must be key=value' "vsleep 1 $verb\\ntags\\n\\n"
	bad 'tags is given twice' "vsleep 1 $verb\\ntags=k\\ntags=k\\n\\n"
	bad 'hold=maybe: must be yes or no' "vsleep 1 $verb\\nhold=maybe\\n\\n"
	bad 'level=3: must be a whole number from 1 to 2' \
		'vsleep 1 sleep\nlevel=3\n\n'
	bad 'level= 1: must be *' 'vsleep 1 sleep\nlevel= 1\n\n'
	bad 'timeout-ms=: must be *' 'vsleep 1 sleep\ntimeout-ms=\n\n'
	bad 'wait-ms=99999999999999999999: *' \
		'vsleep 1 wake\nwait-ms=99999999999999999999\n\n'
	bad '*either name=NAME or clear=yes' 'vsleep 1 tag\n\n'
	bad '*either name=NAME or clear=yes' \
		'vsleep 1 tag\nname=a\nclear=yes\n\n'
	bad '*longer than 8192 bytes' "vsleep 1 $huge"
	bad '*longer than 8192 bytes' "$huge\\n\\n"
	refused refused 'unknown tag "zzz"' "vsleep 1 $verb\\ntags=zzz\\n\\n"
	refused refused 'empty list of tags*' "vsleep 1 $verb\\ntags=\\n\\n"
	refused refused "bad tag \"${long:0:70}\": 1 to 64 of *" \
		"vsleep 1 $verb\\ntags=$long\\n\\n"
	refused refused 'bad tag "k=keep": *' \
		"vsleep 1 $verb\\ntags=k=keep\\n\\n"
	refused refused 'bad tag "a b": *' 'vsleep 1 tag\nname=a b\n\n'
	refused refused 'bad tag "": *' 'vsleep 1 tag\nname=\n\n'
	# the next one is taken, on the same connection too
	raw "vsleep 1 nap\\n\\nvsleep 1 $verb\\n\\n" 2
	equal "both answers" "bad-request ok" \
		"$(value status | paste -sd' ')"
	before=$(same)
done
equal "sequence" 2 "$(now p sequence)"

# several at once are answered one after the other
raw 'vsleep 1 sleep\n\nvsleep 1 status\n\nvsleep 1 wake\n\n' 3
equal "answers to three" "ok ok ok" "$(value status | paste -sd' ')"
equal "states in them" "asleep asleep awake" "$(value state | paste -sd' ')"

# a tag's name cannot bring a line of its own into a reply
before=$(same)
for name in 'x\nstatus=failed' 'x\nclear=yes' 'x\tb' 'x\x1b[2J' 'x\r'; do
	refused bad-request '*' "vsleep 1 tag\\nname=$name\\n\\n"
done

# another user
if ((EUID == 0)); then
	chmod 711 "$WORK" "$VSLEEP_DIR"
	chmod 666 "$socket"
	cp "$BUILDDIR/raw" "$WORK/raw"
	before=$(same)
	for verb in status sleep; do
		OUT=$(printf 'vsleep 1 %s\n\n' $verb | setpriv --reuid 65534 \
			--clear-groups "$WORK/raw" "$socket" 2>/dev/null)
		equal "status for another user" refused "$(value status)"
		matches "message for another user" \
			"only root and the user of this process may ask" \
			"$(value message)"
		equal "lines for another user" 2 "$(wc -l <<<"$OUT")"
		equal "the state" "$before" "$(same)"
	done
	chmod 700 "$VSLEEP_DIR"
else
	echo "not tried: another user, for want of root"
fi
ask p "check a" "ok bad=0"
sleeps p
wakes p
leave p
