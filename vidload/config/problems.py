"""What is wrong with a configuration, one line for each key: where, what came, what is allowed."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, get_args

from pydantic import ValidationError

from vidload.config.document import KeyPath
from vidload.config.models import CLIPS, SIZES, Config, Settings

__all__ = ["describe_problems", "key_name", "no_such_key", "section_keys"]

_EXPECTED = {
    "int_type": "give a whole number",
    "float_type": "give a number",
    "bool_type": "give true or false",
    "string_type": "give text",
    "list_type": "give a list",
    "model_type": "give a mapping of keys and values",
    "dict_type": "give a mapping of keys and values",
    "greater_than": "give more than {gt:g}",
    "greater_than_equal": "give at least {ge:g}",
    "less_than_equal": "give at most {le:g}",
    "too_short": "give {min_length} of them",
    "too_long": "give {max_length} of them",
    "string_too_short": "give text that isn't empty",
    "literal_error": "choose {expected}",
    "finite_number": "give a finite number",
}


def describe_problems(error: ValidationError) -> list[tuple[KeyPath, str]]:
    """Each problem's key and what there is to say about it."""
    return [_describe(dict(problem)) for problem in error.errors(include_url=False)]


def key_name(key: KeyPath) -> str:
    """``a.b[0].c``."""
    name = ""
    for part in key:
        name += f"[{part}]" if isinstance(part, int) else f".{part}" if name else part
    return name


def no_such_key(key: KeyPath, allowed: Iterable[str]) -> str:
    """What to say about a key that doesn't exist where it stands: the nearest right name, or all of them."""
    allowed = sorted(allowed)
    name = str(key[-1])
    near = difflib.get_close_matches(name, allowed, n=1, cutoff=0.6)
    if near:
        return f"no such key; did you mean {near[0]}?"
    elsewhere = section_keys()
    places = [f"{section}.{name}" for section, names in elsewhere.items() if name in names]
    if places:
        return f"no such key; did you mean {' or '.join(places)}?"
    near = difflib.get_close_matches(name, [n for names in elsewhere.values() for n in names], n=1, cutoff=0.75)
    if near:
        places = [f"{section}.{near[0]}" for section, names in elsewhere.items() if near[0] in names]
        return f"no such key; did you mean {' or '.join(places)}?"
    return f"no such key; there are {', '.join(allowed)}"


def section_keys() -> Mapping[str, tuple[str, ...]]:
    """The keys of each section."""
    return {section: tuple(_model_of((section,)).model_fields) for section in Config.model_fields}


def _describe(problem: dict[str, Any]) -> tuple[KeyPath, str]:
    location, came = problem["loc"], problem["input"]
    key: KeyPath = tuple(part for part in location if not str(part).startswith("<"))
    kind = problem["type"]
    if kind == "invalid_key":
        return (*key[:-1], str(key[-1])), "keys are text"
    if kind == "extra_forbidden":
        return key, no_such_key(key, _model_of(location[:-1]).model_fields)
    if kind == "missing":
        description = _model_of(location[:-1]).model_fields[str(location[-1])].description
        return key, f"missing{f': {description}' if description else ''}"
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        return _describe_kind(key, came)
    what = _EXPECTED.get(kind, problem["msg"]).format(**problem.get("ctx", {}))
    return key, f"{_shown(came)}: {what}"


def _describe_kind(key: KeyPath, came: Any) -> tuple[KeyPath, str]:
    kinds = SIZES if key == ("dataset", "size") else CLIPS
    choice = f"choose {', '.join(list(kinds)[:-1])} or {list(kinds)[-1]}"
    if not isinstance(came, dict):
        others = "a side in pixels, [height, width], null or " if kinds is SIZES else ""
        return key, f"{_shown(came)}: give {others}a mapping such as {{type: {next(iter(kinds))}, ...}}"
    if "type" not in came:
        return (*key, "type"), f"missing: {choice}"
    near = difflib.get_close_matches(str(came["type"]), kinds, n=1, cutoff=0.6)
    return (*key, "type"), f"{_shown(came['type'])}: {choice}{f'; did you mean {near[0]}?' if near else ''}"


def _model_of(location: KeyPath) -> type[Settings]:
    """The model of the mapping at a location, in which tags name the members of unions."""
    model: type[Settings] = Config
    for part in location:
        name = str(part)
        if name.startswith("<"):
            model = (CLIPS | SIZES)[name.strip("<>")]
        elif name in model.model_fields:
            annotation = model.model_fields[name].annotation
            found = [kind for kind in (annotation, *get_args(annotation)) if isinstance(kind, type)]
            model = next((kind for kind in found if issubclass(kind, Settings)), model)
    return model


def _shown(value: Any) -> str:
    """A value as it would stand in a file."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
