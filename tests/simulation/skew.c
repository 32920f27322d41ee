/* Preloaded into a worker, so that its clock is off by SKEW_S seconds; the monotonic one is left alone. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long skew_s(void) {
    static long known;
    static int is_known;
    if (!is_known) {
        const char *text = getenv("SKEW_S");
        known = text ? atol(text) : 0;
        is_known = 1;
    }
    return known;
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(clock, at);
    if (!failed && clock == CLOCK_REALTIME) at->tv_sec += skew_s();
    return failed;
}

int gettimeofday(struct timeval *at, void *zone) {
    static int (*real)(struct timeval *, void *);
    if (!real) real = (int (*)(struct timeval *, void *))dlsym(RTLD_NEXT, "gettimeofday");
    int failed = real(at, zone);
    if (!failed) at->tv_sec += skew_s();
    return failed;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
