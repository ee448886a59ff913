#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Programs that end while awake, asleep, or while a sleep is under way: output
# and exit status as plain, no hang, no socket left after an orderly exit.

# shellcheck source=lib.sh
. "$HERE/lib.sh"

limit=10

# leave NAME MODE: make it go; HELD: did it have to be woken for that
leave() {
	local name=$1
	HELD=''
	if [[ $2 == wait ]]; then
		kill -TERM "${PID[$name]}"
	else
		tell "$name" go
	fi
	if ! within "$limit" gone "$name"; then
		HELD="held"
		state_is "$name" asleep && ctl wake "${PID[$name]}" &&
			within "$limit" gone "$name" && HELD="until woken"
	fi
	gone "$name" || end "$name"
	finish "$name"
}

# run_one [-p] WHEN MODE COMMAND...: prints "status|output|held"; runs in a
# subshell, so its random moments are seeded here
run_one() {
	local flags=(-i) name when mode sleeper=''
	RANDOM=$row_seed
	[[ $1 != -p ]] || { flags+=(-p) && shift; }
	when=$1 mode=$2 name=$2-$1
	shift 2
	start "${flags[@]}" "$name" 150 "$@"
	if ! within 90 marked "$name" ready; then
		echo "not ready: $(tail -n 1 "$WORK/$name.err")"
		end "$name"
		return
	fi
	case $when in
	asleep)
		ctl sleep "${PID[$name]}" || echo -n "sleep, status $?; "
		;;
	between)
		ctl sleep "${PID[$name]}" &
		sleeper=$!
		nap 40 120
		;;
	esac
	leave "$name" "$mode"
	[[ -z $sleeper ]] || wait "$sleeper"
	echo "$STATUS|$(tr '\n' ';' <"$WORK/$name.out")|$HELD"
	! compgen -G "$VSLEEP_DIR/${PID[$name]}*.sock" >/dev/null ||
		echo socket
}

# check_one MODE COMMAND...: all times for one way to leave
check_one() {
	local mode=$1 row_seed=$2 plain got when problem orderly=yes
	shift 2
	[[ $mode != wait && $mode != quick ]] || orderly=''
	plain=$(run_one plain "$mode" "$@" 2>>"$WORK/$mode.log")
	if [[ ! $plain =~ ^[0-9]+\| ]]; then
		row "$mode" plain "$plain" - "FAILED: no plain run"
		return
	fi
	for when in awake asleep between; do
		got=$(run_one -p "$when" "$mode" "$@" 2>>"$WORK/$mode.log")
		problem=''
		if [[ -n $orderly && $got == *socket* ]]; then
			problem="a socket was left; "
		fi
		got=${got%$'\n'socket}
		case $got in
		"$plain") ;;
		"${plain}until woken")
			# no exit handler has run yet: a call is a call
			[[ $mode == tls || $mode == late ]] ||
				problem+="held until woken"
			;;
		*) problem+="not as plain: $got" ;;
		esac
		[[ -z $problem ]] || excerpt "$mode-$when"
		row "$mode" "$when" "$plain" "${got##*|}" \
			"$(verdict "$problem")"
	done
}

header "leaves by" when "plain: status|output" held verdict
seed=$RANDOM
for mode in return free thread quick handler destructor tls wait; do
	seed=$((seed + 1))
	check_one "$mode" "$seed" "$BIN/exits" "$mode" &
	(($(jobs -rp | wc -l) < 5)) || wait -n
done
check_one python $((seed + 1)) python3 "$HERE/programs/exits.py" &
check_one late $((seed + 2)) python3 "$HERE/programs/exits.py" late &
wait
sort -o "$ROWS" "$ROWS"
