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
			[[ " tls worker late atexit " == *" $mode "* ]] ||
				problem+="held until woken"
			;;
		*) problem+="not as plain: $got" ;;
		esac
		[[ -z $problem ]] || excerpt "$mode-$when"
		row "$mode" "$when" "$plain" "${got##*|}" \
			"$(verdict "$problem")"
	done
}

# dump_of [-p] NAME: MiB on disk of the core of a hold with 8 GiB that aborts;
# preloaded it sleeps.  A core is written into the working folder.
dump_of() {
	local flags=() name
	[[ $1 != -p ]] || { flags=(-p) && shift; }
	name=$1
	mkdir -p "$WORK/$name.dump" && cd "$WORK/$name.dump" || return
	ulimit -c unlimited
	hold_up "${flags[@]}" "$name" && ask "$name" 60 "mix 8192" &&
		ask "$name" 60 "fill 1" || echo -n "no 8 GiB; "
	[[ ${#flags[@]} -eq 0 ]] || ctl sleep "${PID[$name]}" ||
		echo -n "sleep, status $?; "
	end "$name" ABRT
	du -sm . | cut -f 1
	cd "$WORK" && rm -rf "$WORK/$name.dump"
}

# Backups are no part of a core dump.
dumps() {
	local pattern plain asleep problem=''
	pattern=$(cat /proc/sys/kernel/core_pattern)
	if [[ $pattern == [/\|]* ]]; then
		row "core dump" asleep - - "skipped: cores go to $pattern"
		return
	fi
	plain=$(dump_of dump-plain)
	asleep=$(dump_of -p dump-asleep)
	at_least "$plain" 1 && at_most "$asleep" $((plain + 64)) ||
		problem="more than 64 MiB over plain"
	row "core dump" asleep "$plain MiB" "$asleep MiB" \
		"$(verdict "$problem")"
}

header "leaves by" when "plain: status|output" held verdict
seed=$RANDOM
for mode in return free thread quick handler destructor tls worker wait; do
	seed=$((seed + 1))
	check_one "$mode" "$seed" "$BIN/exits" "$mode" &
	(($(jobs -rp | wc -l) < 5)) || wait -n
done
check_one python $((seed + 1)) python3 "$HERE/programs/exits.py" &
for mode in late atexit; do
	check_one "$mode" $((seed + 2)) python3 "$HERE/programs/exits.py" \
		"$mode" &
done
wait
dumps
sort -o "$ROWS" "$ROWS"
