"""A function that does nothing, in each language: an interpreter for each message, a fork for each message, and one process for all."""
import importlib.util
import os
import shutil

from ours import Ours

# As common/conf/function.c chooses the interpreter.
LANGUAGES = {"py": ("Python", "/usr/bin/python3"), "rb": ("Ruby", "/usr/bin/ruby"), "php": ("PHP", "/usr/bin/php"), "pl": ("Perl", "/usr/bin/perl"),
             "js": ("Node", "/usr/bin/node")}
EXEC_RATES = {"py": 100, "rb": 30, "php": 50, "pl": 500, "js": 40}
CANNOT_FORK = {"js"}


class Function(Ours):
    """A queue with 2 workers. how: exec, isolated or shared; framework: the file loads one before the function."""

    def __init__(self, extension, how, *, function="handle", window=1, framework=False, rate):
        shown = f"shared, window {window}" if how == "shared" else how
        name = f"{LANGUAGES[extension][0]}, {shown}{', async' if function == 'handle_async' else ''}{', with a framework' if framework else ''}"
        super().__init__(name, None, mode="exec" if how == "exec" else "persistent", window=window, batch=2 * window if window > 1 else 64, rate=rate)
        self.group = "functions"
        self.extension, self.how, self.function, self.framework = extension, how, function, framework

    def messages(self, bench, at_least=200, **limits):
        return super().messages(bench, at_least=40 if self.framework else at_least, **limits)

    def conf(self, bench):
        file = bench.functions / f"noop.{self.extension}"
        if self.how == "exec":
            handler = {"handler": [LANGUAGES[self.extension][1], str(file)]}
        else:
            handler = {"function": f"{file}:{self.function}", "isolate": self.how == "isolated", "window": self.window}
        more = {"env": ["BENCH_FRAMEWORK=1"]} if self.framework else {}
        return {"name": "bench", "workers": self.workers, "batch": {"max": self.batch}, "timeout": "60s", **handler, **more}


def frameworks():
    """Those that are installed."""
    return [*(["py"] if importlib.util.find_spec("celery") else []), *(["rb"] if shutil.which("sidekiq") else [])]


def cases(quick, peers):
    """With --quick one language, since the rows of all are the same."""
    found = {}
    for extension, (_, interpreter) in LANGUAGES.items():
        if not os.path.exists(interpreter) or (quick and extension != "py"):
            continue
        found[f"fn_{extension}_exec"] = Function(extension, "exec", rate=EXEC_RATES[extension])
        if extension not in CANNOT_FORK:
            found[f"fn_{extension}_isolated"] = Function(extension, "isolated", rate=1_000)
        found[f"fn_{extension}1"] = Function(extension, "shared", rate=20_000)
        found[f"fn_{extension}64"] = Function(extension, "shared", window=64, rate=80_000)
    found["fn_py64_async"] = Function("py", "shared", function="handle_async", window=64, rate=30_000)
    for extension in frameworks() if peers else []:
        for how, rate in (("exec", 3), ("isolated", 500)):
            found[f"fn_{extension}_{how}_framework"] = Function(extension, how, framework=True, rate=rate)
    return found
