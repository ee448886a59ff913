# SPDX-License-Identifier: Apache-2.0
"""liar SOCKET_DIR: a process whose CUDA IPC handle looks like vsleep's, and
which answers who opens it with nonsense: a line of stdin says which.
"""

import array, os, socket, struct, sys, threading

def handle():
    space = os.stat('/proc/self/ns/pid').st_ino
    return struct.pack('8s16siIQQQQ', b'vsleep1', b'k' * 16, os.getpid(), 0,
                       0 if space == 4026531836 else space, 7, 8, 0)

GOOD = ('status=ok\nsegment-bytes=2097152\nallocation-bytes=2097152\n'
        'chunks=%s\nchunks-uuid=GPU-0\n')
ANSWERS = [
    b'', b'\n\n', b'\0\n\n', b'status=ok\0\n\n', b'status=ok\n\n', b'x' * 9000,
    b'\xff\xfe\n\n', b'status=splendid\n\n', b'status=ok\nchunk=\n\n',
    b'status=bad-request\nmessage=%s%n\n\n',
    (GOOD % '4294967295').encode() + b'\n',
    (GOOD % '1').encode() + b'chunk=0 bytes=2097152\n\n',
    (GOOD % '1').encode() + b'chunk=99999999999999999999 bytes=-1\n\n',
    (GOOD % '1').replace('2097152', '99999999999999999').encode() + b'\n',
    b'status=ok\nsegment-bytes=0\nallocation-bytes=8\nchunks=0\n\n',
    b'message=no status\n\n', b'status=refused\n\n' * 3,
]

def name(directory):
    space = os.stat('/proc/self/ns/pid').st_ino
    inner = '' if space == 4026531836 else '-%d' % space
    return '%s/%d%s.sock' % (directory, os.getpid(), inner)

answer = b''

def serve(client):
    while client.recv(4096) and answer:
        # Descriptors come with it, too many and too few.
        fds = array.array('i', [0] * (len(answer) % 40))
        client.sendmsg([answer], [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                                   fds)])
    client.close()

def accept(listener):
    while True:
        client = listener.accept()[0]
        threading.Thread(target=serve, args=(client,), daemon=True).start()

def main():
    global answer
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(name(sys.argv[1]))
    listener.listen(64)
    threading.Thread(target=accept, args=(listener,), daemon=True).start()
    print('ok handle=%s answers=%d' % (handle().hex(), len(ANSWERS)),
          flush=True)
    for line in sys.stdin:
        answer = ANSWERS[int(line)]
        print('ok', flush=True)

main()
