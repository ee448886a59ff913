#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What becomes of the bytes of a program that sleeps: in files past the limit of
# host memory, compared at a wake, kept for the next sleep, given back.

# shellcheck source=lib.sh
. "$HERE/lib.sh"

mib=${BACKUPS_MIB:-8192} all=$((${BACKUPS_MIB:-8192} << 20))
problem=''

wrong() { problem+="${problem:+; }$1"; }

# equal WHAT EXPECTED ACTUAL
equal() { [[ $2 == "$3" ]] || wrong "$1 is ${3:-missing}, not $2"; }

# up NAME [SETTING...]: a program with a pattern in all of it
up() {
	problem=''
	hold_up -p "$@" && ask "$1" 60 "mix $mib" &&
		ask "$1" 60 "fill 1" && return
	wrong "not set up: ${ANSWER-}"
	return 1
}

# down NAME FIGURES: its row
down() {
	[[ -z $problem ]] || excerpt "$1"
	row "$1" "$2" "$(verdict "$problem")"
	hold_down "$1"
}

# does VERB NAME [OPTION...]: it succeeds
does() { ctl "$1" "${PID[$2]}" "${@:3}" || wrong "$1, $(refusal)"; }

# said KEY: of the last reply
said() { value "$1" "$REPLY_TEXT"; }

whole() {
	ask "$1" 60 check || wrong "check: ${ANSWER-}"
	equal "wrong words" 0 "$(value bad "$ANSWER")"
}

# speed BYTES SECONDS
speed() { echo "$(calc "$1 / 1073741824 / ($2 + 0.000001)") GiB/s"; }

# by_way NAME: how its file in the folder is open, in words
by_way() {
	local fd flags
	for fd in "/proc/${PID[$1]}"/fd/*; do
		[[ $(readlink "$fd") == "$WORK/spill/"* ]] || continue
		flags=$(awk '/^flags:/ { print $2 }' \
			"/proc/${PID[$1]}/fdinfo/${fd##*/}")
		((0$flags & 040000)) && echo O_DIRECT || echo "page cache"
		return
	done
	wrong "no file in the folder"
}

# Half of it finds no room in host memory.
check_files() {
	local name=files figures='' spilled way n
	local settings=(VSLEEP_HOST_LIMIT=$((mib / 2))M
		VSLEEP_SPILL_DIR="$WORK/spill")
	mkdir -m 700 "$WORK/spill"
	up "$name" "${settings[@]}" && for n in first second; do
		does sleep "$name"
		spilled=$(number spilled-bytes "$REPLY_TEXT")
		at_least "$spilled" $((all * 3 / 8)) || wrong "little in files"
		figures+="${figures:+; }$n sleep $(said seconds) s"
		if [[ $n == first ]]; then
			way=$(by_way "$name")
			equal "names in the folder" '' "$(ls "$WORK/spill")"
			figures+=" ($(mib "$spilled") MiB in files, $way, "
			figures+="$(speed "$all" "$(said seconds)"))"
		else
			equal "copied by the second" 0 "$(said copied-bytes)"
		fi
		does wake "$name" --verify
		figures+=", wake $(said seconds) s"
		at_least "$(said verified-bytes)" "$all" || wrong "not verified"
		whole "$name"
	done
	down "$name" "$figures"
}

# The bytes of a retained backup last; a trim gives its host memory back.
check_kept() {
	local name=kept before=0 kept=0 after=0
	up "$name" && {
		before=$(resident "$name")
		does sleep "$name"
		does wake "$name"
		kept=$(resident "$name")
		does sleep "$name"
		equal "copied by the second" 0 "$(said copied-bytes)"
		at_least "$(said unchanged-bytes)" "$all" || wrong "changed"
		does wake "$name"
		whole "$name"
		does trim "$name"
		after=$(resident "$name")
		at_least $((kept - before)) $((all >> 10)) ||
			wrong "no backup stayed"
		at_most $((after - before)) 65536 || wrong "it did not go"
	}
	down "$name" "host memory $((before >> 10)), $((kept >> 10)) and after \
a trim $((after >> 10)) MiB"
}

# backup_of NAME: the address of its largest mapping that is neither inherited
# nor dumped and has no file
backup_of() {
	local address
	address=$(awk '
	/^[0-9a-f]+-[0-9a-f]+ / { at = $1; file = NF > 5 }
	/^Size:/ { size = $2 }
	/^VmFlags:.* dc .*dd / && !file && size > most {
		most = size
		largest = at
	}
	END { print largest }' "/proc/${PID[$1]}/smaps")
	echo "$((16#${address%-*}))"
}

# A byte of host memory that changes while the program sleeps is found.
check_damage() {
	local name=damage at bad text=''
	up "$name" && {
		does sleep "$name"
		at=$(($(backup_of "$name") + all / 8 + 4711))
		printf 'damaged' |
			dd "of=/proc/${PID[$name]}/mem" bs=7 count=1 \
				seek="$at" oflag=seek_bytes conv=notrunc \
				status=none || wrong "not written"
		! ctl wake "${PID[$name]}" --verify || wrong "not found"
		text=$(first_line "$REPLY_TEXT")
		[[ $text == *verify*tag*0x*page* ]] || wrong "it says: $text"
		state_is "$name" asleep || wrong "it is not asleep"
		does wake "$name" --no-verify
		ask "$name" 60 check || wrong "check: ${ANSWER-}"
		bad=$(value bad "$ANSWER")
		at_least "$bad" 1 || wrong "no word is wrong"
		at_most "$bad" 3 || wrong "$bad words are wrong"
	}
	down "$name" "$text"
}

header check figures verdict
trap sweep EXIT
check_files
check_kept
check_damage
