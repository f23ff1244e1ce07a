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


def commands(row):
    tables = re.findall(r"IN_([A-Z]+)", row.get("in", ""))
    return sorted({table.lower() for table in tables})


def test_each_row_is_served(console):
    said = words(console)
    figures, counters, codes = said["FIGURES"], said["COUNTERS"], said["CODES"]
    for fact in sources.facts():
        row = figures["host" if fact.get("scope") == "FACT_OF_HOST" else "queue"][member(fact)]
        assert (row["text"], row.get("title")) == (fact["text"], fact.get("heading", fact.get("title")))
        assert sorted(row.get("in", [])) == commands(fact) and row["type"] in ("count", "flag", "seconds", "a minute", "ms")
    assert len(figures["queue"]) + len(figures["host"]) == len(sources.facts())
    for counter in sources.counter_rows():
        row = counters[counter["name"]]
        assert (row.get("title"), row["usual"], sorted(row.get("in", []))) == (counter.get("title"), "usual" in counter, commands(counter))
    assert sorted(codes) == sorted(sources.health_codes())
    assert {code for code, row in codes.items() if "page" in row} == {"dead_letters", "archive", "bounds"}
    assert (codes["growth"]["unit"], codes["breaker"]["unit"]) == ("ms", "1 or 0")


def by_hand(script):
    """The columns of tables and the entries of Figures whose title stands in the script."""
    return set(re.findall(r'{ id: "\w+", title: "([^"]+)"', script)) | set(re.findall(r'new Figures\(\[\s*\["([^"]+)"', script))


def test_no_page_has_the_title_of_a_figure_by_hand():
    titles = {fact.get("heading", fact.get("title")) for fact in sources.facts()} - {None}
    for page in PAGES:
        assert by_hand((ASSETS / page).read_text()) & titles == set(), page
        assert "FIGURES" in (ASSETS / page).read_text()
