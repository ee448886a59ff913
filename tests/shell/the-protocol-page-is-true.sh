#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The examples of vsleep-protocol(7), sent one after the other to a program,
# are answered as the page shows: with the same status and state, with every
# key that is shown, and with none that the page does not describe.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"
page=$SRCDIR/../man/vsleep-protocol.7
command -v socat >/dev/null || skip "socat is not there"

# The displays of the section EXAMPLES: requests and answers by turns.
awk -v out="$WORK/example" '
	$1 == ".Sh" { inside = ($2 == "EXAMPLES") }
	inside && $1 == ".Bd" { n++; name = sprintf("%s.%02d", out, n); next }
	inside && $1 == ".Ed" { name = "" }
	name {
		if (sub(/ *\\e$/, " ")) { sub(/^ +/, ""); printf "%s", $0 > name
			joined = 1; next }
		if (joined) sub(/^ +/, "")
		joined = 0
		sub(/^\\&/, "")
		print > name
	}' "$page"
shown=("$WORK"/example.*)
at_least "examples" 10 $((${#shown[@]} / 2))
equal "requests without an answer" 0 $((${#shown[@]} % 2))

# The keys that the page describes.
described=" $(awk '
	$1 == ".Sh" { inside = ($2 == "ANSWERS") }
	inside && $1 == ".It" && $2 == "Cm" {
		sub(/^\.It Cm /, ""); gsub(/[ ,]+/, " "); printf "%s ", $0 }' \
	"$page")"

# words LINE: the keys in a line about a tag or a device
words() { grep -oE '(^| )[a-z-]+=' <<<"$1" | tr -d ' ='; }

# compare NAME SHOWN GOT: two answers
compare() {
	local what=$1 line key found
	while IFS= read -r line; do
		key=${line%%=*}
		[[ $line != ... ]] || continue
		found=$(grep -m1 "^$key=" <<<"$3") ||
			fail "$what: $key is shown and does not come: $3"
		case $key in
		status | state | holds | paused | cancelled | setting)
			grep -qxF -- "$line" <<<"$3" ||
				fail "$what: shown '$line', came '$found'"
			;;
		tag | device)
			equal "$what: words about a $key" "$(words "$line")" \
				"$(words "$found")"
			;;
		esac
	done <<<"$2"
	while IFS= read -r line; do
		key=${line%%=*}
		[[ $described == *" $key "* || $key == unmanaged-*-bytes ]] ||
			fail "$what: the page does not describe '$line'"
	done <<<"$3"
}

# blocks FILE: its messages in BLOCKS
blocks() {
	local text='' line
	BLOCKS=()
	while IFS= read -r line; do
		if [[ $line ]]; then
			text+=$line$'\n'
		elif [[ $text ]]; then
			BLOCKS+=("${text%$'\n'}")
			text=''
		fi
	done <"$1"
	equal "what follows the last empty line of $1" '' "$text"
}

puppet p
socket=$VSLEEP_DIR/$(sock "${PID[p]}")
for ((i = 0; i < ${#shown[@]}; i += 2)); do
	request=$(head -n 1 "${shown[i]}")
	timeout "$PATIENCE" socat -t "$PATIENCE" - "UNIX-CONNECT:$socket" \
		<"${shown[i]}" >"$WORK/answer" || fail "$request: no answer"
	blocks "${shown[i + 1]}"
	expected=("${BLOCKS[@]}")
	blocks "$WORK/answer"
	equal "$request: answers" "${#expected[@]}" "${#BLOCKS[@]}"
	for n in "${!expected[@]}"; do
		compare "$request, answer $n" "${expected[n]}" "${BLOCKS[n]}"
	done
	echo "as shown: $request"
done
# the whole status has been shown
blocks "${shown[1]}"
first=${BLOCKS[0]}
ctl 0 wake "${PID[p]}"
status p
for key in $(sed 's/=.*//' <<<"$OUT"); do
	[[ $key == @(used|kept|kept-why|gib-per-second|last-error) ]] ||
		grep -q "^$key=" <<<"$first" ||
		fail "the example of status lacks $key"
done
tell p "leave return"
end p
