/* What the compiler and both programs need: blocks of memory, and the end of a job. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "board.h"

#define EOT 0x04

void *memset(void *to, int value, size_t bytes)
{
    uint8_t *at = to;
    uint32_t word = (uint8_t)value * 0x01010101u;
    if ((uintptr_t)at % 4 == 0)
        for (; bytes >= 4; bytes -= 4, at += 4)
            *(uint32_t *)(void *)at = word;
    for (; bytes > 0; bytes--)
        *at++ = (uint8_t)value;
    return to;
}

void *memcpy(void *restrict to, const void *restrict from, size_t bytes)
{
    uint8_t *target = to;
    const uint8_t *source = from;
    if (((uintptr_t)target | (uintptr_t)source) % 4 == 0)
        for (; bytes >= 4; bytes -= 4, target += 4, source += 4)
            *(uint32_t *)(void *)target = *(const uint32_t *)(const void *)source;
    for (; bytes > 0; bytes--)
        *target++ = *source++;
    return to;
}

void finish_job(uint8_t status)
{
    put_byte(EOT);
    put_byte(status);
    for (;;)
        ;
}

void give_up(const char *why)
{
    put_text(why);
    put_text("\n");
    finish_job(2);
}
