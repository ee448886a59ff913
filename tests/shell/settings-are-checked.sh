#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A setting with a wrong value gives one line that names it and what would be
# right, and the program runs with the default.  Where no socket can be had one
# line says why, and the signals work.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

settings=$(sed -n 's/^X([a-z_]*, [A-Z]*, "\([A-Z_]*\)".*/\1/p' \
	"$SRCDIR/../src/base/config.def")
at_least "settings that were found" 11 "$(wc -w <<<"$settings")"
for setting in $settings; do
	[[ ! -v $setting || $setting == VSLEEP_DIR ]] || unset "$setting"
done

# works NAME: it can be put to sleep, and its bytes are right
works() {
	ask "$1" "alloc x $((3 * M))"
	ask "$1" "fill x 1"
	sleeps "$1"
	wakes "$1"
	ask "$1" "check x" "ok bad=0"
}

# said NAME PATTERN: this alone is on its stderr
said() {
	equal "lines of $1" 1 "$(wc -l <"$WORK/$1.err")"
	matches "what $1 says" "vsleep[[]${PID[$1]}[]] $2" "$(<"$WORK/$1.err")"
}

# tags NAME: what is left out or native would show here
tags() { status "$1" && grep -o '^tag=[^ ]*' <<<"$OUT"; }

# wrong SETTING VALUE PATTERN: and the rest is as by default
wrong() {
	tried+=" $1"
	puppet w "$1=$2"
	said w "@(warning|error): $1$3"
	works w
	equal "the tags" tag=default "$(tags w)"
	leave w
	equal "lines at the end" 1 "$(wc -l <"$WORK/w.err")"
}
# the one takes any text, the other is below
tried=' VSLEEP_ONLY VSLEEP_DIR VSLEEP_SPILL_DIR'
wrong VSLEEP_DISABLE yes '=yes is not valid (0|1: *); using "0"'
wrong VSLEEP_VERIFY 2 '=2 is not valid (0|1: *); using "0"'
wrong VSLEEP_LOG "$WORK/none/log" "=$WORK/none/log: *stderr"
wrong VSLEEP_LOG_LEVEL loud \
	'=loud * error, warning, info, debug, trace; using info'
wrong VSLEEP_TAG 'a b' ': bad tag "a b": 1 to 64 of letters, *; using "default"'
wrong VSLEEP_TAGS w=drop \
	': "w=drop" is not NAME=offload, NAME=discard or NAME=keep; left out'
wrong VSLEEP_TAGS w ': "w" is not NAME=offload*'
wrong VSLEEP_TAGS =keep ': bad tag "": 1 to 64 of letters*'
for value in soon -1 0 86401 1s; do
	wrong VSLEEP_TIMEOUT $value "=$value *0.001 to 86400*; using \"10\""
done
for value in lots -1 1X 1MM 99999999999T; do
	wrong VSLEEP_HOST_LIMIT $value "=$value *K, M, G or T;*using \"0\""
done
for value in many -1 65; do
	wrong VSLEEP_THREADS $value "=$value *1 to 64*; using \"0\""
done
wrong VSLEEP_RETAIN maybe '=maybe is not valid (auto|yes|no: *using "auto"'
wrong VSLEEP_PREPARE maybe '=maybe is not valid (0|1: *using "0"'
for value in nativ native: native:x native:9-8; do
	wrong VSLEEP_IPC $value "=$value is none of auto, *; using auto"
done

# no signal at all rather than another than the one that was meant
for value in USR1 USR1,USR1 HUP,TERM USR1,USR2,HUP RTMIN+1,RTMIN+99; do
	tried+=" VSLEEP_SIGNALS"
	puppet s VSLEEP_SIGNALS=$value
	said s "error: VSLEEP_SIGNALS=$value: must be none or two of USR1, USR2\
 *; no signal sleeps or wakes"
	works s
	kill -s USR1 "${PID[s]}"
	end s $((128 + $(kill -l USR1)))
done
for value in USR1 USR2 HUP 39 RTMIN+99; do
	wrong VSLEEP_MARK_SIGNAL $value "=$value: must be none or one of USR1,\
 USR2 * no signal sets the marker"
done
for setting in $settings; do
	matches "the settings tried" "* $setting *" "$tried "
done

# what is wrong is said where VSLEEP_LOG has it
puppet l VSLEEP_LOG="$WORK/wrong.log" VSLEEP_TIMEOUT=soon VSLEEP_LOG_LEVEL=loud
for what in 'VSLEEP_TIMEOUT=soon is not valid' 'VSLEEP_LOG_LEVEL=loud is none'
do
	equal "lines of the log with $what" 1 \
		"$(grep -c "warning: $what" "$WORK/wrong.log")"
done
equal "lines on its stderr" 0 "$(wc -l <"$WORK/l.err")"
works l
leave l

# the log: where it is to be, and no more than asked for
puppet l VSLEEP_LOG="$WORK/l.log"
works l
grep -q "^vsleep\[${PID[l]}\] info: asleep: " "$WORK/l.log" ||
	fail "no line about the sleep"
leave l
equal "on stderr" '' "$(<"$WORK/l.err")"
equal "the mode of the log" 600 "$(stat -c %a "$WORK/l.log")"
for level in error warning; do
	puppet l VSLEEP_LOG="$WORK/l.log" VSLEEP_LOG_LEVEL=$level
	works l
	leave l
	equal "with level $level" '' "$(cat "$WORK/l.log" "$WORK/l.err")"
done
echo earlier >"$WORK/kept.log"
puppet l VSLEEP_LOG="$WORK/kept.log" VSLEEP_LOG_LEVEL=trace
works l
leave l
equal "what was in the log" earlier "$(head -n 1 "$WORK/kept.log")"
at_least "lines" 2 "$(wc -l <"$WORK/kept.log")"

# no socket
released() { [[ $(device "$1") == 0 ]]; }
long=$WORK/$(printf 'x%.0s' {1..100})
mkdir -m 700 "$WORK/target" "$WORK/foreign"
mkdir -m 755 "$WORK/open"
ln -s target "$WORK/link"
touch "$WORK/file"
if ((EUID == 0)); then
	chown 65534 "$WORK/foreign"
	foreign=$WORK/foreign
else
	foreign=/
fi
tried=0
while read -r dir pattern; do
	tried=$((tried + 1))
	puppet d VSLEEP_DIR="$dir"
	said d "error: no control socket, *: $pattern"
	ask d "alloc a $((3 * M))"
	ask d "fill a 1"
	kill -s USR1 "${PID[d]}"
	within "a sleep by signal" released d
	kill -s USR2 "${PID[d]}"
	ask d "check a" "ok bad=0"
	at_least "on the device" $((3 * M)) "$(device d)"
	tell d "leave free"
	end d
	lawful d
	equal "lines at the end" 1 "$(wc -l <"$WORK/d.err")"
done <<END
$WORK/link $WORK/link is a symbolic link; it must be a directory
$WORK/link/ $WORK/link is a symbolic link; it must be a directory
$WORK/file $WORK/file is not a directory
$WORK/open $WORK/open has mode 0755; it must be 0700
$WORK/none/run mkdir $WORK/none/run: *
$foreign $foreign belongs to user *
$long the path of the socket takes * set VSLEEP_DIR to a shorter directory*
run VSLEEP_DIR=run: must be an absolute path
END
equal "directories tried" 8 $tried
for dir in target foreign open; do
	equal "what is in $dir" '' "$(ls -A "$WORK/$dir")"
done
equal "the open directory's mode" 755 "$(stat -c %a "$WORK/open")"
[[ ! -e $long ]] || fail "a directory whose socket has no room"
[[ ! -s $WORK/file ]] || fail "something was written to a file"
