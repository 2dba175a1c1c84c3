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

#define OPTIONS_OF struct values

static const struct option options[] = {
    {.name = "data", OPTION_AT(OPTION_LIST, struct option_list, data), .help = ""},
    {.name = "out", OPTION_AT(OPTION_STRING, const char *, out), .help = ""},
    {.name = "epochs",
     OPTION_AT(OPTION_U64, uint64_t, epochs),
     .min = 1,
     .max = 9,
     .help = ""},
    {.name = "window", OPTION_AT(OPTION_SIZE, uint64_t, window), .help = ""},
    {.name = "a.lr", OPTION_AT(OPTION_F64, double, lr), .help = ""},
    {.name = "model",
     OPTION_AT(OPTION_CHOICE, int, model),
     .choices = "lr fm",
     .help = ""},
    {.name = "json", OPTION_AT(OPTION_FLAG, bool, json), .help = ""},
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
