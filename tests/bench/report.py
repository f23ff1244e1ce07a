"""The table, what must be reached, the JSON, and the tables of docs/performance.md."""
import statistics

from case import Ratio

CEILING, CEILING_P1 = "ceiling", "ceiling_p1"
WITHOUT_CEILING = ("growth", "idle", "letters")
WITH_COUNTS = ("ours", "functions")


class Cost:
    """A case by the CPU time of a message in place of its rate."""

    def __init__(self, case):
        self.name = case.name
        self.values = [] if case.error else case.costs[-len(case.values):]


def _best(cases, names):
    """The case with the greatest median of these."""
    found = [cases[n] for n in names if n in cases and cases[n].median()]
    return max(found, key=lambda c: c.median(), default=None)


def targets(cases):
    """(what, at least or most, limit, Ratio or number or None, note)"""
    rows = []

    def ratio(what, a, b, limit, most=False):
        a, b = (cases.get(x) if isinstance(x, str) else x for x in (a, b))
        value = Ratio(a, b) if a and b else None
        rows.append({"what": what, "limit": limit, "most": most, "value": value or None,
                     "of": f"{a.name} / {b.name}" if a and b else "not measured"})

    def cpu(what, dear, cheap, limit):
        ratio(what, *(Cost(cases[x]) if x in cases else None for x in (dear, cheap)), limit)

    def number(what, value, limit, most=True):
        rows.append({"what": what, "limit": limit, "most": most, "value": value, "of": ""})

    def best(*names):
        return _best(cases, names)

    fast = best("c64_w1", "c64_w2", "c64_w4", "c64_w8")
    ratio("persistent C, window 64, batch 128 / ceiling", fast, CEILING, 1.3)
    ratio("persistent Python, window 64 / ceiling", best("py64_w2", "py64_w4"), CEILING, 0.55)
    ratio("persistent Node, window 64 / ceiling", best("node64_w2", "node64_w4"), CEILING, 0.55)
    ratio("persistent Python, window 1 / ceiling", best("py1_w2", "py1_w4"), CEILING, 0.20)
    # Each with as many processes as suit it best.
    spawned = best("tiny_w1", "tiny_w2", "tiny_w4", "tiny_w8")
    ratio("exec tiny / vfork loop with the same hygiene", spawned, best(*(f"spawn_clean{n}" for n in (1, 2, 4, 8))), 0.90)
    ratio("exec tiny / vfork loop without", spawned, best(*(f"spawn_bare{n}" for n in (1, 2, 4, 8))), 0.80)
    if spawned:
        number("exec: round trips a message", spawned.facts.get("reads_of_redis"), 1)
        number("exec: commands a message (fetch and removal are 2)", spawned.facts.get("commands"), 3.1)
    ratio("push to handler start, idle: exec / BRPOP + spawn", "lat_exec", "lat_bare", 1.3, True)
    ratio("persistent C / bee-queue", fast, "bee", 8)
    ratio("persistent C / Sidekiq", fast, "sidekiq", 20)
    ratio("persistent C / Celery", fast, "celery", 150)
    ratio("exec /bin/true / xargs -P2", "true_w2", "xargs", 1.7)
    ratio("exec /bin/true / shell loop", "true_w2", "shell", 10)
    deepest = max((n for n in cases if n.startswith("depth")), default=None)
    ratio(f"10^{deepest[5:] if deepest else 7} waiting / 10^3", deepest, "depth3", 0.90)
    ratio("one in flight, 8 workers / ceiling without pipeline", "c1_single_w8", CEILING_P1, 0.85)
    ratio("pickup of an idle persistent handler / Sidekiq", "lat_persistent", "lat_sidekiq", 0.6, True)
    ratio("AOF always: batches, 2 workers / one in flight, 1 worker", "c64_always", "c1_single_always", 15)
    ratio("10,000 orphaned messages / none", "c64_orphans", "c64_w4", 0.95)
    ratio("over TLS / over TCP", "c64_tls", "c64_tcp", 0.6)
    for a, b in (("c64_watched", "c64_w4"), ("c1_single_watched", "c1_single_w8"), ("tiny_watched", "tiny_w8")):
        ratio("TTL, health, purge, bounds, statsd and textfile, each second / none of it", a, b, 0.97)
    functions(ratio, cpu, best)
    many = cases.get("idle256") or cases.get("idle8")
    if many and many.median() is not None:
        number(f"{many.name} idle: PSS of one, KiB", many.facts["pss_kib_median"], 256)
        number(f"{many.name} idle: commands a second each", round(many.median(), 3), 0.8)
    for row in rows:
        value = row["value"].median if isinstance(row["value"], Ratio) else row["value"]
        row["median"] = value
        row["reached"] = None if value is None else value <= row["limit"] if row["most"] else value >= row["limit"]
    return rows


def functions(ratio, cpu, best):
    """What functions must reach: the CPU time of workers and handlers, and the rate, in relation to a new interpreter for each message, to C, and to
    others."""
    for extension, language, cheaper, faster in (("py", "Python", 8, 8), ("rb", "Ruby", 25, 15), ("php", "PHP", 12, 10), ("pl", "Perl", 2, 1.5)):
        cpu(f"CPU of a message: {language}, exec / isolated", f"fn_{extension}_exec", f"fn_{extension}_isolated", cheaper)
        ratio(f"messages a second: {language}, isolated / exec", f"fn_{extension}_isolated", f"fn_{extension}_exec", faster)
    for extension, framework in (("py", "Celery"), ("rb", "Sidekiq")):
        cpu(f"CPU of a message with {framework} loaded: exec / isolated", f"fn_{extension}_exec_framework", f"fn_{extension}_isolated_framework", 40)
    ratio("shared Python, window 1 / exec Python", "fn_py1", "fn_py_exec", 200)
    ratio("shared Python, window 1 / persistent C, window 1", "fn_py1", "c1_w2", 0.6)
    for key, what, least in (("py64", "Python", 0.3), ("php64", "PHP", 0.3), ("rb64", "Ruby", 0.3), ("js64", "Node", 0.2), ("pl64", "Perl", 0.2),
                             ("py64_async", "async Python", 0.1)):
        ratio(f"shared {what}, window 64 / persistent C, window 64", f"fn_{key}", "c64_w2", least)
    ratio("isolated Python / RQ, a fork a job", "fn_py_isolated", "rq_fork", 6)
    ratio("shared Python / Celery", best("fn_py1", "fn_py64"), "celery", 200)
    ratio("shared Ruby / Sidekiq", best("fn_rb1", "fn_rb64"), "sidekiq", 20)
    ratio("shared Node / BullMQ", best("fn_js1", "fn_js64"), "bullmq", 8)


def reference(cases, case):
    """What a case is shown in relation to."""
    name = {"spawn": "spawn_bare2", "latency": "lat_bare"}.get(case.group, CEILING)
    if case.group in ("ours", "peers") and case.median() and "spawn_bare2" in cases and case.name.startswith(("exec", "xargs", "shell", "gearman")):
        name = "spawn_bare2"
    if case.group in WITHOUT_CEILING:
        return None
    return cases.get(name)


def table(cases):
    lines, group = [], None
    for case in cases.values():
        if case.group != group:
            group = case.group
            lines += ["", f"{group:74} {'median':>12} {'least':>12} {'most':>12}   ratio (least-most)"]
        good = [v for v in case.values if v is not None]
        if not good:
            lines.append(f"  {case.name:72} {case.error or 'not run'}")
            continue
        ref = reference(cases, case)
        ratio = f"{Ratio(case, ref)} of {'vfork' if ref.group == 'spawn' else ref.group}" if ref is not None and ref is not case else ""
        digits = ",.0f" if case.median() >= 10 else ".2f"
        p99 = f"  p99 {case.facts['p99']:.0f}" if "p99" in case.facts else ""
        first = f"  the first after {case.facts['first_ms']:,} ms, {case.facts['peak_kib']:,} KiB" if "first_ms" in case.facts else ""
        loses = f"  can lose {case.loses}" if case.loses and not case.loses.startswith("nothing") else ""
        lines.append(f"  {case.name:72} {case.median():12{digits}} {min(good):12{digits}} {max(good):12{digits}}   {ratio}{p99}{first}{loses}")
    return "\n".join(lines)


def skipped(absent):
    """The peers that are not installed, by name. absent: {key: (case, the command that installs it)}"""
    return "".join(f"\nskipped: {case.name}: it is not installed ({how})" for case, how in absent.values())


def target_table(rows):
    lines = ["", f"{'it must reach':72} {'limit':>8}   {'is':24}"]
    for r in rows:
        shown = "not measured" if r["value"] is None else str(r["value"])
        verdict = {True: "reached", False: "NOT REACHED", None: ""}[r["reached"]]
        lines.append(f"  {r['what']:70} {'<=' if r['most'] else '>='} {r['limit']:<6} {shown:24} {verdict}")
    return "\n".join(lines)


def document(machine, options, cases, rows):
    return {
        "machine": machine, "options": options,
        "cases": {k: {"group": c.group, "name": c.name, "unit": c.unit, "median": c.median(), "rounds": c.values, "facts": c.facts,
                      "error": c.error, "loses": c.loses} for k, c in cases.items()},
        "targets": [{**{k: r[k] for k in ("what", "of", "limit", "most", "median", "reached")},
                     "rounds": r["value"].all if isinstance(r["value"], Ratio) else None} for r in rows],
    }


def _number(value):
    return "-" if value is None else f"{value:,.0f}" if value >= 10 else f"{value:.2f}"


def _spread(ratios, digits=3):
    return f"{statistics.median(ratios):.{digits}g} ({min(ratios):.{digits}g}-{max(ratios):.{digits}g})" if ratios else "-"


def _by_round(cases, a, b):
    return [x / y for x, y in zip(cases[a]["rounds"], cases[b]["rounds"]) if x and y]


def markdown(document):
    """The tables of docs/performance.md, from the JSON."""
    cases, out = document["cases"], []
    out += ["| work | must be | is (least-most) | |", "|---|---|---|---|"]
    for t in document["targets"]:
        shown = "not measured" if t["median"] is None else _spread(t["rounds"]) if t["rounds"] else f"{t['median']:g}"
        verdict = {True: "reached", False: "**not reached**", None: ""}[t["reached"]]
        of = f" <br> {t['of']}" if t["of"] and t["of"] != "not measured" else ""
        out.append(f"| {t['what']}{of} | {'≤' if t['most'] else '≥'} {t['limit']:g} | {shown} | {verdict} |")
    group = None
    for key, c in cases.items():
        if c["group"] != group:
            group = c["group"]
            out += ["", f"### {group}", "", f"| case | {c['unit']}: median (least-most) | / ceiling | Redis commands, reads a message | "
                    "CPU µs: worker, Redis | switches |" if group in WITH_COUNTS else
                    f"| case | {c['unit']}: median (least-most) | / {'bare' if group == 'latency' else 'ceiling'} | |"]
            out.append("|---|---|---|---|---|---|" if group in WITH_COUNTS else "|---|---|---|---|")
        good, f = [v for v in c["rounds"] if v is not None], c["facts"]
        figures = f"{_number(c['median'])} ({_number(min(good))}-{_number(max(good))})" if good else c["error"]
        ratio = "" if group in WITHOUT_CEILING else _spread(_by_round(cases, key, "lat_bare" if group == "latency" else "ceiling"))
        if group in WITH_COUNTS:
            more = f"{f['commands']:g}, {f['reads_of_redis']:g} | {f['cpu_us']:g}, {f['redis_cpu_us']:g} | {f['switches']:g}" if f else "| |"
        elif group == "latency":
            more = f"p99 {f['p99']:,.0f}" if f else ""
        elif group == "idle":
            more = f"PSS {f['pss_kib_median']:,.0f} KiB each, master {f['master_kib']:,}, sweeper {f['sweeper_kib']:,}" if f else ""
        elif group == "letters":
            more = f"the first after {f['first_ms']:,} ms; memory {f['peak_kib']:,} KiB" if f else ""
        else:
            more = c["loses"] or ""
        out.append(f"| {c['name']} | {figures} | {ratio} | {more} |")
    return "\n".join(out) + "\n"
