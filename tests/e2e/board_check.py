"""Checks a board for Grafana 9 and 10 by the rules of its schema (kinds/dashboard/dashboard_kind.cue of Grafana):

    board_check.py FILE

It checks the contents that are allowed, that ids are unique, that panels lie on a grid of 24 columns without overlaps,
and that the variables of queries exist.

SPDX-License-Identifier: Apache-2.0
"""

import itertools
import json
import re
import sys

BOARD = {"title": str, "uid": str, "tags": list, "timezone": str, "schemaVersion": int, "version": int, "editable": bool,
         "refresh": str, "time": dict, "templating": dict, "annotations": dict, "panels": list}
PANEL = {"id": int, "type": str, "title": str, "description": str, "datasource": dict, "gridPos": dict, "fieldConfig": dict,
         "targets": list, "options": dict}
ROW = {"id": int, "type": str, "title": str, "collapsed": bool, "gridPos": dict, "panels": list}
VARIABLE = {"name": str, "label": str, "type": str, "query": (str, dict), "hide": int, "datasource": dict, "definition": str,
            "refresh": int, "includeAll": bool, "allValue": str, "multi": bool, "current": dict}
TARGET = {"refId": str, "datasource": dict, "expr": str, "legendFormat": str}
DEFAULTS = {"unit": str, "min": (int, float), "max": (int, float)}
UNITS = {"short", "percentunit", "s", "bytes"}
TYPES = {"timeseries", "stat"}
BUILT_IN = {"__rate_interval", "__range", "__interval"}


def expect(fact, what):
    if not fact:
        sys.exit(f"board: {what}")


def has(o, types, needed, what):
    """Checks the members of an object: each is known and has the right type, and no required one is missing."""
    for name, value in o.items():
        expect(name in types, f"{what} has '{name}', which the schema does not know")
        expect(isinstance(value, types[name]) and not (types[name] is int and isinstance(value, bool)),
               f"'{name}' of {what} is {value!r}")
    for name in needed:
        expect(name in o, f"{what} lacks '{name}'")


def check_place(p, what):
    place = p["gridPos"]
    has(place, dict.fromkeys("hwxy", int), "hwxy", f"the place of {what}")
    expect(place["h"] > 0 and 0 < place["w"] and place["x"] >= 0 and place["x"] + place["w"] <= 24 and place["y"] >= 0,
           f"{what} is outside of the grid: {place}")


def overlap(a, b):
    a, b = a["gridPos"], b["gridPos"]
    return (a["x"] < b["x"] + b["w"] and b["x"] < a["x"] + a["w"] and
            a["y"] < b["y"] + b["h"] and b["y"] < a["y"] + a["h"])


def check_panel(p, variables):
    what = f"panel {p.get('title', p)}"
    has(p, PANEL, ("id", "type", "title", "datasource", "gridPos", "fieldConfig", "targets"), what)
    expect(p["type"] in TYPES, f"{what} has the type {p['type']}")
    has(p["fieldConfig"], {"defaults": dict, "overrides": list}, ("defaults", "overrides"), f"fieldConfig of {what}")
    has(p["fieldConfig"]["defaults"], DEFAULTS, ("unit",), f"defaults of {what}")
    expect(p["fieldConfig"]["defaults"]["unit"] in UNITS, f"{what} has an unknown unit")
    names = [t["refId"] for t in p["targets"]]
    expect(names and len(set(names)) == len(names), f"{what} has queries {names}")
    for t in p["targets"]:
        has(t, TARGET, ("refId", "datasource", "expr"), f"a query of {what}")
        expect(t["datasource"] == p["datasource"] == {"type": "prometheus", "uid": "${datasource}"},
               f"{what} asks {t['datasource']}")
        unknown = set(re.findall(r"\$\{?(\w+)", t["expr"])) - variables - BUILT_IN
        expect(not unknown, f"{what} uses unknown variables: {unknown}")
    if p["type"] == "stat":
        expect(p["options"]["reduceOptions"]["calcs"], f"{what} reduces nothing")


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        board = json.load(file)
    has(board, BOARD, BOARD, "the board")
    expect(8 <= len(board["uid"]) <= 40 and "id" not in board, "the board's uid has 8 to 40 characters")
    expect(board["timezone"] in ("browser", "utc"), "the time zone is unknown")
    expect(36 <= board["schemaVersion"] <= 38, "Grafana 9.0 has schema 36, Grafana 10 has 38")
    expect(re.fullmatch(r"\d+[smhd]", board["refresh"]), "the refresh is not an interval")
    has(board["time"], {"from": str, "to": str}, ("from", "to"), "the time")
    variables = board["templating"]["list"]
    for v in variables:
        has(v, VARIABLE, ("name", "type", "query"), f"variable {v}")
        expect(v["type"] in ("query", "datasource"), f"variable {v['name']} has the type {v['type']}")
    names = {v["name"] for v in variables}
    expect(len(names) == len(variables), "two variables have one name")
    panels = board["panels"]
    expect(len({p["id"] for p in panels}) == len(panels), "two panels have one id")
    for p in panels:
        check_place(p, f"panel {p['title']}")
        if p["type"] == "row":
            has(p, ROW, ROW, f"row {p['title']}")
        else:
            check_panel(p, names)
    for a, b in itertools.combinations(panels, 2):
        expect(not overlap(a, b), f"'{a['title']}' lies on '{b['title']}'")


main()
