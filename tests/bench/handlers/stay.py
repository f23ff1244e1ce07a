#!/usr/bin/python3
"""A persistent handler that does nothing: all jobs of one read are answered in one write."""
import os

rest = b""
while chunk := os.read(0, 1 << 16):
    data, at, answers = rest + chunk if rest else chunk, 0, []
    while (end := data.find(b"\n", at)) >= 0:               # JOB serial attempt bytes [key=value ...]
        head = data[at:end].split(b" ", 4)
        after = end + 2 + int(head[3])
        if after > len(data):
            break
        message = data[end + 1:after - 1]
        answers.append(b"OK %b\n" % head[1])
        at = after
    rest = data[at:]
    answer = memoryview(b"".join(answers))
    while answer:
        answer = answer[os.write(1, answer):]
