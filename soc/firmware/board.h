/* What the firmware needs of the system around the machine. SPDX-License-Identifier: Apache-2.0 */
#ifndef BOARD_H
#define BOARD_H

#include <stddef.h>
#include <stdint.h>

static inline uint32_t load(uint32_t address)
{
    return *(volatile uint32_t *)(uintptr_t)address;
}

static inline void store(uint32_t address, uint32_t value)
{
    *(volatile uint32_t *)(uintptr_t)address = value;
}

/* uart.c: bytes and text over the serial port. */
void put_byte(uint8_t byte);
uint8_t get_byte(void);
void put_text(const char *text);
void put_number(uint64_t value);

/* dram.c: wakes the DRAM up, and on a board finds its delays. Returns 0, or another value if it does not work. */
int wake_dram(void);

/* memory.c: says how the job ended, and stops; 0, 1 if a value was wrong, 2 if it was not carried out. */
void finish_job(uint8_t status) __attribute__((noreturn));
void give_up(const char *why) __attribute__((noreturn));
void *memset(void *to, int value, size_t bytes);
void *memcpy(void *restrict to, const void *restrict from, size_t bytes);

/* Called by the machine's interrupt. */
void on_done(void);

/* trap.c */
void allow_interrupt(uint32_t number);
extern volatile uint32_t interrupts;

/* Drops every line of the CPU's data cache. It is write-through, so nothing is lost. */
static inline void discard_cache(void)
{
    __asm__ volatile(".word 0x0000500f" ::: "memory");
}

/* Lets interrupts in, or keeps them out. */
static inline void enable_interrupts(void)
{
    __asm__ volatile("csrs mstatus, %0" ::"r"(8u) : "memory");
}

static inline void disable_interrupts(void)
{
    __asm__ volatile("csrc mstatus, %0" ::"r"(8u) : "memory");
}

#endif
