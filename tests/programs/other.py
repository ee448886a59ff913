# SPDX-License-Identifier: Apache-2.0
"""other KIND PATH: a process that answers vsleepctl as no library does.

older, newer, huge: as one of another version, or with too many tags; mute:
says no word about a quiesce.  PATH has "%d" for the process's number.
"""

import os, socket, sys, threading
STATUS = {
    'older': 'status=ok\nstate=awake\nresident-bytes=8\npid=%d\nname=older',
    'newer': 'status=ok\nstate=dreaming\nshade=blue\nno key\nbell=\x07\xe4\n'
             'resident-bytes=99999999999999999999999999\n'
             'unmanaged-cloud-bytes=9\npid=%d\nname=newer\n'
             'tag=t policy=odd state=adrift more=1\ndevice=0\ndevice=\n'
             'kept=\nkept=12\nobstacle=\nsetting=A\nsetting=\ntag=\nlong='
             + 'x' * 3000,
    'mute': 'status=ok\nstate=awake\npid=%d',
    'huge': 'status=ok\nstate=asleep\npid=%d\n' + '\n'.join(
        'tag=' + 'x' * 64 + ' evicted-bytes=1' for _ in range(300)),
}
OTHER = {
    'huge': STATUS['huge'].replace('pid=%d\n', ''),
    'older': 'status=bad-request\nmessage=there is no verb',
    'newer': 'status=splendid',
    'mute': 'status=ok\nstate=awake',
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
            if kind == 'mute' and verb == b'quiesce':
                continue
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
