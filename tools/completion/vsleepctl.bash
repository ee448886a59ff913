# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Completion of vsleepctl for bash.  Verbs and options come from vsleepctl's
# own help, processes and tags from the processes that it finds.

_vsleepctl_verbs() {
	vsleepctl --help 2>/dev/null | sed -n 's/^  \([a-z]*\)  *.*/\1/p'
}

_vsleepctl_options() {
	vsleepctl "$1" --help 2>/dev/null | grep -oE '^  --[a-z-]+' | tr -d ' '
}

_vsleepctl_found() {
	vsleepctl list --plain 2>/dev/null | case $1 in
	pid) sed -n 's/^pid=\([0-9]*\) .*/\1/p' ;;
	name) sed -n 's/.* name=\(.*\)/\1/p' ;;
	esac | sort -u
}

_vsleepctl_told() {
	vsleepctl status --all --plain 2>/dev/null | case $1 in
	tag) sed -n 's/^tag=\([^ ]*\) .*/\1/p' ;;
	gpu) sed -n 's/^device=.* uuid=\([^ ]*\) .*/\1/p' ;;
	esac | sort -u
}

# What may follow $1, an option; fails where it takes nothing.
_vsleepctl_values() {
	case $1 in
	--level) echo 1 2 ;;
	--state) echo awake asleep partial ;;
	--tag | --tags) _vsleepctl_told tag ;;
	--name) _vsleepctl_found name ;;
	--gpu) _vsleepctl_told gpu ;;
	--tree) _vsleepctl_found pid ;;
	--timeout | --wait) ;;
	*) return 1 ;;
	esac
}

# The list of tags up to its last comma stays.
_vsleepctl_reply() {
	local word=$2 before=''
	if [[ $word == *,* ]]; then
		before=${word%,*},
		word=${word##*,}
	fi
	mapfile -t COMPREPLY < <(compgen -P "$before" -W "$1" -- "$word")
}

_vsleepctl() {
	local word=${COMP_WORDS[COMP_CWORD]} verb=${COMP_WORDS[1]} values i
	COMPREPLY=()
	if ((COMP_CWORD == 1)); then
		_vsleepctl_reply "$(_vsleepctl_verbs) --help --version" "$word"
		return
	fi
	if values=$(_vsleepctl_values "${COMP_WORDS[COMP_CWORD - 1]}"); then
		_vsleepctl_reply "$values" "$word"
		return
	fi
	if [[ $verb == @(run|doctor) ]]; then
		for ((i = 2; i < COMP_CWORD; i++)); do
			[[ ${COMP_WORDS[i]} != -- ]] || break
		done
		if ((i < COMP_CWORD)) || [[ $verb == run && $word != -* ]]; then
			mapfile -t COMPREPLY < <(compgen -c -- "$word")
			return
		fi
	fi
	if [[ $word == -* ]]; then
		_vsleepctl_reply "$(_vsleepctl_options "$verb")" "$word"
	elif [[ $verb != list ]]; then
		_vsleepctl_reply "$(_vsleepctl_found pid)" "$word"
	fi
}

complete -F _vsleepctl vsleepctl
