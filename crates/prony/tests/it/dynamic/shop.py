"""A small shop that insists: a visit cookie and its form token to log in, a session cookie and a
token in a header to order. It counts what it lets through and what it refuses."""

import collections
import http.server
import json
import secrets
import threading
import urllib.parse
from http.cookies import SimpleCookie

USERS = {"ann": "p&w=%+ü", "bob": 'qu"ote, comma', "eve": "plain"}
COUNTS = collections.Counter()
LOCK = threading.Lock()
VISITS, SESSIONS = {}, {}


class Shop(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def cookie(self, name):
        morsel = SimpleCookie(self.headers.get("Cookie", "")).get(name)
        return morsel.value if morsel else None

    def answer(self, what, status, body=b"", headers=()):
        # Each connection has a thread, and `+=` reads before it writes.
        with LOCK:
            COUNTS[what] += 1
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path == "/login":
            visit, token = secrets.token_hex(8), secrets.token_urlsafe(12)
            VISITS[visit] = token
            page = f'<form>\n<input type="hidden" name="csrf" value="{token}">\n</form>'
            self.answer("forms", 200, page.encode(), [("Set-Cookie", f"visit={visit}; HttpOnly")])
        elif self.path == "/stats":
            self.answer("stats", 200, json.dumps(COUNTS).encode())
        elif self.path.startswith("/home/") and self.path[6:] == SESSIONS.get(self.cookie("sid")):
            # A cookie that was taken away must not come back.
            assert self.cookie("visit") is None
            reply = {"user": self.path[6:], "cart": {"ids": [7, secrets.randbelow(10**9)]}}
            self.server.carts[reply["cart"]["ids"][1]] = self.path[6:]
            headers = [("X-Token", f"v1:{self.cookie('sid')[::-1]}")]
            self.answer("homes", 200, json.dumps(reply).encode(), headers)
        else:
            self.answer("refused", 403)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        sid = self.cookie("sid")
        if self.path == "/login":
            form = dict(urllib.parse.parse_qsl(body.decode()))
            user = form.get("user")
            right = USERS.get(user) == form.get("password")
            if right and form.get("csrf") == VISITS.pop(self.cookie("visit"), None):
                sid = secrets.token_hex(8)
                SESSIONS[sid] = user
                headers = [
                    ("Location", f"http://{self.headers['Host']}/home/{user}"),
                    ("Set-Cookie", f"sid={sid}; Path=/; HttpOnly; SameSite=Lax"),
                    ("Set-Cookie", "visit=; Expires=Thu, 01 Jan 1970 00:00:00 GMT"),
                ]
                return self.answer("logins", 303, b"", headers)
        elif self.path.startswith("/cart/") and sid in SESSIONS:
            owner = self.server.carts.get(int(self.path[6:]))
            order = json.loads(body)
            known = self.headers.get("X-Token") == sid[::-1] and order["user"] == SESSIONS[sid]
            if known and owner == SESSIONS[sid] and 1 <= order["count"] <= 9:
                return self.answer("orders", 201)
        self.answer("refused", 403)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", @PORT@), Shop)
server.carts = {}
server.serve_forever()
