// Sample facts; see facts.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/facts.h"

#include "kit/test.h"
#include "os/json.h"

json_t *sample_facts(const char *text)
{
    json_error_t why;
    json_begin();
    size_t n = strlen(text);
    char *copy = mem_strdup(text);
    assert_non_null(copy);
    for (size_t i = 0; i < n; i++)
        if (copy[i] == '\'')
            copy[i] = '"';
    json_t *ret = json_loads(copy, 0, &why);
    mem_free(copy);
    if (ret == NULL)
        fail_msg("a sample of facts, at %d: %s", why.position, why.text);
    return ret;
}
