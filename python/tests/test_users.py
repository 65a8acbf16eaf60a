"""Users written in Python, against a server that records what it gets."""

from __future__ import annotations

import asyncio
import http.server
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import prony
import pytest


class Shop(http.server.BaseHTTPRequestHandler):
    """Numbers its replies, and repeats what it got."""

    protocol_version = "HTTP/1.1"
    seen: list[tuple[str, str, dict[str, str], bytes]] = []

    def reply(self) -> None:
        length = int(self.headers.get("content-length", "0"))
        body = self.rfile.read(length)
        self.seen.append((self.command, self.path, dict(self.headers), body))
        text = json.dumps({"number": len(self.seen), "path": self.path}).encode()
        self.send_response(404 if self.path == "/missing" else 200)
        self.send_header("Content-Length", str(len(text)))
        self.send_header("X-Kind", "shop")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = reply

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def shop() -> Iterator[str]:
    Shop.seen = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Shop)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def test_users_send_what_they_say(shop: str) -> None:
    replies: list[prony.Reply] = []

    @prony.user
    async def buyer(u: prony.Client) -> None:
        replies.append(await u.get("/items?page=1", headers={"User-Agent": "me", "X-A": "b"}))
        replies.append(await u.post("/cart", json={"item": replies[0].json()["number"]}))
        replies.append(await u.put("/cart/1", body="text", name="cart"))
        replies.append(await u.request("DELETE", "/cart/1", name="cart"))
        replies.append(await u.get("/missing"))
        replies.append(await u.head("/items"))
        assert u.number == 0

    result = prony.load(shop, users=buyer, connections=1, sessions=1, header={"X-All": "1"},
                        accept_invalid=True)
    seen = Shop.seen
    assert [(method, path) for method, path, _, _ in seen] == [
        ("GET", "/items?page=1"), ("POST", "/cart"), ("PUT", "/cart/1"), ("DELETE", "/cart/1"),
        ("GET", "/missing"), ("HEAD", "/items"),
    ]
    assert all(headers["X-All"] == "1" for _, _, headers, _ in seen)
    assert (seen[0][2]["User-Agent"], seen[0][2]["X-A"]) == ("me", "b")
    assert seen[1][2]["Content-Type"] == "application/json" and seen[1][3] == b'{"item": 1}'
    assert seen[1][2]["User-Agent"].startswith("prony/")
    assert (seen[2][3], seen[3][3]) == (b"text", b"")
    assert [reply.status for reply in replies] == [200, 200, 200, 200, 404, 200]
    assert [reply.ok for reply in replies] == [True, True, True, True, False, True]
    assert replies[4].error == "unexpected-status" and replies[0].error is None
    assert replies[0].headers["x-kind"] == "shop"
    assert replies[1].json() == {"number": 2, "path": "/cart"}
    assert replies[5].body == b"" and "/items?page=1" in replies[0].text()
    # The report is the engine's.
    assert (result.requests, result.replies, result.failed) == (6, 5, 1)
    data = result.to_dict()
    names = {name["name"]: name["replies"] for name in data["measurement"]["names"]}
    assert names == {"cart": 2}
    kinds = data["plan"]["sessions"]["kinds"]
    assert [kind["name"] for kind in kinds] == ["buyer"] and data["plan"]["sessions"]["directed"]
    # The last step is the end of the function.
    assert data["run"]["director"]["steps"] == 7
    assert 0 < data["run"]["director"]["longest"] <= data["run"]["director"]["time"]
    # The report wraps its lines between words.
    assert "users' program" in " ".join(str(result).split())


@pytest.mark.parametrize("more", [{}, {"h2c": True}], ids=["http/1.1", "http/2"])
def test_paths_headers_and_bodies_arrive(
    server: prony.Server, more: dict[str, Any]
) -> None:
    lengths: list[int] = []

    @prony.user
    async def reader(u: prony.Client) -> None:
        for length in (7, 100, 3):
            reply = await u.get(f"/bytes/{length}", headers={"User-Agent": "me"})
            lengths.append(len(reply.body))
            assert int(reply.headers["content-length"]) == length
        reply = await u.post("/bytes/5", body=b"x" * 70_000)
        lengths.append(len(reply.body))

    result = prony.load(server.url, users=reader, connections=1, sessions=2, accept_invalid=True,
                        **more)
    assert (result.replies, result.failed, lengths) == (8, 0, [7, 100, 3, 5] * 2)
    assert not any("exception" in note for note in result.notes), result.notes
    assert server.stop()["replies"] == 8


def test_counts_and_rates_are_the_engines(server: prony.Server) -> None:
    @prony.user(name="visitor")
    async def visit(u: prony.Client) -> None:
        for _ in range(5):
            await u.get("/")

    result = prony.load(server.url, users=visit, rate=100, duration=2, accept_invalid=True)
    # 100 sessions per second for 2 s.
    assert (result.replies, result.failed) == (1_000, 0)
    assert server.stop()["replies"] == 1_000
    assert result.to_dict()["measurement"]["tally"]["sessions"]["completed"] == 200


def test_think_times_are_those_of_the_seed(server: prony.Server) -> None:
    starts: list[float] = []

    @prony.user
    async def thinker(u: prony.Client) -> None:
        await u.get("/")
        begin = time.monotonic()
        await u.think("uniform:0ms:800ms")
        starts.append(time.monotonic() - begin)
        await u.think(0.05)
        await u.get("/")

    def times(seed: int) -> list[float]:
        starts.clear()
        prony.load(server.url, users=thinker, connections=4, sessions=8, seed=seed,
                   accept_invalid=True)
        return sorted(starts)

    one, two, other = times(7), times(7), times(8)
    assert len(one) == 8 and all(0.0 <= t < 1.2 for t in one)
    # Scheduling adds to all of them, but not as much as another seed changes.
    assert one == pytest.approx(two, abs=0.06)
    assert one != pytest.approx(other, abs=0.06)


def test_slow_users_are_the_clients_limit() -> None:
    with prony.serve(latency="fixed:2ms") as server:
        @prony.user
        async def slow(u: prony.Client) -> None:
            while True:
                await u.get("/")
                time.sleep(0.005)

        result = prony.load(server.url, users=slow, connections=8, duration=2)
    # The target needs 2 ms; the users keep each other waiting, and the report says whose fault it is.
    assert result.verdict == "CLIENT-LIMITED", result
    cost = result.to_dict()["run"]["director"]
    assert cost["time"] / cost["steps"] > 4e6
    # The service time is not distorted as the response time is.
    assert result.response.p50 is not None and result.response.p50 > 0.02


def test_exceptions_fail_the_session_only(server: prony.Server,
                                          caplog: pytest.LogCaptureFixture) -> None:
    @prony.user
    async def picky(u: prony.Client) -> None:
        reply = await u.get("/")
        assert u.number != 2, "not the third"
        assert reply.ok

    result = prony.load(server.url, users=picky, connections=1, sessions=5, accept_invalid=True)
    sessions = result.to_dict()["measurement"]["tally"]["sessions"]
    assert (sessions["completed"], sessions["failed"]) == (4, 1)
    assert any("AssertionError: not the third" in note for note in result.notes), result.notes
    assert "in picky" in caplog.text and "not the third" in caplog.text


def test_users_await_only_their_client(server: prony.Server) -> None:
    @prony.user
    async def sleeper(u: prony.Client) -> None:
        await asyncio.sleep(1)

    result = prony.load(server.url, users=sleeper, connections=1, sessions=2, accept_invalid=True)
    assert result.requests == 0
    assert any("2 sessions ended with an exception" in note for note in result.notes)


def test_kinds_of_users_are_picked_by_weight(server: prony.Server) -> None:
    @prony.user(weight=3)
    async def many(u: prony.Client) -> None:
        await u.get("/many", name="many")

    @prony.user
    async def few(u: prony.Client) -> None:
        await u.get("/few", name="few")

    result = prony.load(server.url, users=[many, few], connections=2, sessions=400,
                        threshold="few: errors < 1%", accept_invalid=True, undecided="pass")
    names = {name["name"]: name["replies"] for name in result.to_dict()["measurement"]["names"]}
    assert sum(names.values()) == 400
    assert 60 < names["few"] < 140
    kinds = result.to_dict()["measurement"]["sessions"]["kinds"]
    assert {kind["name"]: kind["completed"] for kind in kinds} == names


def test_live_figures_with_users(server: prony.Server) -> None:
    @prony.user
    async def visit(u: prony.Client) -> None:
        while True:
            await u.get("/")
            await u.think(0.01)

    async def watch() -> tuple[list[prony.Tick], prony.Result]:
        run = prony.watch(server.url, users=visit, connections=3, duration=3, accept_invalid=True)
        ticks = [tick async for tick in run]
        return ticks, await run

    ticks, result = asyncio.run(watch())
    assert len(ticks) >= 2 and result.replies > 100
    assert ticks[-1].replies <= result.replies


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"hosts": 2}, "hosts and users exclude each other"),
        ({"pipeline": 4}, "pipeline and users exclude each other"),
        ({"body": "x"}, "body and users exclude each other"),
    ],
)
def test_options_that_users_exclude(options: dict[str, object], sentence: str) -> None:
    @prony.user
    async def nobody(u: prony.Client) -> None:
        await u.get("/")

    with pytest.raises(prony.UsageError, match=sentence):
        prony.load("http://127.0.0.1:9/", users=nobody, **options)  # type: ignore[arg-type]


def test_what_is_no_user_is_refused() -> None:
    with pytest.raises(prony.UsageError, match="async def plain"):
        @prony.user  # type: ignore[arg-type]
        def plain(u: prony.Client) -> None:
            pass

    with pytest.raises(prony.UsageError, match="function is no user"):
        prony.load("http://127.0.0.1:9/", users=lambda u: None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("path", "headers", "why"),
    [
        ("items", {}, "is not a path"),
        ("/a b", {}, "is not a path"),
        ("/", {"X": "a\r\nb"}, "has a line break"),
        ("/", {"X y": "a"}, "is not the name of a header"),
        ("/", {"Host": "a"}, "prony sets the header Host itself"),
    ],
)
def test_requests_that_cannot_be_sent(
    server: prony.Server, path: str, headers: dict[str, str], why: str
) -> None:
    @prony.user
    async def wrong(u: prony.Client) -> None:
        with pytest.raises(ValueError, match=why):
            await u.get(path, headers=headers)
        await u.get("/")

    result = prony.load(server.url, users=wrong, connections=1, sessions=1, accept_invalid=True)
    assert (result.replies, result.notes) == (1, result.notes)
    assert not any("exception" in note for note in result.notes), result.notes
