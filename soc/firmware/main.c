/* Takes a job, runs its images one after another, compares every value, says how it ended.
 *
 * A job comes over the serial port, after the firmware has asked for it with ENQ, unless it lies at the start of the
 * DRAM's upper half already. While the machine runs an image, the firmware takes in the next ones. The last two bytes it
 * sends are EOT and a status: 0 if every value was right, 1 if one was not, 2 if the job could not be carried out.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "atoll.h"
#include "board.h"
#include "scheduler.h"
#include "system.h"

#define ENQ 0x05

#define HALF (MAIN_RAM_SIZE / 2u)
#define PREPARED (MAIN_RAM_BASE + HALF)

static struct atoll device;
static uint32_t numbers[3]; /* of labels that count, of right classes, of wrong values */

static uint32_t read_register(void *context, uint32_t address)
{
    (void)context;
    return load(ATOLL_BASE + address);
}

static void write_register(void *context, uint32_t address, uint32_t value)
{
    (void)context;
    store(ATOLL_BASE + address, value);
}

static int wait_a_little(void *context)
{
    (void)context;
    return 0;
}

/* The CPU's cache is write-through: what it writes is in memory as soon as the store has left it. */
static void discard(void *context, const void *data, size_t bytes)
{
    (void)context, (void)data, (void)bytes;
    discard_cache();
}

/* Where the job comes from: memory, or the serial port if this is NULL. */
static const uint8_t *source;

static void take(uint8_t *to, uint32_t bytes)
{
    if (source) {
        memcpy(to, source, bytes);
        source += bytes;
        return;
    }
    while (bytes-- > 0)
        *to++ = get_byte();
}

/* Memory from the start of the DRAM on: images, and what their results should be. Nothing is given back. */
static uint8_t *free_memory = (uint8_t *)MAIN_RAM_BASE;

static uint8_t *allocate(uint32_t bytes)
{
    uint8_t *at = free_memory;
    bytes = (bytes + ATOLL_LINE_BYTES - 1) & ~(ATOLL_LINE_BYTES - 1);
    if (bytes > (uint32_t)(MAIN_RAM_BASE + HALF - (uintptr_t)at))
        give_up("the job is larger than the memory");
    free_memory += bytes;
    return at;
}

/* Takes the next run of the job; its checks stay in memory as they came. */
static void take_run(struct run *run)
{
    uint8_t words[16];
    take(words, ATOLL_RUN_SIZE);
    run->bytes = atoll_u32(words + ATOLL_RUN_AT_BYTES);
    uint32_t segments = atoll_u16(words + ATOLL_RUN_AT_SEGMENTS);
    run->count = atoll_u16(words + ATOLL_RUN_AT_CHECKS);
    run->labels = atoll_u32(words + ATOLL_RUN_AT_LABELS);
    run->image = allocate(run->bytes);
    memset(run->image, 0, run->bytes);
    for (; segments > 0; segments--) {
        take(words, ATOLL_SEGMENT_SIZE);
        uint32_t offset = atoll_u32(words + ATOLL_SEGMENT_AT_OFFSET), bytes = atoll_u32(words + ATOLL_SEGMENT_AT_BYTES);
        if (offset > run->bytes || bytes > run->bytes - offset)
            give_up("a segment ends past its image");
        take(run->image + offset, bytes);
    }
    run->checks = free_memory;
    for (uint32_t n = 0; n < run->count; n++) {
        uint8_t *check = allocate(ATOLL_CHECK_SIZE);
        take(check, ATOLL_CHECK_SIZE);
        uint32_t bytes = 2 * atoll_u32(check + ATOLL_CHECK_AT_ROWS) * atoll_u32(check + ATOLL_CHECK_AT_ROW_ELEMENTS);
        take(allocate(bytes), bytes);
    }
    take(allocate(2 * run->labels), 2 * run->labels);
    run->status = atoll_image_check(run->image, run->bytes);
    if (run->status != ATOLL_OK)
        give_up("the image is damaged");
}

static const uint8_t *skip(const uint8_t *at, uint32_t bytes)
{
    return at + ((bytes + ATOLL_LINE_BYTES - 1) & ~(ATOLL_LINE_BYTES - 1));
}

/* Compares every value of an ended run, and counts classes that are those of the labels. */
static void look_at(const struct run *run)
{
    put_text("run ended: ");
    put_text(run->status == ATOLL_E_RUN ? atoll_error_name(run->finished.error) : atoll_status_name(run->status));
    if (run->status != ATOLL_OK) {
        put_text(", layer ");
        put_number(run->finished.layer);
        put_text(", command ");
        put_number(run->finished.tag);
        put_text("\n");
        finish_job(2);
    }
    put_text(" in ");
    put_number(run->finished.counters[0]);
    put_text(" cycles, ");
    put_number(run->finished.counters[1]);
    put_text(" beats read, ");
    put_number(run->finished.counters[2]);
    put_text(" written\n");
    discard_cache();
    const uint8_t *at = run->checks;
    struct atoll_region table = {0};
    for (uint32_t n = 0; n < run->count; n++) {
        table.offset = atoll_u32(at + ATOLL_CHECK_AT_OFFSET);
        table.rows = atoll_u32(at + ATOLL_CHECK_AT_ROWS);
        table.row_elements = atoll_u32(at + ATOLL_CHECK_AT_ROW_ELEMENTS);
        table.row_bytes = atoll_u32(at + ATOLL_CHECK_AT_ROW_BYTES);
        at = skip(at, ATOLL_CHECK_SIZE);
        uint32_t wrong = 0;
        const uint8_t *expected = at;
        for (uint32_t row = 0; row < table.rows; row++)
            for (uint32_t element = 0; element < table.row_elements; element++, expected += 2)
                wrong += atoll_u16(expected) != (uint16_t)atoll_element(run->image, &table, row, element);
        at = skip(at, 2 * table.rows * table.row_elements);
        put_text("  results of layer ");
        put_number(n);
        put_text(": ");
        put_number(table.rows * table.row_elements);
        put_text(" values, ");
        put_number(wrong);
        put_text(" wrong\n");
        numbers[2] += wrong;
    }
    for (uint32_t row = 0; row < run->labels; row++) {
        uint32_t label = atoll_u16(at + 2 * row);
        if (label == ATOLL_NO_LABEL)
            continue;
        numbers[0]++;
        numbers[1] += atoll_class(run->image, &table, row) == label;
    }
}

int main(void)
{
    static const struct atoll_port port = {0, read_register, write_register, wait_a_little, 0, discard};
    uint8_t words[ATOLL_JOB_SIZE];
    struct run run = {0};
    put_text("Atoll on VexRiscv\n");
    if (wake_dram() != 0)
        give_up("the DRAM does not work");
    int status = atoll_open(&device, &port);
    if (status != ATOLL_OK)
        give_up(atoll_status_name(status));
    open_scheduler(&device);
    allow_interrupt(IRQ_ATOLL);
    enable_interrupts();
    if (load(PREPARED) == ATOLL_JOB_FIRST_WORD)
        source = (const uint8_t *)PREPARED;
    else
        put_byte(ENQ);
    take(words, ATOLL_JOB_SIZE);
    if (atoll_u32(words) != ATOLL_JOB_FIRST_WORD || atoll_u16(words + ATOLL_JOB_AT_VERSION) != ATOLL_FORMAT_VERSION)
        give_up("this is no job");
    uint32_t runs = atoll_u16(words + ATOLL_JOB_AT_RUNS), taken = 0, seen = 0;
    while (seen < runs) {
        struct run *done = next_ended();
        if (done) {
            look_at(done);
            release();
            seen++;
        } else if (taken < runs && taken - seen < QUEUE) {
            take_run(&run);
            submit(&run);
            taken++;
        }
    }
    put_text("accuracy: ");
    put_number(numbers[1]);
    put_text(" of ");
    put_number(numbers[0]);
    put_text(" labels\ninterrupts: ");
    put_number(interrupts);
    put_text(numbers[2] == 0 ? "\nevery value is right\n" : "\nvalues are WRONG\n");
    finish_job(numbers[2] == 0 ? 0 : 1);
}
