// The global shuffle's buckets, as rows of a table on the servers. A worker that deals
// a piece (data/dataset/deal.h) sets the rows of its cells; a worker that trains on a bucket
// pulls the bucket's cells of all pieces. The content of a cell depends only on the
// data and the options: a piece that is dealt again, because its worker died, sets the
// same rows to the same values.
//
//   key     bucket, file, piece, number of the row in the cell
//   row     the cell's bytes, as finite floats (deal_words.h)
//   cell    a head, then the text. A cell without text exists, too: a missing cell is an
//           error, and does not mean the end
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_CLUSTER_DEAL_ROWS_H
#define TUG_TRAIN_CLUSTER_DEAL_ROWS_H

#include "client/client.h"
#include "data/dataset/deal.h"

struct deal_rows;

struct deal_rows_options {
    struct client *client;
    struct pieces *pieces;
    struct deal_options deal;
};

// Opens the buckets of a global shuffle; makes their table on the servers if it is
// missing.
int deal_rows_open(struct deal_rows **ret, const struct deal_rows_options *o,
                   struct err *e);
void deal_rows_close(struct deal_rows *d); // NULL is fine

uint32_t deal_rows_buckets(const struct deal_rows *d);

// Deals a piece: when it returns, the servers have the piece's cells. *ret_at_end is as
// in deal_piece.
int deal_rows_put(struct deal_rows *d, uint32_t file, uint64_t index, bool *ret_at_end,
                  struct err *e);

// Loads the examples of a bucket. All pieces must have been dealt.
int deal_rows_load(struct deal_rows *d, uint32_t bucket, const struct dataset_options *o,
                   struct dataset **ret, struct err *e);

#endif
