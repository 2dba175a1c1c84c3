// Sample facts for tests of the page, the metrics and health. They have all facts that a
// section of the page needs, and names that contain markup.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_FACTS_H
#define TUG_KIT_FACTS_H

#include <jansson.h>

#define SAMPLE_NODE                                                                      \
    "'version': '0.1.0', 'pid': 7, 'unix_seconds': 2000, 'uptime_seconds': 90.5, "       \
    "'cpu_seconds': 3.25, 'resident_bytes': 2000000, 'open_files': 20, "                 \
    "'open_files_max': 1024, 'disks': [{'what': 'saves', 'path': '/<b>', "               \
    "'free_bytes': 500, 'size_bytes': 1000, 'host': 'h', 'device': '8:1'}]"

#define SAMPLE_LOOP                                                                      \
    "{'role': 'server', 'rank': 1, 'loop': 0, 'node': 2, 'epoch': 1, " SAMPLE_NODE       \
    ", 'bucket_seconds': [0.001, 0.002], 'requests': {'push': {'count': 10, 'seconds': " \
    "0.5, 'buckets': [5, 4, 1]}, 'pull': {'count': 0, 'seconds': 0, 'buckets': [0, 0, "  \
    "0]}, 'other': {'count': 1, 'seconds': 0.001, 'buckets': [1, 0, 0]}}, 'waiting': "   \
    "3, "                                                                                \
    "'memory': {'rows': 64, 'rows_max': 0, 'buffers': 9, 'buffers_max': 99, 'links': "   \
    "1, "                                                                                \
    "'bodies': 2, 'queued': 3, 'held': 4, 'lists': 5, 'clocks': 6, 'refused': 0, "       \
    "'closed': 0}, 'tables': [{'id': 0, 'name': 'a\\\"b<script>', 'mode': 'ssp', "       \
    "'rows': 1234, 'bytes': 64000, 'pushes': 9, 'repeats': 1, 'pulls': 8, "              \
    "'pushed_keys': 90, 'pulled_keys': 80, 'examples': 70, 'clock': 4, 'held': 0, "      \
    "'refused': 0, 'left_out': 2, 'made': 1300, 'removed': {'score': 60, 'age': 6, "     \
    "'ttl': 0, 'budget': 0}, 'cold': {'rows': 500, 'bytes': 5000, 'hits': 3, 'reads': "  \
    "1, 'writes': 2}, 'staleness': 2, 'workers': [{'rank': 0, 'loop': 1, 'clock': 4, "   \
    "'behind': "                                                                         \
    "1}]}], 'saves': {'made': 2, 'failed': 0, 'now': null, 'last': {'number': 2, "       \
    "'state': 'written', 'path': 'day-7', 'bytes': 4096, 'seconds': 0.25, "              \
    "'finished_unix_seconds': 1940, 'error': null}}}"

#define SAMPLE_RUN                                                                       \
    "{'model': 'lr', 'state': 'training', 'error': null, 'diverged': false, 'pass': 3, " \
    "'passes': 5, 'share': 0.5, 'examples': 5000, 'batches': 50, "                       \
    "'examples_per_second': 12345.6, 'seconds_since_progress': 0.2, 'loss': 0.4321, "    \
    "'auc': null, 'history': [{'pass': 1, 'examples': 10000, 'loss': 0.6, 'auc': 0.7, "  \
    "'valid': {'examples': 10, 'loss': 0.65, 'auc': 0.69}, 'seconds': 1.5, 'best': "     \
    "false}, {'pass': 2, 'examples': 10000, 'loss': 0.5, 'auc': 0.75, 'valid': null, "   \
    "'seconds': 1.4, 'best': true}], 'best_pass': 2, 'saves': {'made': 1, 'failed': 0, " \
    "'last': {'path': 'out/save-000002', 'bytes': 300, 'seconds': 0.5, "                 \
    "'finished_unix_seconds': 1820, 'pass': 2}}}"

#define SAMPLE_SERVER                                                                    \
    "{'role': 'server', 'rank': 1, 'epoch': 1, " SAMPLE_NODE ", 'memory': {'rows': 64, " \
    "'rows_max': 0, 'buffers': 9, 'buffers_max': 99, 'links': 1}, 'servers': "           \
    "[" SAMPLE_LOOP "], 'tables': []}"

#define SAMPLE_CLUSTER                                                                   \
    "{'role': 'scheduler', " SAMPLE_NODE ", 'address': 'tcp://127.0.0.1:9', 'phase': "   \
    "'running', 'epoch': 1, 'servers_wanted': 2, 'workers_wanted': 2, 'nodes': [{'id': " \
    "2, 'role': 'server', 'rank': 1, 'loop': 0, 'pid': 7, 'alive': true, 'left': "       \
    "false, "                                                                            \
    "'linked': true, 'seconds_since_sign': 0.5, 'clock_skew_seconds': 0, 'host': "       \
    "'<img src=x>', 'address': 'tcp://127.0.0.1:10'}, {'id': 3, 'role': 'worker', "      \
    "'rank': 0, 'loop': 0, 'pid': 8, 'alive': true, 'left': false, 'linked': true, "     \
    "'seconds_since_sign': 0.25, 'clock_skew_seconds': 0, 'host': 'h', 'address': "      \
    "'tcp://127.0.0.1:11', 'examples': 600, 'pieces_held': 1, 'pieces_done': 4, "        \
    "'seconds_since_progress': 2, 'recent': {'seconds': 40, 'examples': 600, 'pieces': " \
    "6}}, {'id': 4, 'role': 'worker', 'rank': 1, 'loop': 0, "                            \
    "'pid': 9, 'alive': true, 'left': false, 'linked': true, 'seconds_since_sign': "     \
    "0.25, "                                                                             \
    "'clock_skew_seconds': 0, 'host': 'h', 'address': 'tcp://127.0.0.1:12', "            \
    "'examples': "                                                                       \
    "400, 'pieces_held': 1, 'pieces_done': 2, 'seconds_since_progress': 3, "             \
    "'recent': {'seconds': 40, 'examples': 400, 'pieces': 4}}], "                        \
    "'placement': {'sparse': {'partitions': 4, 'loops': {'2': 4}, 'owners': [[0, 4, "    \
    "2]], 'max_over_mean': 1}}, 'barriers': [], 'operations_seen': 1, 'operations': "    \
    "[{'unix_seconds': 1000, 'what': 'admin', 'who': 'a tool (operator)', 'text': "      \
    "'save to <x>'}], 'run': " SAMPLE_RUN ", 'servers': [" SAMPLE_LOOP "], 'tables': "   \
    "[{'id': 0, 'name': 'a\\\"b<script>', 'mode': 'ssp', 'rows': 1234, 'bytes': 64000, " \
    "'pushes': 9, 'pulls': 8, 'pushed_keys': 90, 'held': 0, 'refused': 0, 'left_out': "  \
    "2, 'cold': {'rows': 500, 'hits': 3, 'reads': 1}}]}"

// Parses a sample, in which ' stands for ".
json_t *sample_facts(const char *text);

#endif
