"""Every command of docs/serving.md runs: those of its shell blocks, of the container file and of the unit."""

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from supquant import CodeIndex, ProductQuantizer
from supquant.client import Client
from supquant_lab.bench.serving.process import ServiceProcess

PAGE = (Path(__file__).parents[2] / "docs" / "serving.md").read_text(encoding="utf-8")


def blocks(kind):
    return re.findall(rf"^```{kind}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def place(tmp_path, clusters):
    """A folder with the index of the page, of 300 rows."""
    X, _ = clusters
    model = ProductQuantizer(2, n_codewords=16, random_state=0).fit(X)
    metadata = {"colour": ["red", "blue", "green"] * 100, "price": np.arange(300)}
    CodeIndex(model).add(X, metadata=metadata).save(tmp_path / "things.index")
    (tmp_path / "encoders.py").write_text(
        "def encode(texts):\n    return [[len(each)] * 8 for each in texts]\n"
    )
    return tmp_path


def test_the_shell_blocks_run_one_after_the_other(place):
    for tool in ("bash", "curl", "openssl"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    # `supquant` is the one that is tested, even if it is not on the path.
    python = f'"{sys.executable}"'
    script = f'set -eum\nsupquant() {{ exec {python} -m supquant "$@"; }}\npython() {{ {python} "$@"; }}\n'
    script += (
        "\n".join(blocks("sh"))
        .replace("8000", port)
        .replace("supquant serve --help", "(supquant serve --help)")
    )
    done = subprocess.run(
        ["bash", "-c", script], cwd=place, capture_output=True, text=True, check=False, timeout=300,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert '{"indexes":[{"name":"things","rows":300}]}' in done.stdout
    assert len(CodeIndex.load(place / "things.index")) == 301


def commands_of_files():
    (container,), (unit,) = (
        [each.replace("\\\n", "") for each in blocks(kind)] for kind in ("dockerfile", "ini")
    )
    return {
        "container": json.loads(re.search(r"^CMD (.*)$", container, re.MULTILINE)[1]),
        "unit": shlex.split(re.search(r"^ExecStart=(.*)$", unit, re.MULTILINE)[1]),
    }


@pytest.mark.parametrize("kind", ["container", "unit"])
def test_the_container_and_the_unit_start_a_service(place, kind):
    program, command, *arguments = commands_of_files()[kind]
    assert (Path(program).name, command) == ("supquant", "serve")
    assert arguments[arguments.index("--port") + 1] == "8000"
    (place / "tokens").write_text("read: 0123456789abcdef\n")
    (place / "tokens").chmod(0o600)
    arguments = [str(place / Path(each).name) if each.startswith("/") else each for each in arguments]
    with ServiceProcess(*arguments) as service:  # which takes a free port
        port = service.url.rpartition(":")[2]
        assert len(Client(f"http://127.0.0.1:{port}", "0123456789abcdef")) == 300
        assert service.end() == (0, "")


def test_the_limits_of_the_page_are_those_of_the_service():
    from supquant.serve.limits import Limits

    limits = Limits()
    table = PAGE[PAGE.index("## Limits") : PAGE.index("## Metrics")]
    for value in (limits.max_k, limits.max_queries, limits.max_rows, limits.max_answers, limits.max_queue):
        assert f"| {value:,} |" in table
    assert limits.max_body == 16 << 20
    assert f"| {limits.deadline:g} |" in table
    assert f"({limits.max_batch})" in table
    assert f"({limits.max_wait_ms:g} ms)" in table


def test_the_metrics_of_the_page_are_there():
    from supquant.serve.metrics import Metrics

    text = Metrics().text().decode()
    for name in re.findall(r"`(supquant_\w+)`", PAGE[PAGE.index("## Metrics") :]):
        assert f"# TYPE {name} " in text
