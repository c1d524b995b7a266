// Vectors of 16 bytes on NEON. bytes_portable.h says what the names mean.
#pragma once

#include <arm_neon.h>

#include "kernels.h"

namespace {

constexpr int kByteLanes = 16;
typedef uint8x16_t Bytes;
inline Bytes load_bytes(const uint8_t* from) { return vld1q_u8(from); }
inline void store_bytes(uint8_t* to, Bytes v) { vst1q_u8(to, v); }

inline Bytes add_saturated(Bytes a, Bytes b) { return vqaddq_u8(a, b); }
inline Bytes lower(Bytes a, Bytes b) { return vminq_u8(a, b); }

// Gives each lane that fits the bit of its place, then adds up neighbours until each half is one byte of eight bits.
inline uint64_t at_most(Bytes values, Bytes limit) {
    const uint8x16_t place = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    uint8x16_t bits = vandq_u8(vcleq_u8(values, limit), place);
    bits = vpaddq_u8(bits, bits);
    bits = vpaddq_u8(bits, bits);
    bits = vpaddq_u8(bits, bits);
    return vgetq_lane_u16(vreinterpretq_u16_u8(bits), 0);
}
inline bool any_at_most(Bytes values, Bytes limit) { return vmaxvq_u8(vcleq_u8(values, limit)) != 0; }

inline Bytes popcount(Bytes x) { return vcntq_u8(x); }

// A table of 256 bytes in 16 registers. TBL looks up 64 entries in four registers and returns 0 for any other index. Of
// the four look-ups of a code exactly one has the index of an entry: a code that is too small wraps around to a large
// index.
constexpr bool kFastLookup = true;
struct FineLookup {
    const uint8x16x4_t part0, part1, part2, part3;
    explicit FineLookup(const uint8_t* table)
        : part0(vld1q_u8_x4(table)),
          part1(vld1q_u8_x4(table + 64)),
          part2(vld1q_u8_x4(table + 128)),
          part3(vld1q_u8_x4(table + 192)) {}
    inline Bytes operator()(Bytes codes) const {
        const Bytes step = vdupq_n_u8(64);
        const Bytes second = vsubq_u8(codes, step), third = vsubq_u8(second, step), fourth = vsubq_u8(third, step);
        return vorrq_u8(vorrq_u8(vqtbl4q_u8(part0, codes), vqtbl4q_u8(part1, second)),
                        vorrq_u8(vqtbl4q_u8(part2, third), vqtbl4q_u8(part3, fourth)));
    }
};

// Half the entries, each the lower one of two neighbours: half as many look-ups, but more rows pass.
constexpr int kCoarseRows = 16;
struct CoarseLookup {
    const uint8x16x4_t part0, part1;
    explicit CoarseLookup(const uint8_t* table) : part0(vld1q_u8_x4(table)), part1(vld1q_u8_x4(table + 64)) {}
    inline Bytes operator()(Bytes codes) const {
        const Bytes pair = vshrq_n_u8(codes, 1);
        return vorrq_u8(vqtbl4q_u8(part0, pair), vqtbl4q_u8(part1, vsubq_u8(pair, vdupq_n_u8(64))));
    }
};

constexpr int kFineTogether = 1, kCoarseTogether = 2;

typedef Bytes QueryBytes;
constexpr int kGroupFrom = 4;

}  // namespace
