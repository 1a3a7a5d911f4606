/* Preloaded, it makes each sync of a file take longer, as on a disk whose sync costs. See benchmarks/facts.py. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

static int slow(const char *name, int file) {
    int (*sync)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    usleep(atoi(getenv("SYNC_MICROSECONDS")));
    return sync(file);
}

int fsync(int file) { return slow("fsync", file); }
int fdatasync(int file) { return slow("fdatasync", file); }
