"""The stub of the compiled module names the functions that the module has, with the same arguments."""

import ast
import re
from pathlib import Path

import supquant.kernels
import supquant.kernels._native as _native  # noqa: PLR0402

STUB = Path(supquant.kernels.__file__).with_name("_native.pyi")


def stub_arguments(nodes):
    """Arguments of every function, {name: [arguments of each overload]}, methods as Class.method."""
    found = {}
    for node in nodes:
        if isinstance(node, ast.FunctionDef):
            found.setdefault(node.name, []).append([argument.arg for argument in node.args.args])
        elif isinstance(node, ast.ClassDef):
            methods = stub_arguments(node.body)
            found |= {f"{node.name}.{name}": arguments for name, arguments in methods.items()}
    return found


def compiled_arguments(owner, prefix=""):
    """The same, of the compiled functions that a module or class has."""
    found = {}
    for name, value in vars(owner).items():
        makes = name == "__init__" and hasattr(value, "__nb_signature__")  # a class that Python may make
        if name.startswith("_") and not makes:
            continue
        if isinstance(value, type):
            found |= compiled_arguments(value, f"{name}.")
        else:
            signatures = [text[text.index("(") + 1 :] for text, *_ in value.__nb_signature__]
            found[prefix + name] = [re.findall(r"(?:^|, )(self|\w+(?=: ))", text) for text in signatures]
    return found


def test_the_stub_has_the_functions_of_the_compiled_module_and_their_arguments():
    in_stub = stub_arguments(ast.parse(STUB.read_text()).body)
    assert "assign" in in_stub
    assert "FoundWithin.write" in in_stub
    assert in_stub == compiled_arguments(_native)
