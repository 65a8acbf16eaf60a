"""Drives a Chromium through the login of record_site.py, by Chromium's own protocol on a pipe.
Arguments: the browser, a folder for its profile, the URL."""

import json
import os
import subprocess
import sys
import time

browser, profile, url = sys.argv[1:]
to_browser, ours = os.pipe(), os.pipe()


def descriptors():
    # Chromium reads from 3 and writes to 4.
    os.dup2(to_browser[0], 63)
    os.dup2(ours[1], 64)
    os.dup2(63, 3)
    os.dup2(64, 4)


child = subprocess.Popen(
    [browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
     "--disable-background-networking", "--disable-component-update", "--disable-sync",
     "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--remote-debugging-pipe",
     "--user-data-dir=" + profile, "about:blank"],
    preexec_fn=descriptors, close_fds=False, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
)
os.close(to_browser[0])
os.close(ours[1])
number, buffer = 0, b""
end = time.monotonic() + 60


def call(method, session=None, **params):
    global number, buffer
    number += 1
    message = {"id": number, "method": method, "params": params}
    if session:
        message["sessionId"] = session
    os.write(to_browser[1], json.dumps(message).encode() + b"\0")
    while True:
        while b"\0" not in buffer:
            piece = os.read(ours[0], 65536)
            assert piece, "the browser has ended"
            buffer += piece
        text, buffer = buffer.split(b"\0", 1)
        reply = json.loads(text)
        if reply.get("id") == number:
            assert "error" not in reply, reply
            return reply["result"]


def until(session, expression):
    while True:
        found = call("Runtime.evaluate", session, expression=expression, returnByValue=True)
        if found["result"].get("value"):
            return
        assert time.monotonic() < end, expression
        time.sleep(0.02)


try:
    target = call("Target.createTarget", url="about:blank")["targetId"]
    page = call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    call("Page.navigate", page, url=url)
    until(page, "document.title == 'login' && document.readyState == 'complete'")
    # A user who thinks.
    time.sleep(0.3)
    call("Runtime.evaluate", page, expression="""
        document.querySelector('[name=user]').value = 'ann';
        document.querySelector('[name=password]').value = 'l3t me+in';
        document.querySelector('button').click();""")
    until(page, "document.title == 'done'")
    print("done")
finally:
    child.kill()
    child.wait()
