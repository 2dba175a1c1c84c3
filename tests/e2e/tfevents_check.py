"""Reads the files of --tfevents as TensorBoard does, and compares them with the history of the run.
Records are checked by a table-driven CRC32C, which shares no code with tug's, and the messages in
them are decoded by protoc, which knows nothing of tug. tfevents_test.sh runs this file.

SPDX-License-Identifier: Apache-2.0
"""

import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import time

ROWS, BATCH, EVERY, RATE = 4000, 100, 10, 0.1


def table_of_crc():
    """The 256 remainders of the Castagnoli polynomial, by long division of reflected bits."""
    polynomial = int("{:032b}".format(0x1EDC6F41)[::-1], 2)
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (polynomial if byte & 1 else 0)
        table.append(byte)
    return table


TABLE = table_of_crc()


def masked(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


assert masked(b"123456789") == (((0xE3069283 >> 15) | (0xE3069283 << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    """The messages of a file; a record that is still being written is left out."""
    at = 0
    while at + 12 <= len(data):
        length, crc = struct.unpack_from("<QI", data, at)
        assert crc == masked(data[at:at + 8]), f"CRC of the length at byte {at}"
        if at + 16 + length > len(data):
            return
        message = data[at + 12:at + 12 + length]
        assert struct.unpack_from("<I", data, at + 12 + length)[0] == masked(message), f"CRC at byte {at}"
        yield message
        at += 16 + length


# The messages as TensorFlow describes them (tensorflow/core/util/event.proto, framework/summary.proto).
# Without this description, protoc --decode_raw takes some tags for messages.
PROTO = """syntax = "proto3";
message Value { string tag = 1; float simple_value = 2; }
message Summary { repeated Value value = 1; }
message SessionLog { enum Status { UNSPECIFIED = 0; START = 1; } Status status = 1; }
message Event {
  double wall_time = 1; int64 step = 2; string file_version = 3; Summary summary = 5; SessionLog session_log = 7;
}
"""


def decoded(message):
    """Returns the output of protoc for a message, as (field, value) pairs; the value of a message is such a list."""
    text = subprocess.run(["protoc", "--decode", "Event", "event.proto"], input=message, capture_output=True,
                          check=True).stdout.decode()
    stack = [[]]
    for line in text.splitlines():
        line = line.strip()
        if line == "}":
            stack.pop()
        elif line.endswith("{"):
            inner = []
            stack[-1].append((line[:-1].strip(), inner))
            stack.append(inner)
        else:
            field, _, value = line.partition(": ")
            stack[-1].append((field, value.strip('"')))
    return stack[0]


def event_of(message):
    event = {"step": 0, "values": {}}
    for field, value in decoded(message):
        if field == "wall_time":
            event["time"] = float(value)
        elif field == "step":
            event["step"] = int(value)
        elif field == "file_version":
            event["version"] = value
        elif field == "summary":
            for one, scalar in value:
                assert one == "value"
                scalar = dict(scalar)
                event["values"][scalar["tag"]] = rounded(float(scalar["simple_value"]))
        else:
            assert (field, value) == ("session_log", [("status", "START")]), (field, value)
            event["starts"] = True
    # the message has nothing that the description lacks
    raw = subprocess.run(["protoc", "--decode_raw"], input=message, capture_output=True, check=True).stdout
    assert {line[0] for line in raw.decode().splitlines() if line[0].isdigit()} <= set("12357"), raw
    return event


def files_of(directory):
    names = sorted(os.listdir(directory))
    for name in names:
        assert re.fullmatch(r"events\.out\.tfevents\.\d{10}\.\d{6}\..+\.\d+", name), name
    return [os.path.join(directory, name) for name in names]


def events_of(path):
    events = []
    with open(path, "rb") as f:
        events = [event_of(message) for message in records(f.read())]
    assert events[0]["version"] == "brain.Event:2" and not events[0]["values"]
    times = [e["time"] for e in events]
    assert times == sorted(times) and abs(time.time() - times[-1]) < 3600
    return events


def tug(words, code=0):
    run = subprocess.run([os.environ["TUG_BINARY"], *words.split()], capture_output=True, text=True)
    if run.returncode != code:
        sys.exit(f"tug {words}\nended with {run.returncode}: {run.stdout}{run.stderr}")
    return run


def rounded(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def write_data():
    draw = random.Random(1)
    with open("d.csv", "w") as f:
        f.write("click,buy,user,item\n")
        for _ in range(ROWS):
            user, item = draw.randrange(30), draw.randrange(9)
            f.write(f"{int(draw.random() < 0.2 + 0.6 * (user % 2))},{int(draw.random() < 0.3)},u{user},i{item}\n")


TRAIN = (f"train --data d.csv --format csv --label click --drop buy --model lr --batch {BATCH} --lr {RATE} --valid 0.25 "
         "--patience 0 --quiet --json ")


def passes_agree(events, history):
    """Compares the events at the ends of passes with the history, and the windows of each pass with the pass."""
    step, at = 0, 0
    for p in history:
        step += p["examples"]
        windows = []
        while events[at]["step"] < step or "loss/train" not in events[at]["values"]:
            windows.append(events[at])
            at += 1
        end = events[at]["values"]
        at += 1
        for tag, value in (("loss/train", p["loss"]), ("auc/train", p["auc"]), ("loss/valid", p["valid"]["loss"]),
                           ("auc/valid", p["valid"]["auc"]), ("seconds/pass", p["seconds"])):
            assert end[tag] == rounded(value), (tag, end[tag], value)
        assert events[at - 1]["step"] == step
        # the mean of the windows is the loss of the pass
        found = [(e["step"], e["values"].get("loss/window")) for e in windows + [events[at - 1]]]
        before, total = step - p["examples"], 0.0
        for now, loss in found:
            assert now >= before
            if loss is not None:
                total += (now - before) * loss
                before = now
        assert abs(total / p["examples"] - p["loss"]) < 1e-5, (total / p["examples"], p["loss"])
        for e in windows:
            assert e["values"]["examples_per_second"] > 0
    assert at == len(events)


def test_a_run():
    run = tug(TRAIN + f"--epochs 3 --log-every {EVERY} --tfevents a/b --out model")
    history = json.loads(run.stdout)["history"]
    (path,) = files_of("a/b")
    events = events_of(path)[1:]
    passes_agree(events, history)
    # 4,000 positions are 40 batches: a line after 10, 20, 30 and 40 of them, and the end of the pass
    assert len(events) == 3 * 5, len(events)
    assert all(e["values"]["learning_rate"] == rounded(RATE) for e in events if "loss/valid" not in e["values"])


def test_a_resumed_run():
    """A second file begins where the save was made, so that readers forget what came after it."""
    run = tug(TRAIN + f"--epochs 5 --resume --log-every {EVERY} --tfevents a/b --out model")
    history = json.loads(run.stdout)["history"]
    first, second = files_of("a/b")
    resumed = events_of(second)
    # readers forget events from this step on, which is the first step after the pass that was saved
    assert resumed[1].get("starts") and resumed[1]["step"] == sum(p["examples"] for p in history[:3]) + 1
    passes_agree(events_of(first)[1:] + resumed[2:], history)


def test_resumed_within_a_pass():
    """Steps continue at the position in the pass that the save has."""
    words = TRAIN.replace("--valid 0.25 --patience 0", "") + f"--epochs 1 --log-every {EVERY} --out halved "
    tug(words + "--save-every 15batches --keep 9")
    saves = sorted(os.listdir("halved"))
    for name in saves[1:]:  # the first one has 15 batches
        shutil.rmtree(os.path.join("halved", name))
    tug(words + "--resume --tfevents rest")
    events = events_of(files_of("rest")[0])[1:]
    assert events[0]["starts"] and [e["step"] for e in events] == [15 * BATCH + 1, 20 * BATCH, 30 * BATCH, ROWS, ROWS], events


def test_by_the_clock_and_schedule():
    words = TRAIN.replace("--valid 0.25", "--valid d.csv")
    history = json.loads(tug(words + "--epochs 2 --schedule exp --schedule-a 0.25 --schedule-b 1 --log-every 40 "
                             "--tfevents rates").stdout)["history"]
    events = events_of(files_of("rates")[0])[1:]
    rates = [e["values"]["learning_rate"] for e in events if "learning_rate" in e["values"]]
    assert len(rates) == 2 and abs(rates[0] - RATE / 4) < 1e-3 and abs(rates[1] - RATE / 16) < 1e-3, rates
    passes_agree(events, history)


def test_two_labels():
    words = "train --data d.csv --format csv --label click,buy --model mlp --hidden 4 --dim 2 --quiet --json "
    history = json.loads(tug(words + "--epochs 1 --valid 0.25 --tfevents labels").stdout)["history"]
    (event,) = [e for e in events_of(files_of("labels")[0]) if "seconds/pass" in e["values"]]
    for name, p in history[0]["labels"].items():
        assert event["values"][f"loss/train/{name}"] == rounded(p["loss"])
        assert event["values"][f"auc/valid/{name}"] == rounded(p["valid"]["auc"])
    assert "loss/train" not in event["values"]


def test_while_it_goes_on():
    """A reader sees each pass while the run waits for its data."""
    os.mkfifo("pipe")
    run = subprocess.Popen([os.environ["TUG_BINARY"], *("train --data pipe --format csv --label click --drop buy --model "
                           "lr --epochs 1 --batch 1000 --data-in stream --window 1 --log-every 1 --quiet --tfevents live"
                           ).split()])
    with open("pipe", "w") as pipe, open("d.csv") as data:
        text = data.read()
        header, rows = text.split("\n", 1)
        pipe.write(header + "\n")
        # more than a window of text, so that the first window is trained while the pipe stays open
        for _ in range(4 * (1 << 20) // len(rows)):
            pipe.write(rows)
        pipe.flush()
        end = time.monotonic() + 60
        # a file is empty for a moment, until the writer has written its first record
        while not (os.path.isdir("live") and any(map(os.path.getsize, files_of("live")))
                   and len(events_of(files_of("live")[0])) > 1):
            assert time.monotonic() < end and run.poll() is None
            time.sleep(0.01)
    assert run.wait() == 0


def test_on_a_cluster():
    """The driver writes the file, and the workers write none."""
    words = TRAIN.replace("--valid 0.25", "--valid d.csv")
    for mode in ("sync", "async"):
        run = tug(f"launch --servers 1 --workers 2 -- {words} --epochs 2 --mode {mode} --tfevents cluster-{mode}")
        history = json.loads(run.stdout.strip().splitlines()[-1])["history"]
        (path,) = files_of(f"cluster-{mode}")
        ends = [e for e in events_of(path) if "seconds/pass" in e["values"]]
        assert [e["values"]["loss/valid"] for e in ends] == [rounded(p["valid"]["loss"]) for p in history]
        assert [e["values"]["auc/train"] for e in ends] == [rounded(p["auc"]) for p in history]
        assert ends[-1]["step"] == sum(p["examples"] for p in history)


def test_events_of_another_run():
    words = TRAIN + "--epochs 1 --tfevents twice"
    assert "events of another run" not in tug(words).stderr
    assert "'twice' has events of another run" in tug(words).stderr


def test_bad_places():
    os.makedirs("days")
    os.link("d.csv", "days/1.csv")
    data = TRAIN.replace("d.csv", "days")
    for words, code, says in (
            (TRAIN + "--tfevents d.csv", 2, "--tfevents: 'd.csv' is not a directory"),
            (TRAIN + "--tfevents d.csv/x", 4, "--tfevents: cannot make directory"),
            (TRAIN + "--tfevents model/save-000001", 2, "--tfevents: 'model/save-000001"),
            (TRAIN + "--out new --tfevents new/events", 2, "lies in --out"),
            (data + "--tfevents days/new", 2, "lies in 'days', a folder of data"),
            (TRAIN.replace("--valid 0.25 --patience 0", "--cv 2") + "--tfevents x", 2, "--cv and --tfevents")):
        said = tug(words + " --epochs 1", code).stderr
        assert says in said and len(said.strip().splitlines()) == 1, said


write_data()
with open("event.proto", "w") as proto:
    proto.write(PROTO)
for name, test in list(globals().items()):
    if name.startswith("test_"):
        test()
