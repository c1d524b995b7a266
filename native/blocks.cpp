#include "blocks.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <vector>

#include "kernels.h"
#include "thread_pool.h"

namespace supquant {
namespace {

// Packs eight bytes 0 or 1 into eight bits. The plain loop: for (i = 0; i < 8; ++i) bits |= mask[i] << i.
// The factor has one bit for each byte; multiplying by it moves byte i to bit i of the top byte.
inline uint64_t eight_bits(const uint8_t* mask) {
    uint64_t bytes;
    std::memcpy(&bytes, mask, sizeof bytes);
    return bytes * 0x0102040810204080u >> 56;
}

// Returns whether any of 64 bytes is not zero.
inline bool any_set(const uint8_t* bytes) {
    typedef uint64_t Pair __attribute__((vector_size(16)));
    Pair parts[4];
    std::memcpy(parts, bytes, sizeof parts);
    const Pair all = (parts[0] | parts[1]) | (parts[2] | parts[3]);
    return (all[0] | all[1]) != 0;
}

// Returns a hash of a code of M bytes. Its upper bits are well mixed.
inline uint64_t mix(const uint8_t* code, int M) {
    uint64_t hash = 0;
    for (int m = 0; m < M; m += 8) {
        uint64_t word = 0;
        std::memcpy(&word, code + m, std::min(8, M - m));
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    return hash * 0xbf58476d1ce4e5b9u;
}

// The distinct ones of some codes, in a hash table with open addressing. A place holds the number of a row plus one, or 0 if it
// is free. At most a third of the places are taken.
class DistinctCodes {
  public:
    DistinctCodes(const uint8_t* codes, int M, size_t most)
        : codes_(codes), M_(M), first_(std::bit_ceil(3 * (most + 2)), 0), shift_(64 - std::countr_zero(first_.size())) {}

    size_t places() const { return first_.size(); }

    // Calls use(row, place of its code, whether it is the first row with this code) for the rows 0 .. n until it is false.
    // The places of some rows are fetched together, and then their codes: the processor does not wait for each.
    template <class Use>
    void visit(size_t n, Use use) {
        constexpr size_t kTogether = 32;
        size_t places[kTogether];
        for (size_t begin = 0; begin < n; begin += kTogether) {
            const size_t count = std::min(kTogether, n - begin);
            for (size_t i = 0; i < count; ++i) {
                places[i] = mix(codes_ + (begin + i) * M_, M_) >> shift_;
                __builtin_prefetch(&first_[places[i]]);
            }
            for (size_t i = 0; i < count; ++i)
                if (const uint32_t row = first_[places[i]]) __builtin_prefetch(codes_ + size_t(row - 1) * M_);
            for (size_t i = 0; i < count; ++i) {
                const uint8_t* code = codes_ + (begin + i) * M_;
                size_t place = places[i];
                while (first_[place] && std::memcmp(codes_ + size_t(first_[place] - 1) * M_, code, M_) != 0)
                    place = (place + 1) & (first_.size() - 1);
                const bool is_new = !first_[place];
                if (is_new) first_[place] = uint32_t(begin + i + 1);
                if (!use(begin + i, place, is_new)) return;
            }
        }
    }

  private:
    const uint8_t* codes_;
    const int M_;
    std::vector<uint32_t> first_;
    const int shift_;
};

constexpr size_t kFewSorted = 1 << 20;  // fewer codes are sorted by comparing them

}  // namespace

void take(const uint8_t* blocks, int M, const uint32_t* rows, size_t n, uint8_t* taken) {
    constexpr size_t kAhead = 8;  // rows between a prefetch and the copy
    const size_t stride = size_t(M) * kBlockRows;
    for (size_t i = 0; i < n; ++i) {
        if (i + kAhead < n) {
            const uint8_t* ahead = blocks + rows[i + kAhead] / kBlockRows * stride;
            for (int m = 0; m < M; ++m) __builtin_prefetch(ahead + m * kBlockRows);
        }
        // taken[i / 64, m, i % 64] = blocks[rows[i] / 64, m, rows[i] % 64]
        const uint8_t* from = blocks + rows[i] / kBlockRows * stride + rows[i] % kBlockRows;
        uint8_t* to = taken + i / kBlockRows * stride + i % kBlockRows;
        for (int m = 0; m < M; ++m) to[m * kBlockRows] = from[m * kBlockRows];
    }
}

void sort_by(const uint8_t* codes, size_t n, int M, const uint8_t* lead, int depth, uint32_t* rows) {
    const auto key = [&](size_t i) {
        uint32_t found = 0;
        for (int level = 0; level < depth; ++level) found = found << 8 | codes[i * M + lead[level]];
        return found;
    };
    if (n < kFewSorted || depth > 3) {  // counting would take longer: there are more keys than codes
        std::vector<uint64_t> keyed(n);
        for (size_t i = 0; i < n; ++i) keyed[i] = uint64_t(key(i)) << 32 | i;
        std::sort(keyed.begin(), keyed.end());
        for (size_t i = 0; i < n; ++i) rows[i] = uint32_t(keyed[i]);
        return;
    }
    std::vector<uint32_t> next((size_t(1) << (8 * depth)) + 1, 0);  // where the next code of each key goes
    for (size_t i = 0; i < n; ++i) ++next[key(i) + 1];
    for (size_t k = 1; k < next.size(); ++k) next[k] += next[k - 1];
    for (size_t i = 0; i < n; ++i) rows[next[key(i)]++] = uint32_t(i);
}

void arrange(const uint8_t* codes, int M, const uint32_t* rows, size_t n, uint8_t* blocks, int n_threads) {
    constexpr size_t kAhead = 16;  // codes between a prefetch and the copy
    constexpr size_t kTask = 1 << 16;  // codes of one task
    parallel_for((n + kTask - 1) / kTask, n_threads, [&](size_t task, int) {
        const size_t last = std::min(n, (task + 1) * kTask);
        for (size_t i = task * kTask; i < last; ++i) {
            if (i + kAhead < last) __builtin_prefetch(codes + size_t(rows[i + kAhead]) * M);
            const uint8_t* from = codes + size_t(rows[i]) * M;
            uint8_t* to = blocks + i / kBlockRows * M * kBlockRows + i % kBlockRows;
            for (int m = 0; m < M; ++m) to[m * kBlockRows] = from[m];
        }
    });
}

void pack_mask(const uint8_t* mask, size_t n, uint64_t* words) {
    const size_t whole = n / kBlockRows;
    for (size_t w = 0; w < whole; ++w) {
        const uint8_t* from = mask + w * kBlockRows;
        uint64_t word = 0;
        if (any_set(from))
            for (int i = 0; i < 8; ++i) word |= eight_bits(from + 8 * i) << (8 * i);
        words[w] = word;
    }
    if (whole * kBlockRows < n) words[whole] = 0;
    for (size_t i = whole * kBlockRows; i < n; ++i) words[whole] |= uint64_t(mask[i]) << (i % kBlockRows);
}

size_t count_bits(const uint64_t* words, size_t n_words) {
    size_t count = 0;
    for (size_t w = 0; w < n_words; ++w) count += std::popcount(words[w]);
    return count;
}

void set_bits(const uint64_t* words, size_t n_words, uint32_t* rows) {
    for (size_t w = 0; w < n_words; ++w)
        for (uint64_t left = words[w]; left; left &= left - 1)
            *rows++ = uint32_t(w * kBlockRows + std::countr_zero(left));
}

size_t count_distinct(const uint8_t* codes, size_t n, int M, size_t limit) {
    size_t count = 0;
    DistinctCodes known(codes, M, std::min(n, limit));
    known.visit(n, [&](size_t, size_t, bool is_new) { return (count += is_new) <= limit; });
    return count;
}

bool group(const uint8_t* codes, size_t n, int M, size_t n_distinct, uint8_t* distinct, uint32_t* starts,
           uint32_t* members) {
    // The number of every code in the order in which it first comes, and the row in which it does.
    std::vector<uint32_t> number(n), first;
    first.reserve(n_distinct);
    bool more = false;  // whether there are more than n_distinct
    {
        DistinctCodes known(codes, M, n_distinct);
        std::vector<uint32_t> numbers(known.places());
        known.visit(n, [&](size_t row, size_t place, bool is_new) {
            if (is_new) {
                if (first.size() == n_distinct) return more = true, false;
                numbers[place] = uint32_t(first.size());
                first.push_back(uint32_t(row));
            }
            number[row] = numbers[place];
            return true;
        });
    }
    if (more || first.size() < n_distinct) return false;
    std::vector<uint32_t> order(first.size());  // of codes
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
        return std::memcmp(codes + size_t(first[a]) * M, codes + size_t(first[b]) * M, M) < 0;
    });
    std::vector<uint32_t>& next = first;  // where the next row of each code goes; its first row is copied before
    for (size_t i = 0; i < order.size(); ++i) std::memcpy(distinct + i * M, codes + size_t(first[order[i]]) * M, M);
    std::fill(next.begin(), next.end(), 0);
    for (const uint32_t own : number) ++next[own];
    starts[0] = 0;
    for (size_t i = 0; i < order.size(); ++i) {
        starts[i + 1] = starts[i] + next[order[i]];
        next[order[i]] = starts[i];
    }
    for (size_t row = 0; row < n; ++row) members[next[number[row]]++] = uint32_t(row);
    return true;
}

}  // namespace supquant
