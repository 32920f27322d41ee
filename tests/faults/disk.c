/* A disk that fails when it is told to: built by the tests and preloaded into a process.
 *
 * Counts the calls that change files under DISK_FOLDER and lets the n-th of them fail; with `lasting`, all later ones
 * too. `clock_shift` sets this process's wall clock apart from the others'. Python arms it by ctypes. Only the calls of this process and its forks are touched. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static long count, fail_at;
static int fault, lasting;   /* an errno; 0: short writes */
static char last[32];        /* the call that failed */

void disk_arm(long at, int with, int lasts) { count = 0; fail_at = at; fault = with; lasting = lasts; last[0] = 0; }
long disk_count(void) { return count; }
const char *disk_failed(void) { return last; }

static int is_ours(const char *path) {
    const char *folder = getenv("DISK_FOLDER");
    return folder && path && strncmp(path, folder, strlen(folder)) == 0;
}

static int is_ours_fd(int fd) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n <= 0) return 0;
    path[n] = 0;
    return is_ours(path);
}

/* Whether this call fails now. */
static int fails(const char *name) {
    long now = __sync_add_and_fetch(&count, 1);
    if (!fail_at || !(now == fail_at || (lasting && now > fail_at))) return 0;
    if (!last[0]) strncpy(last, name, sizeof last - 1);
    return 1;
}

#define REAL(name) static __typeof__(&name) real; if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

#define WRITES(name, offset)                                                       \
    ssize_t name(int fd, const void *data, size_t size, offset at) {               \
        REAL(name);                                                                \
        if (is_ours_fd(fd) && fails(#name)) {                                      \
            if (fault) { errno = fault; return -1; }                               \
            return size > 1 ? real(fd, data, size / 2, at) : real(fd, data, size, at); \
        }                                                                          \
        return real(fd, data, size, at);                                           \
    }
WRITES(pwrite, off_t)
WRITES(pwrite64, off64_t)

ssize_t write(int fd, const void *data, size_t size) {
    REAL(write);
    if (is_ours_fd(fd) && fails("write")) {
        if (fault) { errno = fault; return -1; }
        return size > 1 ? real(fd, data, size / 2) : real(fd, data, size);
    }
    return real(fd, data, size);
}

#define PLAIN(name, params, args)                                      \
    int name params {                                                  \
        REAL(name);                                                    \
        if (is_ours_fd(fd) && fails(#name) && fault) { errno = fault; return -1; } \
        return real args;                                              \
    }
PLAIN(fsync, (int fd), (fd))
PLAIN(fdatasync, (int fd), (fd))
PLAIN(ftruncate, (int fd, off_t size), (fd, size))
PLAIN(ftruncate64, (int fd, off64_t size), (fd, size))

#define OPENS(name)                                                    \
    int name(const char *path, int flags, ...) {                       \
        REAL(name);                                                    \
        mode_t mode = 0;                                               \
        if (flags & (O_CREAT | O_TMPFILE)) {                           \
            va_list more; va_start(more, flags); mode = va_arg(more, mode_t); va_end(more); \
        }                                                              \
        if ((flags & O_ACCMODE) != O_RDONLY && is_ours(path) && fails(#name) && fault) { errno = fault; return -1; } \
        return real(path, flags, mode);                                \
    }
OPENS(open)
OPENS(open64)

static long shift;
void clock_shift(long seconds) { shift = seconds; }

int clock_gettime(clockid_t clock, struct timespec *at) {
    REAL(clock_gettime);
    int code = real(clock, at);
    if (!code && clock == CLOCK_REALTIME) at->tv_sec += shift;
    return code;
}
