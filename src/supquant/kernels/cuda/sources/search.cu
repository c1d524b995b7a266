// The search for codes of low cost: a beam chooses a start, and an exchange of one codeword at a time lowers its cost.
// A block of threads has one row, and a thread one codeword of the codebook in turn.
//
// The order of all float32 operations is that of native/level/beam.h and native/level/assign.h, so codes are the same.
// M, K, THREADS, WIDTH of the beam and PLAIN (whether mu is 0, and products do not count) are given when the source is
// compiled.

constexpr int kWarps = THREADS / 32;
constexpr int kPairs = M * (M - 1) / 2;
constexpr unsigned long long kNone = ~0ull;
typedef unsigned long long Key;
typedef unsigned char Byte;

// Of two keys the smaller one has the lower cost, and of equal costs the lower place.
__device__ inline Key key_of(float cost, unsigned place) {
    unsigned bits = __float_as_uint(cost);
    if (bits == 0x80000000u) bits = 0;  // -0 becomes 0
    bits ^= bits >> 31 ? 0xffffffffu : 0x80000000u;
    return Key(bits) << 32 | place;
}

__device__ inline float cost_of(Key key) {
    unsigned bits = unsigned(key >> 32);
    return __uint_as_float(bits ^ (bits >> 31 ? 0x80000000u : 0xffffffffu));
}

__device__ inline Key lowest_of_warp(Key key) {
#if __CUDA_ARCH__ >= 800
    const unsigned high = __reduce_min_sync(0xffffffffu, unsigned(key >> 32));
    const unsigned low = __reduce_min_sync(0xffffffffu, unsigned(key >> 32) == high ? unsigned(key) : 0xffffffffu);
    return Key(high) << 32 | low;
#else
    for (int step = 16; step > 0; step /= 2) {
        const Key other = __shfl_xor_sync(0xffffffffu, key, step);
        key = other < key ? other : key;
    }
    return key;
#endif
}

// Returns the lowest key of all threads of the block, to all of them. `of_warps` has two sides, which calls use in
// turn.
__device__ inline Key lowest_of_block(Key key, Key (&of_warps)[2][kWarps], int& side) {
    key = lowest_of_warp(key);
    if (threadIdx.x % 32 == 0) of_warps[side][threadIdx.x / 32] = key;
    __syncthreads();
    Key lowest = of_warps[side][0];
#pragma unroll
    for (int warp = 1; warp < kWarps; ++warp) lowest = of_warps[side][warp] < lowest ? of_warps[side][warp] : lowest;
    side = 1 - side;
    return lowest;
}

struct Shared {
    Key of_warps[2][kWarps];
    double number;  // what one thread computed for all
    float unary[M * K];
    union {
        struct {
            float found[WIDTH][K];  // costs of the beginnings with all codewords
            float costs[WIDTH];
            Byte chosen[2][WIDTH][M];  // the beginnings before and after a codebook
        } beam;
        struct {
            float cross[M][K], product[PLAIN ? 1 : M][K];  // sums over the other codebooks at the last visit
            float terms[kPairs + 1];
            float current;  // the cost of the current codeword
        } exchange;
    };
    Byte codes[M], start[M], seen[M][M];  // `seen` has the codes at the last visit of each codebook
    bool known[M];
};

// The shared memory that a launch of `search` must ask for.
extern "C" __global__ void shared_bytes(int* bytes) { *bytes = sizeof(Shared); }

// Chooses the start: after each codebook the WIDTH beginnings of a code with the lowest costs are kept.
__device__ void choose_start(Shared& s, const float* cross, int& side) {
    const int k = threadIdx.x;
    int count = 1;
    if (k == 0) s.beam.costs[0] = 0;
    __syncthreads();
    for (int m = 0; m < M; ++m) {
        const auto& before = s.beam.chosen[m % 2];
        auto& after = s.beam.chosen[1 - m % 2];
        Key best = kNone;  // of this thread
        for (int b = 0; b < count && k < K; ++b) {
            float sum = 0;
            for (int a = 0; a < m; ++a) sum += cross[(size_t)(a * K + before[b][a]) * (M * K) + m * K + k];
            const float cost = s.beam.costs[b] + (s.unary[m * K + k] + (sum + sum));
            s.beam.found[b][k] = cost;
            const Key key = key_of(cost, b * K + k);
            best = key < best ? key : best;
        }
        __syncthreads();  // costs are written below
        const int kept = count * K < WIDTH ? count * K : WIDTH;
        for (int i = 0; i < kept; ++i) {
            const Key lowest = lowest_of_block(best, s.of_warps, side);
            const int b = int(unsigned(lowest)) / K, word = int(unsigned(lowest)) % K;
            if (k < m) after[i][k] = before[b][k];
            if (k == m) after[i][k] = Byte(word);
            if (k == 0) s.beam.costs[i] = cost_of(lowest);
            if (k == word) {  // this thread looks for its next best beginning
                best = kNone;
                for (int other = 0; other < count; ++other) {
                    const Key key = key_of(s.beam.found[other][k], other * K + k);
                    if (key > lowest && key < best) best = key;
                }
            }
        }
        count = kept;
        __syncthreads();
    }
    if (k < M) s.start[k] = s.beam.chosen[M % 2][0][k];
    __syncthreads();
}

// Returns the sum of table[a c_a, b c_b] over a < b, to all threads. Threads read the table, and one adds in the order
// of the CPU.
__device__ double sum_of_pairs(Shared& s, const float* table, const Byte* codes) {
    for (int place = threadIdx.x; place < kPairs; place += THREADS) {
        int a = 0, first = 0;
        while (place >= first + M - 1 - a) first += M - 1 - a++;
        const int b = a + 1 + place - first;
        s.exchange.terms[place] = table[(size_t)(a * K + codes[a]) * (M * K) + b * K + codes[b]];
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        double sum = 0;
        for (int i = 0; i < kPairs; ++i) sum += s.exchange.terms[i];
        s.number = sum;
    }
    __syncthreads();
    const double sum = s.number;
    __syncthreads();  // it may be written again
    return sum;
}

// Returns the cost of a code in float64, to all threads.
__device__ double cost_of_code(Shared& s, const float* cross, const float* product, float mu, float eps,
                               const Byte* codes) {
    double unary = 0;
    for (int m = 0; m < M; ++m) unary += s.unary[m * K + codes[m]];
    const double plain = unary + 2.0 * sum_of_pairs(s, cross, codes);
    if (PLAIN) return plain;
    const double off = 2.0 * sum_of_pairs(s, product, codes) - eps;
    return plain + double(mu) * off * off;
}

// Brings the sum of this thread's codeword of codebook m up to date. If less than half of the other codewords changed
// since the last visit, only these are exchanged.
__device__ inline void refresh(const Shared& s, const float* table, int m, bool anew, float& sum) {
    const float* column = table + m * K + threadIdx.x;
    const auto row = [&](int b, int word) { return column[(size_t)(b * K + word) * (M * K)]; };
    if (!anew) {
        for (int b = 0; b < M; ++b)
            if (b != m && s.seen[m][b] != s.codes[b]) sum += row(b, s.codes[b]) - row(b, s.seen[m][b]);
        return;
    }
    const int first = m == 0;
    float total = row(first, s.codes[first]);
    for (int b = first + 1; b < M; ++b)
        if (b != m) total += row(b, s.codes[b]);
    sum = total;
}

// Visits the codebooks in turn until the codeword of every codebook is the best one given the others. `quiet` counts
// the codebooks of which this is known.
__device__ void exchange_words(Shared& s, const float* cross, const float* product, float mu, float eps, int max_sweeps,
                               int& side) {
    const int k = threadIdx.x;
    if (k < M) {
        s.codes[k] = s.start[k];
        s.known[k] = false;
    }
    __syncthreads();
    double e = PLAIN ? 0 : 2.0 * sum_of_pairs(s, product, s.codes);
    for (int step = 0, quiet = 0; step < max_sweeps * M && quiet < M; ++step) {
        const int m = step % M, current = s.codes[m];
        int n_changed = 0;
        for (int b = 0; b < M; ++b) n_changed += b != m && s.seen[m][b] != s.codes[b];
        const bool anew = !s.known[m] || 2 * n_changed >= M - 1;
        if (k < K) {
            refresh(s, cross, m, anew, s.exchange.cross[m][k]);
            if (!PLAIN) refresh(s, product, m, anew, s.exchange.product[m][k]);
        }
        float shift = 0;
        if (!PLAIN) {
            __syncthreads();
            shift = float(e - 2.0 * s.exchange.product[m][current] - eps);
        }
        Key key = kNone;
        if (k < K) {
            const float c = s.exchange.cross[m][k];
            float cost = s.unary[m * K + k] + (c + c);
            if (!PLAIN) {
                const float p = s.exchange.product[m][k], q = (p + p) + shift;
                cost += (mu * q) * q;
            }
            key = key_of(cost, k);
            if (k == current) s.exchange.current = cost;
        }
        const Key lowest = lowest_of_block(key, s.of_warps, side);
        const int winner = s.exchange.current == cost_of(lowest) ? current : int(unsigned(lowest));
        if (!PLAIN) e += 2.0 * (double(s.exchange.product[m][winner]) - double(s.exchange.product[m][current]));
        quiet = winner == current ? quiet + 1 : 1;
        if (k < M && k != m) s.seen[m][k] = s.codes[k];
        if (k == m) {
            s.known[m] = true;
            s.codes[m] = Byte(winner);
        }
        __syncthreads();
    }
    bool changed = false;
    for (int m = 0; m < M; ++m) changed |= s.codes[m] != s.start[m];
    // Float32 sums are rounded, so a move may have gained nothing. The costs are compared in float64.
    if (changed &&
        !(cost_of_code(s, cross, product, mu, eps, s.codes) < cost_of_code(s, cross, product, mu, eps, s.start))) {
        __syncthreads();
        if (k < M) s.codes[k] = s.start[k];
    }
    __syncthreads();
}

// With one or two codebooks the code of the lowest cost of all: the start if it has that cost, else the first.
__device__ void find_exactly(Shared& s, const float* cross, const float* product, float mu, float eps, int& side) {
    const int k = threadIdx.x;
    Key key = kNone;
    const auto cost = [&](int j, int k) {
        if (M == 1) return s.unary[k];
        const float c = cross[(size_t)j * M * K + K + k];
        float entry = c + c;
        if (!PLAIN) {
            const float p = product[(size_t)j * M * K + K + k], q = (p + p) - eps;
            entry += (mu * q) * q;
        }
        return (s.unary[K * (M - 1) + k] + entry) + s.unary[j];
    };
    for (int j = 0; j < (M == 1 ? 1 : K) && k < K; ++j) {
        const Key own = key_of(cost(j, k), j * K + k);
        key = own < key ? own : key;
    }
    const Key lowest = lowest_of_block(key, s.of_warps, side);
    const bool stays = cost(M == 1 ? 0 : s.start[0], s.start[M - 1]) == cost_of(lowest);
    const int place = int(unsigned(lowest));
    if (k < M) s.codes[k] = stays ? s.start[k] : Byte(k == M - 1 ? place % K : place / K);
    __syncthreads();
}

// Finds codes (n, M) for costs unary (n, M K), to which `more` (M K,) are added unless they are null. The start is
// chosen by the beam, or given (n, M); a null one is zero for up to two codebooks. Without sweeps the start is the
// answer.
extern "C" __global__ void __launch_bounds__(THREADS)
    search(const float* unary, const float* more, const float* cross, const float* product, float mu, float eps,
           const Byte* start, int by_beam, int max_sweeps, Byte* codes) {
    extern __shared__ __align__(16) unsigned char memory[];
    Shared& s = *reinterpret_cast<Shared*>(memory);
    const long long row = blockIdx.x;
    int side = 0;
    for (int j = threadIdx.x; j < M * K; j += THREADS)
        s.unary[j] = more ? unary[row * M * K + j] + more[j] : unary[row * M * K + j];
    if (threadIdx.x < M) s.start[threadIdx.x] = start ? start[row * M + threadIdx.x] : 0;
    __syncthreads();
    if (by_beam) choose_start(s, cross, side);
    if (max_sweeps) {
        if (M <= 2)
            find_exactly(s, cross, product, mu, eps, side);
        else
            exchange_words(s, cross, product, mu, eps, max_sweeps, side);
    }
    if (threadIdx.x < M) codes[row * M + threadIdx.x] = max_sweeps ? s.codes[threadIdx.x] : s.start[threadIdx.x];
}
