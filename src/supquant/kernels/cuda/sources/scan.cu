// The scan: sums of table entries at codes, of which those below a bound are kept. M and K are given when the source is
// compiled.
//
// Codes lie in planes: the codes of 8 codebooks of a row next to each other, and those of the next row after them; the
// rest of the codebooks in planes of 4, 2 and 1. The plane that begins with codebook m begins at byte m * stride, where
// stride is the number of rows, filled up to a multiple of 64. So every load is whole and aligned, and no byte is lost.
//
// A key is a sum and a row number. Keys are in the order of answers: by sum, then by row.

typedef unsigned long long Key;
typedef unsigned char Byte;
typedef unsigned int Word;
typedef long long Row;

constexpr int kWords = (M + 3) / 4;
constexpr int kRows = M <= 16 ? 4 : 1;  // rows that a thread reads before it looks any of them up

// CuPy compiles with -ftz=true, which makes subnormal sums zero. This addition keeps them. Where they are compared as
// zeros, more rows come through, and keys decide.
__device__ inline float add(float a, float b) {
    float sum;
    asm("add.rn.f32 %0, %1, %2;" : "=f"(sum) : "f"(a), "f"(b));
    return sum;
}

__device__ inline Word bits_of(float sum) {
    const Word own = __float_as_uint(sum), bits = own == 0x80000000u ? 0 : own;  // -0 becomes 0
    return bits ^ (bits >> 31 ? 0xffffffffu : 0x80000000u);
}

__device__ inline float sum_of_bits(Word bits) {
    return __uint_as_float(bits ^ (bits >> 31 ? 0x80000000u : 0xffffffffu));
}

// The width of the plane that begins with codebook `first`.
constexpr int width_of(int first) { return M - first >= 8 ? 8 : M - first >= 4 ? 4 : M - first >= 2 ? 2 : 1; }

// Loads the codes of a row: that of codebook m is byte m % 4 of word m / 4.
template <int kFirst = 0>
__device__ inline void load(const Byte* codes, Row stride, Row row, Word (&words)[kWords]) {
    if constexpr (kFirst < M) {
        constexpr int kWidth = width_of(kFirst), kShift = kFirst % 4 * 8;
        const Byte* place = codes + kFirst * stride + row * kWidth;
        if constexpr (kWidth == 8) {
            const uint2 pair = __ldcs(reinterpret_cast<const uint2*>(place));
            words[kFirst / 4] = pair.x;
            words[kFirst / 4 + 1] = pair.y;
        } else {
            Word value;
            if constexpr (kWidth == 4) value = __ldcs(reinterpret_cast<const Word*>(place));
            if constexpr (kWidth == 2) value = *reinterpret_cast<const unsigned short*>(place);
            if constexpr (kWidth == 1) value = *place;
            words[kFirst / 4] = kShift ? words[kFirst / 4] | value << kShift : value;
        }
        load<kFirst + kWidth>(codes, stride, row, words);
    }
}

__device__ inline int code_at(const Word (&words)[kWords], int m) { return words[m / 4] >> m % 4 * 8 & 255; }

// Returns the place of table[m, code, lane % kCopies] in a table (M, K, kCopies) in shared memory, with the code of
// codebook m. The bits of the code and those of the copy never meet, so that one operation masks the code and adds the
// copy.
template <int kCopies, class Entry>
__device__ inline const Entry* entry_of(const Entry* table, const Word (&words)[kWords], int m, int lane) {
    constexpr Word kBytes = kCopies * sizeof(Entry);  // of all copies of an entry: a power of two
    const int shift = m % 4 * 8;
    const Word code = kBytes >> shift ? words[m / 4] * (kBytes >> shift) : words[m / 4] / ((1u << shift) / kBytes);
    const Word place = (code & 255 * kBytes) | lane % kCopies * sizeof(Entry);
    return reinterpret_cast<const Entry*>(reinterpret_cast<const char*>(table + m * K * kCopies) + place);
}

// Which rows a launch visits: pieces of 32 rows, one of every `every` of them.
struct Visit {
    Row n, every;
    const Key* eligible;  // bits of rows that may be answers; null stands for all

    __device__ Row pieces() const { return ((n + 31) / 32 + every - 1) / every; }

    // The first row of a piece. Pieces are not at even distances, which the order of rows could have too.
    __device__ Row first_row(Row piece) const {
        const Row jitter = every == 1 ? 0 : Row(Word(piece) * 2654435761u % Word(every));
        return (piece * every + jitter) * 32;
    }
    __device__ bool allows(Row row) const { return !eligible || eligible[row / 64] >> row % 64 & 1; }
};

// Where the rows of a query are kept that are within its bound. `count` also counts those for which there is no room.
struct Kept {
    Key* keys;
    Word* count;
    Word room;

    __device__ void push(Key key) const {
        const Word place = atomicAdd(count, 1u);
        if (place < room) keys[place] = key;
    }
};

// Keeps the keys of all visited rows that are at most bounds[query], for tables (q, M, K): keys (q, room) and counts
// (q,). Each block has a query, and COPIES copies of its table, so that 32 look-ups of a warp meet in few banks.
extern "C" __global__ void __launch_bounds__(1024)
    scan(const Byte* codes, Row n, Row stride, Row every, const Key* eligible, const float* tables, const Key* bounds,
         Key* keys, Word* counts, Word room) {
    extern __shared__ __align__(16) float table[];  // (M, K, COPIES)
    const int query = blockIdx.y, lane = threadIdx.x % 32;
    for (int i = threadIdx.x; i < M * K * COPIES; i += blockDim.x) table[i] = tables[(Row)query * M * K + i / COPIES];
    __syncthreads();
    const Key bound = bounds[query];
    const float most = sum_of_bits(Word(bound >> 32));
    const bool all = bound == ~0ull;
    const Visit visit{n, every, eligible};
    const Kept kept{keys + (Row)query * room, counts + query, room};
    const Row pieces = visit.pieces(), step = (Row)gridDim.x * blockDim.x / 32 * kRows;
    for (Row piece = ((Row)blockIdx.x * blockDim.x + threadIdx.x) / 32 * kRows; piece < pieces; piece += step) {
        Word words[kRows][kWords], rows[kRows];
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
            rows[i] = piece + i < pieces ? Word(min(visit.first_row(piece + i) + lane, n)) : Word(n);
            load(codes, stride, rows[i] < n ? rows[i] : 0, words[i]);
        }
        float sums[kRows];
#pragma unroll
        for (int m = 0; m < M; ++m)
#pragma unroll
            for (int i = 0; i < kRows; ++i) {
                const float entry = *entry_of<COPIES>(table, words[i], m, lane);
                sums[i] = m == 0 ? entry : add(sums[i], entry);
            }
#pragma unroll
        for (int i = 0; i < kRows; ++i)
            if (rows[i] < n && (all || sums[i] <= most)) {
                const Key key = Key(bits_of(sums[i])) << 32 | rows[i];
                if (key <= bound && visit.allows(rows[i])) kept.push(key);
            }
    }
}

// The same for groups of eight queries, whose look-ups are one load: entries (groups, M, K, 8) of 16 bits are lower
// bounds of table entries in steps of the query. A sum that starts at starts[query] has its highest bit set if the row
// is above the bound. The sums of other rows are made again from the tables.
extern "C" __global__ void __launch_bounds__(1024)
    scan_groups(const Byte* codes, Row n, Row stride, Row every, const Key* eligible, const float* tables,
                const uint4* entries, const uint4* starts, const Key* bounds, Key* keys, Word* counts, Word room,
                int n_queries) {
    extern __shared__ __align__(16) uint4 group_table[];  // (M, K, GROUP_COPIES)
    const int group = blockIdx.y, lane = threadIdx.x % 32;
    for (int i = threadIdx.x; i < M * K * GROUP_COPIES; i += blockDim.x)
        group_table[i] = entries[(Row)group * M * K + i / GROUP_COPIES];
    __syncthreads();
    const uint4 start = starts[group];
    const Visit visit{n, every, eligible};
    constexpr int kPair = M <= 16 ? 2 : 1;
    const Row pieces = visit.pieces(), warps = (Row)gridDim.x * blockDim.x / 32;
    const Row warp = ((Row)blockIdx.x * blockDim.x + threadIdx.x) / 32;
    for (Row piece = warp * kPair; piece < pieces; piece += warps * kPair) {
        Word words[kPair][kWords];
        Row rows[kPair];
        uint4 sums[kPair];
#pragma unroll
        for (int i = 0; i < kPair; ++i) {
            rows[i] = piece + i < pieces ? visit.first_row(piece + i) + lane : n;
            load(codes, stride, rows[i] < n ? rows[i] : 0, words[i]);
            sums[i] = start;
        }
#pragma unroll
        for (int m = 0; m < M; ++m)
#pragma unroll
            for (int i = 0; i < kPair; ++i) {
                const uint4 entry = *entry_of<GROUP_COPIES>(group_table, words[i], m, lane);
                sums[i].x += entry.x;  // two numbers of 16 bits, neither of which overflows
                sums[i].y += entry.y;
                sums[i].z += entry.z;
                sums[i].w += entry.w;
            }
#pragma unroll
        for (int i = 0; i < kPair; ++i) {
            if ((sums[i].x & sums[i].y & sums[i].z & sums[i].w & 0x80008000u) == 0x80008000u || rows[i] >= n) continue;
            const Word of_pairs[4] = {sums[i].x, sums[i].y, sums[i].z, sums[i].w};
            if (!visit.allows(rows[i])) continue;
#pragma unroll
            for (int j = 0; j < 8; ++j) {
                const int query = group * 8 + j;
                if (of_pairs[j / 2] >> (j % 2 * 16 + 15) & 1 || query >= n_queries) continue;
                float sum = 0;
#pragma unroll
                for (int m = 0; m < M; ++m) {
                    const float entry = tables[((Row)query * M + m) * K + code_at(words[i], m)];
                    sum = m == 0 ? entry : add(sum, entry);
                }
                const Key key = Key(bits_of(sum)) << 32 | Word(rows[i]);
                if (key <= bounds[query]) Kept{keys + (Row)query * room, counts + query, room}.push(key);
            }
        }
    }
}

// Puts codes from blocks of 64 rows (b, M, 64) into planes. Code i of the blocks is row first + i. With `members` it is
// row members[i]; with `starts` too, it is all rows members[starts[i]] up to members[starts[i + 1]], and the launch has
// a thread for each of them. Numbers of codes and members are those of these blocks; `before` members belong to earlier
// ones.
extern "C" __global__ void place_codes(const Byte* blocks, Row n, Row first, const Word* starts, const Word* members,
                                       Row before, Row n_codes, Byte* codes, Row stride) {
    const Row i = (Row)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const Row row = members ? members[i] : first + i;
    Row code = i;
    if (starts) {  // the last code that begins at i or before it
        Row low = 0, high = n_codes;
        while (high - low > 1) {
            const Row middle = (low + high) / 2;
            (starts[middle] - before <= i ? low : high) = middle;
        }
        code = low;
    }
    const Byte* from = blocks + code / 64 * M * 64 + code % 64;
    for (int m = 0; m < M;) {
        const int width = M - m >= 8 ? 8 : M - m >= 4 ? 4 : M - m >= 2 ? 2 : 1;
        for (int j = 0; j < width; ++j) codes[m * stride + row * width + j] = from[(m + j) * 64];
        m += width;
    }
}
