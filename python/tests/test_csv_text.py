"""csv files of other programs: decimal commas, and bytes that are not UTF-8.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import pytest

import tug

FIXED = {"format": "csv", "separator": ";", "label": "y", "epochs": 2, "deterministic": True, "progress": False}
CITIES = ["München", "café", "Bonn"]


def written(path, decimal=",", encoding="utf-8"):
    random = np.random.default_rng(4)
    lines = ["y;stadt;preis;menge"]
    for i in range(300):
        price = f"{random.normal() * 3:.2f}".replace(".", decimal)
        lines.append(f"{i % 2};{CITIES[i % 3]};{price};{i % 7}")
    path.write_text("\n".join(lines) + "\n", encoding=encoding)
    return str(path)


def test_decimal_commas(tmp_path, capfd):
    """decimal="," reads the same numbers as a decimal point; without it, decimal commas are never silently taken as
    words."""
    comma, point = written(tmp_path / "c"), written(tmp_path / "p", ".")
    for how in ("preis", "preis:log", "preis:bins:8"):
        with tug.train(comma, numeric=[how, "menge"], decimal=",", **FIXED) as a, \
                tug.train(point, numeric=[how, "menge"], **FIXED) as b:
            wanted = b.predict(point)
            assert np.array_equal(a.predict(comma), wanted)
            a.save(tmp_path / how)
        with tug.load(tmp_path / how) as again:
            assert np.array_equal(again.predict(comma), wanted)
            with pytest.raises(tug.DataError, match=":2: .* of column .preis. has a decimal point, and numbers have"):
                again.predict(point)
            assert np.array_equal(again.predict(point, decimal="."), wanted)
            assert np.array_equal(again.predict(comma), wanted)  # the option of one call does not affect the next call
    with pytest.raises(tug.DataError, match="of column 'preis' has a decimal comma: give decimal=','"):
        tug.train(comma, numeric="preis", **FIXED)
    for wrong in ("", ";", ",."):
        with pytest.raises(tug.UsageError, match="^decimal is a comma or a point, not '"):
            tug.train(comma, numeric="preis", decimal=wrong, **FIXED)
    with pytest.raises(tug.UsageError, match="decimal .* format='csv'"):
        tug.train(comma, format="libsvm", decimal=",", progress=False)
    capfd.readouterr()
    tug.train(comma, **FIXED).close()
    said = capfd.readouterr().err
    assert said.count("column 'preis' has numbers with a decimal comma, such as '") == 1
    assert "and is taken as words: give numeric='preis' decimal=',' if they are numbers" in said
    assert "'menge'" not in said and "'stadt'" not in said
    tug.train(point, **FIXED).close()
    assert "decimal" not in capfd.readouterr().err


def test_labels_and_frames_with_decimal_commas(tmp_path):
    comma, point = written(tmp_path / "c"), written(tmp_path / "p", ".")
    squared = {**FIXED, "label": "preis", "loss": "squared"}
    with tug.train(comma, decimal=",", **squared) as a, tug.train(point, **squared) as b:
        assert np.array_equal(a.predict(comma), b.predict(point))
    cells = [line.split(";") for line in (tmp_path / "c").read_text(encoding="utf-8").splitlines()[1:]]
    frame = {"stadt": [c[1] for c in cells], "preis": [float(c[2].replace(",", ".")) for c in cells],
             "menge": [c[3] for c in cells]}
    with tug.train(comma, numeric="preis", decimal=",", **FIXED) as model:
        wanted = model.predict(comma)
        for texts in (frame["preis"], [str(x) for x in frame["preis"]], [c[2] for c in cells]):
            assert np.array_equal(model.predict({**frame, "preis": texts}), wanted)


def test_bytes_that_are_not_utf8(tmp_path, capfd):
    """Words that are not UTF-8 are compared by their bytes and shown escaped in all places; one warning names the
    file."""
    latin, utf = written(tmp_path / "l", ".", "latin-1"), written(tmp_path / "u", ".")
    with tug.train(utf, numeric="preis,menge", **FIXED):
        assert "UTF-8" not in capfd.readouterr().err
    with tug.train(latin, numeric="preis,menge", **FIXED) as model:
        said = capfd.readouterr().err
        assert said.count("the data is not UTF-8, as in '0;M\\xfcnchen;") == 1 and "iconv -f LATIN1 -t UTF-8" in said
        words = {f["word"] for one in model.explain(latin)[:3] for f in one["features"] if f["column"] == "stadt"}
        assert words == {"M\\xfcnchen", "caf\\xe9", "Bonn"}
        assert {one["value"] for one in model.evaluate(latin, by=["stadt"])["by"]["table"]} == words
        known = [f["known"] for one in model.explain(utf)[:2] for f in one["features"] if f["column"] == "stadt"]
        assert known == [False, False]
