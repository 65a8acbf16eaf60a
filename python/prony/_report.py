"""What the results of runs, searches and comparisons share: their report in every format."""

from __future__ import annotations

import html
import json
import os
from typing import Any

from . import _prony
from ._errors import error


class Reported:
    """A result with its report."""

    def __init__(
        self, report: _prony.Report | _prony.Found | _prony.Phased, exit_code: int
    ) -> None:
        self._report = report
        self._json = self._render("json")
        self._data: dict[str, Any] = json.loads(self._json)
        self.exit_code = exit_code
        """The exit code that the command line would have had."""

    @property
    def ok(self) -> bool:
        """Whether `exit_code` is 0: the result is valid (or was accepted with `accept_invalid`)
        and meets every threshold and limit; a run had replies."""
        return self.exit_code == 0

    def _render(self, format: str) -> str:
        return self._report.render(format).decode()

    def text(self) -> str:
        """The report as the command line prints it."""
        return self._render("text")

    def html(self) -> str:
        """The HTML report, a complete page."""
        return self._render("html")

    def svg(self) -> str:
        """The plot as SVG, drawn by prony itself: of a run the times by percentile, of a search
        the load-latency curve, of a comparison the shift function."""
        return self._render("svg")

    def to_json(self) -> str:
        """The JSON report (docs/json.md)."""
        return self._json

    def to_dict(self) -> dict[str, Any]:
        """The JSON report as a dictionary (docs/json.md). Times in it are in nanoseconds."""
        data: dict[str, Any] = json.loads(self._json)
        return data

    def save(self, *paths: str | os.PathLike[str]) -> None:
        """Writes the report to files. The ending chooses the format: .html .svg .png .json, of a
        run or a comparison also .md, of a run also .csv .xml .hgrm .hlog, of a plan with phases
        also .md .xml. Each file is written completely or not at all.

        Raises:
            OutputError: a file cannot be written.
            UsageError: a name has another ending.
        """
        try:
            self._report.write(paths)
        except _prony.Refused as why:
            raise error(*why.args) from None

    def _repr_html_(self) -> str:
        page = html.escape(self.html(), quote=True)
        return (
            f'<iframe srcdoc="{page}" title="prony report" '
            'style="width: 100%; height: 640px; border: 0" sandbox></iframe>'
        )

    def __str__(self) -> str:
        return self.text()
