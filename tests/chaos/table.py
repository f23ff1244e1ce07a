"""One run as a table."""


def render(verdict, scale, seconds):
    rows = [("fault", "times", "duplicates it explains")]
    rows += [(kind.replace("_", " "), n, verdict.explained_by[kind] or "") for kind, n in sorted(verdict.faults.items())]
    rows += [("", "", ""), ("together", "", "")]
    rows += [(group, n, "") for group, n in verdict.groups.items()]
    rows += [("", "", ""), ("messages", "", "")]
    rows += [(what, n, "") for what, n in verdict.counts.items()]
    rows += [("", "", ""), ("wall time", f"{seconds:.0f} s", ""), ("seed", scale.seed, ""), ("problems", len(verdict.problems), "")]
    widths = [max(len(str(r[i])) for r in rows) for i in range(3)]
    return "\n".join(f"{r[0]:<{widths[0]}}  {str(r[1]):>{widths[1]}}  {str(r[2]):>{widths[2]}}".rstrip() for r in rows)
