/* Waking up a DRAM behind LiteDRAM: its mode registers by the DFI injector, then the delays of the pins.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "board.h"
#include "system.h"

#ifndef DRAM_WAKE_UP
/* Memory on the chip needs nothing. */
int wake_dram(void)
{
    return 0;
}
#else

#define CONTROL_STEP 0x100u
#define HARDWARE 0x01u /* the controller drives the DRAM, not the injector */

struct step {
    uint16_t address;
    uint8_t bank;
    uint16_t command;
    uint32_t cycles;
};

static const struct step steps[] = {DRAM_WAKE_UP};

static void pause(uint32_t cycles)
{
    /* At least two cycles a turn. */
    for (uint32_t n = 0; n < cycles / 2; n++)
        __asm__ volatile("");
}

static void wake_up(void)
{
    for (size_t n = 0; n < sizeof steps / sizeof *steps; n++) {
        store(CSR_SDRAM_DFII_PI0_ADDRESS, steps[n].address);
        store(CSR_SDRAM_DFII_PI0_BADDRESS, steps[n].bank);
        if (steps[n].command & CONTROL_STEP) {
            store(CSR_SDRAM_DFII_CONTROL, steps[n].command & ~CONTROL_STEP);
        } else {
            store(CSR_SDRAM_DFII_PI0_COMMAND, steps[n].command);
            store(CSR_SDRAM_DFII_PI0_COMMAND_ISSUE, 1);
        }
        pause(steps[n].cycles);
    }
    store(CSR_SDRAM_DFII_CONTROL, HARDWARE);
}

/* Words that a trial writes and reads, spread over rows and banks at the end of the DRAM, where no job lies. */
#define TRIAL 64u
#define STRIDE 0x1044u
#define TRIED (MAIN_RAM_BASE + MAIN_RAM_SIZE - TRIAL * STRIDE)

static uint32_t pattern(uint32_t n)
{
    return (n * 0x9e3779b9u) ^ (n << 7);
}

/* Returns a bit for each byte lane that returned another byte than was written. */
static uint32_t try_memory(void)
{
    uint32_t wrong = 0;
    for (uint32_t n = 0; n < TRIAL; n++)
        store(TRIED + n * STRIDE, pattern(n));
    discard_cache();
    for (uint32_t n = 0; n < TRIAL; n++) {
        uint32_t differs = load(TRIED + n * STRIDE) ^ pattern(n);
        for (uint32_t byte = 0; byte < 4; byte++)
            if (differs >> 8 * byte & 0xffu)
                wrong |= 1u << byte % DRAM_LANES;
    }
    return wrong;
}

#ifdef CSR_DDRPHY_DLY_SEL
/* Puts a lane to a bitslip and a delay of its data pins. */
static void set_lane(uint32_t lane, uint32_t bitslip, uint32_t delay)
{
    store(CSR_DDRPHY_DLY_SEL, 1u << lane);
    store(CSR_DDRPHY_RDLY_DQ_BITSLIP_RST, 1);
    for (; bitslip > 0; bitslip--)
        store(CSR_DDRPHY_RDLY_DQ_BITSLIP, 1);
    store(CSR_DDRPHY_RDLY_DQ_RST, 1);
    for (; delay > 0; delay--)
        store(CSR_DDRPHY_RDLY_DQ_INC, 1);
    store(CSR_DDRPHY_DLY_SEL, 0);
}

/* Tries every bitslip and delay on all lanes at once, and gives each lane the middle of its longest run of delays. */
static int find_delays(void)
{
    uint8_t best[DRAM_LANES] = {0}, slip[DRAM_LANES] = {0}, middle[DRAM_LANES] = {0};
    for (uint32_t bitslip = 0; bitslip < DRAM_BITSLIPS; bitslip++) {
        uint8_t length[DRAM_LANES] = {0};
        for (uint32_t delay = 0; delay < DRAM_DELAYS; delay++) {
            for (uint32_t lane = 0; lane < DRAM_LANES; lane++)
                set_lane(lane, bitslip, delay);
            uint32_t wrong = try_memory();
            for (uint32_t lane = 0; lane < DRAM_LANES; lane++) {
                length[lane] = wrong >> lane & 1u ? 0 : (uint8_t)(length[lane] + 1);
                if (length[lane] > best[lane]) {
                    best[lane] = length[lane];
                    slip[lane] = (uint8_t)bitslip;
                    middle[lane] = (uint8_t)(delay - (length[lane] - 1u) / 2);
                }
            }
        }
    }
    for (uint32_t lane = 0; lane < DRAM_LANES; lane++)
        set_lane(lane, slip[lane], middle[lane]);
    return 0;
}
#else
static int find_delays(void)
{
    return 0;
}
#endif

int wake_dram(void)
{
    wake_up();
    return find_delays() || try_memory() != 0;
}

#endif
