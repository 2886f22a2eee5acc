// Instances of @MODULE@, stepped together once a clock. Made by sim/harness/stepped.py.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <unistd.h>
#include <vector>

#include "V@MODULE@.h"
#include "svdpi.h"
#include "verilated.h"

namespace {

uint32_t bits(const uint32_t* words, unsigned low, unsigned width) {
    uint64_t two = words[low / 32];
    if (low % 32 + width > 32) two |= uint64_t{words[low / 32 + 1]} << 32;
    return uint32_t((two >> (low % 32)) & ((uint64_t{1} << width) - 1));
}

void put(uint32_t* words, unsigned low, unsigned width, uint32_t value) {
    const uint64_t placed = uint64_t{value} << (low % 32);
    words[low / 32] |= uint32_t(placed);
    if (low % 32 + width > 32) words[low / 32 + 1] |= uint32_t(placed >> 32);
}

// Evaluating a model makes its context the thread's; the simulator's own is put back.
class KeepContext {
    VerilatedContext* const kept = Verilated::threadContextp();

public:
    ~KeepContext() { Verilated::threadContextp(kept); }
};

struct Instance {
    VerilatedContext context;
    V@MODULE@ model;
    uint32_t in[@INPUT_WORDS@] = {};
    uint32_t out[@OUTPUT_WORDS@] = {};

    // Random contents differ from instance to instance and follow the seed of the simulator.
    explicit Instance(int number) : model((seed(context, number), &context)) {
        step(0);
        read(out);
    }
    static void seed(VerilatedContext& context, int number) {
        const VerilatedContext* whole = Verilated::threadContextp();
        context.randReset(whole->randReset());
        context.randSeed((whole->randSeed() + 7919 * number) % 0x7fffffff + 1);
    }
    void step(int clock) {
        model.clk = clock;
@READ_INPUTS@
        model.eval();
    }
    void read(uint32_t* words) const {
        std::memset(words, 0, sizeof out);
@WRITE_OUTPUTS@
    }
    // The outputs before the edge must be those that were shown since the last one.
    void clock() {
        uint32_t before[@OUTPUT_WORDS@];
        step(0);
        read(before);
        if (std::memcmp(before, out, sizeof out) != 0) {
            VL_FATAL_MT(__FILE__, __LINE__, "@MODULE@", "an output depends on an input within a clock");
        }
        step(1);
        read(out);
    }
};

// Steps what is waiting on several threads, of which the simulator's own is one.
class Crew {
    std::vector<Instance*> waiting;
    std::vector<std::thread> others;
    std::mutex mutex;
    std::condition_variable wake, ended;
    std::atomic<size_t> next{0};
    unsigned round = 0, busy = 0, threads;

    void work() {
        for (size_t at = next++; at < waiting.size(); at = next++) waiting[at]->clock();
    }
    void loop(unsigned seen) {
        for (;;) {
            {
                std::unique_lock<std::mutex> lock(mutex);
                wake.wait(lock, [&] { return round != seen; });
                seen = round;
            }
            work();
            std::lock_guard<std::mutex> lock(mutex);
            if (--busy == 0) ended.notify_one();
        }
    }

public:
    const pid_t process = getpid();
    Crew() {
        const char* given = std::getenv("@VARIABLE@");
        threads = std::max(1, given ? std::atoi(given) : int(std::thread::hardware_concurrency()));
    }
    void give(Instance* instance) { waiting.push_back(instance); }
    void step() {
        if (waiting.empty()) return;
        const size_t wanted = std::min<size_t>(threads, waiting.size()) - 1;
        while (others.size() < wanted) others.emplace_back([this, seen = round] { loop(seen); });
        {
            std::lock_guard<std::mutex> lock(mutex);
            next = 0;
            busy = unsigned(others.size());
            ++round;
        }
        wake.notify_all();
        const KeepContext keep;
        work();
        std::unique_lock<std::mutex> lock(mutex);
        ended.wait(lock, [&] { return busy == 0; });
        waiting.clear();
    }
};

int instances = 0;

// A process that was forked has none of its parent's threads.
Crew& crew() {
    static Crew* found = nullptr;
    if (!found || found->process != getpid()) found = new Crew;
    return *found;
}

}  // namespace

extern "C" void* @MODULE@_create() {
    const KeepContext keep;
    return new Instance(instances++);
}

extern "C" void @MODULE@_give(void* instance, const svBitVecVal* words) {
    auto* const mine = static_cast<Instance*>(instance);
    std::memcpy(mine->in, words, sizeof mine->in);
    crew().give(mine);
}

extern "C" void @MODULE@_take(void* instance, svBitVecVal* words) {
    crew().step();
    auto* const mine = static_cast<Instance*>(instance);
    std::memcpy(words, mine->out, sizeof mine->out);
}
