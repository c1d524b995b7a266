"""Ways to damage the files of an index."""

from supquant.errors import FileFormatError

KINDS = ("plain", "grouped", "strings", "binary")


def attempt(action, *arguments, **options):
    """What a call gives, or the text of its `FileFormatError`."""
    try:
        return action(*arguments, **options), None
    except FileFormatError as error:
        return None, str(error)


ABSURD = [
    None,
    True,
    -1,
    0,
    1,
    10**30,
    1.5,
    "",
    "x",
    "../plain-1/manifest.json",
    "/etc/passwd",
    "\0",
    [],
    {},
    [[]],
]


def edits(value, path=()):
    """Places in a JSON value, innermost and others."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inner:
        yield from edits(part, (*path, key))


def edited(value, path, new):
    """A copy of a JSON value with one part replaced, or left out where `new` is a special mark."""
    if not path:
        return new
    copied = value.copy()
    if len(path) == 1 and new is LEFT_OUT:
        copied.pop(path[0])
    else:
        copied[path[0]] = edited(value[path[0]], path[1:], new)
    return copied


LEFT_OUT = object()


def changed(array, place, value):
    array = array.copy()
    array[place] = value
    return array
