"""A service that accepts only requests that are signed for AWS (Signature Version 4). It checks them
with the standard library of Python, by the description of AWS, and counts what it accepts and what
it refuses. `/old` is a redirect."""

import collections
import datetime
import hashlib
import hmac
import http.server
import json
import re
import threading
import urllib.parse

SECRET = {"AKIDEXAMPLE": "wJalr/XUtn+FEMI", "AKIDOTHER": "other"}
TOKENS = {"AKIDOTHER": "a/token=="}
SEEN = collections.Counter()
LOCK = threading.Lock()


def count(what):
    """Each connection has a thread, and `+=` reads before it writes."""
    with LOCK:
        SEEN[what] += 1


def quote(text):
    return urllib.parse.quote(text, safe="-_.~")


def canonical_query(query):
    pairs = urllib.parse.parse_qsl(query, keep_blank_values=True)
    return "&".join(f"{n}={v}" for n, v in sorted((quote(n), quote(v)) for n, v in pairs))


def check(method, target, headers, body):
    """Raises if the request is not signed."""
    algorithm, rest = headers["Authorization"].split(" ", 1)
    assert algorithm == "AWS4-HMAC-SHA256", algorithm
    fields = dict(part.strip().split("=", 1) for part in rest.split(","))
    key_id, day, region, service, last = fields["Credential"].split("/")
    assert last == "aws4_request", last
    date = headers["X-Amz-Date"]
    at = datetime.datetime.strptime(date, "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.timezone.utc)
    late = abs((datetime.datetime.now(datetime.timezone.utc) - at).total_seconds())
    assert late < 60 and date.startswith(day), date
    digest = hashlib.sha256(body).hexdigest()
    path, _, query = target.partition("?")
    if service == "s3":
        assert headers["X-Amz-Content-Sha256"] == digest, "the digest of the body"
    else:
        path = urllib.parse.quote(re.sub("/+", "/", path), safe="/-_.~")
    names = fields["SignedHeaders"].split(";")
    assert names == sorted(names), names
    must = {"host", "x-amz-date"} | {n.lower() for n in headers if n.lower().startswith("x-amz-")}
    must |= {"content-type"} & {name.lower() for name in headers}
    assert must <= set(names), names
    assert headers["X-Amz-Security-Token"] == TOKENS.get(key_id), "the token"
    lines = [method, path, canonical_query(query)]
    lines += [f"{name}:{' '.join(','.join(headers.get_all(name)).split())}" for name in names]
    lines += ["", ";".join(names), digest]
    scope = f"{day}/{region}/{service}/aws4_request"
    hashed = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    key = b"AWS4" + SECRET[key_id].encode()
    for part in (day, region, service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    tag = hmac.digest(key, f"{algorithm}\n{date}\n{scope}\n{hashed}".encode(), "sha256").hex()
    assert hmac.compare_digest(tag, fields["Signature"]), "\n".join(lines)
    return f"{region} {service}"


class Service(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, body=b"", location=None):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if location:
            self.send_header("Location", location)
        self.end_headers()
        self.wfile.write(body)

    def any_method(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/stats":
            return self.answer(200, json.dumps(SEEN).encode())
        if self.path == "/open":
            count("unsigned" if "Authorization" not in self.headers else "signed")
            return self.answer(200)
        try:
            count(check(self.command, self.path, self.headers, body))
        except Exception as why:
            print(repr(why), flush=True)
            count("refused")
            return self.answer(403)
        if self.path == "/old":
            return self.answer(307, location="/new%20path?from=old")
        self.answer(200)

    do_GET = do_PUT = do_POST = any_method

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", @PORT@), Service).serve_forever()
