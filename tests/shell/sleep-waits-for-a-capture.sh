#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A sleep asked for in the middle of a graph capture waits for its end.  The
# capture is whole, and the graph runs before and after the sleep.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

puppet p
ask p "alloc a $((3 * M))"
ask p "fill a 1"
ask p "begin"
ask p "add a 1"
sleeps p &
sleeper=$!
within "the sleep to begin" is p state draining
# nothing holds the program meanwhile
for i in 2 3 4; do
	ask p "add a $i"
	status p
	expect state draining held-now 0
done
# the sleep may come in before the graph is made
tell p end
wait "$sleeper" || exit 1
status p
expect state asleep resident-bytes 0 last-error ''
tell p launch
held p 1
wakes p
answer p
equal "the end of the capture" "ok nodes=4" "$ANSWER"
answer p
equal "the launch" ok "$ANSWER"
ask p launch
ask p sync
ask p "add a $((4294967296 - 20))"
ask p sync
ask p "check a" "ok bad=0"
leave p
