#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# vsleepctl and a library of another version: what an answer lacks is left out,
# what is new in it is passed over, and what cannot be done is said.

# shellcheck source=lib.sh
. "${0%/*}/lib.sh"

command -v python3 >/dev/null || skip "needs Python"
mkdir -m 700 "$VSLEEP_DIR"
cat >"$WORK/other.py" <<'END'
import os, socket, sys, threading
STATUS = {
    'older': 'status=ok\nstate=awake\nresident-bytes=8\npid=%d\nname=older',
    'newer': 'status=ok\nstate=dreaming\nshade=blue\nno key\nbell=\x07\xe4\n'
             'resident-bytes=99999999999999999999999999\n'
             'unmanaged-cloud-bytes=9\npid=%d\nname=newer\n'
             'tag=t policy=odd state=adrift more=1\ndevice=0\ndevice=\n'
             'kept=\nkept=12\nobstacle=\nsetting=A\nsetting=\ntag=\nlong='
             + 'x' * 3000,
    'huge': 'status=ok\nstate=asleep\npid=%d\n' + '\n'.join(
        'tag=' + 'x' * 64 + ' evicted-bytes=1' for _ in range(300)),
}
OTHER = {
    'huge': STATUS['huge'].replace('pid=%d\n', ''),
    'older': 'status=bad-request\nmessage=there is no verb',
    'newer': 'status=splendid',
}

def serve(client, kind):
    text = b''
    while True:
        more = client.recv(4096)
        if not more:
            return
        text += more
        while b'\n\n' in text:
            request, text = text.split(b'\n\n', 1)
            verb = request.split(b'\n')[0].split()[-1]
            answer = (STATUS[kind] % os.getpid() if verb == b'status'
                      else OTHER[kind])
            client.sendall(answer.encode() + b'\n\n')

listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[2] % os.getpid())
listener.listen(64)
print('ready', flush=True)
while True:
    threading.Thread(target=serve, daemon=True,
                     args=(listener.accept()[0], sys.argv[1])).start()
END

for kind in older newer huge; do
	talk_plain $kind python3 "$WORK/other.py" $kind \
		"$VSLEEP_DIR/$(sock %d)"
	answer $kind
	equal "the start" ready "$ANSWER"
done

# valid JSON, one value on each line
valid() {
	python3 -c 'import json, sys; [json.loads(s) for s in sys.stdin]' \
		<<<"$OUT" || fail "no JSON: $OUT"
}

for kind in older newer; do
	ctl 0 status "${PID[$kind]}"
	expect pid "${PID[$kind]}" name $kind
	ctl 0 status --json "${PID[$kind]}"
	valid
	for verb in sleep "sleep --dry-run" wake pause resume cancel config; do
		# shellcheck disable=SC2086 # words
		ctl 1 $verb --json "${PID[$kind]}"
		valid
		matches "the object of $verb" "*\"pid\": ${PID[$kind]}*" "$OUT"
	done
done
matches "what is said of a new status" \
	"vsleepctl: process ${PID[newer]}: splendid" "$ERR"
ctl 0 status "${PID[newer]}"
expect bell '???' long "$(printf 'x%.0s' {1..3000})"
ctl 0 list --json
valid
ctl 0 wait --timeout "$PATIENCE" "${PID[older]}"
ctl 3 wait --timeout 0.1 "${PID[newer]}"
matches "what it waits for" "*: busy: still dreaming" "$ERR"

# a group with one that knows of no groups: none sleeps
puppet p
ask p "alloc a $M"
ctl 1 sleep "${PID[p]}" "${PID[older]}"
matches "who could not" "*${PID[older]}: bad-request: there is no verb*" "$ERR"
equal "the other" awake "$(now p state)"
leave p

# one with more tags than a request has room for, which is to be taken back
puppet f VSLEEP_SIM_FAIL=cuMemcpyDtoHAsync_v2:1+:700
ask f "alloc a $M"
ctl 1 sleep "${PID[f]}" "${PID[huge]}"
matches "who failed" "*process ${PID[f]}: cuda-error: *" "$ERR"
matches "the other" "*process ${PID[huge]}: taken back: *" "$ERR"
