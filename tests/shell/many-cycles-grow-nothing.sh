#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# 300 cycles, with allocations that come and go between them and tags to offload
# and to discard: every block holds what it must, and memory, descriptors,
# mappings and threads stay as they were after the first.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

PATIENCE=120
start p VSLEEP_TAGS=d=discard VSLEEP_SIM_GRANULARITY=64K \
	"$BUILDDIR/endure" "${CYCLES:-300}"
within "the end" ended p
grep -q "^cycle ${CYCLES:-300}: rss" "$WORK/p.text" ||
	fail "$(tail -n 40 "$WORK/p.text")"
end p
clean p
