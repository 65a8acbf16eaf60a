"""Looks at pages in a Chromium, at several widths. Arguments: the browser, a folder for its profile,
the script of axe-core, widths with commas between them, pages. Prints a line for each finding."""

import json
import sys
from pathlib import Path

from browser_pipe import Page

browser, profile, axe, widths, *pages = sys.argv[1:]
AXE = Path(axe).read_text()

# What is too wide for the window, which tables are cut although there is a margin, and which links
# lead nowhere.
LAYOUT = """(() => {
  const page = document.documentElement, found = [];
  if (page.scrollWidth > page.clientWidth)
    found.push('wider than the window by ' + (page.scrollWidth - page.clientWidth));
  for (const link of document.querySelectorAll('a[href^="#"]'))
    if (!document.getElementById(link.getAttribute('href').slice(1)))
      found.push('no definition for ' + link.textContent);
  if (page.clientWidth >= 1200)
    for (const region of document.querySelectorAll('main > .scroll'))
      if (region.scrollWidth > region.clientWidth)
        found.push(region.getAttribute('aria-label') + ' is cut by '
          + (region.scrollWidth - region.clientWidth));
  for (const tiles of document.querySelectorAll('dl.tiles')) {
    const tops = [...tiles.children].map(tile => tile.getBoundingClientRect().top);
    if (page.clientWidth >= 700 && new Set(tops).size > 1) found.push('tiles in several rows');
  }
  return found;
})()"""
RULES = """axe.run(document, {resultTypes: ['violations']}).then(found => found.violations.flatMap(
  rule => rule.nodes.map(node => rule.id + ': ' + node.html.slice(0, 120))))"""

with Page(browser, profile, 120) as page:
    page.call("Page.enable")
    for name in pages:
        page.go(Path(name).resolve().as_uri())
        page.until("document.readyState == 'complete' && document.title.startsWith('prony')")
        page.evaluate(AXE + "; 0")
        for width in map(int, widths.split(",")):
            page.call("Emulation.setDeviceMetricsOverride", width=width, height=900,
                      deviceScaleFactor=1, mobile=False)
            found = page.evaluate(LAYOUT) + page.evaluate(RULES, awaitPromise=True)
            for line in found:
                print(json.dumps(f"{Path(name).name} at {width}: {line}"))
