#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Completion offers every verb and every option that the help names, and the
# processes and tags that there are.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

mkdir "$WORK/bin"
ln -s "$VSLEEPCTL" "$WORK/bin/vsleepctl"
PATH=$WORK/bin:$PATH
# shellcheck source=../../tools/completion/vsleepctl.bash
. "$SRCDIR/../tools/completion/vsleepctl.bash"

# offers WORD...: what may stand for the last one
offers() {
	COMP_WORDS=(vsleepctl "$@")
	COMP_CWORD=$#
	_vsleepctl
	printf '%s\n' "${COMPREPLY[@]}" | sort
}
# has WHAT WORD LIST
has() { grep -qxe "$2" <<<"$3" || fail "$1: no $2 in: $3"; }

mapfile -t verbs < <("$VSLEEPCTL" --help |
	awk '/^  [a-z]/ { print $1 }')
at_least "verbs" 11 ${#verbs[@]}
all=$(offers '')
for verb in "${verbs[@]}" --help --version; do
	has "the verbs" "$verb" "$all"
done
equal "offers for sl" "sleep" "$(offers sl)"
for verb in "${verbs[@]}"; do
	mapfile -t options < <("$VSLEEPCTL" "$verb" --help |
		awk '/^  --/ { print $1 }')
	at_least "options of $verb" 1 ${#options[@]}
	all=$(offers "$verb" -)
	equal "options of $verb" "$(printf '%s\n' "${options[@]}" | sort)" \
		"$all"
done

puppet p VSLEEP_TAGS=kv=discard
ask p "alloc a $M"
has "processes" "${PID[p]}" "$(offers sleep '')"
has "names" puppet "$(offers wake --name '')"
has "GPUs" 'GPU-.*' "$(offers wake --gpu '')"
has "trees" "${PID[p]}" "$(offers wake --tree '')"
has "tags" kv "$(offers sleep --tags '')"
has "a second tag" default,kv "$(offers sleep --tags default,k)"
equal "levels" "1 2" "$(offers sleep --level '' | paste -sd' ')"
has "states" asleep "$(offers wait --state a)"
has "programs" cat "$(offers run ca)"
has "programs after --" cat "$(offers run --tag x -- ca)"

# zsh_offers WORD...: what it would describe for the last one
# shellcheck disable=SC2016 # it is for zsh
zsh_offers() {
	HERE=$SRCDIR/../tools/completion zsh -f -c 'fpath=($HERE)
		autoload -Uz _vsleepctl
		_describe() { print -l -- ${${(P)2}%%:*} }
		words=(vsleepctl "$@") CURRENT=$((# + 1))
		_vsleepctl' zsh "$@" | sort
}
if command -v zsh >/dev/null; then
	equal "verbs for zsh" "$(printf '%s\n' "${verbs[@]}" --help --version |
		sort)" "$(zsh_offers '')"
	for verb in "${verbs[@]}"; do
		equal "options of $verb for zsh" "$(offers "$verb" -)" \
			"$(zsh_offers "$verb" -)"
	done
	equal "processes for zsh" "${PID[p]}" "$(zsh_offers sleep '')"
else
	echo "not tried: zsh, for want of it"
fi
leave p
