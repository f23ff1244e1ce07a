"""The benchmark suite runs, loses nothing, and its ratios are such as can be. No threshold: this machine may be busy."""
import json
import subprocess
import sys
import xml.etree.ElementTree

import pytest

from harness import BUILD, ROOT, SANITIZED

BENCH = ROOT / "tests/bench"
sys.path.insert(0, str(BENCH))


def every_case_ran(document, svg, text):
    assert len(document["cases"]) > 50
    for key, case in document["cases"].items():
        assert case["error"] is None, f"{key}: {case['error']}"
        assert len(case["rounds"]) == 1 and case["rounds"][0] > 0, key


def figures_are_of_this_world(document, svg, text):
    """A figure that is wrong by a factor of a thousand is a mistake of the suite or of quredis."""
    cases = document["cases"]
    assert 1e3 < cases["ceiling"]["median"] < 1e8
    for key, case in cases.items():
        if case["group"] == "ours":
            assert cases["ceiling"]["median"] / 1e5 < case["median"] < cases["ceiling"]["median"] * 100, key
            assert case["facts"]["commands"] < 20, key
    assert cases["c64_w2"]["facts"]["calls"]["rpoplpush"] >= 0.5      # batches are batches


def report_is_whole(document, svg, text):
    xml.etree.ElementTree.fromstring(svg)
    measured = [t for t in document["targets"] if t["median"] is not None]
    assert len(measured) >= 12 and all(t["reached"] in (True, False) for t in measured)
    for key, case in document["cases"].items():
        assert case["name"] in text, key
    assert document["machine"]["cores"] >= 1 and "quredisd" in document["machine"]["quredisd"]


@pytest.mark.limit(300)
@pytest.mark.skipif(SANITIZED, reason="what a sanitizer costs is not of interest")
def test_quick(tmp_path):
    """One short round of every case but the peers."""
    done = subprocess.run([BENCH / "bench", "--quick", "--json", tmp_path / "json", "--svg", tmp_path / "svg",
                           "--markdown", tmp_path / "md", "--build", BUILD / "bench"],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "| persistent C, window 64" in (tmp_path / "md").read_text()
    for check in (every_case_ran, figures_are_of_this_world, report_is_whole):
        check(json.loads((tmp_path / "json").read_text()), (tmp_path / "svg").read_text(), done.stdout)


def test_ratios_are_of_one_round():
    from case import Case, Ratio
    a, b = Case("g", "a"), Case("g", "b")
    a.values, b.values = [10, None, 90, 40], [10, 5, 30, 20]
    ratio = Ratio(a, b)
    assert (ratio.all, ratio.median, str(ratio)) == ([1, 2, 3], 2, "2 (1-3)")
    assert not Ratio(a, Case("g", "c"))


def test_a_case_that_fails_says_so():
    from case import Function

    class Bench:
        strict = False
    case = Function("g", "broken", lambda bench, case: 1 / 0)
    case.measure(Bench)
    case.measure(Bench)
    assert case.values == [None, None] and case.error.startswith("ZeroDivisionError") and case.median() is None


def test_targets_know_their_direction():
    import report
    from case import Case

    def case(group, name, *values, **facts):
        c = Case(group, name)
        c.values, c.facts = list(values), facts
        return c
    cases = {"ceiling": case("ceiling", "c", 100), "c64_w2": case("ours", "o", 131), "lat_exec": case("latency", "e", 14),
             "lat_bare": case("latency", "b", 10)}
    reached = {r["what"]: r["reached"] for r in report.targets(cases)}
    assert reached["persistent C, window 64, batch 128 / ceiling"] is True
    assert reached["push to handler start, idle: exec / BRPOP + spawn"] is False
    assert reached["persistent C / Sidekiq"] is None


def test_a_peer_that_is_not_installed_is_skipped_by_name(monkeypatch, tmp_path):
    import peers
    import report

    class Bench:
        peers = tmp_path
    monkeypatch.setitem(peers.NEEDS, "sidekiq", (["no-such-program"], [], [], "apt-get install ruby-sidekiq"))
    monkeypatch.setitem(peers.NEEDS, "rq", ([], ["no_such_module"], [], "apt-get install python3-rq"))
    monkeypatch.setitem(peers.NEEDS, "celery", ([], [], [], "apt-get install python3-celery"))
    found, absent = peers.cases(Bench), peers.missing(Bench)
    assert "celery" in found and not {"sidekiq", "lat_sidekiq", "rq", "rq_fork", "bullmq"} & found.keys()
    assert found.keys() | absent.keys() == peers.every().keys() and not found.keys() & absent.keys()
    assert "skipped: RQ, 2 processes, a fork a job: it is not installed (apt-get install python3-rq)" in report.skipped(absent)
    assert "skipped: BullMQ, 2 processes, concurrency 50: it is not installed (npm install --prefix build/peers bullmq ioredis)" in report.skipped(absent)


def test_peers_are_set_beside_functions():
    import report
    from case import Case

    def case(*values):
        c = Case("functions", "f")
        c.values = c.costs = list(values)
        return c
    cases = {"fn_py_isolated": case(60, 60), "rq_fork": case(10, 11), "fn_py1": case(100), "fn_py64": case(2000), "celery": case(10)}
    found = {r["what"]: r for r in report.targets(cases)}
    assert found["isolated Python / RQ, a fork a job"]["reached"] is False
    assert found["shared Python / Celery"]["median"] == 200 and found["shared Python / Celery"]["reached"] is True
    assert found["shared Node / BullMQ"]["reached"] is None
