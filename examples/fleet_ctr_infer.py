"""Loads the model that examples/fleet_ctr.py has saved, in one process, and evaluates it on the same test data.

    python3 examples/fleet_ctr_infer.py --test test.tsv --model model

SPDX-License-Identifier: Apache-2.0
"""

import argparse

import fleet_ctr
import numpy as np

import tug.fleet as fluid

parser = argparse.ArgumentParser()
parser.add_argument("--test", nargs="+", required=True)
parser.add_argument("--model", required=True)
options = parser.parse_args()

inputs, (loss, auc, batch_auc) = fleet_ctr.build()
fluid.optimizer.Adagrad(0.05).minimize(loss)  # the rule must be that of the save
exe = fluid.Executor(fluid.CPUPlace())
exe.run(fluid.default_startup_program())
fluid.io.load_persistables(exe, options.model)
fleet_ctr.zero_auc()
exe.infer_from_dataset(program=fluid.default_main_program(), dataset=fleet_ctr.data_of(options.test, inputs))
print(f"test AUC {np.asarray(fluid.global_scope().find_var(auc.name).get_tensor())[0]:.9f}")
exe.close()
