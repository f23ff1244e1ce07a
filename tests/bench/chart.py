"""An SVG of horizontal bars, on a logarithmic scale, with a whisker from the least to the most of the rounds."""
import math
from html import escape

from case import Ratio

WIDTH, LEFT, RIGHT, ROW, TOP = 960, 400, 130, 22, 64
COLOURS = {"ours": "#c0392b", "ceiling": "#7f8c8d", "spawn": "#7f8c8d", "peers": "#2c6fad"}


def _bar(y, case, ratio, x):
    low, mid, high = ratio.all[0], ratio.median, ratio.all[-1]
    colour, middle = COLOURS.get(case.group, "#555555"), y + ROW / 2 - 2
    return [
        f'<text x="{LEFT - 8}" y="{y + 13}" text-anchor="end">{escape(case.name)}</text>',
        f'<rect x="{LEFT}" y="{y}" width="{max(1, x(mid) - LEFT):.1f}" height="{ROW - 5}" fill="{colour}"/>',
        f'<path d="M{x(low):.1f} {middle}H{x(high):.1f}" stroke="#111111" stroke-width="1.5"/>',
        f'<text x="{max(x(high), x(mid)) + 6:.1f}" y="{y + 13}">{mid:.3g}</text>',
    ]


def chart(cases, names, reference, title, note):
    """SVG text; None if there is nothing to show."""
    rows = [(cases[n], Ratio(cases[n], reference)) for n in names if n in cases]
    rows = sorted((r for r in rows if r[1]), key=lambda r: -r[1].median)
    if not rows:
        return None
    least = math.floor(math.log10(min(r.all[0] for _, r in rows)))
    most = math.log10(max(r.all[-1] for _, r in rows)) + 0.05
    bottom = TOP + ROW * len(rows)

    def x(value):
        return LEFT + (math.log10(value) - least) / (most - least) * (WIDTH - LEFT - RIGHT)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 44}" font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{bottom + 44}" fill="#ffffff"/>',
           f'<text x="16" y="24" font-size="16" font-weight="bold">{escape(title)}</text>',
           f'<text x="16" y="44" fill="#555555">{escape(note)}</text>']
    for power in range(least, math.floor(most) + 1):
        at = x(10 ** power)
        out += [f'<path d="M{at:.1f} {TOP - 6}V{bottom}" stroke="#dddddd"/>',
                f'<text x="{at:.1f}" y="{bottom + 16}" text-anchor="middle" fill="#555555">{10 ** power:g}</text>']
    for i, (case, ratio) in enumerate(rows):
        out += _bar(TOP + i * ROW, case, ratio, x)
    out.append(f'<text x="16" y="{bottom + 36}" fill="#555555">'
               'Red: quredis. Blue: others. Grey: what Redis or the kernel can do alone. Line: least to most of the rounds.</text>')
    return "\n".join(out) + "\n</svg>\n"
