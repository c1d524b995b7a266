"""Ray that we start listens to this machine alone."""

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sockets are found in /proc")

PROGRAM = """
import os
from pathlib import Path
from supquant.distributed import RayWorkers

mark = os.environ["SUPQUANT_TEST_MARK"]
with RayWorkers(1):
    listening = {}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A":  # the state LISTEN
                listening[f"socket:[{fields[9]}]"] = fields[1].split(":")[0]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if process.name == str(os.getpid()) or mark.encode() in (process / "environ").read_bytes():
                for descriptor in (process / "fd").iterdir():
                    if (address := listening.get(os.readlink(descriptor))) is not None:
                        print(address)
        except OSError:
            continue  # it has ended, or closed what it had open
"""

LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
"""127.0.0.1, the same as an address of IPv6, and ::1, as the tables of the system write them."""


def test_ray_on_this_machine_listens_to_it_alone(tmp_path):
    if find_spec("ray") is None:
        pytest.skip("Ray is not installed")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    environment |= {"SUPQUANT_TEST_MARK": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    addresses = done.stdout.split()
    assert len(addresses) >= 4  # the directory of the cluster, the node, its objects, and a worker
    assert set(addresses) <= LOOPBACK
