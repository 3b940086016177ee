/* The state of the stand-in machine, read from environment variables named STANDIN_...
 *
 * What belongs to one GPU carries its index: STANDIN_GPU0_NAME. See gpu_host.py, which sets them all.
 */
#ifndef STANDIN_STATE_H
#define STANDIN_STATE_H

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline const char *text(const char *name, const char *otherwise) {
    const char *value = getenv(name);
    return value ? value : otherwise;
}

static inline long number(const char *name, long otherwise) {
    const char *value = getenv(name);
    return value ? strtol(value, NULL, 0) : otherwise;
}

static inline const char *gpu_text(int gpu, const char *field, const char *otherwise) {
    char name[64];
    snprintf(name, sizeof name, "STANDIN_GPU%d_%s", gpu, field);
    return text(name, otherwise);
}

static inline long gpu_number(int gpu, const char *field, long otherwise) {
    const char *value = gpu_text(gpu, field, NULL);
    return value ? strtol(value, NULL, 0) : otherwise;
}

static inline int gpu_count(void) { return (int)number("STANDIN_GPUS", 0); }

static inline void compute_capability(int gpu, int *major, int *minor) {
    if (sscanf(gpu_text(gpu, "CAPABILITY", "8.0"), "%d.%d", major, minor) != 2) *major = *minor = 0;
}

/* Misbehave on initialisation as told: hang for some seconds, then crash. */
static inline void misbehave(const char *hang, const char *crash) {
    sleep((unsigned)number(hang, 0));
    if (number(crash, 0)) raise(SIGSEGV);
}

#endif
