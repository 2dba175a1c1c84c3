// Lines in memory: functions for all code that cuts text at line ends.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_INPUT_LINES_H
#define TUG_DATA_INPUT_LINES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

// Defaults: the number of bytes that are parsed at a time, and the limit on a line.
enum { CHUNK_BYTES = 1 << 20, MAX_LINE_BYTES = 64 << 20 };

static inline uint64_t count_lines(const char *text, size_t len)
{
    uint64_t n = 0;
    for (size_t i = 0; i < len; i++)
        n += text[i] == '\n';
    return n;
}

// Returns the length of the first chunk of the text: it ends just after the last newline in
// the first CHUNK_BYTES bytes. If these have no newline, it ends just after the next
// newline; without one, it ends with the text.
static inline size_t chunk_length(const char *text, size_t len)
{
    if (len <= CHUNK_BYTES)
        return len;
    const char *end = memrchr(text, '\n', CHUNK_BYTES);
    if (end == NULL)
        end = memchr(text + CHUNK_BYTES, '\n', len - CHUNK_BYTES);
    return end != NULL ? (size_t)(end - text) + 1 : len;
}

// Returns the begin of the first line that is longer than `max` bytes without its
// newline; `len` if there is none. Stops as soon as the remaining text is too short for
// such a line.
static inline size_t find_long_line(const char *text, size_t len, size_t max)
{
    for (size_t at = 0; len - at > max;) {
        const char *end = memchr(text + at, '\n', len - at);
        size_t next = end != NULL ? (size_t)(end - text) + 1 : len;
        if (next - at > max + (end != NULL))
            return at;
        at = next;
    }
    return len;
}

// Returns advice about a line that is too long.
static inline const char *long_line_hint(const char *text, size_t len)
{
    return len > 0 && memchr(text, '\r', len) != NULL
               ? ": its lines may end with a carriage return (CR) alone; replace each "
                 "with "
                 "a newline (tr '\\r' '\\n')"
               : "";
}

#endif
