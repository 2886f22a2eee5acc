/* See atoll_linux.h. SPDX-License-Identifier: Apache-2.0 */
#include "atoll_linux.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Registers are mapped as a page. */
#define PAGE 4096u

static uint32_t read_register(void *context, uint32_t address)
{
    struct atoll_linux *system = context;
    return system->registers[address / 4];
}

static void write_register(void *context, uint32_t address, uint32_t value)
{
    struct atoll_linux *system = context;
    system->registers[address / 4] = value;
    if (address == ATOLL_REG_CONTROL && value & ATOLL_REG_CONTROL_START_MASK)
        system->left = system->waits;
}

/* UIO masks a level interrupt when it comes, until a word of 1 is written; a read returns when it has come. */
static int wait_for_interrupt(void *context)
{
    struct atoll_linux *system = context;
    uint32_t word = 1;
    struct pollfd file = {.fd = system->uio, .events = POLLIN};
    if (system->left-- <= 0)
        return -1;
    if (!system->is_device)
        return usleep((useconds_t)system->milliseconds * 1000u);
    if (write(system->uio, &word, sizeof word) != (ssize_t)sizeof word)
        return -1;
    if (poll(&file, 1, system->milliseconds) > 0 && read(system->uio, &word, sizeof word) != (ssize_t)sizeof word)
        return -1;
    return 0;
}

static int map(const char *path, size_t bytes, void **at)
{
    int file = open(path, O_RDWR | O_SYNC);
    if (file < 0)
        return -1;
    *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (*at == MAP_FAILED) {
        *at = NULL;
        close(file);
        return -1;
    }
    return file;
}

int atoll_linux_open(struct atoll_linux *system, const char *registers, const char *memory, const char *physical,
                     size_t bytes)
{
    void *page = NULL;
    struct stat kind;
    unsigned long long base = 0;
    memset(system, 0, sizeof *system);
    system->uio = map(registers, PAGE, &page);
    if (system->uio < 0)
        return -1;
    system->registers = page;
    system->bytes = bytes;
    system->milliseconds = 1000;
    system->waits = 60;
    system->is_device = fstat(system->uio, &kind) == 0 && S_ISCHR(kind.st_mode);
    int buffer = map(memory, bytes, &system->memory);
    FILE *told = buffer < 0 ? NULL : fopen(physical, "r");
    int found = told && fscanf(told, "%llx", &base) == 1;
    if (told)
        fclose(told);
    if (buffer >= 0)
        close(buffer);
    if (!found) {
        atoll_linux_close(system);
        return -1;
    }
    system->base = base;
    system->port = (struct atoll_port){system, read_register, write_register, wait_for_interrupt, NULL, NULL};
    return 0;
}

void atoll_linux_close(struct atoll_linux *system)
{
    if (system->memory)
        munmap(system->memory, system->bytes);
    munmap((void *)(uintptr_t)system->registers, PAGE);
    close(system->uio);
}
