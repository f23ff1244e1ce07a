#!/usr/bin/python3
# A persistent handler: appends every message to the file that is its first argument. See quredis-handler(7).
import sys

jobs, file = sys.stdin.buffer, open(sys.argv[1], "ab", buffering=0)
while head := jobs.readline().split():                  # JOB serial attempt bytes [key=value ...]
    serial, size = head[1].decode(), int(head[3])
    message = jobs.read(size + 1)                       # and its newline
    if len(message) <= size:
        break
    try:
        file.write(message[:size])
        print(f"OK {serial}" if size else f"REJECT {serial} it is empty", flush=True)
    except OSError as e:
        print(f"RETRY {serial} 10s {e}", flush=True)
