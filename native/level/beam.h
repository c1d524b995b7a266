// Codes to start a search from. The codebooks are taken in turn, and the best few beginnings of a code are kept: one is
// a greedy choice, many come near the best code.
#pragma once

#include "bits.h"
#include "kernels.h"
#include "vector.h"

namespace {

// A beginning of a code: its cost, and where it comes from, in one number. Of two numbers the smaller one has the lower
// cost; of equal costs it comes from the earlier beginning, and has the earlier codeword.
inline uint64_t beginning_key(float cost, uint32_t place) {
    const float plain = cost + 0.0f;  // -0 becomes 0
    uint32_t bits;
    __builtin_memcpy(&bits, &plain, sizeof bits);
    bits ^= bits >> 31 ? 0xffffffffu : 0x80000000u;
    return uint64_t(bits) << 32 | place;
}

inline float cost_of_key(uint64_t key) {
    uint32_t bits = uint32_t(key >> 32);
    bits ^= bits >> 31 ? 0x80000000u : 0xffffffffu;
    float cost;
    __builtin_memcpy(&cost, &bits, sizeof cost);
    return cost;
}

// The `most` smallest of the keys that it takes, in ascending order.
struct BestKeys {
    uint64_t keys[supquant::kMaxBeam];
    int count = 0;
    int most;
    float limit = __builtin_inff();  // no key of a greater cost is kept any more

    explicit BestKeys(int most) : most(most) {}

    inline void take(float cost, uint32_t place) {
        const uint64_t key = beginning_key(cost, place);
        if (count == most && key > keys[count - 1]) return;
        int i = count < most ? count++ : count - 1;
        for (; i > 0 && keys[i - 1] > key; --i) keys[i] = keys[i - 1];
        keys[i] = key;
        if (count == most) limit = cost_of_key(keys[count - 1]);
    }
};

constexpr int kParts = 16;
constexpr int kLeast = kParts / kLanes;  // vectors of the least costs of all parts

// Returns a cost that at least `most` of the costs do not exceed, given the least ones of kParts parts of them.
inline float cost_within_reach(const Vec* least, int most) {
    float costs[kParts];
    for (int v = 0; v < kLeast; ++v) store(costs + v * kLanes, least[v]);
    float lowest = __builtin_inff();
    for (int i = 0; i < kParts; ++i) {
        int within = 0;
        for (int v = 0; v < kLeast; ++v) {
            const uint32_t lanes = lanes_within(least[v], costs[i]);
            within += int(kLanes == 1 ? lanes : count_bits(lanes));
        }
        lowest = within >= most && costs[i] < lowest ? costs[i] : lowest;
    }
    return lowest;
}

void beam(const float* unary, const float* cross, int M, int K, int width, size_t begin, size_t end, uint8_t* codes) {
    const size_t columns = size_t(M) * K;
    uint8_t chosen[2][supquant::kMaxBeam][supquant::kMaxCodebooks];  // the beginnings before and after a codebook
    alignas(64) float found[supquant::kMaxBeam * supquant::kMaxCodewords];  // costs of beginnings with all codewords
    for (size_t i = begin; i < end; ++i) {
        float costs[supquant::kMaxBeam] = {0};  // of the beginnings
        alignas(64) float sums[supquant::kMaxCodewords] = {0};  // of the products of a beginning with all codewords
        int count = 1;
        for (int m = 0; m < M; ++m) {
            const float* own = unary + i * columns + size_t(m) * K;
            const auto& before = chosen[m % 2];
            Vec least[kLeast];
            for (Vec& each : least) each = Vec() + __builtin_inff();
            for (int b = 0; b < count; ++b) {
                const float* rows[supquant::kMaxCodebooks];
                for (int a = 0; a < m; ++a) rows[a] = cross + (size_t(a) * K + before[b][a]) * columns + size_t(m) * K;
                if (m > 0) sum_of_rows([&](int a) { return rows[a]; }, m, K, sums);
                for_lanes(K, [&](auto lane, int k) {
                    using V = decltype(lane);
                    const V sum = load<V>(sums + k);
                    const V cost = costs[b] + (load<V>(own + k) + (sum + sum));
                    store(found + b * K + k, cost);
                    if constexpr (sizeof(V) == sizeof(Vec)) {
                        Vec& of_part = least[k / kLanes % kLeast];
                        of_part = lower(cost, of_part);
                    }
                });
            }
            // Most costs are above the limit from the start. To find it while they are taken, one by one, takes longer.
            BestKeys best(width);
            best.limit = cost_within_reach(least, width);
            for_lanes(count * K, [&](auto lane, int place) {
                using V = decltype(lane);
                if constexpr (sizeof(V) == sizeof(float)) {
                    if (found[place] <= best.limit) best.take(found[place], uint32_t(place));
                } else {
                    for (uint32_t within = lanes_within(load<V>(found + place), best.limit); within; within &= within - 1) {
                        const int j = place + __builtin_ctz(within);
                        best.take(found[j], uint32_t(j));
                    }
                }
            });
            if (best.count == 0) {  // no cost is a number
                best.keys[0] = beginning_key(__builtin_inff(), 0);
                best.count = 1;
            }
            auto& after = chosen[(m + 1) % 2];
            count = best.count;
            for (int b = 0; b < count; ++b) {
                const uint32_t place = uint32_t(best.keys[b]);
                for (int a = 0; a < m; ++a) after[b][a] = before[place / K][a];
                after[b][m] = uint8_t(place % K);
                costs[b] = cost_of_key(best.keys[b]);
            }
        }
        for (int m = 0; m < M; ++m) codes[i * M + m] = chosen[M % 2][0][m];
    }
}

}  // namespace
