#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every order of four sleeps and wakes of all tags, of one, of one to discard
# and of level 2: after each the state is that of a model, the bytes are right
# once all is awake, the last one given again does nothing, and at the end
# nothing is left.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

PATIENCE=120
start p VSLEEP_TAGS=a=offload,d=discard VSLEEP_SIM_GRANULARITY=64K \
	"$BUILDDIR/orders"
within "the end" ended p
[[ $(<"$WORK/p.text") == "1296 orders" ]] ||
	fail "$(tail -n 40 "$WORK/p.text")"
end p
clean p
