// Configuration files: any bytes are read into the options of each command, or refused
// with a message.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "options/options.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct values {
    struct option_list data;
    const char *out;
    uint64_t epochs, window;
    double lr;
    int model;
    bool json;
};

#define AT(field) .offset = offsetof(struct values, field)

static const struct option options[] = {
    {.name = "data", .kind = OPTION_LIST, AT(data), .help = ""},
    {.name = "out", .kind = OPTION_STRING, AT(out), .help = ""},
    {.name = "epochs", .kind = OPTION_U64, AT(epochs), .min = 1, .max = 9, .help = ""},
    {.name = "window", .kind = OPTION_SIZE, AT(window), .help = ""},
    {.name = "a.lr", .kind = OPTION_F64, AT(lr), .help = ""},
    {.name = "model", .kind = OPTION_CHOICE, AT(model), .choices = "lr fm", .help = ""},
    {.name = "json", .kind = OPTION_FLAG, AT(json), .help = ""},
};

static const struct option_table table = {.command = "train",
                                          .options = options,
                                          .n_options = sizeof(options) /
                                                       sizeof(*options)};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char word[64];
    int fd = memfd_create("config", 0);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        return 0;
    snprintf(word, sizeof(word), "--config=/proc/self/fd/%d", fd);
    struct options *o = NULL;
    struct values v;
    struct err e = {0};
    char *words[] = {word};
    int rc = options_parse(&o, &table, 1, words, &v, OPTIONS_INCOMPLETE, &e);
    assert(rc == 0 || *e.text);
    assert(rc != 0 || v.epochs <= 9);
    options_close(o);
    close(fd);
    return 0;
}
