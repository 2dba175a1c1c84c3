// Compares the measured usage of a process with what the test itself has done.
//
// SPDX-License-Identifier: Apache-2.0
#include "os/usage.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/alloc.h"
#include "kit/test.h"
#include "os/json.h"

static json_t *usage_of(struct usage *u)
{
    struct buf b = BUF_INIT(1 << 16);
    struct json_out o = JSON_OUT(&b);
    json_out_open(&o, NULL, '{');
    usage_print(u, &o);
    json_out_close(&o, '}');
    assert_int_equal(o.rc, 0);
    json_t *root = json_loadb(b.data, b.len, 0, NULL);
    assert_non_null(root);
    buf_free(&b);
    return root;
}

static double number(const json_t *o, const char *name)
{
    const json_t *x = json_object_get(o, name);
    assert_true(json_is_number(x));
    return json_number_value(x);
}

static void test_process(void **state)
{
    (void)state;
    const struct usage_disk disks[] = {
        {"saves", "/"}, {"cold", NULL}, {"log", "/is/not/there"}};
    struct usage *u;
    assert_int_equal(usage_open(&u, disks, 3, &test_err), 0);
    json_t *all = usage_of(u);
    assert_int_equal(number(all, "pid"), getpid());
    assert_true(number(all, "unix_seconds") > 1.6e9);
    assert_true(number(all, "uptime_seconds") >= 0);
    assert_true(number(all, "cpu_seconds") >= 0);
    assert_true(number(all, "resident_bytes") > 100e3);
    assert_in_range(number(all, "open_files"), 3, number(all, "open_files_max"));
    json_t *list = json_object_get(all, "disks"), *root = json_array_get(list, 0);
    // The other two disks are left out: one has no path, and the path of the other is
    // missing.
    assert_int_equal(json_array_size(list), 1);
    assert_string_equal(json_string_value(json_object_get(root, "what")), "saves");
    assert_string_equal(json_string_value(json_object_get(root, "path")), "/");
    // f_bfree and f_bavail differ by the reserved blocks. The size leaves these out, as in df.
    struct statvfs v;
    assert_int_equal(statvfs("/", &v), 0);
    if (v.f_bfree > v.f_bavail)
        assert_true(number(root, "size_bytes") < (double)v.f_blocks * (double)v.f_frsize);
    assert_true(number(root, "size_bytes") > 0);
    assert_true(number(root, "free_bytes") <= number(root, "size_bytes"));
    struct stat at;
    char device[32], host[256] = "";
    assert_int_equal(stat("/", &at), 0);
    assert_int_equal(gethostname(host, sizeof(host) - 1), 0);
    snprintf(device, sizeof(device), "%u:%u", major(at.st_dev), minor(at.st_dev));
    assert_string_equal(json_string_value(json_object_get(root, "device")), device);
    assert_string_equal(json_string_value(json_object_get(root, "host")), host);
    json_decref(all);
    usage_close(u);
}

static void test_open_files(void **state)
{
    (void)state;
    struct usage *u;
    int fds[40];
    assert_int_equal(usage_open(&u, NULL, 0, &test_err), 0);
    json_t *before = usage_of(u);
    usage_close(u);
    for (int i = 0; i < 40; i++)
        assert_true((fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0);
    assert_int_equal(usage_open(&u, NULL, 0, &test_err), 0);
    json_t *after = usage_of(u);
    usage_close(u);
    assert_int_equal(number(after, "open_files") - number(before, "open_files"), 40);
    for (int i = 0; i < 40; i++)
        close(fds[i]);
    json_decref(before);
    json_decref(after);
}

static void test_none(void **state)
{
    (void)state;
    json_t *all = usage_of(NULL);
    assert_int_equal(json_object_size(all), 1);
    json_decref(all);
    usage_close(NULL);
}

static void test_without_memory(void **state)
{
    (void)state;
    const struct usage_disk disks[] = {{"saves", "/"}, {"cold", "/"}};
    bool failed = true;
    for (long n = 0; failed; n++) {
        struct usage *u = NULL;
        mem_fault_after(n);
        int rc = usage_open(&u, disks, 2, &test_err);
        failed = mem_faulted();
        mem_fault_after(-1);
        assert_int_equal(rc, failed ? TUG_ENOMEM : 0);
        usage_close(u);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_process),
        cmocka_unit_test(test_open_files),
        cmocka_unit_test(test_none),
        cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
