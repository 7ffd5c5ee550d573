"""Prints what the HdrHistogram library of Python finds in a histogram log.

One line per tagged entry: tag, count, values at p50, p90, p99, p99.9 and p100. This library rounds the
rank of a percentile to the nearest, Rust's rounds up, so that they may differ by one sample; here the
rank is rounded up, and the library is asked for the percentile that is exactly this rank.
"""

import math
import sys

from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

HOUR_NS = 3_600_000_000_000


def main(path):
    reader = HistogramLogReader(path, HdrHistogram(1, HOUR_NS, 3))
    while True:
        histogram = reader.get_next_interval_histogram()
        if histogram is None:
            break
        count = histogram.get_total_count()
        ranks = [max(1, math.ceil(q * count)) for q in (0.5, 0.9, 0.99, 0.999, 1.0)]
        values = [int(histogram.get_value_at_percentile(100 * rank / count)) for rank in ranks]
        print(histogram.get_tag(), count, *values)
    reader.close()


main(sys.argv[1])
