"""A training script for Paddle's fleet that runs with tug.fleet: roles, a net, servers, workers, passes, a save.

    tug launch --servers 2 --workers 2 -- python3 examples/fleet_ctr.py --train part-* --test test.tsv --model model

Or start a process for each role by hand, with Paddle's variables (docs/from-paddle.md). A line is a rating of a film,
with tabs between its fields: like (0 or 1), user, movie, sex, age, job, postcode, year, and genres with | between them.
examples/fleet_ctr_infer.py loads the saved model.

SPDX-License-Identifier: Apache-2.0
"""

import argparse
import shlex
import sys
import zlib

import numpy as np

import tug.fleet as fluid
from tug.fleet import MultiSlotDataGenerator, fleet, role_maker

SLOTS = ["user", "movie", "sex", "age", "job", "postcode", "year", "genres"]


class Ratings(MultiSlotDataGenerator):
    """Converts ratings to MultiSlot lines. The id of a word is a hash of it."""

    def generate_sample(self, line):
        def sample():
            label, *words = line.split("\t")
            slots = [(name, [zlib.crc32(w.encode()) for w in word.split("|")]) for name, word in zip(SLOTS, words)]
            yield [*slots, ("label", [int(label)])]
        return sample


def build():
    """Declares the slots and a DeepFM over them; returns the slots and [loss, auc, batch_auc]."""
    inputs = [fluid.data(name, [None, 1], "int64", lod_level=1) for name in SLOTS]
    inputs.append(fluid.data("label", [None, 1], "int64"))
    return inputs, fluid.net(inputs, {"model": "deepfm", "dim": 8, "hidden": "64,32"})


def data_of(files, inputs, batch=512):
    """Returns a dataset of files with ratings. Its pipe command is this script with --generate."""
    dataset = fluid.DatasetFactory().create_dataset("InMemoryDataset")
    dataset.set_use_var(inputs)
    dataset.set_batch_size(batch)
    dataset.set_thread(1)
    dataset.set_pipe_command(f"{shlex.quote(sys.executable)} {shlex.quote(__file__)} --generate")
    dataset.set_filelist(files)
    dataset.load_into_memory()
    return dataset


def zero_auc():
    """Sets the states of the AUC to zeros, so that the next pass is measured alone."""
    for state in ("auc.stat_pos", "auc.stat_neg", "auc.batch_stat_pos", "auc.batch_stat_neg"):
        tensor = fluid.global_scope().find_var(state).get_tensor()
        tensor.set(np.zeros(tensor._get_dims(), np.int64), fluid.CPUPlace())


def train(options, exe, inputs, fetched):
    """Trains on this worker's part of the files; worker 0 then evaluates and saves the model."""
    dataset = data_of(fleet.util.get_file_shard(options.train), inputs)
    for epoch in range(options.epochs):
        zero_auc()
        dataset.local_shuffle()
        exe.train_from_dataset(program=fleet.main_program, dataset=dataset, fetch_list=fetched,
                               fetch_info=["loss", "auc", "batch auc"], print_period=200, debug=False)
        auc = fluid.metrics.auc(*(fluid.default_main_program().var(f"auc.stat_{c}") for c in ("pos", "neg")))
        if fleet.is_first_worker():
            print(f"pass {epoch}: training AUC {auc:.6f}", flush=True)
    fleet.barrier_worker()
    if fleet.is_first_worker():
        zero_auc()
        exe.infer_from_dataset(program=fleet.main_program, dataset=data_of(options.test, inputs))
        print(f"test AUC {np.asarray(fluid.global_scope().find_var('auc').get_tensor())[0]:.9f}", flush=True)
        fleet.save_persistables(exe, options.model)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--train", nargs="+", required=True)
    parser.add_argument("--test", nargs="+", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--begin", help="directory of a save that the run begins with")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--sync", action="store_true")
    options = parser.parse_args()

    fleet.init(role_maker.PaddleCloudRoleMaker())
    inputs, fetched = build()
    strategy = fluid.DistributedStrategy()
    strategy.a_sync = not options.sync
    fleet.distributed_optimizer(fluid.optimizer.Adagrad(0.05), strategy).minimize(fetched[0])
    if fleet.is_server():
        fleet.init_server(options.begin)
        fleet.run_server()
        return
    exe = fluid.Executor(fluid.CPUPlace())
    fleet.init_worker()
    exe.run(fleet.startup_program)
    train(options, exe, inputs, fetched)
    fleet.stop_worker()


if __name__ == "__main__":
    if sys.argv[1:] == ["--generate"]:
        Ratings().run_from_stdin()
    else:
        main()
