"""Serve an index of digits over HTTP, search and change it with a client, and stop the service."""

import subprocess
import sys
import tempfile
from pathlib import Path

from sklearn.datasets import load_digits

from supquant.client import Client
from supquant.demo.collection import save_digits

X = load_digits(return_X_y=True)[0] / 16  # (1797, 64), 0 to 1
with tempfile.TemporaryDirectory() as folder:
    save_digits(Path(folder) / "digits.index")
    command = [sys.executable, "-m", "supquant", "serve", f"{folder}/digits.index", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as service:
        address = service.stdout.readline().split()[-1].rstrip("/")  # "... at http://127.0.0.1:41234/"
        client = Client(address)  # has the methods of CodeIndex
        print(f"{len(client)} digits are served")

        answers = client.search_table(X[:3], k=5, columns=["digit"]).to_pylist()
        for query in range(3):
            print(f"like a {query}:", *(row["digit"] for row in answers if row["query"] == query))
        odd = client.search_table(X[4], k=5, columns=["digit"], where="digit % 2 = 1").to_pylist()
        print("odd ones like a 4:", *(row["digit"] for row in odd))

        client.remove([odd[0]["id"]])
        print(f"{len(client)} digits are left")
        client.close()
        service.terminate()
