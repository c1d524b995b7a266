"""Models on the Hugging Face hub: one safetensors file and a card."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from huggingface_hub import HfApi, hf_hub_download

from supquant.estimators.base import CodeEstimator
from supquant.models import load_model

__all__ = ["from_pretrained", "push_to_hub"]

FILE = "model.safetensors"

CARD = """---
library_name: supquant
tags: [similarity-search, quantization]
---

A `{kind}` for vectors of {dimensions} dimensions, in codes of {n_codebooks} bytes.

```python
from supquant.integrations.hub import from_pretrained

model = from_pretrained("{repo}")
```
"""


def push_to_hub(model: CodeEstimator, repo: str, *, private: bool | None = None, **options: Any) -> str:
    """Write a fitted model to a repository of the hub, which is created if it does not exist.

    Parameters
    ----------
    model : fitted estimator
        Its parameters and codebooks become public if the repository is. It holds no training rows, but a mean for each label.
    repo : str
        The repository, such as ``"you/questions"``.
    private : bool or None, default=None
        Whether a new repository is private. None is the default of the account.
    **options
        ``token``, and ``endpoint`` for a hub of your own.

    Returns
    -------
    str
        The address of the commit.
    """
    api = HfApi(**options)
    api.create_repo(repo, private=private, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / FILE)
        kind, codebooks = type(model).__name__, model.codec_.n_codebooks
        card = CARD.format(kind=kind, dimensions=model.n_features_in_, n_codebooks=codebooks, repo=repo)
        (Path(folder) / "README.md").write_text(card, encoding="utf-8")
        return str(
            api.upload_folder(repo_id=repo, folder_path=folder, commit_message=f"Save a {kind}").commit_url
        )


def from_pretrained(repo: str, **options: Any) -> CodeEstimator:
    """Return the model of a repository of the hub, or of a folder that has a ``model.safetensors``.

    Parameters
    ----------
    repo : str
        The repository or the folder.
    **options
        What `huggingface_hub.hf_hub_download` takes: ``revision``, ``token``, ``cache_dir``, ``endpoint``, ...
    """
    local = Path(repo) / FILE
    return load_model(local if local.is_file() else hf_hub_download(repo, FILE, **options))
