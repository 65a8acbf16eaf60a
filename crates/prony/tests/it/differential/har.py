"""Drives a Chromium through requests of many kinds, and keeps what it says about them.
Arguments: the browser, a folder for its profile, the URL of a server, seed, count, a file."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
from browser_pipe import Page

browser, profile, url, seed, count, file = sys.argv[1:]
SCRIPT = (Path(__file__).parent / "har_page.js").read_text()

with Page(browser, profile, 120) as page:
    for domain in ["Page", "Network"]:
        page.call(domain + ".enable")
    page.go(url + "/page")
    page.until("document.title == 'page' && document.readyState == 'complete'")
    page.evaluate(f"{SCRIPT}\nsendAll({seed}, {count})", awaitPromise=True)
    messages = [m for m in page.events if m.get("method", "").split(".")[0] in ("Page", "Network")]
    Path(file).write_text(json.dumps(messages))
