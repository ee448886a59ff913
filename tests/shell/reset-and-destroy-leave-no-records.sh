#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A context that is destroyed, reset or released takes its memory with it, awake
# and asleep: the driver answers as without vsleep, nothing of it is counted or
# kept, what other contexts have is whole, and new memory sleeps and wakes.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

# play COMMAND NAME STEP...: what it answers, in SAID.  "sleep", "wake" and
# "holds BLOCKS BYTES" (what vsleep has of it) are for the preloaded run.
play() {
	local how=$1 name=$2 step blocks bytes
	"$how" "$name" "$BUILDDIR/contexts"
	ready "$name"
	SAID=
	for step in "${@:3}"; do
		case $step in
		sleep) [[ $how == talk_plain ]] || sleeps "$name" ;;
		wake) [[ $how == talk_plain ]] || wakes "$name" ;;
		holds*) [[ $how == talk_plain ]] || {
			read -r _ blocks bytes <<<"$step"
			holds "$name" "$blocks" "$bytes"
		} ;;
		*)
			tell "$name" "$step"
			answer "$name"
			SAID+="$step: $ANSWER"$'\n'
			;;
		esac
	done
}

# holds NAME BLOCKS BYTES
holds() {
	status "$1"
	expect allocations "$2" live-bytes "$3"
	if (($2 == 0)); then
		expect evicted-bytes 0 backed-up-bytes 0
	fi
	case $(value state) in
	awake) equal "on the device" "$(value resident-bytes)" \
		"$(device "$1")" ;;
	asleep) expect resident-bytes 0 ;;
	esac
}

# invalid NAME: its invalid calls, by what was wrong; but for those with the
# dead contexts that the program itself uses, about which vsleep may ask too
invalid() {
	sed -n '/^invalid-calls/,/^calls/p' "$WORK/$1.ledger" |
		grep -v -e ^invalid-calls -e ^calls -e context |
		sed 's/0x[0-9a-f]*/ADDRESS/' | sort
}

# alike WHAT STEP...: plain and preloaded, and nothing is left
alike() {
	local plain key
	play talk_plain plain "${@:2}"
	plain=$SAID
	tell plain leave
	end plain
	play talk p "${@:2}"
	equal "$1" "$plain" "$SAID"
	sleeps p
	wakes p
	tell p leave
	end p
	equal "$1: invalid calls" "$(invalid plain)" "$(invalid p)"
	for key in contexts live-allocations live-handles \
		live-mappings live-reservations registered; do
		equal "$1: $key" "$(ledger plain $key)" "$(ledger p $key)"
	done
	equal "$1: what it says" '' "$(<"$WORK/p.err")"
}

large=$((3 * M + 7))
mine=(primary "alloc a $large" "byte a 1" "alloc s 100" "byte s 2")
other=("create 1" "alloc b $large" "byte b 3" "alloc t 100" "byte t 4")
whole=("count a 1" "count s 2")
done=("free a" "free s")

alike "one of two contexts is destroyed" \
	"${mine[@]}" "${other[@]}" "holds 4 $((2 * large + 200))" \
	"destroy 1" "holds 2 $((large + 100))" current "free b" "free t" \
	"type b" "range t" "${whole[@]}" sleep wake "${whole[@]}" \
	"${done[@]}" "holds 0 0"

alike "one of two is destroyed while asleep" \
	"${mine[@]}" "${other[@]}" sleep "destroy 1" \
	"holds 2 $((large + 100))" current "free b" wake \
	"holds 2 $((large + 100))" "${whole[@]}" \
	"create 1" "alloc u $large" "byte u 5" "use 1" sleep wake "count u 5" \
	"free u" "destroy 1" "${whole[@]}" "${done[@]}" "holds 0 0"

alike "contexts are made and destroyed with their memory again and again" \
	"${mine[@]}" \
	"create 1" "alloc b 5000000" "destroy 1" "forget b" \
	"create 2" "alloc b 5000" sleep wake "destroy 2" "forget b" \
	"create 3" "alloc b 5000" sleep "destroy 3" wake "forget b" \
	"create 1" "alloc b 5000000" "byte b 9" "count b 9" \
	"holds 3 $((large + 100 + 5000000))" "destroy 1" \
	"holds 2 $((large + 100))" "${whole[@]}" "${done[@]}" "holds 0 0"

alike "the primary context is reset" \
	"${mine[@]}" sleep wake reset "holds 0 0" current "free a" \
	"alloc c $large" "forget a" "forget s" \
	"${mine[@]}" "holds 2 $((large + 100))" sleep wake "${whole[@]}" \
	"${done[@]}"

alike "the primary context is reset while asleep" \
	"${mine[@]}" sleep reset "holds 0 0" "free a" wake \
	"forget a" "forget s" "${mine[@]}" sleep wake "${whole[@]}" \
	"${done[@]}" "holds 0 0"

alike "it is reset by another thread, another context lives on" \
	"${other[@]}" "${mine[@]}" "holds 4 $((2 * large + 200))" \
	"fresh reset" "holds 2 $((large + 100))" "free a" "use 1" \
	"count b 3" sleep wake "count b 3" "count t 4" "free t" "free b" \
	"destroy 1" "holds 0 0"

alike "the last use of the primary context is released" \
	primary "${mine[@]}" release "${whole[@]}" \
	"holds 2 $((large + 100))" sleep wake "${whole[@]}" \
	release "holds 0 0" "free a" "forget a" "forget s" \
	"${mine[@]}" "${whole[@]}" sleep release "holds 0 0" wake "holds 0 0"

alike "memory of a green context is the primary one's" \
	primary "green 1" "use 1" "alloc a $large" "byte a 1" "alloc s 100" \
	"byte s 2" "holds 2 $((large + 100))" current sleep wake "${whole[@]}" \
	"stream 1" "later a 3" sleep wake "use 1" sync "count a 3" \
	"unstream 1" \
	"use" "ungreen 1" primary "count a 3" "count s 2" sleep wake \
	"count a 3" "${done[@]}" "holds 0 0"

alike "a green context is destroyed while asleep" \
	primary "green 1" "use 1" "alloc a $large" "byte a 1" "use" sleep \
	"ungreen 1" "holds 1 $large" wake "holds 1 $large" primary \
	"count a 1" "free a" "holds 0 0"

alike "a green context is the last to hold the primary one" \
	"green 1" "use 1" "alloc a $large" "byte a 1" sleep wake "count a 1" \
	"use" sleep "ungreen 1" "holds 0 0" wake "holds 0 0" "forget a" \
	"${mine[@]}" sleep wake "${whole[@]}" "${done[@]}"

alike "a reset ends green contexts too" \
	primary "green 1" "use 1" "alloc a $large" "byte a 1" "use" sleep \
	reset "holds 0 0" wake "forget a" "${mine[@]}" sleep wake \
	"${whole[@]}" "${done[@]}" "holds 0 0"

alike "what is no context" \
	"${mine[@]}" "destroy 5" "use 5" "create 1" "destroy 1" "destroy 1" \
	release release "holds 0 0"
