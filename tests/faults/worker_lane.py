"""A worker's whole cycle, again and again on one queue: registers, fetches one and many, acknowledges, retries, escapes, hands
back, renews its lease, loses its connection with work in hand, is woken at a stop, deregisters."""
import secrets

from harness.control import ask
from harness.messages import sealed
from ledger import until
from place import Lane

EXEC = r"""
cd "$1" || exit 1
read -r m
echo "start $m $QUREDIS_REDELIVERED $QUREDIS_ATTEMPT" >>ledger
case $m in
g*) until [ -e "go.$m" ]; do sleep 0.01; done ;;
r*) [ "$QUREDIS_ATTEMPT" -gt 1 ] || exit 75 ;;
f*) exit 1 ;;
esac
echo "end $m" >>ledger
"""
STAYS = r"""
cd "$1" || exit 1
while read -r _ serial attempt size keys; do
	read -r m
	again=0 verdict=OK
	case " $keys " in *" redelivered=1 "*) again=1 ;; esac
	echo "start $m $again $attempt" >>ledger
	case $m in
	g*) until [ -e "go.$m" ]; do sleep 0.01; done ;;
	r*) [ "$attempt" -gt 1 ] || verdict=RETRY ;;
	f*) verdict=FAIL ;;
	esac
	[ $verdict != OK ] || echo "end $m" >>ledger
	echo "$verdict $serial"
done
"""
MODES = {"exec": (EXEC, {}), "persistent": (STAYS, {"mode": "persistent", "window": 2}), "shared": (EXEC, {"shared": True})}


class WorkerLane(Lane):
    def __init__(self, number, mode, place):
        name = f"{mode[0]}{number:03}"           # none is the beginning of another
        options = {"failing": "fr"} if mode == "shared" else {}
        super().__init__(mode, place, place.queue(name, **options), f"{place.tag}:{name}/0", ("worker_died",))
        self.section = {"name": self.queue.name, "handler": [place.handler(mode), str(self.queue.dir)], "workers": 1,
                        "batch": {"max": 64, "time": "5s"}, "backoff": {"base": "1ms", "cap": "1ms"}, **MODES[mode][1]}

    def order(self, command):
        ask(self.place.daemon, command, queue=self.queue.name)

    def go(self, gate):
        (self.queue.dir / f"go.{gate}").touch()

    def push(self, before, gate, behind):
        """What the queue already knows of one that comes before the gate, fails, or is handed back, lies beside it or before it."""
        if self.mode == "shared":
            self.queue.note(before[0], "redelivered=1")
            self.queue.note(behind[1], "redelivered=1")
            self.queue.told.add(behind[2])
            line = sealed(self.place.client, f"quredis/1 w={secrets.token_hex(8)} redelivered=1\n{behind[2]}", f"ingress:{self.queue.name}")
            behind = [*behind[:2], line, *behind[3:]]
        self.queue.push(*before, gate, *behind)

    def cycle(self):
        """A generator: yields while it waits. Whatever is broken meanwhile, it comes to its end."""
        q, n = self.queue, next(self.cycles)
        one, gate, last, *more = (f"{letter}{i}.{n}" for i, letter in enumerate("dggddrddfddrd"))
        ask(self.place.daemon, "restart", queue=q.name)
        q.push(one)
        yield from until(lambda: q.ended(one))
        # woken while it waits for a message
        self.order("quiet")
        yield from until(lambda: self.talk.commands["unblock CLIENT UNBLOCK"] > 0, 0.15)
        # many at once; behind the one that waits they are handed back, before it they are acknowledged one by one
        self.push(more[:4], gate, more[4:])
        self.order("resume")
        yield from until(lambda: q.started(gate))
        self.order("quiet")
        yield from until(lambda: q.waiting() >= 4, 0.3)
        self.order("resume")
        # the connection goes with some in work and some in hand
        self.go(gate)
        q.push(last, f"d20.{n}", f"d21.{n}")
        yield from until(lambda: q.started(last))
        self.place.proxy.cut(f"{q.name}/0".encode())
        renewed = self.talk.commands["EVALSHA renew again"]
        yield from until(lambda: self.talk.commands["EVALSHA renew again"] > renewed, 0.3)
        self.go(last)
        yield from until(lambda: q.is_settled(1))
