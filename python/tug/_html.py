"""The view of a model in a notebook: one screen of HTML with its metrics, the curves of its passes and its columns.

SPDX-License-Identifier: Apache-2.0
"""

import html
import math
from typing import Any, Dict, List, Optional, Sequence, Tuple

from tug._passes import Pass

_COLORS = ("#1f77b4", "#e07b00")  # colors of training and validation, readable on white and on black
_WIDTH, _HEIGHT, _LEFT, _BELOW = 340, 170, 52, 22
_METRICS = ("auc", "logloss", "pr_auc", "ne", "copc", "rmse", "mae")
_COLUMNS, _OPTIONS = 10, 24  # the most lines of the tables


def _text(x: Any) -> str:
    return html.escape(str(x))


def _number(x: Any) -> str:
    return "" if x is None or (isinstance(x, float) and not math.isfinite(x)) else f"{x:.5g}"


def _percent(x: Any) -> str:
    return "" if x is None or not math.isfinite(x) else f"{100 * x:.3g} %"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; its texts are escaped, and the first column is aligned to the left."""
    def line(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f'<{tag} style="text-align:{"right" if i else "left"};padding:1px 8px">{_text(cell)}'
                                f"</{tag}>" for i, cell in enumerate(cells)) + "</tr>"

    return ('<table style="border-collapse:collapse;font-size:90%;color:inherit">'
            + line(head, "th") + "".join(line(row, "td") for row in rows) + "</table>")


def _path(points: List[Tuple[float, float]], color: str) -> str:
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2" fill="{color}"/>' for x, y in points if len(points) < 30)
    return f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="1.5"/>{dots}'


def _chart(name: str, passes: List[Pass], field: str) -> str:
    """The curves of one metric over the passes, as SVG; "" if no pass has it."""
    series = [[(p.pass_, value) for p in passes if (value := getattr(p, which)) is not None]
              for which in (field, f"valid_{field}")]
    values = [y for one in series for _, y in one if math.isfinite(y)]
    if not values:
        return ""
    least, most = min(values), max(values)
    first, last = passes[0].pass_, passes[-1].pass_
    wide, high = _WIDTH - _LEFT - 10, _HEIGHT - 24 - _BELOW

    def at(x: float, y: float) -> Tuple[float, float]:
        return (_LEFT + wide * ((x - first) / (last - first) if last > first else 0.5),
                24 + high * (1 - ((y - least) / (most - least) if most > least else 0.5)))

    drawn = "".join(_path([at(x, y) for x, y in one if math.isfinite(y)], color)
                    for one, color in zip(series, _COLORS) if one)
    best = max((p.pass_ for p in passes if p.best), default=None)
    if best is not None:
        x = at(best, least)[0]
        drawn += (f'<line x1="{x:.1f}" y1="24" x2="{x:.1f}" y2="{24 + high}" stroke="currentColor" '
                  f'stroke-dasharray="2 3"><title>best: pass {best}</title></line>')
    legend = "".join(f'<tspan fill="{color}"> {kind}</tspan>'
                     for one, color, kind in zip(series, _COLORS, ("training", "validation")) if one)
    axes = (f'<path d="M{_LEFT} 24V{24 + high}H{_LEFT + wide}" fill="none" stroke="currentColor" opacity="0.5"/>'
            f'<text x="{_LEFT - 4}" y="30" text-anchor="end">{most:.4g}</text>'
            f'<text x="{_LEFT - 4}" y="{24 + high}" text-anchor="end">{least:.4g}</text>'
            f'<text x="{_LEFT}" y="{_HEIGHT - 6}">pass {first}</text>'
            f'<text x="{_LEFT + wide}" y="{_HEIGHT - 6}" text-anchor="end">{last}</text>')
    return (f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{_WIDTH}" height="{_HEIGHT}" '
            f'viewBox="0 0 {_WIDTH} {_HEIGHT}" font-size="11" fill="currentColor" style="max-width:100%">'
            f'<title>{_text(name)} by pass</title><text x="{_LEFT}" y="14"><tspan font-weight="bold">{_text(name)}'
            f'</tspan>{legend}</text>{axes}{drawn}</svg>')


def _metrics(results: Dict[str, float]) -> str:
    """The metrics of the last training, with a column for each kind of data."""
    kinds = [kind for kind in ("train", "valid", "test")
             if any(name.startswith(f"{kind}.") for name in results)]
    rows = [[name, *(_number(results.get(f"{kind}.{name}")) for kind in kinds)] for name in _METRICS]
    names = {"train": "training, last pass", "valid": "validation, best pass", "test": "test"}
    return _table(["", *(names[kind] for kind in kinds)], [row for row in rows if any(row[1:])]) if kinds else ""


def _columns(importance: Optional[List[Dict[str, Any]]]) -> str:
    if not importance:
        return "<p>model.importance(data, label) measures the importance of each column; it is then shown here.</p>"
    rows = [[str(one["column"]), _number(one["auc_drop"]), _number(one["logloss_rise"]), _percent(one.get("unknown"))]
            for one in importance[:_COLUMNS]]
    more = len(importance) - len(rows)
    return (_table(["column", "AUC drop", "logloss rise", "unknown"], rows)
            + (f"<p>and {more} more</p>" if more > 0 else ""))


def _facts(results: Dict[str, float], passes: List[Pass], labels: List[str]) -> str:
    facts = [f"{len(passes)} pass{'es' if len(passes) != 1 else ''}"]
    facts += [f"{int(results[name]):,} {what}" for name, what in (
        ("examples", "training examples"), ("held_out", "held out"), ("keys", "features"),
        ("skipped_lines", "skipped lines")) if results.get(name)]
    if results.get("total_seconds"):
        facts.append(f"{results['total_seconds']:.3g} s")
    if any(labels):
        facts.append("label " + ", ".join(labels))
    return f"<p>{_text(' · '.join(facts))}</p>"


def notice(text: str) -> str:
    return f"<div><strong>tug.Model</strong> {_text(text)}</div>"


def screen(options: Optional[List[str]], results: Dict[str, float], passes: List[Pass], labels: List[str],
           importance: Optional[List[Dict[str, Any]]]) -> str:
    """The HTML of a model. `options`: "NAME=VALUE" as the model was opened with; None: not known."""
    shown = [word if len(word) <= 80 else word[:79] + "…" for word in (options or [])[:_OPTIONS]]
    if options and len(options) > _OPTIONS:
        shown.append("…")
    given = f"<p><code>{_text(', '.join(shown))}</code></p>" if shown else ""
    charts = "".join(_chart(name, passes, field) for name, field in (("loss", "loss"), ("AUC", "auc")))
    parts = "".join(f"<div>{part}</div>" for part in (_metrics(results), _columns(importance)) if part)
    return (f'<div style="font-family:sans-serif"><strong>tug.Model</strong>{given}{_facts(results, passes, labels)}'
            f'<div>{charts}</div><div style="display:flex;flex-wrap:wrap;gap:24px">{parts}</div></div>')
