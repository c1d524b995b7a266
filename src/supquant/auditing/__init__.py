"""Items and labels to findings: labels that look wrong, rows that occur twice, classes that are confused or look like two."""

from __future__ import annotations

from supquant.auditing.findings import KINDS, Audit, AuditTable
from supquant.auditing.items import audit

__all__ = ["KINDS", "Audit", "AuditTable", "audit"]


def __dir__() -> list[str]:
    return __all__
