#!/usr/bin/env python3
"""A small slow service, for docs/guide/testing-a-post-service.md.

It answers POST / with the names of the services that accept its two parameters. It asks eight of them one after another,
which takes 200 ms in total. With --workers 4 it asks four at a time: the improvement that the guide measures. Like many
small services it handles one request at a time; other requests wait.

usage: service.py [--port 5000] [--workers 1]

It needs only the standard library. The eight other services are threads of this program.
"""

import argparse
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
import json
import threading
import time
from urllib.parse import parse_qs, urlencode

# The response time of each of the other services in seconds. One of them refuses.
OTHERS = {"stock": 0.03, "prices": 0.02, "reviews": 0.04, "images": 0.03,
          "delivery": 0.02, "offers": 0.01, "history": 0.03, "returns": 0.02}
REFUSES = "offers"
# The maximum size of a form in bytes.
FORM_MAX = 10_000


class Handler(BaseHTTPRequestHandler):
    """HTTP/1.1 with persistent connections, and each reply in one write."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True

    def log_message(self, format, *args):
        pass

    def reply(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Other(Handler):
    """One of the other services."""

    def do_GET(self):
        name = self.path.split("/")[1].split("?")[0]
        time.sleep(OTHERS[name])
        self.reply(404 if name == REFUSES else 200, name)


class Service(Handler):
    """The service to test."""

    others = None
    workers = 1
    turn = threading.Lock()

    def do_POST(self):
        length = int(self.headers.get("Content-Length", 0))
        if length > FORM_MAX:
            self.close_connection = True
            return self.reply(413, "form too long")
        form = parse_qs(self.rfile.read(length).decode("utf-8", "replace"))
        if "param1" not in form or "param2" not in form:
            return self.reply(400, "param1 and param2 are needed")
        query = urlencode(form, doseq=True)
        with self.turn:
            answers = self.ask_all(query)
        return self.reply(200, [name for name, yes in zip(OTHERS, answers) if yes])

    def ask_all(self, query):
        if self.workers == 1:
            return [self.ask(name, query) for name in OTHERS]
        with ThreadPoolExecutor(max_workers=self.workers) as pool:
            return list(pool.map(lambda name: self.ask(name, query), OTHERS))

    def ask(self, name, query):
        connection = HTTPConnection("127.0.0.1", self.others, timeout=10)
        try:
            connection.request("GET", f"/{name}?{query}")
            reply = connection.getresponse()
            reply.read()
            return reply.status == 200
        finally:
            connection.close()


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=5000)
    parser.add_argument("--workers", type=int, default=1)
    args = parser.parse_args()
    others = Server(("127.0.0.1", 0), Other)
    threading.Thread(target=others.serve_forever, daemon=True).start()
    Service.others = others.server_address[1]
    Service.workers = args.workers
    print(f"listening on 127.0.0.1:{args.port}", flush=True)
    try:
        Server(("127.0.0.1", args.port), Service).serve_forever()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
