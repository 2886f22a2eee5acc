/* Driver of Atoll; see atoll.h. SPDX-License-Identifier: Apache-2.0 */
#include "atoll.h"

#define FIELD(word, name) (((word) & ATOLL_REG_##name##_MASK) >> ATOLL_REG_##name##_SHIFT)

static uint32_t get(struct atoll *device, uint32_t address)
{
    return device->port.read(device->port.context, address);
}

static void put(struct atoll *device, uint32_t address, uint32_t value)
{
    device->port.write(device->port.context, address, value);
}

int atoll_open(struct atoll *device, const struct atoll_port *port)
{
    device->port = *port;
    if (get(device, ATOLL_REG_ID) != ATOLL_MAGIC)
        return ATOLL_E_DEVICE;
    if (FIELD(get(device, ATOLL_REG_VERSION), VERSION_VERSION) != ATOLL_FORMAT_VERSION)
        return ATOLL_E_VERSION;
    return ATOLL_OK;
}

int atoll_start(struct atoll *device, uint64_t physical, const void *data, size_t bytes)
{
    uint64_t line = physical / ATOLL_LINE_BYTES;
    if (physical % ATOLL_LINE_BYTES != 0 || line > UINT32_MAX)
        return ATOLL_E_ADDRESS;
    if (FIELD(get(device, ATOLL_REG_STATUS), STATUS_BUSY))
        return ATOLL_E_BUSY;
    if (device->port.flush)
        device->port.flush(device->port.context, data, bytes);
    put(device, ATOLL_REG_CONTROL, ATOLL_REG_CONTROL_ACKNOWLEDGE_MASK | ATOLL_REG_CONTROL_CLEAR_MASK);
    put(device, ATOLL_REG_IMAGE, (uint32_t)line);
    /* A line that the memory port cannot reach is refused, and the register keeps its value. */
    if (get(device, ATOLL_REG_IMAGE) != (uint32_t)line)
        return ATOLL_E_REGISTER;
    put(device, ATOLL_REG_CONTROL, ATOLL_REG_CONTROL_START_MASK);
    return ATOLL_OK;
}

int atoll_is_done(struct atoll *device)
{
    return FIELD(get(device, ATOLL_REG_STATUS), STATUS_DONE) != 0;
}

int atoll_collect(struct atoll *device, struct atoll_finished *finished)
{
    uint32_t ended = get(device, ATOLL_REG_COMPLETION);
    finished->error = FIELD(ended, COMPLETION_ERROR);
    finished->layer = FIELD(ended, COMPLETION_LAYER);
    finished->tag = FIELD(ended, COMPLETION_TAG);
    finished->info = get(device, ATOLL_REG_INFO);
    put(device, ATOLL_REG_CONTROL, ATOLL_REG_CONTROL_ACKNOWLEDGE_MASK);
    for (uint32_t n = 0; n < ATOLL_COUNTERS; n++) {
        /* Reading the low half holds the high half. */
        uint32_t low = get(device, ATOLL_REG_CYCLES_LOW + 8u * n);
        finished->counters[n] = (uint64_t)get(device, ATOLL_REG_CYCLES_HIGH + 8u * n) << 32 | low;
    }
    return finished->error == ATOLL_ERROR_NONE ? ATOLL_OK : ATOLL_E_RUN;
}

int atoll_finish(struct atoll *device, struct atoll_finished *finished, const void *data, size_t bytes)
{
    while (!atoll_is_done(device))
        if (device->port.wait(device->port.context) != 0)
            return ATOLL_E_TIME;
    if (device->port.discard)
        device->port.discard(device->port.context, data, bytes);
    return atoll_collect(device, finished);
}

int atoll_run(struct atoll *device, uint64_t physical, const void *data, size_t bytes,
              struct atoll_finished *finished)
{
    int status = atoll_start(device, physical, data, bytes);
    return status == ATOLL_OK ? atoll_finish(device, finished, data, bytes) : status;
}

uint32_t atoll_units(struct atoll *device)
{
    return get(device, ATOLL_REG_UNITS);
}

int atoll_unit_cycles(struct atoll *device, uint32_t unit, uint32_t *cycles)
{
    put(device, ATOLL_REG_UNIT, unit);
    /* A unit beyond the last is refused, and the register keeps its value. */
    if (get(device, ATOLL_REG_UNIT) != unit)
        return ATOLL_E_REGISTER;
    *cycles = get(device, ATOLL_REG_UNIT_CYCLES);
    return ATOLL_OK;
}

void atoll_interrupt(struct atoll *device, int enabled)
{
    put(device, ATOLL_REG_INTERRUPT, enabled ? ATOLL_REG_INTERRUPT_DONE_MASK : 0u);
}

uint32_t atoll_u16(const void *at)
{
    const uint8_t *byte = at;
    return (uint32_t)byte[0] | (uint32_t)byte[1] << 8;
}

uint32_t atoll_u32(const void *at)
{
    const uint8_t *byte = at;
    return atoll_u16(byte) | atoll_u16(byte + 2) << 16;
}

uint32_t atoll_crc32(uint32_t before, const void *data, size_t bytes)
{
    /* Remainders of the reflected polynomial 0x04c11db7 by the next byte, worked out on the first call. */
    static uint32_t table[256];
    if (table[1] == 0)
        for (uint32_t n = 0; n < 256; n++) {
            uint32_t rest = n;
            for (int bit = 0; bit < 8; bit++)
                rest = rest >> 1 ^ (rest & 1u ? 0xedb88320u : 0u);
            table[n] = rest;
        }
    const uint8_t *byte = data;
    uint32_t crc = ~before;
    for (; bytes > 0; bytes--)
        crc = crc >> 8 ^ table[(crc ^ *byte++) & 0xffu];
    return ~crc;
}

static uint32_t header(const void *image, uint32_t at)
{
    return atoll_u32((const uint8_t *)image + at);
}

/* Whether a table of `count` entries of `each` bytes from a line on lies inside the image. */
static int inside(uint32_t line, uint32_t count, uint32_t each, size_t bytes)
{
    return line >= 1 && (uint64_t)line * ATOLL_LINE_BYTES + (uint64_t)count * each <= bytes;
}

int atoll_image_check(const void *image, size_t bytes)
{
    const uint8_t *at = image;
    if (bytes < ATOLL_HEADER_SIZE || header(image, ATOLL_HEADER_AT_MAGIC) != ATOLL_MAGIC)
        return ATOLL_E_IMAGE;
    if (atoll_u16(at + ATOLL_HEADER_AT_VERSION) != ATOLL_FORMAT_VERSION)
        return ATOLL_E_VERSION;
    if ((uint64_t)header(image, ATOLL_HEADER_AT_LINES) * ATOLL_LINE_BYTES != bytes)
        return ATOLL_E_IMAGE;
    if (!inside(header(image, ATOLL_HEADER_AT_REGION_TABLE), atoll_u16(at + ATOLL_HEADER_AT_REGIONS),
                ATOLL_REGION_SIZE, bytes) ||
        !inside(header(image, ATOLL_HEADER_AT_COMMAND_LIST), header(image, ATOLL_HEADER_AT_COMMANDS),
                ATOLL_LINE_BYTES, bytes))
        return ATOLL_E_IMAGE;
    if (atoll_crc32(0, at + ATOLL_HEADER_SIZE, bytes - ATOLL_HEADER_SIZE) != header(image, ATOLL_HEADER_AT_CHECKSUM))
        return ATOLL_E_IMAGE;
    return ATOLL_OK;
}

int atoll_image_region(const void *image, uint32_t kind, uint32_t layer, struct atoll_region *region)
{
    const uint8_t *start = image;
    uint64_t bytes = (uint64_t)header(image, ATOLL_HEADER_AT_LINES) * ATOLL_LINE_BYTES;
    const uint8_t *entry = start + (size_t)header(image, ATOLL_HEADER_AT_REGION_TABLE) * ATOLL_LINE_BYTES;
    for (uint32_t left = atoll_u16(start + ATOLL_HEADER_AT_REGIONS); left > 0; left--, entry += ATOLL_REGION_SIZE) {
        if (atoll_u16(entry + ATOLL_REGION_AT_KIND) != kind || atoll_u16(entry + ATOLL_REGION_AT_LAYER) != layer)
            continue;
        uint64_t offset = (uint64_t)atoll_u32(entry + ATOLL_REGION_AT_LINE) * ATOLL_LINE_BYTES;
        region->kind = kind;
        region->layer = layer;
        region->offset = (size_t)offset;
        region->bytes = atoll_u32(entry + ATOLL_REGION_AT_BYTES);
        region->rows = atoll_u32(entry + ATOLL_REGION_AT_ROWS);
        region->row_elements = atoll_u32(entry + ATOLL_REGION_AT_ROW_ELEMENTS);
        region->row_bytes = atoll_u32(entry + ATOLL_REGION_AT_ROW_BYTES);
        if (offset + region->bytes > bytes || (uint64_t)region->rows * region->row_bytes > region->bytes)
            return ATOLL_E_IMAGE;
        return ATOLL_OK;
    }
    return ATOLL_E_IMAGE;
}

int16_t atoll_element(const void *image, const struct atoll_region *region, uint32_t row, uint32_t element)
{
    const uint8_t *start = (const uint8_t *)image + region->offset;
    return (int16_t)atoll_u16(start + (size_t)row * region->row_bytes + 2u * element);
}

uint32_t atoll_class(const void *image, const struct atoll_region *region, uint32_t row)
{
    uint32_t best = 0;
    int16_t most = INT16_MIN;
    for (uint32_t n = 0; n < region->row_elements; n++) {
        int16_t value = atoll_element(image, region, row, n);
        if (value > most) {
            most = value;
            best = n;
        }
    }
    return best;
}

const char *atoll_error_name(uint32_t error)
{
#define NAME(code, name) \
    case code: \
        return name;
    switch (error) {
        ATOLL_ERRORS(NAME)
    default:
        return "unknown error";
    }
#undef NAME
}

const char *atoll_status_name(int status)
{
    switch (status) {
    case ATOLL_OK:
        return "done";
    case ATOLL_E_DEVICE:
        return "no Atoll";
    case ATOLL_E_VERSION:
        return "another version";
    case ATOLL_E_BUSY:
        return "busy";
    case ATOLL_E_ADDRESS:
        return "bad address";
    case ATOLL_E_TIME:
        return "not done in time";
    case ATOLL_E_IMAGE:
        return "bad image";
    case ATOLL_E_RUN:
        return "ended with an error";
    case ATOLL_E_REGISTER:
        return "register refused";
    default:
        return "unknown status";
    }
}
