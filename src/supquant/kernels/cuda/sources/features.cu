// What the map to features does with one row at a time: lengths, kernels, probabilities and memberships. A block of
// threads has one row. native/meaning.cpp has the same steps for the CPU.

constexpr float kMostProbability = 1 - 0x1p-20f;
constexpr double kLeastShare = 1e-28;
constexpr double kLowest = -1.7976931348623157e308;

// Returns exp(x) for x <= 0, and 0 below -87, by the operations of native/level/exponential.h, none of them fused.
__device__ inline float exponential(float x) {
    const float kMagic = 0x1.8p23f;
    const float shifted = x * 1.44269504f + kMagic;
    const float n = shifted - kMagic;
    const float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    const float power = __int_as_float((__float_as_int(shifted) << 23) + 0x3f800000);
    return x < -87.0f ? 0.0f : p * power;
}

struct Add {
    __device__ double operator()(double a, double b) const { return a + b; }
};
struct Greater {
    __device__ double operator()(double a, double b) const { return a > b ? a : b; }
};

// Returns the combination of the values of all threads of a block, to all of them.
template <class Combine>
__device__ double combined(double value, Combine combine, double neutral) {
    __shared__ double of_warps[32];
    for (int step = 16; step > 0; step /= 2) value = combine(value, __shfl_xor_sync(0xffffffffu, value, step));
    __syncthreads();  // the last combination has been read
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = value;
    __syncthreads();
    value = threadIdx.x % 32 < blockDim.x / 32 ? of_warps[threadIdx.x % 32] : neutral;
    for (int step = 16; step > 0; step /= 2) value = combine(value, __shfl_xor_sync(0xffffffffu, value, step));
    return value;
}

__device__ inline double squared_length(const float* x, int d) {
    double squares = 0;
    for (int k = threadIdx.x; k < d; k += blockDim.x) squares += double(x[k]) * x[k];
    return combined(squares, Add(), 0.0);
}

__device__ inline double sigmoid(double logit) { return 1 / (1 + exp(-logit)); }

// Divides rows x (n, p) by their lengths and takes the mean off: centred (n, p). The squared lengths (n,) are kept.
// Without a mean rows are only divided, and a null `centred` asks for the lengths alone.
extern "C" __global__ void unit_rows(const float* x, const float* mean, float* centred, double* squares, int p) {
    const long long row = blockIdx.x;
    const float* own = x + row * p;
    const double total = squared_length(own, p);
    if (squares && threadIdx.x == 0) squares[row] = total;
    if (!centred) return;
    const double length = total > 0 ? sqrt(total) : 1;
    for (int k = threadIdx.x; k < p; k += blockDim.x) {
        const float unit = float(own[k] / length);
        centred[row * p + k] = mean ? unit - mean[k] : unit;
    }
}

// Turns products (n, h) with anchors into exp(scale |x - a|^2), given the squared lengths of rows (n,) and anchors
// (h,).
extern "C" __global__ void gaussian(float* values, const double* squares, const float* norms, float scale, int h) {
    const long long row = blockIdx.x;
    const float length = float(squares[row]);
    for (int j = threadIdx.x; j < h; j += blockDim.x) {
        float& value = values[row * h + j];
        const float distance = (value * -2.0f + length) + norms[j];
        value = isinf(length) ? 0.0f : exponential((distance < 0.0f ? 0.0f : distance) * scale);
    }
}

// Turns logits (n, L) without their shifts into probabilities p (n, L), and returns the logarithm of the sum of
// exponentials, or of the probability that a row has no label, as evidence (n,).
extern "C" __global__ void probabilities(const float* logits, const float* shifts, float* p, double* evidence, int L,
                                         int several) {
    const long long row = blockIdx.x;
    const float* own = logits + row * L;
    float* to = p + row * L;
    if (several) {
        double weights = 0;
        for (int j = threadIdx.x; j < L; j += blockDim.x) {
            to[j] = float(sigmoid(own[j] + shifts[j]));
            weights += -log1p(-double(to[j] < kMostProbability ? to[j] : kMostProbability));
        }
        weights = combined(weights, Add(), 0.0);
        if (threadIdx.x == 0) evidence[row] = -weights;
        return;
    }
    double highest = kLowest;
    for (int j = threadIdx.x; j < L; j += blockDim.x) highest = fmax(highest, double(own[j] + shifts[j]));
    highest = combined(highest, Greater(), kLowest);
    double sum = 0;
    for (int j = threadIdx.x; j < L; j += blockDim.x) {
        const double share = exp((own[j] + shifts[j]) - highest);
        to[j] = share < kLeastShare ? 0.0f : float(share);
        sum += share;
    }
    sum = combined(sum, Add(), 0.0);
    for (int j = threadIdx.x; j < L; j += blockDim.x) to[j] = float(to[j] / sum);
    if (threadIdx.x == 0) evidence[row] = highest + log(sum);
}

// Divides kernel values (n, w) by their sums over each clustering, whose last columns `ends` (R,) say, and takes them
// to the power of 3/4, in place. The ratio (n,) of each row is the sum of its memberships, weighted by `ratios` (w,).
extern "C" __global__ void memberships(float* values, const long long* ends, const float* ratios, double* ratio, int w,
                                       int R) {
    const long long row = blockIdx.x;
    float* own = values + row * w;
    double total = 0;
    int first = 0;
    for (int r = 0; r < R; ++r) {
        const int end = int(ends[r]);
        double sum = 0;
        for (int j = first + threadIdx.x; j < end; j += blockDim.x) sum += own[j];
        sum = combined(sum, Add(), 0.0);
        const double divisor = sum > 0 ? sum : 1;
        for (int j = first + threadIdx.x; j < end; j += blockDim.x) {
            const float membership = float(own[j] / divisor), root = sqrtf(membership);
            total += double(membership) * ratios[j];
            own[j] = root * sqrtf(root);
        }
        first = end;
    }
    total = combined(total, Add(), 0.0);
    if (threadIdx.x == 0) ratio[row] = total;
}

// Targets (n, r + f + g) of a search for codes: (1 - u) s, u F and (1 + stretch u) z, times the roots of weights `scale` (r + f + g,).
//
// s is the mean of the vectors of labels, weighted by p (n, L): column c has the labels labels[starts[c]] up to
// labels[starts[c + 1]], each with the factor `share`. u is the probability of no known class, from evidence (n,) and
// ratios (n,). A null p leaves out all but z.
extern "C" __global__ void item_targets(const float* p, const double* evidence, const double* ratio,
                                        const float* likeness, const float* place, const int* starts, const int* labels,
                                        float share, double shift, double of_evidence, double of_ratio, float stretch,
                                        const float* scale, float* targets, int L, int r, int f, int g, int several) {
    const long long row = blockIdx.x;
    float* to = targets + row * (r + f + g);
    float u = 0;
    if (p) {
        if (several)
            u = float(exp(evidence[row]));
        else
            u = float(sigmoid(shift + of_evidence * evidence[row] + of_ratio * (ratio ? ratio[row] : 0.0)));
    }
    for (int j = threadIdx.x; j < r + f + g; j += blockDim.x) {
        float value = 0;
        if (j >= r + f) {
            value = place[row * g + j - r - f] * (1 + stretch * u);
        } else if (p && j < r) {
            float s = 0;
            if (share == 1)
                s = p[row * L + labels[starts[j]]];
            else
                for (int i = starts[j]; i < starts[j + 1]; ++i) s += p[row * L + labels[i]] * share;
            value = (1 - u) * s;
        } else if (p) {
            value = u * likeness[row * f + j - r];
        }
        to[j] = value * scale[j];
    }
}

// What the words of labels leave of positions: targets (n, g) = (place - sum_m codebooks[m, codes[m]]) * scale, with
// codes (n, M) and codebooks (M, K, g).
extern "C" __global__ void left_of_place(const float* place, const unsigned char* codes, const float* codebooks,
                                         const float* scale, float* targets, int M, int K, int g) {
    const long long row = blockIdx.x;
    for (int j = threadIdx.x; j < g; j += blockDim.x) {
        float sum = codebooks[(long long)codes[row * M] * g + j];
        for (int m = 1; m < M; ++m) sum += codebooks[((long long)m * K + codes[row * M + m]) * g + j];
        targets[row * g + j] = (place[row * g + j] - sum) * scale[j];
    }
}

// Writes 1 if one of the numbers x (size,) is not finite.
extern "C" __global__ void find_unusable(const float* x, int* bad, long long size) {
    bool found = false;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < size;
         i += (long long)gridDim.x * blockDim.x)
        found |= !isfinite(x[i]);
    if (found) *bad = 1;
}
