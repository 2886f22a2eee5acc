/* The queue of runs (A9): the firmware fetches them from the job, the interrupt issues one after another.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef SCHEDULER_H
#define SCHEDULER_H

#include "atoll.h"

/* Runs that may wait; more are taken when some have ended. */
#define QUEUE 8u

struct run {
    uint8_t *image; /* where it lies, for the CPU and for the memory port alike */
    uint32_t bytes;
    const uint8_t *checks; /* tables of expected results, then labels */
    uint32_t count;
    uint32_t labels;
    int status; /* of the driver, when it has ended */
    struct atoll_finished finished;
};

void open_scheduler(struct atoll *device);

/* Adds a run, which begins at once if none is under way. Waits for room. */
void submit(const struct run *run);

/* Number of runs that have ended; the next one to be looked at is the oldest. */
struct run *next_ended(void);
void release(void);

#endif
