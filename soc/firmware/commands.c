/* The scheduler of A9: fetches commands from memory, decodes them, issues each to the queue in front of the cores, and
 * takes completions by interrupt, in whatever order they come. Then it compares what the cores have written.
 *
 * The commands lie at the start of the DRAM's upper half, behind four words: a magic number, how many there are, the line
 * their addresses count from, and how many pieces of memory to compare. Each piece is a place, a size, and its bytes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "atoll.h"
#include "board.h"
#include "system.h"

#define PREPARED (MAIN_RAM_BASE + MAIN_RAM_SIZE / 2u)
#define FIRST_WORD 0x534f5441u /* "ATOS" */
#define WORDS (ATOLL_LINE_BYTES / 4u)
#define MOST 256u

static volatile uint32_t completions, failed, most_waiting;
static volatile uint8_t completed[MOST / 8];
static uint32_t total;

static uint32_t get(uint32_t address)
{
    return load(ATOLL_BASE + address);
}

static void put(uint32_t address, uint32_t value)
{
    store(ATOLL_BASE + address, value);
}

/* Takes every completion that waits. The low bits of a command's tag are its number. */
void on_done(void)
{
    for (;;) {
        uint32_t status = get(ATOLL_QUEUE_STATUS);
        uint32_t waiting = (status & ATOLL_QUEUE_STATUS_COMPLETIONS_MASK) >> ATOLL_QUEUE_STATUS_COMPLETIONS_SHIFT;
        if (waiting == 0)
            return;
        uint32_t ended = get(ATOLL_QUEUE_COMPLETION);
        uint32_t number = (ended >> ATOLL_QUEUE_COMPLETION_TAG_SHIFT) % MOST;
        if (ended & ATOLL_QUEUE_COMPLETION_ERROR_MASK)
            failed = ended & ATOLL_QUEUE_COMPLETION_ERROR_MASK;
        completed[number / 8] |= (uint8_t)(1u << number % 8);
        completions++;
        put(ATOLL_QUEUE_CONTROL, ATOLL_QUEUE_CONTROL_TAKE_MASK);
    }
}

/* Reads a command; returns whether the cores have an opcode of this kind. */
static int decode(const uint32_t *command)
{
    uint32_t opcode = command[0] & 0xffu;
    return opcode == ATOLL_OPCODE_SAMPLE || opcode == ATOLL_OPCODE_COPY || opcode == ATOLL_OPCODE_BARRIER;
}

/* Hands a command over the bus as soon as the queue has room. */
static void issue(const uint32_t *command)
{
    while (!(get(ATOLL_QUEUE_STATUS) & ATOLL_QUEUE_STATUS_ROOM_MASK))
        ;
    for (uint32_t n = 0; n < WORDS; n++)
        put(ATOLL_QUEUE_COMMAND_0 + 4 * n, command[n]);
}

static uint32_t wrong_words(const uint32_t *pieces, uint32_t count)
{
    uint32_t wrong = 0;
    for (; count > 0; count--) {
        const uint32_t *at = (const uint32_t *)(MAIN_RAM_BASE + pieces[0]);
        uint32_t words = pieces[1] / 4;
        pieces += 2;
        total += words;
        for (; words > 0; words--)
            wrong += *at++ != *pieces++;
    }
    return wrong;
}

int main(void)
{
    const uint32_t *job = (const uint32_t *)PREPARED;
    put_text("Scheduler on VexRiscv\n");
    if (wake_dram() != 0)
        give_up("the DRAM does not work");
    if (get(ATOLL_QUEUE_ID) != ATOLL_QUEUE_MAGIC)
        give_up("no queue of commands");
    if (job[0] != FIRST_WORD || job[1] > MOST)
        give_up("this is no job");
    uint32_t commands = job[1], pieces = job[3];
    put(ATOLL_QUEUE_BASE, job[2]);
    put(ATOLL_QUEUE_INTERRUPT, ATOLL_QUEUE_INTERRUPT_COMPLETION_MASK);
    put(ATOLL_QUEUE_CONTROL, ATOLL_QUEUE_CONTROL_CLEAR_MASK);
    allow_interrupt(IRQ_ATOLL);
    enable_interrupts();
    for (uint32_t n = 0; n < commands; n++) {
        uint32_t command[WORDS];
        memcpy(command, job + 4 + n * WORDS, sizeof command);
        if (!decode(command)) {
            put_text("opcode ");
            put_number(command[0] & 0xffu);
            give_up(" is none of the cores'");
        }
        issue(command);
        uint32_t waiting = n + 1 - completions;
        if (waiting > most_waiting)
            most_waiting = waiting;
    }
    while (completions < commands)
        ;
    uint32_t working = get(ATOLL_QUEUE_WORKING), cores = get(ATOLL_QUEUE_CORE_CYCLES);
    discard_cache();
    put_number(commands);
    put_text(" commands, at most ");
    put_number(most_waiting);
    put_text(" under way, ");
    put_number(interrupts);
    put_text(" interrupts\n");
    put_number(working);
    put_text(" cycles with a core at work, ");
    put_number(cores);
    put_text(" of all cores\n");
    if (failed) {
        put_text("a command ended with ");
        give_up(atoll_error_name(failed));
    }
    for (uint32_t n = 0; n < commands; n++)
        if (!(completed[n / 8] >> n % 8 & 1u))
            give_up("a command has no completion");
    uint32_t wrong = wrong_words(job + 4 + commands * WORDS, pieces);
    put_number(total);
    put_text(" words, ");
    put_number(wrong);
    put_text(wrong == 0 ? " wrong\nevery value is right\n" : " WRONG\n");
    finish_job(wrong == 0 ? 0 : 1);
}
