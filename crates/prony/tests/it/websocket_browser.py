"""Lets a Chromium speak WebSocket and read server-sent events, and prints what it has seen as JSON.
Arguments: the browser, a folder for its profile, the URL of a page on each of three servers, of which
the first echoes messages, the second pushes them, and the third sends streams of events."""

import json
import sys

from browser_pipe import Page

browser, profile, echo, push, events = sys.argv[1:]

ECHO = """
new Promise((resolve, reject) => {
    const ws = new WebSocket(location.origin.replace('http', 'ws') + '/chat', ['chat', 'other']);
    ws.binaryType = 'arraybuffer';
    const texts = ['', 'hello', '\\u00fc\\u{1F600}'.repeat(30000), 'z'.repeat(70000)];
    const bytes = new Uint8Array(200000).map((_, i) => i % 251);
    const seen = { texts: 0, bytes: 0 };
    ws.onopen = () => { texts.forEach(text => ws.send(text)); ws.send(bytes); };
    ws.onmessage = event => {
        if (typeof event.data == 'string') {
            seen.texts += event.data == texts[seen.texts];
        } else {
            const back = new Uint8Array(event.data);
            seen.bytes += back.length == bytes.length && back.every((byte, i) => byte == bytes[i]);
            seen.protocol = ws.protocol;
            seen.extensions = ws.extensions;
            ws.close(3456, 'enough');
        }
    };
    ws.onclose = event => { seen.code = event.code; seen.clean = event.wasClean; resolve(seen); };
    ws.onerror = () => reject('an error');
})
"""

PUSH = """
new Promise((resolve, reject) => {
    const ws = new WebSocket(location.origin.replace('http', 'ws') + '/');
    const numbers = [];
    ws.onmessage = event => {
        numbers.push(parseInt(event.data));
        if (numbers.length == 5) ws.close();
    };
    ws.onclose = event => resolve({ numbers, code: event.code, clean: event.wasClean });
    ws.onerror = () => reject('an error');
})
"""

# A stream ends after its events, and the browser connects again.
EVENTS = """
new Promise((resolve, reject) => {
    const source = new EventSource('/');
    const seen = { opened: 0, events: 0, errors: 0 };
    source.onopen = () => { seen.opened += 1; };
    source.onmessage = event => {
        seen.events += event.data.length > 0;
        if (seen.events == 20) { source.close(); resolve(seen); }
    };
    source.onerror = () => { seen.errors += 1; };
})
"""

with Page(browser, profile) as page:
    seen = {}
    for name, url, script in [("echo", echo, ECHO), ("push", push, PUSH), ("events", events, EVENTS)]:
        page.go(url)
        page.until("document.readyState == 'complete' && location.href != 'about:blank'"
                   f" && location.href == '{url}'")
        seen[name] = page.evaluate(script, awaitPromise=True)
    print(json.dumps(seen))
