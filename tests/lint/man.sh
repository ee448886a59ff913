#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The man pages name the verbs, options and settings that there are.
# $1, or VSLEEPCTL: the built vsleepctl.
. "$(dirname "$0")/lib.sh"

ctl=${1:-${VSLEEPCTL:-}}
[ -x "$ctl" ] || { fail "'$ctl' is no program"; finish; }
page=$root/man/vsleepctl.1
settings=$root/man/vsleep.7
calls=$root/man/vsleep.3
protocol=$root/man/vsleep-protocol.7

# The lines of section $2 (.Sh or .Ss $1) of the page.
section() {
	awk -v head="$1 $2" '
		$1 == ".Sh" || $1 == ".Ss" { inside = ($0 == head) }
		inside' "$page"
}

# The options that the items of a list describe.
items() {
	sed -n 's/^\.It Fl \(-[a-z-]*\).*/-\1/p' | sort -u
}

# The options that a help text describes.
options() {
	grep -oE '^  --[a-z-]+' | tr -d ' ' | sort -u
}

# Lines of $1 that are not in $2, and the other way round.
compare() {
	comm -23 "$1" "$2" | fail_each "$3: not in the man page"
	comm -13 "$1" "$2" | fail_each "$3: in the man page alone"
}

"$ctl" --help | sed -n 's/^  \([a-z]*\)  *.*/\1/p' | sort > "$work/verbs"
awk '$1 == ".Sh" { inside = ($2 == "VERBS") }
     inside && $1 == ".Ss" { print $2 }' "$page" | sort > "$work/man-verbs"
[ -s "$work/verbs" ] || fail "vsleepctl --help names no verb"
compare "$work/verbs" "$work/man-verbs" "verb"

section .Sh OPTIONS | items > "$work/common"
printf '%s\n' --help --version > "$work/used"
while read -r verb; do
	"$ctl" "$verb" --help | options > "$work/options"
	grep -qx -- --help "$work/options" ||
		fail "$verb --help names no --help"
	comm -12 "$work/options" "$work/common" >> "$work/used"
	comm -23 "$work/options" "$work/common" > "$work/own"
	section .Ss "$verb" | items > "$work/man-own"
	compare "$work/own" "$work/man-own" "option of $verb"
done < "$work/verbs"
sort -u "$work/used" > "$work/used-once"
compare "$work/used-once" "$work/common" "common option"

# "VERB KEY ..." for each verb of the protocol.
sed -n '/^static const struct verb verbs\[\]/,/^};/p' \
	"$root/src/control/command.c" | tr '\n\t' '  ' |
sed 's/"  *"//g; s/},/\n/g' |
sed -n 's/.*{ "\([a-z]*\)", *"\([a-z -]*\)",.*/\1 \2/p' |
sed 's/ *$//' | sort > "$work/keys"
protocol_section() {
	awk -v head=".Sh $1" '$1 == ".Sh" { inside = ($0 == head) }
		inside' "$protocol"
}
protocol_section VERBS | awk '
	$1 == ".Ss" { exit }
	$1 == ".It" { verb = $3; next }
	verb { sub(/^none$/, ""); sub(/^\.Cm /, " "); gsub(/ ,/, "")
	       print verb $0; verb = "" }' | sort > "$work/man-keys"
[ -s "$work/keys" ] || fail "the table of command.c was not understood"
compare "$work/keys" "$work/man-keys" "protocol"
sed 's/^[a-z]* *//' "$work/keys" | tr ' ' '\n' | grep . |
	sort -u > "$work/request-keys"
protocol_section VERBS | sed -n '/^\.Ss Keys/,$s/^\.It Cm //p' |
	sort > "$work/man-request-keys"
compare "$work/request-keys" "$work/man-request-keys" "key of requests"

# The keys of answers, without those of progress lines; the words of the lines
# about a tag or a device are in the text of these.
sed 's/\\n/ /g' "$root/src/control/reply.c" |
	grep -oE -e 'FIELD\("[a-z-]+"' -e '[a-z-]+=(%|"|ok)' \
		-e 'add_(line|decimal)\(text, "[a-z-]+"' |
	sed 's/.*"\([a-z-]*\)".*/\1/; s/=.*//' |
	grep -vxE 's|s-bytes|phase|done-bytes|total-bytes' |
	sort -u > "$work/answer-keys"
grep -qx status "$work/answer-keys" || fail "reply.c was not understood"
protocol_section ANSWERS | grep '^\.It Cm \|^\.Cm \|^\.Pq Cm ' |
	tr ' ,' '\n\n' | grep -xE '[a-z-]+' | sort -u > "$work/man-answer-words"
comm -23 "$work/answer-keys" "$work/man-answer-words" |
	fail_each "key of answers: not in the man page"
protocol_section ANSWERS | sed -n 's/^\.It Cm //p' | tr -d ' ' | tr ',' '\n' |
	grep -v '^unmanaged-Ns' | sort -u > "$work/man-answer-keys"
sed -n 's/^\t*\[VS_[A-Z]*\] = "\([a-z-]*\)",.*/\1/p' \
	"$root/src/base/why.c" > "$work/status-words"
echo bad-request >> "$work/status-words"
sort -u "$work/status-words" "$work/answer-keys" > "$work/known"
comm -13 "$work/known" "$work/man-answer-keys" |
	fail_each "key of answers: in the man page alone"

# ".It Ev NAME = DEFAULT" in vsleep(7) for each row of config.def.
printf '%s\n' '#define X(field, type, env, preset, help) env = preset' \
	'#include "base/config.def"' |
${CC:-cc} -E -P -I"$root/src" -x c - | tr -d '"' |
sed 's/ *$//; /^$/d' | sort > "$work/settings"
sed -n 's/^\.It Ev \(VSLEEP_[A-Z_]* =.*\)/\1/p' "$settings" |
sed 's/ *$//' | sort > "$work/man-settings"
[ -s "$work/settings" ] || fail "config.def was not understood"
compare "$work/settings" "$work/man-settings" "setting"

# The functions of vsleep.h, in the synopsis and among the names.
sed -n 's/^VSLEEP_FUNCTION([^,]*, *\(vsleep_[a-z_]*\),.*/\1/p' \
	"$root/include/vsleep.h" | sort > "$work/functions"
[ -s "$work/functions" ] || fail "vsleep.h was not understood"
awk '$1 == ".Sh" { inside = ($2 == "SYNOPSIS") }
     inside && ($1 == ".Fn" || $1 == ".Fo") { print $2 }' "$calls" |
	sort > "$work/man-functions"
compare "$work/functions" "$work/man-functions" "function"
sed -n 's/^\.Nm \(vsleep_[a-z_]*\).*/\1/p' "$calls" | sort > "$work/man-names"
compare "$work/functions" "$work/man-names" "name"

if command -v mandoc > /dev/null; then
	mandoc -T lint -W warning "$page" "$settings" "$calls" \
		"$protocol" > "$work/mandoc" \
		2> /dev/null ||
		fail_each < "$work/mandoc"
fi

finish
