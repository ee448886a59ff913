#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A program puts itself to sleep and wakes itself, and runs meanwhile; what it
# and vsleepctl say of it is the same.  Its callbacks are told of every sleep,
# its own or not.  Where vsleep is not, it says so and does nothing.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

absent="ok present=0 version= rc=-1"
there="ok present=1 version=+([0-9]).+([0-9]).+([0-9]) rc=0"

# told NAME BEFORE AFTER: its callbacks have been called so often
told() {
	tell "$1" told
	answer "$1"
	[[ $ANSWER == "ok before=$2 after=$3" ]]
}

# nowhere NAME: nothing is present, before and after CUDA is called
nowhere() {
	ready "$1"
	ask "$1" present "$absent"
	ask "$1" "push kv" "ok rc=-1"
	ask "$1" cuda "ok rc=-1"
	ask "$1" "alloc a"
	ask "$1" present "$absent"
	ask "$1" "tag a" "ok tag=none"
	ask "$1" "sleep 1 - 0 1" "ok rc=-1 *"
	ask "$1" "check a" "ok bad=0"
	tell "$1" leave
	end "$1"
}

talk_plain plain "$BUILDDIR/asks"
nowhere plain
talk off VSLEEP_DISABLE=1 "$BUILDDIR/asks"
nowhere off
talk other VSLEEP_ONLY=puppet "$BUILDDIR/asks"
nowhere other

talk p VSLEEP_TAGS=kv=discard,tmp=keep "$BUILDDIR/asks"
ready p
ask p present "$there"
ask p "policy tmp" "ok policy=2"
ask p "policy kv 0" "ok policy=0"
ask p "sleep 1 - 0 1" "ok rc=-1 state=0 held=0 *message=no CUDA context yet"
ask p fork "$there"
ask p cuda "ok rc=0"
ask p fork "$absent"
ask p "policy kv" "ok policy=0"
ask p "push kv" "ok rc=0"
ask p "alloc a"
ask p pop "ok rc=0"
ask p "alloc b"

# it runs on, and what is awake can be used
ask p "sleep 1 kv 0 10" "ok rc=0 state=5 held=0 *message="
status p
expect state partial holds '' held-now 0 \
	evicted-bytes "$(word evicted "$ANSWER")"
equal "kv" asleep "$(of_tag kv state)"
ask p "check b" "ok bad=0"
ask p "wake kv 0 0" "ok rc=0 state=0 *"
ask p "check a" "ok bad=0"
within "callbacks of its own sleep" told p 1 1

# held, by its own wish, until it wakes itself
ask p "sleep 1 - 1 10" "ok rc=0 state=3 held=1 *"
equal "on the device" 0 "$(word resident "$ANSWER")"
tell p "wake - 0 0"
answer p
matches "its wake" "ok rc=0 state=0 held=0 *" "$ANSWER"
ask p "check a" "ok bad=0"
ask p "check b" "ok bad=0"
within "callbacks of the next" told p 2 2

# from outside: it is told as well
sleeps p
within "before" told p 3 2
ask p status "ok rc=0 state=3 held=1 *"
wakes p
within "after" told p 3 3
ask p status "ok rc=0 state=0 held=0 *"

# a pause, with a sleep in between
ask p "pause 10" "ok rc=0 state=0 held=1 *"
is p paused yes || fail "vsleepctl does not say that it is paused"
ask p "sleep 1 kv 0 10" "ok rc=0 state=5 held=1 *"
ask p "wake kv 0 0" "ok rc=0 state=0 held=1 *"
ask p resume "ok rc=0 state=0 held=0 *"
ask p "check a" "ok bad=0"

# what it may not ask for changes nothing
before=$(now p sequence)
ask p "sleep 3 - 0 1" "ok rc=9 *message=level=3: must be 1 or 2"
ask p "sleep 1 nosuch 0 1" "ok rc=9 *message=*nosuch*"
ask p "sleep 1 - 64 1" "ok rc=9 *message=flags=0x40*"
ask p "sleep 1 - 0 nan" "ok rc=9 *message=timeout=nan*"
ask p "wake - 0 -1" "ok rc=9 *message=wait=-1*"
ask p "push a/b" "ok rc=9"
equal "its sequence" "$before" "$(now p sequence)"
ask p "check a" "ok bad=0"
ask p "check b" "ok bad=0"
tell p leave
end p
lawful p
