// The first keys of many: the k lowest of each line, in order. A block of 1024 threads has one line.

typedef unsigned long long Key;
typedef unsigned int Word;
typedef long long Row;

constexpr int kMost = 2048;  // the largest k
constexpr Key kNone = ~0ull;

// For keys (q, room), of which the first counts[i] of line i count: the k lowest, in order, as found (q, k), filled up
// with kNone; and the last one of them as bounds (q,), kNone if there are fewer. Keys of a line are distinct.
extern "C" __global__ void __launch_bounds__(1024)
    first_keys(const Key* keys, const Word* counts, Word room, int k, Key* found, Key* bounds) {
    __shared__ Word histogram[256];
    __shared__ Key prefix, lowest[kMost];
    __shared__ Word left, n_lowest;
    const int t = threadIdx.x;
    const Row line = blockIdx.x;
    const Key* own = keys + line * room;
    const Word count = counts[line] < room ? counts[line] : room;
    if (t == 0) {
        prefix = 0;
        left = k;
        n_lowest = 0;
    }
    for (int i = t; i < kMost; i += blockDim.x) lowest[i] = kNone;
    __syncthreads();
    // The k-th lowest key, one byte after the other: `prefix` has the bytes so far, and it is the left-th of those that
    // begin so.
    if (count > (Word)k) {
        for (int shift = 56; shift >= 0; shift -= 8) {
            if (t < 256) histogram[t] = 0;
            __syncthreads();
            for (Word i = t; i < count; i += blockDim.x) {
                const Key key = own[i];
                if (shift == 56 || key >> (shift + 8) == prefix) atomicAdd(&histogram[key >> shift & 255], 1u);
            }
            __syncthreads();
            if (t == 0) {
                int byte = 0;
                while (histogram[byte] < left) left -= histogram[byte++];
                prefix = prefix << 8 | byte;
            }
            __syncthreads();
        }
    } else if (t == 0) {
        prefix = kNone;
    }
    __syncthreads();
    const Key last = prefix;
    for (Word i = t; i < count; i += blockDim.x)
        if (own[i] <= last) lowest[atomicAdd(&n_lowest, 1u)] = own[i];
    __syncthreads();
    // Bitonic sort of as many places as there are keys, rounded up to a power of two.
    int size = 1;
    while (size < k) size *= 2;
    for (int width = 2; width <= size; width *= 2)
        for (int step = width / 2; step > 0; step /= 2) {
            for (int i = t; i < size; i += blockDim.x) {
                const int other = i ^ step;
                if (other > i) {
                    const Key a = lowest[i], b = lowest[other];
                    if ((a > b) == ((i & width) == 0)) {
                        lowest[i] = b;
                        lowest[other] = a;
                    }
                }
            }
            __syncthreads();
        }
    for (int i = t; i < k; i += blockDim.x) found[line * k + i] = lowest[i];
    if (t == 0) bounds[line] = lowest[k - 1];
}
