"""Drives a Chromium through the login of record_site.py.
Arguments: the browser, a folder for its profile, the URL."""

import sys
import time

from browser_pipe import Page

browser, profile, url = sys.argv[1:]

with Page(browser, profile) as page:
    page.go(url)
    page.until("document.title == 'login' && document.readyState == 'complete'")
    # A user who thinks.
    time.sleep(0.3)
    page.evaluate("""
        document.querySelector('[name=user]').value = 'ann';
        document.querySelector('[name=password]').value = 'l3t me+in';
        document.querySelector('button').click();""")
    page.until("document.title == 'done'")
    print("done")
