"""Changes that are sent again because their answer got lost: each is made once."""

import json
import socket
import threading
from http.client import HTTPConnection

import pytest
from serving import running

from supquant import CodeIndex, InputError
from supquant.client import Client, ServiceError, connection
from supquant.index import change_keys
from supquant.index.manifest import read_manifest

BODY = {"codes": [[1, 2]], "metadata": {"colour": ["red"], "price": [5]}}


def add(service, key, body=BODY, operation="add"):
    return service.post(f"/v1/things/{operation}", json=body, headers={"Idempotency-Key": key})


def test_a_change_that_is_sent_again_with_its_key_is_made_once(start, folder):
    service = start({"things": folder})
    assert [add(service, "one").json() for _ in range(3)] == [{"rows": 301}] * 3
    assert add(service, "two").json() == {"rows": 302}
    assert add(service, "one").json() == {"rows": 302}  # what is there now
    assert service.post("/v1/things/add", json=BODY).json() == {"rows": 303}
    again = start({"things": folder})  # after a restart
    assert add(again, "one").json() == {"rows": 303}
    assert add(service, "one").json() == {"rows": 303}
    assert len(CodeIndex.load(folder)) == 303


def test_a_key_stands_for_one_change_of_one_index(start, folder, tmp_path, served_model, clusters):
    CodeIndex(served_model).add(clusters[0]).save(tmp_path / "others")
    service = start({"things": folder, "others": tmp_path / "others"})
    assert add(service, "one").status_code == 200
    for body, operation in (({"codes": [[1, 3]]}, "add"), ({"ids": [3]}, "remove"), ({}, "compact")):
        answer = add(service, "one", body, operation)
        assert answer.status_code == 422
        assert "another change was made with this Idempotency-Key" in answer.json()["error"]
    headers = {"Idempotency-Key": "one"}
    other = service.post("/v1/others/add", json={"codes": [[1, 2]]}, headers=headers)
    assert other.json() == {"rows": 301}


@pytest.mark.parametrize("key", ["", "a" * 256, "a\tb", "ä"])
def test_a_key_that_is_none_is_refused(service, folder, key):
    answer = service.post("/v1/things/add", json=BODY, headers=[(b"Idempotency-Key", key.encode())])
    assert answer.status_code == 422
    assert "1 to 255 printable ASCII characters" in answer.json()["error"]
    assert len(CodeIndex.load(folder)) == 300


def test_a_change_that_was_refused_can_be_sent_again(service):
    assert add(service, "one", {"ids": [999]}, "remove").status_code == 422
    assert add(service, "one", {"ids": [3]}, "remove").json() == {"rows": 299}
    assert add(service, "one", {"ids": [3]}, "remove").json() == {"rows": 299}


def test_a_change_that_changes_nothing_is_not_made_over_a_later_one(service, folder):
    code = CodeIndex.load(folder).codes([3]).tolist()
    same = {"ids": [3], "codes": code}
    assert add(service, "one", same, "update").status_code == 200
    service.post("/v1/things/update", json={"ids": [3], "codes": [[0, 0]]})
    assert add(service, "one", same, "update").status_code == 200
    assert CodeIndex.load(folder).codes([3]).tolist() == [[0, 0]]


def test_keys_stay_when_others_save_and_the_oldest_go(service, folder, monkeypatch):
    assert add(service, "one").json() == {"rows": 301}
    CodeIndex.load(folder).remove([1]).save(folder)
    assert add(service, "one").json() == {"rows": 300}
    monkeypatch.setattr(change_keys, "MAX_KEYS", 3)
    monkeypatch.setattr("supquant.serve.served.MAX_KEYS", 3)
    for number in range(4):
        add(service, f"number {number}")
    assert len(read_manifest(folder)["saved"]["keys"]) == 3 * 32
    assert add(service, "number 1").json() == {"rows": 304}
    assert add(service, "one").json() == {"rows": 305}  # forgotten


def test_a_repeated_change_that_is_not_synced_is_not_said_to_be_safe(service, folder, monkeypatch):
    before, fails = (folder / "manifest.json").stat().st_ino, [True]

    def sync(_):
        if fails[0] and (folder / "manifest.json").stat().st_ino != before:
            raise OSError(5, "Input/output error")

    for name in ("storage.replacing", "index.files"):
        monkeypatch.setattr(f"supquant.{name}.sync_folder", sync)
    for _ in range(2):
        answer = add(service, "one")
        assert answer.status_code == 507
        assert "was made and is seen" in answer.json()["error"]
    fails[0] = False
    assert add(service, "one").json() == {"rows": 301}


def test_changes_with_one_key_that_come_at_once_are_made_once(folder):
    answers = []

    def send(url):
        own = HTTPConnection(url.removeprefix("http://"))
        own.request(
            "POST",
            "/v1/things/add",
            json.dumps(BODY),
            {"Content-Type": "application/json", "Idempotency-Key": "one"},
        )
        answers.append(json.loads(own.getresponse().read()))
        own.close()

    with running({"things": folder}) as (url, _):
        threads = [threading.Thread(target=send, args=(url,)) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert answers == [{"rows": 301}] * 12


class LosingProxy:
    """Passes requests on, and loses the first answers to changes."""

    def __init__(self, url, losses, status=None):
        self._port = int(url.rpartition(":")[2])
        self._losses, self._status = losses, status
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self.keys = []
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        while True:
            try:
                own, _ = self._listening.accept()
            except OSError:
                return
            with own, socket.create_connection(("127.0.0.1", self._port)) as service:
                request = own.recv(1 << 20)
                head, _, body = request.partition(b"\r\n\r\n")
                length = next(
                    (
                        int(line[15:])
                        for line in head.split(b"\r\n")
                        if line[:15].lower() == b"content-length:"
                    ),
                    0,
                )
                while len(body) < length:
                    body += own.recv(1 << 20)
                service.sendall(head + b"\r\nConnection: close\r\n\r\n" + body)
                answer = b"".join(iter(lambda: service.recv(1 << 20), b""))
                if b"Idempotency-Key" in head:
                    self.keys.append(head.partition(b"Idempotency-Key: ")[2].partition(b"\r\n")[0])
                    if len(self.keys) <= self._losses:
                        if self._status is None:
                            continue
                        answer = (
                            b"HTTP/1.1 %d Lost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                            % self._status
                        )
                own.sendall(answer)

    def close(self):
        self._listening.close()


@pytest.mark.parametrize("status", [None, 504, 507])
def test_a_client_sends_a_change_again_if_its_answer_is_lost(folder, clusters, monkeypatch, status):
    monkeypatch.setattr(connection, "_RETRY_SECONDS", (0.01, 0.01))
    with running({"things": folder}) as (url, _):
        proxy = LosingProxy(url, 2, status)
        Client(proxy.url).add_codes([[1, 2]], metadata={"colour": ["red"], "price": [5]})
        assert len(set(proxy.keys)) == 1
        assert len(proxy.keys) == 3
        Client(proxy.url).remove([3])
        assert len(set(proxy.keys)) == 2
        proxy.close()
        lossy = LosingProxy(url, 99, status)
        with pytest.raises(ServiceError):
            Client(lossy.url).remove([4])
        assert len(lossy.keys) == 3
        lossy.close()
    assert len(CodeIndex.load(folder)) == 299


def test_a_client_gives_a_change_up_in_time(folder, monkeypatch):
    monkeypatch.setattr(connection, "_RETRY_SECONDS", (0.01, 5.0))
    with running({"things": folder}) as (url, _):
        proxy = LosingProxy(url, 99)
        client = Client(proxy.url, timeout=2)
        with pytest.raises(ServiceError):
            client.remove([4])
        assert len(proxy.keys) == 2
        with pytest.raises(InputError):
            Client(url).remove([4])  # it was removed
        proxy.close()


@pytest.mark.parametrize("keys", ["0" * 31, "x" * 32, 7, None, "0" * 32 * 1025])
def test_a_forged_list_of_keys_is_refused(folder, keys):
    from supquant.errors import FileFormatError
    from supquant.index.manifest import manifest_bytes

    manifest = read_manifest(folder)
    manifest["saved"]["keys"] = keys
    (folder / "manifest.json").write_bytes(manifest_bytes(manifest))
    with pytest.raises(FileFormatError, match="'saved' is"):
        CodeIndex.load(folder)
