/* Traps of VexRiscv: the machine's interrupt goes to the scheduler, everything else ends the job. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "board.h"
#include "system.h"

/* Bits of VexRiscv's own interrupt controller, which is two CSRs. */
#define MASK "0xbc0"
#define PENDING "0xfc0"
#define EXTERNAL 0x8000000bu

volatile uint32_t interrupts;

void allow_interrupt(uint32_t number)
{
    __asm__ volatile("csrs " MASK ", %0" ::"r"(1u << number));
    __asm__ volatile("csrs mie, %0" ::"r"(1u << 11));
}

void handle_trap(uint32_t cause, uint32_t where);

void handle_trap(uint32_t cause, uint32_t where)
{
    uint32_t pending;
    __asm__ volatile("csrr %0, " PENDING : "=r"(pending));
    if (cause == EXTERNAL && pending & 1u << IRQ_ATOLL) {
        interrupts++;
        on_done();
        return;
    }
    put_text("trap ");
    put_number(cause);
    put_text(" at ");
    put_number(where);
    put_text("\n");
    finish_job(2);
}
