"""Writing libconfig from Python values.

dict -> group, list of dicts -> ( ... ), list of strings or numbers -> [ ... ], Raw -> as it stands.
"""


class Raw(str):
    """Text that goes into the configuration as it is."""


def queue(name, handler, *args, **keys):
    """A queue: queue("mail", path, "--fast", workers=1, timeout="5s"). workers is 1 if not given."""
    argv = [str(handler)] if not isinstance(handler, (list, tuple)) else [str(h) for h in handler]
    return {"name": name, "handler": argv + [str(a) for a in args], "workers": 1, **keys}


_ESCAPED = str.maketrans({**{c: f"\\x{c:02x}" for c in range(32)}, "\n": "\\n", '"': '\\"', "\\": "\\\\"})


def _string(s):
    return f'"{s.translate(_ESCAPED)}"'


def _value(value, indent):
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, dict):
        return "{\n" + _settings(value, indent + 1) + "\t" * indent + "}"
    if isinstance(value, (list, tuple)):
        items = [_value(v, indent + 1) for v in value]
        if any(isinstance(v, dict) for v in value):
            return "(\n" + ",\n".join("\t" * (indent + 1) + i for i in items) + "\n" + "\t" * indent + ")"
        return "[" + ", ".join(items) + "]"
    return _string(str(value))


def _settings(settings, indent):
    return "".join("\t" * indent + f"{k} = {_value(v, indent)};\n" for k, v in settings.items() if v is not None)


def render(sections):
    """The text of a configuration file. Keys whose value is None are left out."""
    return _settings(sections, 0)
