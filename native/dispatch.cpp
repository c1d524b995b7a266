#include "dispatch.h"

#include <atomic>

#include "system.h"

namespace supquant {

extern const KernelTable kernels_portable;
extern const KernelTable kernels_neon;
extern const KernelTable kernels_avx2;
extern const KernelTable kernels_avx512bw;
extern const KernelTable kernels_avx512;  // only look-ups

namespace {

struct Level {
    const KernelTable* table;
    bool (*runs_here)();
};

bool always() { return true; }

#if defined(__x86_64__)
bool has_avx2() { return Processor().avx2; }
bool has_avx512bw() { return Processor().avx512bw; }
bool has_avx512() { return Processor().avx512vbmi; }

// VBMI changes only how bytes are looked up. All other kernels are those of avx512bw.
KernelTable with_lookups(KernelTable table, const KernelTable& lookups) {
    table.name = lookups.name;
    table.group_from = lookups.group_from;
    table.fast_lookup = lookups.fast_lookup;
    table.coarse_rows = lookups.coarse_rows;
    table.mark_by_tables = lookups.mark_by_tables;
    return table;
}
const KernelTable whole_avx512 = with_lookups(kernels_avx512bw, kernels_avx512);

const Level kLevels[] = {{&kernels_portable, always},
                         {&kernels_avx2, has_avx2},
                         {&kernels_avx512bw, has_avx512bw},
                         {&whole_avx512, has_avx512}};
#elif defined(__aarch64__)
const Level kLevels[] = {{&kernels_portable, always}, {&kernels_neon, always}};
#else
const Level kLevels[] = {{&kernels_portable, always}};
#endif

const KernelTable* fastest() {
    const KernelTable* found = nullptr;
    for (const Level& level : kLevels)
        if (level.runs_here()) found = level.table;
    return found;
}

std::atomic<const KernelTable*> chosen{nullptr};  // null until the first use

}  // namespace

std::vector<std::string> compiled_levels() {
    std::vector<std::string> names;
    for (const Level& level : kLevels) names.emplace_back(level.table->name);
    return names;
}

std::vector<std::string> available_levels() {
    std::vector<std::string> names;
    for (const Level& level : kLevels)
        if (level.runs_here()) names.emplace_back(level.table->name);
    return names;
}

const KernelTable& active_kernels() {
    if (!chosen.load()) chosen.store(fastest());
    return *chosen.load();
}

bool select(const std::string& name) {
    for (const Level& level : kLevels)
        if (name == level.table->name && level.runs_here()) {
            chosen.store(level.table);
            return true;
        }
    return false;
}

}  // namespace supquant
