"""RESP2, as far as a proxy needs it: where a value ends, what a command says, what sort of answer it is."""


def end_of(data, at=0):
    """Where the value that begins at `at` ends; None: not all of it is there yet."""
    line = data.find(b"\r\n", at)
    if line == -1:
        return None
    kind, at = data[at:at + 1], at + 1
    number, at = data[at:line], line + 2
    if kind not in (b"$", b"*"):
        return at
    n = max(int(number), -1)
    if kind == b"$":
        end = at + n + 2 if n >= 0 else at
        return end if end <= len(data) else None
    for _ in range(n):
        at = end_of(data, at)
        if at is None:
            return None
    return at


def words(command):
    """The arguments of one command, as bytes."""
    out, at = [], command.index(b"\r\n") + 2
    while at < len(command):
        line = command.index(b"\r\n", at)
        size = int(command[at + 1:line])
        out.append(bytes(command[line + 2:line + 2 + size]))
        at = line + 2 + size + 2
    return out


def sort_of(reply):
    """"0" and "1" for these integers, else "int", "nil", "text", "array", "empty", "ok", "error"."""
    reply = bytes(reply)
    kind, line = reply[:1], reply[1:reply.index(b"\r\n")]
    if kind == b":":
        return line.decode() if line in (b"0", b"1") else "int"
    if kind in (b"$", b"*") and line == b"-1":
        return "nil"
    if kind == b"*":
        return "empty" if line == b"0" else "array"
    return {b"$": "text", b"+": "ok", b"-": "error"}[kind]
