/*
 * The first touch of 64 MiB of fresh base pages, measured without any code of c2c.
 *
 * cc -O2 -o /tmp/first_touch crates/measure/independent/first_touch.c && /tmp/first_touch
 *
 * Compare its median with the phase `touch` of `host_to_host/prefaulted_1_thread` in a record.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define BYTES (64UL << 20)
#define PASSES 9

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

static int ascending(const void *one, const void *other)
{
    double difference = *(const double *)one - *(const double *)other;
    return (difference > 0) - (difference < 0);
}

int main(void)
{
    double took[PASSES];
    size_t page = sysconf(_SC_PAGESIZE);
    for (int pass = -1; pass < PASSES; pass++) {
        volatile char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) {
            perror("mmap");
            return 1;
        }
        double start = now();
        for (size_t offset = 0; offset < BYTES; offset += page)
            memory[offset] = 0;
        if (pass >= 0) /* The first one warms up. */
            took[pass] = now() - start;
        munmap((void *)memory, BYTES);
    }
    qsort(took, PASSES, sizeof took[0], ascending);
    printf("first touch of 64 MiB: median %.3f ms, least %.3f ms, most %.3f ms\n",
           took[PASSES / 2], took[0], took[PASSES - 1]);
    return 0;
}
