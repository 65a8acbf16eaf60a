"""A site with a login for the tests: a session cookie, the token of a form, tokens for scripts, and
IDs that differ in each session. It counts what it accepts and refuses, and prints that as JSON when
its standard input ends."""

import collections
import http.server
import json
import secrets
import sys
import threading
import urllib.parse

sessions = {}
seen = collections.Counter()
lock = threading.Lock()

LOGIN = """<!doctype html><html><head><title>login</title><link rel=stylesheet href=/style.css></head>
<body><form method=post action=/login>
<input type="hidden" name="csrf_token" value="{token}">
<input name="user"><input name="password" type="password"><button>in</button></form></body></html>"""

DESK = """<!doctype html><html><head><title>desk</title><meta name="csrf-token" content="{token}">
<link rel=stylesheet href=/style.css><script src=/app.js defer></script></head><body>hello</body></html>"""

SCRIPT = """addEventListener('load', async () => {
  const token = document.querySelector('meta[name=csrf-token]').content;
  const send = (method, path, body) => fetch(path, {method, body: JSON.stringify(body),
    headers: {'Content-Type': 'application/json', 'X-CSRF-Token': token}}).then(r => r.json());
  const made = await send('POST', '/api/carts', {currency: 'EUR'});
  await send('PUT', '/api/carts/' + made.cart.id + '/items', {cart: made.cart.id, item: 7});
  document.title = 'done';
});"""


class Site(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def log_message(self, *_):
        pass

    def send(self, status, kind, text, *headers):
        body = text.encode()
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def refuse(self, why):
        with lock:
            seen["refused"] += 1
            seen["refused: " + why] += 1
        self.send(403, "text/plain", why)

    def session(self):
        for part in self.headers.get("Cookie", "").split(";"):
            name, _, value = part.strip().partition("=")
            if name == "sid":
                return sessions.get(value)
        return None

    def body(self):
        return self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()

    def do_GET(self):
        if self.headers["Host"] != self.server.name:
            return self.refuse("host " + self.headers["Host"])
        if self.path == "/":
            sid, token = secrets.token_hex(16), secrets.token_urlsafe(24)
            sessions[sid] = {"token": token, "desk": None, "cart": None}
            cookie = ("Set-Cookie", f"sid={sid}; Path=/; HttpOnly")
            return self.send(200, "text/html", LOGIN.format(token=token), cookie)
        if self.path == "/style.css":
            return self.send(200, "text/css", "body { color: #123 }")
        if self.path == "/app.js":
            return self.send(200, "text/javascript", SCRIPT)
        if self.path.startswith("/desk/"):
            session = self.session()
            if session is None or self.path != "/desk/" + str(session["desk"]):
                return self.refuse("desk")
            session["token"] = secrets.token_hex(20)
            return self.send(200, "text/html; charset=utf-8", DESK.format(token=session["token"]))
        self.send(404, "text/plain", "no")

    def do_POST(self):
        body, session = self.body(), self.session()
        if session is None:
            return self.refuse("no session")
        if self.path == "/login":
            form = dict(urllib.parse.parse_qsl(body))
            if form.get("csrf_token") != session["token"]:
                return self.refuse("token of the form")
            if (form.get("user"), form.get("password")) != ("ann", "l3t me+in"):
                return self.refuse("password")
            session["desk"] = secrets.token_hex(8)
            return self.send(303, "text/plain", "", ("Location", "/desk/" + session["desk"]))
        if self.path == "/api/carts":
            if self.headers.get("X-CSRF-Token") != session["token"]:
                return self.refuse("token of the script")
            session["cart"] = "c" + secrets.token_hex(6) + "7"
            return self.send(201, "application/json", json.dumps({"cart": {"id": session["cart"]}}))
        self.send(404, "text/plain", "no")

    def do_PUT(self):
        text, session = self.body(), self.session()
        cart = session and session["cart"]
        if self.path != f"/api/carts/{cart}/items" or json.loads(text).get("cart") != cart:
            return self.refuse("cart")
        if self.headers.get("X-CSRF-Token") != session["token"]:
            return self.refuse("token of the script")
        with lock:
            seen["complete"] += 1
            seen["sessions"] += not session.get("is_complete")
            session["is_complete"] = True
        self.send(200, "application/json", "{}")


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 1024
    daemon_threads = True


server = Server(("127.0.0.1", 0), Site)
server.name = "127.0.0.1:%d" % server.server_port
threading.Thread(target=server.serve_forever, daemon=True).start()
print(server.name, flush=True)
sys.stdin.read()
print(json.dumps(seen))
