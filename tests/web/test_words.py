"""words.js: the console has the words of figures, counters and codes of health from their tables, and none by hand."""
import json
import re

from harness import ROOT, sources

ASSETS = ROOT / "admin/web/assets"
PAGES = ("page_overview.js", "page_health.js", "page_nodes.js", "page_queue.js")


def words(console):
    answer = console().ask("/words.js")
    assert answer.code == 200 and answer.headers["content-type"].startswith("text/javascript")
    return {name: json.loads(table) for name, table in re.findall(r"^export const (\w+) = (.*);$", answer.body.decode(), re.M)}


def member(fact):
    return f"{fact['object']}.{fact['key']}" if "object" in fact else fact["key"]


def with_title(row):
    title = row.get("heading", row.get("title"))
    return {"text": row["text"], **({"title": title} if title else {})}


def test_pages_get_of_each_row_what_they_read(console):
    said = words(console)
    figures, counters, codes = said["FIGURES"], said["COUNTERS"], said["CODES"]
    for fact in sources.facts():
        assert figures["host" if fact.get("scope") == "FACT_OF_HOST" else "queue"][member(fact)] == with_title(fact)
    assert len(figures["queue"]) + len(figures["host"]) == len(sources.facts())
    assert {name: row["routine"] for name, row in counters.items()} == {row["name"]: "routine" in row for row in sources.counter_rows()}
    assert all(row.keys() == {"text", "routine"} and row["text"] for row in counters.values())
    assert codes == {code: {"page": "dead-letters"} for code in ("dead_letters", "archive", "bounds")}


def test_each_state_of_an_operation_is_served(console):
    """The page draws a badge for each, with a text; the manual of the command names the same."""
    states = words(console)["OPERATION_STATES"]
    manual = re.search(r"^A state is\n(.*?)^\.Bl", (ROOT / "man/quredis.1").read_text(), re.M | re.S)[1]
    assert set(states) == set(re.findall(r"^\.Li (\w+)", manual, re.M))
    shapes = set(re.findall(r"^\t(\w+): \"M", (ASSETS / "icons.js").read_text(), re.M))
    assert all(row.keys() == {"level", "text", "can_stop"} and row["level"] in shapes and row["text"] for row in states.values())
    assert {name for name, row in states.items() if row["can_stop"]} == {"foreground", "running", "waiting"}
    assert not any(re.search(rf"\b{name}: |\"{name}\"", (ASSETS / "operations.js").read_text()) for name in states)


def by_hand(script):
    """The titles of columns, and of entries of Figures, that stand in the script."""
    entries = "".join(re.findall(r"new Figures\((.*?)\);", script, re.S))
    return set(re.findall(r'\btitle: "([^"]+)"', script)) | set(re.findall(r'\[\s*"([^"]+)",', entries))


def test_no_page_has_the_title_of_a_figure_by_hand():
    titles = {fact.get("heading", fact.get("title")) for fact in sources.facts()} - {None}
    for page in PAGES:
        script = (ASSETS / page).read_text()
        assert by_hand(script) & titles == set(), page
        assert "FIGURES" in script
        for column in ('{ id: "x", css: "number", title: "Workers" }', '{ id: "x", title: "Workers" }', 'new Figures([entry([A]), ["Workers", "all"]]);',
                       'new Figures([\n\tentry([A], href(["x", this.name])), entry([B]),\n\t["Workers", ""]]);'):
            assert by_hand(script + column) & titles == {"Workers"}


def rows_used(script, behind=r"(?<![\w.])"):
    """The rows that a page names: pairs of scope and member."""
    names = {"F": "queue", "H": "host", "FIGURES.queue": "queue", "FIGURES.host": "host"}
    return {(names[of], quoted or plain) for of, quoted, plain in re.findall(behind + r'(F|H|FIGURES\.queue|FIGURES\.host)(?:\["([^"]+)"\]|\.(\w+))', script)}


def test_the_rows_that_pages_name_exist():
    """Without its row a script ends before it has drawn anything; the first row of a column or an entry is its title."""
    rows = {("host" if "scope" in fact else "queue", member(fact)): "title" in fact or "heading" in fact for fact in sources.facts()}
    first = r"(?:column\(|entry\(\[)"
    assert rows_used('column(F["a.b"], H.c)') == {("queue", "a.b"), ("host", "c")} and rows_used('column(F["a.b"], H.c)', first) == {("queue", "a.b")}
    scripts = {path.name: path.read_text() for path in ASSETS.glob("*.js") if "FIGURES" in path.read_text()}
    assert scripts.keys() >= {*PAGES} and all(rows_used(script) for script in scripts.values())
    assert {name: rows_used(script) - rows.keys() for name, script in scripts.items() if rows_used(script) - rows.keys()} == {}
    assert [(name, row) for name, script in scripts.items() for row in rows_used(script, first) if not rows[row]] == []


def test_a_hint_stands_alone():
    """A title may stand far from its hint, and a cell of two figures is a sum, a share or a part: the hint says which."""
    rows = sources.facts()
    assert [f["text"] for f in rows if len(f["text"].split()) < 3 or re.search(r"\bones?\b|^for how", f["text"])
            or f["text"] == f.get("heading", f.get("title", "")).lower()] == []
    calls = [c for path in ASSETS.glob("*.js") for c in re.findall(r"\bcolumn\(((?:[^()]|\([^()]*\))*)\)", path.read_text())]
    assert len(calls) > 20 and [c for c in calls if re.search(r"\], *[FH]\b|[A-Z], *\{", c)] == []


def test_figures_of_the_store_have_words_of_their_own():
    """A health report has live leases and a whole minute; the store adds up processes and the last 60 s."""
    reported = {fact["key"]: fact["text"] for fact in sources.facts() if fact.get("object") == "rates"}
    assert all("in the last whole minute" in text for key, text in reported.items() if key != "enqueued")
    for page in set(PAGES) - {"page_health.js"}:
        assert not rows_used((ASSETS / page).read_text()) & {("queue", row) for row in ("rates.done", "rates.failed", "workers.alive")}, page
