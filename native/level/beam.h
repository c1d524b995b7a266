// Codes to start a search from. The codebooks are taken in turn, and the best few beginnings of a code are kept: one is
// a greedy choice, many come near the best code.
#pragma once

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

void beam(const float* unary, const float* cross, int M, int K, int width, size_t begin, size_t end, uint8_t* codes) {
    const size_t columns = size_t(M) * K;
    uint8_t chosen[2][supquant::kMaxBeam][supquant::kMaxCodebooks];  // the beginnings before and after a codebook
    for (size_t i = begin; i < end; ++i) {
        float costs[supquant::kMaxBeam] = {0};  // of the beginnings
        int count = 1;
        for (int m = 0; m < M; ++m) {
            const float* own = unary + i * columns + size_t(m) * K;
            const auto& before = chosen[m % 2];
            BestKeys best(width);
            for (int b = 0; b < count; ++b) {
                const float* rows[supquant::kMaxCodebooks];
                for (int a = 0; a < m; ++a) rows[a] = cross + (size_t(a) * K + before[b][a]) * columns + size_t(m) * K;
                const uint32_t first = uint32_t(b) * K;
                for_lanes(K, [&](auto lane, int k) {
                    using V = decltype(lane);
                    V sum = V();
                    for (int a = 0; a < m; ++a) sum += load<V>(rows[a] + k);
                    const V cost = costs[b] + (load<V>(own + k) + (sum + sum));
                    if constexpr (sizeof(V) == sizeof(float)) {
                        if (cost <= best.limit) best.take(cost, first + uint32_t(k));
                    } else {
                        float values[kLanes];
                        uint32_t within = lanes_within(cost, best.limit);
                        if (within) store(values, cost);
                        for (; within; within &= within - 1) {
                            const int j = __builtin_ctz(within);
                            best.take(values[j], first + uint32_t(k + j));
                        }
                    }
                });
            }
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
