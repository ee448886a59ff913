#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A blocking call that our signals meet goes on; those that no handler lets go
# on, see signal(7), return EINTR, and these only.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

goes_on="read readv write recv accept open waitpid waitid flock fcntl sem_wait
	futex pthread_cond_wait"
returns="sem_timedwait recv-with-timeout poll ppoll select pselect epoll_wait
	nanosleep clock_nanosleep usleep sleep pause sigsuspend sigwaitinfo
	sigtimedwait msgrcv semop"

start r "$BUILDDIR/restarts"
end r
for call in $goes_on; do
	grep -qx "$call goes on" "$WORK/r.text" ||
		fail "$(grep "^$call " "$WORK/r.text")"
done
for call in $returns; do
	grep -qx "$call EINTR" "$WORK/r.text" ||
		fail "$(grep "^$call " "$WORK/r.text")"
done
equal "calls" "$(wc -w <<<"$goes_on $returns")" "$(wc -l <"$WORK/r.text")"
equal "what it says" '' "$(<"$WORK/r.err")"
