"""Checks what workers pushed and pulled: no push is lost, counts twice, or is seen and then lost.

Each worker has a column of its own, and pushes 1 to this column of a key; so the row of a key, as a
pull returns it, is a vector that says how many pushes of each worker it has. A worker sends the next
push to a key when the one before has ended. The files have a line of JSON for each key of a request:

    {"key": 7, "column": 2, "begin": 100, "end": 250}
    {"key": 7, "values": [3, 0, 1], "begin": 260, "end": 300}

in nanoseconds of one clock. A push without "end" has failed: it may count, or not. This file shares no
code with tug. For each key it checks that
 1. a pull has all pushes that were acknowledged before it began, and none that began after it ended;
 2. the pulls can be put in an order in which no column falls;
 3. a pull that began after another had ended has all that the other one had;
 4. a pull with some push has all pushes that were acknowledged before that push began.
These are also sufficient, which --test checks: for random small histories, a search through all orders
finds one that explains the history exactly if the rules hold.

    history_check.py FILE...     prints the numbers of pushes and pulls, or the first violation (exit status 1)
    history_check.py --test

SPDX-License-Identifier: Apache-2.0
"""

import bisect
import itertools
import json
import math
import random
import sys


class Violation(Exception):
    pass


class Key:
    """The requests for one key, as (begin, end) of pushes by column, and (begin, end, vector) of pulls."""

    def __init__(self, columns):
        self.pushes = [[] for _ in range(columns)]
        self.pulls = []

    def sort(self):
        for column in self.pushes:
            column.sort()
        self.begins = [[begin for begin, _ in column] for column in self.pushes]
        self.ends = [[end for _, end in column if end < math.inf] for column in self.pushes]
        for ends, column in zip(self.ends, self.pushes):
            if any(a[1] > b[0] for a, b in zip(column, column[1:]) if a[1] < math.inf):
                raise ValueError("a worker pushed to a key before its last push had ended")
            ends.sort()


def is_below(a, b):
    return all(x <= y for x, y in zip(a, b))


def check_bounds(key, begin, end, values):
    """Rules 1 and 4."""
    newest = -math.inf  # begin of the newest push that the pull has
    for column, value in enumerate(values):
        least = bisect.bisect_left(key.ends[column], begin)
        most = bisect.bisect_right(key.begins[column], end)
        if value != int(value) or not least <= value <= most:
            raise Violation(f"a pull from {begin} to {end} has {value:g} pushes of column {column}: before it "
                            f"began, {least} were acknowledged, and before it ended, {most} had begun")
        if value > 0:
            newest = max(newest, newest_begin(key, column, int(value)))
    for column, value in enumerate(values):
        least = bisect.bisect_left(key.ends[column], newest)
        if value < least:
            raise Violation(f"a pull from {begin} to {end} has a push that began at {newest}, but {value:g} "
                            f"pushes of column {column}, of which {least} were acknowledged before")


def newest_begin(key, column, value):
    """The earliest time at which a row can have got this many pushes of a column: pushes that failed may be
    among them, or not, so the first ones are taken."""
    return key.begins[column][value - 1]


def check_order(key):
    """Rules 2 and 3."""
    by_sum = sorted(key.pulls, key=lambda pull: sum(pull[2]))
    for a, b in zip(by_sum, by_sum[1:]):
        if not is_below(a[2], b[2]):
            raise Violation(f"neither of two pulls has all of the other: {a} and {b}")
    ended = sorted(key.pulls, key=lambda pull: pull[1])
    greatest, at = None, 0
    for pull in sorted(key.pulls):
        while at < len(ended) and ended[at][1] < pull[0]:
            if greatest is None or is_below(greatest[2], ended[at][2]):
                greatest = ended[at]
            at += 1
        if greatest is not None and not is_below(greatest[2], pull[2]):
            raise Violation(f"a pull lacks what an earlier one had: {greatest} and then {pull}")


def check(key):
    key.sort()
    for begin, end, values in key.pulls:
        check_bounds(key, begin, end, values)
    check_order(key)


def read(paths):
    requests = []
    for path in paths:
        with open(path, encoding="ascii") as lines:
            requests += [json.loads(line) for line in lines if line.endswith("\n")]
    columns = max(len(x["values"]) for x in requests if "values" in x)
    keys = {}
    for x in requests:
        key = keys.setdefault(x["key"], Key(columns))
        if "values" in x:
            key.pulls.append((x["begin"], x["end"], x["values"]))
        else:
            key.pushes[x["column"]].append((x["begin"], x.get("end", math.inf)))
    return keys


# ---------------------------------------------------------------- --test


def explains(order):
    """Returns whether each pull of the order returns the sums of the pushes before it."""
    row = {}
    for kind, at, values in order:
        if kind == "push":
            row[at] = row.get(at, 0) + 1
        elif any(value != row.get(column, 0) for column, value in enumerate(values)):
            return False
    return True


def has_order(key):
    """Tries each order of each subset of the failed pushes that respects real time."""
    done = [(b, e, ("push", c, None)) for c, column in enumerate(key.pushes) for b, e in column if e < math.inf]
    failed = [(b, e, ("push", c, None)) for c, column in enumerate(key.pushes) for b, e in column if e == math.inf]
    done += [(b, e, ("pull", 0, values)) for b, e, values in key.pulls]
    for n in range(len(failed) + 1):
        for some in itertools.combinations(failed, n):
            for order in itertools.permutations(done + list(some)):
                if all(a[0] <= b[1] for a, b in itertools.combinations(order, 2)) and explains([x[2] for x in order]):
                    return True
    return False


def random_key(r):
    """A small history that often is explained by an order, and sometimes almost."""
    key, columns = Key(2), r.choice([1, 2, 2])
    times = list(range(40))
    for column in range(columns):
        at = sorted(r.sample(times, 2 * r.randrange(0, 3)))
        key.pushes[column] = [(a, b) for a, b in zip(at[::2], at[1::2])]
        if key.pushes[column] and r.random() < 0.2:
            key.pushes[column][-1] = (key.pushes[column][-1][0], math.inf)
    for _ in range(r.randrange(1, 4)):
        begin, end = sorted(r.sample(times, 2))
        moment = r.uniform(begin, end)
        values = [sum(r.uniform(b, min(e, 39)) < moment for b, e in column) for column in key.pushes]
        if r.random() < 0.2:
            values[r.randrange(2)] = r.randrange(3)
        key.pulls.append((begin, end, values))
    return key


def test():
    r, seen = random.Random(11), {True: 0, False: 0}
    for _ in range(3000):
        key = random_key(r)
        expected = has_order(key)
        try:
            check(key)
            found = True
        except Violation:
            found = False
        seen[expected] += 1
        if found != expected:
            sys.exit(f"an order {'exists' if expected else 'does not exist'}: {key.pushes} {key.pulls}")
    if min(seen.values()) < 500:
        sys.exit(f"too few of one kind: {seen}")
    print(f"{seen[True]} histories have an order, {seen[False]} have none: the rules agree with a search")


def main(words):
    if words == ["--test"]:
        test()
        return
    keys = read(words)
    for number, key in sorted(keys.items()):
        try:
            check(key)
        except Violation as why:
            sys.exit(f"key {number}: {why}")
    pushes = sum(len(column) for key in keys.values() for column in key.pushes)
    print(f"{len(keys)} keys, {pushes} pushes, {sum(len(key.pulls) for key in keys.values())} pulls")


if __name__ == "__main__":
    main(sys.argv[1:])
