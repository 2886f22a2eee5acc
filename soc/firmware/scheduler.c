/* See scheduler.h. SPDX-License-Identifier: Apache-2.0 */
#include "scheduler.h"

#include "board.h"

static struct atoll *machine;
static struct run queue[QUEUE];
/* Counts of runs that were submitted, have been issued, have ended, and were looked at; each goes on to the next. */
static volatile uint32_t submitted, issued, ended, released;

static struct run *at(uint32_t number)
{
    return &queue[number % QUEUE];
}

/* Starts the next run that waits; only while none is under way. */
static void issue(void)
{
    while (issued != submitted && issued == ended) {
        struct run *run = at(issued++);
        run->status = atoll_start(machine, (uintptr_t)run->image, run->image, run->bytes);
        if (run->status != ATOLL_OK)
            ended++; /* it never began, and the next one may */
    }
}

void open_scheduler(struct atoll *device)
{
    machine = device;
    atoll_interrupt(device, 1);
}

void submit(const struct run *run)
{
    while (submitted - released == QUEUE)
        ;
    *at(submitted) = *run;
    disable_interrupts();
    submitted++;
    issue();
    enable_interrupts();
}

void on_done(void)
{
    struct run *run = at(ended);
    run->status = atoll_collect(machine, &run->finished);
    ended++;
    issue();
}

struct run *next_ended(void)
{
    return ended == released ? 0 : at(released);
}

void release(void)
{
    released++;
}
