"""A service that accepts only signed orders. It checks them with the standard library of Python, and
counts what it accepts and what it refuses."""

import base64
import collections
import hashlib
import hmac
import http.server
import json
import threading
import time

KEY = b"a key, not in any plan"
COUNTS = collections.Counter()
LOCK = threading.Lock()


def unpadded(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def sub_of_token(token):
    """The claim `sub` of a valid JSON Web Token."""
    head, claims, tag = token.split(".")
    signed = f"{head}.{claims}".encode()
    assert json.loads(unpadded(head)) == {"alg": "HS256", "typ": "JWT"}, head
    assert hmac.compare_digest(unpadded(tag), hmac.digest(KEY, signed, "sha256")), "the tag"
    claims = json.loads(unpadded(claims))
    assert claims["exp"] > time.time() > claims["iat"] - 5, claims
    return claims["sub"]


class Orders(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, what, status, body=b""):
        # Each connection has a thread, and `+=` reads before it writes.
        with LOCK:
            COUNTS[what] += 1
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer("stats", 200, json.dumps(COUNTS).encode())

    def do_PUT(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            at, signature = self.headers["X-Time"], self.headers["X-Signature"]
            text = f"{self.command}\n{self.path}\n{at}\n".encode() + body
            expected = base64.b64encode(hmac.digest(KEY, text, "sha256")).decode()
            assert signature == expected, signature
            assert self.headers["X-Digest"] == hashlib.sha256(body).hexdigest()
            assert abs(time.time() - int(at)) < 60, at
            sub = sub_of_token(self.headers["Authorization"].removeprefix("Bearer "))
            assert sub == json.loads(body)["user"], sub
        except Exception as why:
            print(repr(why), flush=True)
            return self.answer("refused", 403)
        self.answer("accepted", 201)

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", @PORT@), Orders).serve_forever()
