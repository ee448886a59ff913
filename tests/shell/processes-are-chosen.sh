#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Processes are chosen by number, name, GPU and tree, and no others are touched.
# Of a tree those without vsleep are told and do no harm; a number without
# vsleep is an error, and so is a choice that nothing fits.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

# a parent without CUDA, three workers with and two without
export VSLEEP_SIM_DEVICES=2
# shellcheck disable=SC2016 # it is for the shell that is started
start_plain parent WORK="$WORK" LIB="$LIBVSLEEP" FAMILY="$BUILDDIR/family" \
	bash -c 'for n in 1 2 3; do
		LEAF=$WORK/leaf.$n LD_PRELOAD=$LIB "$FAMILY" leaf &
	done
	for n in 4 5; do
		sleep 1000 &
		echo $! >"$WORK/leaf.$n"
	done
	wait'
for n in {1..5}; do
	within "worker $n" test -s "$WORK/leaf.$n"
	PID[$n]=$(<"$WORK/leaf.$n")
done
workers="${PID[1]} ${PID[2]} ${PID[3]}"
puppet p DEVICE=1
ask p "alloc a $((3 * M))"

# answers STATUS: the processes whose answer has it
answers() {
	awk -F= -v want="$1" '
		$1 == "status" { status = $2 }
		$1 == "pid" && status == want { print $2 }' <<<"$OUT" |
		paste -sd' '
}
sorted() { xargs -n1 <<<"$1" | sort -n | paste -sd' '; }
asleep() {
	ctl 0 list
	sed -n 's/^pid=\([0-9]*\) state=asleep .*/\1/p' <<<"$OUT" | sort -n |
		paste -sd' '
}
alive() {
	local name
	for name in "${!PID[@]}"; do
		kill -0 "${PID[$name]}" || fail "$name was harmed"
	done
}

# ---- by number -------------------------------------------------------------

( : ) &
dead=$!
wait $dead
for pid in "${PID[parent]}" "${PID[4]}" "${PID[5]}" $dead 1; do
	ctl 6 sleep "$pid"
	matches "what it says of $pid" \
		"vsleepctl: no vsleep in process $pid: *" "$ERR"
	equal "those that sleep" '' "$(asleep)"
done
for n in 1 2 3; do
	ctl 0 sleep "${PID[$n]}"
done
equal "those that sleep" "$(sorted "$workers")" "$(asleep)"
threads=("/proc/${PID[2]}/task"/*)
ctl 0 wake "${threads[-1]##*/}" "${PID[2]}"
equal "one process is asked once" "${PID[2]}" "$(answers ok)"
matches "what it says of a thread" "*is a thread of process ${PID[2]}" "$ERR"
equal "those that sleep" "$(sorted "${PID[1]} ${PID[3]}")" "$(asleep)"
ctl 0 wake "${PID[1]}" "${PID[3]}"
alive

if ((EUID == 0)); then
	setpriv --reuid 65534 --clear-groups sleep 1000 &
	PID[other]=$!
	theirs() { [[ $(stat -c %u "/proc/${PID[other]}") == 65534 ]]; }
	within "another user's process" theirs
	ctl 6 sleep "${PID[other]}"
	matches "another user's process" \
		"*belongs to user 65534; VSLEEP_DIR *" "$ERR"
	chmod 711 "$WORK"
	cp "$VSLEEPCTL" "$WORK/vsleepctl"
	ERR=$(env -u VSLEEP_DIR setpriv --reuid 65534 --clear-groups \
		"$WORK/vsleepctl" sleep "${PID[p]}" 2>&1)
	equal "status for another user" 6 $?
	matches "for another user" \
		"*process ${PID[p]}: it belongs to user 0,*" "$ERR"
	alive
	kill "${PID[other]}"
	unset "PID[other]"
else
	echo "not tried: another user, for want of root"
fi

# ---- a tree ----------------------------------------------------------------

ctl 0 sleep --tree "${PID[parent]}"
equal "done in the tree" "$(sorted "$workers")" "$(sorted "$(answers ok)")"
equal "not applicable in the tree" \
	"$(sorted "${PID[parent]} ${PID[4]} ${PID[5]}")" \
	"$(sorted "$(answers not-applicable)")"
equal "those that sleep" "$(sorted "$workers")" "$(asleep)"
alive
ctl 0 wake --tree "${PID[1]}"
equal "awake now" "${PID[1]}" "$(answers ok)"
ctl 0 wake --tree "${PID[2]}" --tree "${PID[3]}"
equal "those that sleep" '' "$(asleep)"
ctl 6 sleep --tree "${PID[4]}"
matches "a tree without vsleep" "*nothing is selected*" "$ERR"
ctl 6 sleep --tree $dead
matches "a tree that is gone" "*--tree $dead: there is no such process" "$ERR"
ctl 2 sleep --tree abc

# ---- by name and GPU -------------------------------------------------------

# chosen EXPECTED OPTION...: whom a status is asked of
chosen() {
	ctl 0 status "${@:2}"
	equal "chosen by ${*:2}" "$(sorted "$1")" "$(sorted "$(answers ok)")"
}
uuid() { word uuid "$(grep ^device= <<<"$OUT")"; }
chosen "$workers" --name family
chosen "${PID[p]}" --name puppet
chosen "$workers ${PID[p]}" --name family --name puppet
chosen "$workers ${PID[p]}" --all
chosen "${PID[2]}" --name family "${PID[2]}"
chosen "$workers" --tree $$ --name family
chosen "$workers" --gpu 0
chosen "${PID[p]}" --gpu 1
chosen "${PID[p]}" --gpu "$(uuid)"
chosen "$workers ${PID[p]}" --gpu 0 --gpu 1
chosen "${PID[p]}" --gpu 1 --name puppet --name family
for none in "--name family --gpu 1" "--gpu 1 ${PID[2]}" "--name famil" \
	"--gpu GPU-00000000-0000-0000-0000-000000000000"; do
	# shellcheck disable=SC2086 # words
	ctl 6 sleep $none
	matches "$none" "*nothing is selected*" "$ERR"
done
equal "those that sleep" '' "$(asleep)"
for wrong in x -1 GPU-12 99999999; do
	ctl 2 sleep --gpu "$wrong"
	matches "--gpu $wrong" "*--gpu $wrong: *" "$ERR"
done
# shellcheck disable=SC2046 # words
ctl 2 sleep $(printf -- '--name x%.0s ' {1..65})
matches "65 names" "*64 times*" "$ERR"
ctl 6 status --gpu 0 "${PID[4]}"
matches "a number without vsleep" "vsleepctl: no vsleep in *" "$ERR"

# nvidia-smi counts all GPUs of the machine, by place
places='mount -t tmpfs none /proc/driver &&
	mkdir -p /proc/driver/nvidia/gpus/0000:00:1f.0 \
		/proc/driver/nvidia/gpus/0000:02:00.0 \
		/proc/driver/nvidia/gpus/0000:01:00.0'
if unshare -m sh -c "$places" 2>/dev/null; then
	# at INDEX: the processes chosen by it
	at() {
		OUT=$(unshare -m sh -c "$places"'; exec "$@"' sh \
			"$VSLEEPCTL" status --gpu "$1" 2>&1)
		answers ok
	}
	at 0 >/dev/null
	equal "on the first GPU" '' "$(at 0)"
	equal "on the second GPU" "$(sorted "$workers")" "$(sorted "$(at 1)")"
	equal "on the third GPU" "${PID[p]}" "$(at 2)"
	at 3 >/dev/null
	OUT=$(unshare -m sh -c "$places"'; exec "$@"' sh "$VSLEEPCTL" \
		status --gpu 3 2>&1)
	matches "there is no fourth" "*this machine has GPU 0 to 2*" "$OUT"
else
	echo "not tried: places of GPUs, for want of a mount namespace"
fi

# ---- tags, and one that is stopped ----------------------------------------

ctl 0 tag --name family w
for n in 1 2 3; do
	ctl 0 status "${PID[$n]}"
	expect marker w
done
equal "the marker of another" '' "$(now p marker)"
ctl 2 tag --all
ctl 0 tag --clear --all

# it may be on any GPU: no answer is no success
stop 1
ctl 3 wait --timeout 0.2 "${PID[1]}"
matches "a wait for it" "*process ${PID[1]}: busy: it does not answer" "$ERR"
ctl 1 sleep --gpu 1
matches "one that does not answer" "*process ${PID[1]}: *answer*" "$ERR"
ctl 0 sleep --name puppet
equal "the state" asleep "$(now p state)"
kill -CONT "${PID[1]}"
ctl 0 wake --all
equal "those that sleep" '' "$(asleep)"
alive
leave p
