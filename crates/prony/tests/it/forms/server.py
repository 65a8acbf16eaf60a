"""A server that reads multi-part forms with the MIME parser of Python's standard library, and says
what it got: each different form, with how often it came."""

import base64
import collections
import email.parser
import email.policy
import http.server
import json
import threading
import zlib

COUNTS = collections.Counter()
LOCK = threading.Lock()


def parts_of(kind, body):
    parser = email.parser.BytesParser(policy=email.policy.HTTP)
    message = parser.parsebytes(b"Content-Type: " + kind.encode() + b"\r\n\r\n" + body)
    assert message.is_multipart() and not message.defects, message.defects
    parts = []
    for part in message.iter_parts():
        assert not part.defects, part.defects
        disposition = part["Content-Disposition"]
        assert disposition.content_disposition == "form-data", disposition
        content = part.get_payload(decode=True)
        parts.append(
            [
                disposition.params["name"],
                disposition.params.get("filename", ""),
                part["Content-Type"] or "",
                base64.b64encode(content).decode(),
            ]
        )
    return parts


class Forms(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, body=b""):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer(200, json.dumps(sorted(COUNTS.items())).encode())

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            if self.headers.get("Content-Encoding") == "gzip":
                body = zlib.decompress(body, wbits=31)
            kind = self.headers.get("Content-Type", "")
            is_form = kind.startswith("multipart/")
            what = json.dumps(parts_of(kind, body)) if is_form else body.decode()
            # Each connection has a thread, and `+=` reads before it writes.
            with LOCK:
                COUNTS[what] += 1
        except Exception as why:
            print(repr(why), flush=True)
            return self.answer(400)
        self.answer(200)

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", @PORT@), Forms).serve_forever()
