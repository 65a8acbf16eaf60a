#!/usr/bin/env python3
"""Read an HdrHistogram interval log with the Python implementation (`pip install hdrhistogram`) and print one line for each
tag: tag, count, number of bins in use, sum of (highest value x count) over the bins, max, in the log's own unit. An
independent reader for prony's .hlog files.

usage: read_hlog.py FILE
"""

import sys

from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

HOUR_NS = 3_600_000_000_000


def tags(path):
    """The tags of the log's lines, in order; the reader itself can only filter by them."""
    with open(path, encoding="ascii") as log:
        return [line[4:].split(",", 1)[0] for line in log if line.startswith("Tag=")]


def main():
    path = sys.argv[1]
    for tag in sorted(set(tags(path))):
        total = HdrHistogram(1, HOUR_NS, 3)
        reader = HistogramLogReader(path, total)
        while (interval := reader.get_next_interval_histogram()) is not None:
            if interval.get_tag() == tag:
                total.add(interval)
        bins = [
            (bin.value_iterated_to, bin.count_added_in_this_iter_step)
            for bin in total.get_recorded_iterator()
        ]
        weight = sum(value * count for value, count in bins)
        print(tag, total.get_total_count(), len(bins), weight, total.get_max_value())


if __name__ == "__main__":
    main()
