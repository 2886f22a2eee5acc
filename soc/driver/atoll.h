/* Driver of Atoll in plain C99: registers and images, and nothing of any operating system.
 *
 * The driver reaches the hardware through the few functions of `struct atoll_port`. They are all that differs between
 * firmware on the same chip, Linux with UIO, and a test. Every address that the hardware gets is a physical one, as its
 * memory port sees it; every pointer is one of the CPU's. The two are kept apart everywhere.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATOLL_H
#define ATOLL_H

#include <stddef.h>
#include <stdint.h>

#include "atoll_registers.h"

/* What a function of the driver returns: 0, or one of these. An error that the hardware reports is ATOLL_E_RUN, and
 * `struct atoll_finished` says which. */
enum atoll_status {
    ATOLL_OK = 0,
    ATOLL_E_DEVICE = -1,  /* register ID: this is no Atoll */
    ATOLL_E_VERSION = -2, /* hardware or image of another version of the formats */
    ATOLL_E_BUSY = -3,    /* a run is under way */
    ATOLL_E_ADDRESS = -4, /* the image does not begin on a line, or beyond 2^32 lines */
    ATOLL_E_TIME = -5,    /* the run did not end while the port had patience */
    ATOLL_E_IMAGE = -6,   /* no image, or a damaged one */
    ATOLL_E_RUN = -7,     /* the hardware ended the run with an error */
    ATOLL_E_REGISTER = -8 /* a register did not take a value: the hardware refused the write */
};

/* How the driver reaches the hardware. `context` is passed on to each function. */
struct atoll_port {
    void *context;
    uint32_t (*read)(void *context, uint32_t address);
    void (*write)(void *context, uint32_t address, uint32_t value);
    /* Sleeps until the interrupt, or for a while. Returns 0, or another value to give up. */
    int (*wait)(void *context);
    /* Makes what the CPU has written visible to the memory port, or what the port has written to the CPU. NULL where
     * the system keeps them coherent. */
    void (*flush)(void *context, const void *data, size_t bytes);
    void (*discard)(void *context, const void *data, size_t bytes);
};

struct atoll {
    struct atoll_port port;
};

/* How a run ended. */
struct atoll_finished {
    uint32_t error; /* ATOLL_ERROR_NONE, or why it stopped */
    uint32_t layer; /* of the command that stopped it */
    uint32_t tag;
    uint32_t info;
    uint64_t counters[ATOLL_COUNTERS]; /* cycles, beats read, beats written */
};

/* A region of an image, from its table. */
struct atoll_region {
    size_t offset; /* of its first byte in the image */
    uint32_t kind;
    uint32_t layer;
    uint32_t bytes;
    uint32_t rows;
    uint32_t row_elements;
    uint32_t row_bytes; /* distance of rows */
};

/* Keeps the port and makes sure that there is an Atoll of this version behind it; writes nothing. */
int atoll_open(struct atoll *device, const struct atoll_port *port);

/* Starts the image at a physical byte address; its `bytes` at `data` are flushed before. Counters begin at 0. */
int atoll_start(struct atoll *device, uint64_t physical, const void *data, size_t bytes);

/* Whether a run has ended that nobody has acknowledged. */
int atoll_is_done(struct atoll *device);

/* Reads how the last run ended, and acknowledges it. Does not wait. */
int atoll_collect(struct atoll *device, struct atoll_finished *finished);

/* Waits for the run under way and collects it; `bytes` at `data` are discarded from the CPU's caches. */
int atoll_finish(struct atoll *device, struct atoll_finished *finished, const void *data, size_t bytes);

/* All of the above: starts an image that lies at `data` for the CPU and at `physical` for the memory port. */
int atoll_run(struct atoll *device, uint64_t physical, const void *data, size_t bytes,
              struct atoll_finished *finished);

/* Number of units of the machine whose work is counted. */
uint32_t atoll_units(struct atoll *device);

/* Reads the cycles in which a unit has worked since the last start; ATOLL_E_REGISTER if there is no such unit. */
int atoll_unit_cycles(struct atoll *device, uint32_t unit, uint32_t *cycles);

/* Lets the interrupt output follow the end of runs (not 0), or stay low (0). */
void atoll_interrupt(struct atoll *device, int enabled);

/* Checks an image of `bytes` bytes: magic, version, size, tables, checksum. */
int atoll_image_check(const void *image, size_t bytes);

/* Finds a region of an image that has been checked; ATOLL_E_IMAGE if it has none. */
int atoll_image_region(const void *image, uint32_t kind, uint32_t layer, struct atoll_region *region);

/* Element of a region of int16 rows. */
int16_t atoll_element(const void *image, const struct atoll_region *region, uint32_t row, uint32_t element);

/* Place of the largest element of a row; the first one of several. */
uint32_t atoll_class(const void *image, const struct atoll_region *region, uint32_t row);

/* Name of an error code of the hardware, or of a status of the driver. */
const char *atoll_error_name(uint32_t error);
const char *atoll_status_name(int status);

/* Little-endian numbers at any address. */
uint32_t atoll_u16(const void *at);
uint32_t atoll_u32(const void *at);

/* CRC-32 of bytes that follow others with the checksum `before`; 0 before the first. */
uint32_t atoll_crc32(uint32_t before, const void *data, size_t bytes);

#endif
