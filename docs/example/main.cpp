// Asks the translation buffer for pages and compares every answer with a list in the order of use.
#include <cstdint>
#include <cstdio>
#include <list>
#include <random>
#include <utility>

#include "Vtlb.h"
#include "verilated.h"

static constexpr std::size_t kEntries = 30;
static constexpr int kAsked = 20000;

int main(int argc, char **argv) {
    Verilated::commandArgs(argc, argv);
    Vtlb tlb;
    auto cycle = [&] {
        tlb.clk = 0;
        tlb.eval();
        tlb.clk = 1;
        tlb.eval();
    };
    tlb.rst = 1;
    cycle();
    tlb.rst = 0;

    std::mt19937 random(1);
    std::list<std::pair<uint32_t, uint16_t>> used;  // page and frame, the last used in front
    int hits = 0;
    long cycles = 0;
    for (int n = 0; n < kAsked; ++n) {
        // Half of the pages are near each other, so that some come again soon and some late.
        const uint32_t page = random() % (random() % 2 ? 24 : 96);
        const uint16_t frame = random() & 0xfff;
        tlb.ask_valid = 1;
        tlb.ask_page = page;
        tlb.ask_frame = frame;
        cycle();
        tlb.ask_valid = 0;
        for (++cycles; !tlb.told; ++cycles) cycle();

        bool hit = false;
        uint16_t expected = frame;
        for (auto entry = used.begin(); entry != used.end(); ++entry) {
            if (entry->first == page) {
                hit = true;
                expected = entry->second;
                used.erase(entry);
                break;
            }
        }
        used.emplace_front(page, expected);
        if (used.size() > kEntries) used.pop_back();
        if (tlb.told_hit != hit || tlb.told_frame != expected) {
            std::printf("page %u, asked as number %d: hit %d, frame %u; expected %d, %u\n", page, n, tlb.told_hit,
                        tlb.told_frame, hit, expected);
            return 1;
        }
        hits += hit;
    }
    std::printf("%d pages, %d hits, %.1f cycles each: every answer is that of the list\n", kAsked, hits,
                static_cast<double>(cycles) / kAsked);
    return 0;
}
