"""The methods that can be compared, by name."""

from __future__ import annotations

from supquant.errors import InputError
from supquant_lab.methods.codes import EstimatorMethod
from supquant_lab.methods.compared import METHODS
from supquant_lab.methods.interface import STEP_NAMES, Fitted, Method, Settings, Steps, apply_steps
from supquant_lab.methods.kept import KeptFits
from supquant_lab.methods.opponents.methods import OPPONENTS
from supquant_lab.methods.own import OWN_RANKING, is_own, own_method
from supquant_lab.problem import Training

__all__ = [
    "METHODS",
    "OPPONENTS",
    "OWN_RANKING",
    "STEP_NAMES",
    "EstimatorMethod",
    "Fitted",
    "KeptFits",
    "Method",
    "Settings",
    "Steps",
    "Training",
    "apply_steps",
    "find_method",
    "is_own",
]


def find_method(name: str) -> type[Method]:
    """Return a method by its name, or that of your own class, named as ``package.module:Class``.

    Examples
    --------
    >>> find_method("pq").__name__, find_method("supquant:ProductQuantizer").name
    ('ProductQuantization', 'supquant:ProductQuantizer')
    """
    if is_own(name):
        return own_method(name)
    known: dict[str, type[Method]] = {**METHODS, **OPPONENTS}
    if name not in known:
        raise InputError(
            f"unknown method {name!r}: expected one of {', '.join(known)}, or a class as package.module:Class"
        )
    return known[name]


def __dir__() -> list[str]:
    return __all__
