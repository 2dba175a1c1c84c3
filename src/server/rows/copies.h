// Copies of tables, and running means of their parameters, into other tables: the admin
// operations WIRE_COPY and WIRE_MEAN. They are done at once.
//
// With replicas they are done partition by partition, because a table also has rows of
// partitions that other loops lead.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_ROWS_COPIES_H
#define TUG_SERVER_ROWS_COPIES_H

#include <stdint.h>

struct err;
struct msg_table_do;
struct shard;
struct shard_table;
struct table_spec;

// Makes the settings of a copy of table `from`, whose number is `other`. The copy is
// asynchronous, because no worker trains it.
int copies_spec(const struct table_spec *from, uint32_t other, struct table_spec *ret,
                struct err *e);
// Checks an operation that makes the table into which it copies. *ret is that table's.
int copies_check(const struct shard *s, const struct shard_table *t,
                 const struct msg_table_do *m, struct table_spec *ret, struct err *e);
// Does the operation in the partitions in which it has to be done (chain_find_left). If it
// fails with replicas, it was done in the first ones, and the record *refill* was appended
// for the partition in which it was done only in part.
int copies_do(struct shard *s, struct shard_table *t, const struct msg_table_do *m,
              struct err *e);
// Does the operation in a partition that this shard backs up; `step` is the leader's. If it
// fails, it can be done again, except after TUG_EINTERRUPTED.
int copies_back_up(struct shard *s, struct shard_table *t, const struct msg_table_do *m,
                   uint32_t partition, uint64_t step, struct err *e);

#endif
