#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# qemu.sh FOLDER PROGRAM: a unit test that was built for aarch64, run by
# qemu-user; in FOLDER is the simulated driver.
#
# A case that fails for what qemu does not do, by the list below, is no
# failure: program, case (and which of a loop), reason.  QEMU_LIMIT: seconds.

limits() {
	cat <<'END'
check_gate_threads a_child_passes_the_shut_gate_of_its_parent:1 wipe
check_gate_threads a_gate_that_cannot_be_shut_for_certain_stays_open:0 filter
check_gate_start where_the_kernel_refuses_a_child_passes_the_shut_gate:1 wipe
check_gate_start where_the_kernel_refuses_a_child_passes_the_shut_gate:5 wipe
check_gate_start where_the_kernel_refuses_a_child_passes_the_shut_gate:8 wipe
check_gate_start where_the_kernel_refuses_a_child_passes_the_shut_gate:9 wipe
check_gate_start where_the_kernel_refuses_a_child_passes_the_shut_gate:10 wipe
check_gate_start where_the_kernel_refuses_a_child_passes_the_shut_gate:11 wipe
check_store a_forked_child_does_not_have_the_blocks:0 fork
check_server the_thread_blocks_every_signal_and_its_maker_none:0 mask
check_query a_buffer_id_is_never_used_twice:1 address
check_simproc processes_share_a_device_until_they_die:0 born
END
}

reason() {
	case $1 in
	wipe) echo "MADV_WIPEONFORK is accepted and not followed" ;;
	filter) echo "there are no filters of system calls" ;;
	fork) echo "MADV_DONTFORK is accepted and not followed" ;;
	mask) echo "a thread's signal mask is not the one in /proc" ;;
	address) echo "mmap does not give an address again that became free" ;;
	born) echo "a child reads its parent's start time in /proc" ;;
	esac
}

log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
name=${2##*/}
timeout -k 5 "${QEMU_LIMIT:-240}" qemu-aarch64-static \
	-L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH="$1" "$2" 2>&1 |
	tee "$log"
rc=${PIPESTATUS[0]}
[[ $rc -ne 0 ]] || exit 0
[[ $rc -eq 1 ]] || exit "$rc"

mapfile -t cases < <(sed -n \
	's/^[^ ]*:[0-9]*:[FES]:[^:]*:\([a-z0-9_]*:[0-9]*\): .*/\1/p' "$log")
count=$(sed -n 's/^.*Failures: \([0-9]*\), Errors: \([0-9]*\)$/\1 + \2/p' \
	"$log")
[[ ${#cases[@]} -gt 0 && ${#cases[@]} -eq $((count)) ]] || exit 1
for case in "${cases[@]}"; do
	why=$(limits | sed -n "s/^$name $case //p")
	[[ -n $why ]] || exit 1
	echo "not under qemu: $case: $(reason "$why")"
done
