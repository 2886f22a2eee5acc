/* Atoll behind Linux: registers and interrupt by UIO, memory by udmabuf; nothing of it is in the kernel.
 *
 * The buffer is mapped with O_SYNC, so udmabuf leaves the CPU's caches out and there is nothing to flush. Where the
 * memory port is coherent with them (dma-coherent in the device tree), the kernel maps it cached all the same.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATOLL_LINUX_H
#define ATOLL_LINUX_H

#include "atoll.h"

struct atoll_linux {
    struct atoll_port port; /* for atoll_open */
    volatile uint32_t *registers;
    void *memory;  /* the buffer, for the CPU */
    uint64_t base; /* and where the memory port sees its first byte */
    size_t bytes;
    int uio;
    int is_device; /* files take its place in tests, and have no interrupt */
    int milliseconds; /* that a wait sleeps at most; 1,000 */
    int waits;        /* after which a run is given up; 60 */
    int left;         /* of these, for the run under way */
};

/* Maps registers (/dev/uio0), memory (/dev/udmabuf0) of so many bytes, and reads its physical address from a file
 * (/sys/class/u-dma-buf/udmabuf0/phys_addr). Returns 0, or -1 with errno set and everything closed again. */
int atoll_linux_open(struct atoll_linux *system, const char *registers, const char *memory, const char *physical,
                     size_t bytes);

void atoll_linux_close(struct atoll_linux *system);

#endif
