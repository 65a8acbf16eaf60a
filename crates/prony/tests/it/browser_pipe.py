"""A Chromium without a window, driven by its own protocol on a pipe."""

import json
import os
import select
import subprocess
import time

to_browser, ours = os.pipe(), os.pipe()


def descriptors():
    # Chromium reads from 3 and writes to 4.
    os.dup2(to_browser[0], 63)
    os.dup2(ours[1], 64)
    os.dup2(63, 3)
    os.dup2(64, 4)


class Page:
    """The only page of a browser, which ends with it. Nothing but 127.0.0.1 can be reached."""

    def __init__(self, browser, profile, seconds=60):
        self.child = subprocess.Popen(
            [browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync",
             "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--remote-debugging-pipe",
             "--user-data-dir=" + profile, "about:blank"],
            preexec_fn=descriptors, close_fds=False, stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        os.close(to_browser[0])
        os.close(ours[1])
        self.number, self.buffer, self.session = 0, b"", None
        self.events = []
        self.end = time.monotonic() + seconds

    def __enter__(self):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        return self

    def __exit__(self, *_):
        self.child.kill()
        self.child.wait()

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(to_browser[1], json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.buffer:
                left = max(0, self.end - time.monotonic())
                assert select.select([ours[0]], [], [], left)[0], "no reply to " + method
                piece = os.read(ours[0], 65536)
                assert piece, "the browser has ended"
                self.buffer += piece
            text, self.buffer = self.buffer.split(b"\0", 1)
            reply = json.loads(text)
            if reply.get("id") == self.number:
                assert "error" not in reply, reply
                return reply["result"]
            self.events.append(reply)

    def go(self, url):
        self.call("Page.navigate", url=url)

    def evaluate(self, expression, **more):
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, **more)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def until(self, expression):
        while not self.evaluate(expression):
            assert time.monotonic() < self.end, expression
            time.sleep(0.02)
