// Products of rows with the rows of a matrix, in the order of additions of the CPU, so that both give the same bits.
//
// The plain loop for one product is that of native/level/products.h:
//   float sum = 0;
//   for (first = 0; first < d; first += kDepth) {
//       float part = 0;
//       for (k = first; k < min(first + kDepth, d); ++k) part = fma(x[k], y[k], part);
//       sum = first == 0 ? part : sum + part;
//   }
// A tile of 128 rows and 128 columns belongs to a block of 256 threads, and a square of 8 by 8 of its sums to a thread.
// No sum is divided between threads.

constexpr int kDepth = 256;  // columns whose products are added up before their sum is added to that of other columns
constexpr int kTile = 128;   // rows and columns of a tile
constexpr int kStep = 8;     // columns of x that are in shared memory at a time; a divisor of kDepth
constexpr int kPadding = 4;  // keeps the rows of a transposed tile in different banks

__device__ inline float4 load_four(const float* row, int k, int d, bool aligned) {
    if (aligned && k + 3 < d) return *reinterpret_cast<const float4*>(row + k);
    return {k < d ? row[k] : 0.0f, k + 1 < d ? row[k + 1] : 0.0f, k + 2 < d ? row[k + 2] : 0.0f,
            k + 3 < d ? row[k + 3] : 0.0f};
}

// sums (n_rows, n) = x (n_rows, d) y, whose entry (k, j) is at y[k * stride + j]. y is filled up with zeros to `stride`
// columns, a multiple of kTile, and to a multiple of kStep rows.
extern "C" __global__ void __launch_bounds__(256, 2)
    products(const float* x, const float* y, float* sums, long long n_rows, int n, int d, int stride) {
    __shared__ __align__(16) float xs[2][kStep][kTile + kPadding];
    __shared__ __align__(16) float ys[2][kStep][kTile];
    const int t = threadIdx.x;
    const long long top = (long long)blockIdx.y * kTile;
    const int left = blockIdx.x * kTile;
    const bool aligned = d % 4 == 0;
    const int x_row = t / 2, x_k = t % 2 * 4;  // of the four numbers of x that this thread loads
    const int y_k = t / 32, y_column = t % 32 * 4;
    const int down = t / 16 * 4, across = t % 16 * 4;  // of the sums of this thread: 4 by 4 in each quarter of the tile
    // Rows after the last one read the last one, and their sums are not kept.
    const float* x_from = x + min(top + x_row, n_rows - 1) * d;
    const float* y_from = y + (long long)y_k * stride + left + y_column;
    float4 next_x, next_y;

    const auto fetch = [&](int k) {
        next_x = load_four(x_from, k + x_k, d, aligned);
        next_y = *reinterpret_cast<const float4*>(y_from);
        y_from += kStep * stride;
    };
    const auto place = [&](int side) {
        xs[side][x_k][x_row] = next_x.x;
        xs[side][x_k + 1][x_row] = next_x.y;
        xs[side][x_k + 2][x_row] = next_x.z;
        xs[side][x_k + 3][x_row] = next_x.w;
        *reinterpret_cast<float4*>(&ys[side][y_k][y_column]) = next_y;
    };

    float part[8][8];
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j) part[i][j] = 0;

    fetch(0);
    place(0);
    __syncthreads();
    for (int k = 0, side = 0; k < d; k += kStep, side = 1 - side) {
        const bool more = k + kStep < d;
        if (more) fetch(k + kStep);
#pragma unroll
        for (int step = 0; step < kStep; ++step) {
            float a[8], b[8];
            *reinterpret_cast<float4*>(a) = *reinterpret_cast<const float4*>(&xs[side][step][down]);
            *reinterpret_cast<float4*>(a + 4) = *reinterpret_cast<const float4*>(&xs[side][step][down + 64]);
            *reinterpret_cast<float4*>(b) = *reinterpret_cast<const float4*>(&ys[side][step][across]);
            *reinterpret_cast<float4*>(b + 4) = *reinterpret_cast<const float4*>(&ys[side][step][across + 64]);
#pragma unroll
            for (int i = 0; i < 8; ++i)
#pragma unroll
                for (int j = 0; j < 8; ++j) part[i][j] = fmaf(a[i], b[j], part[i][j]);
        }
        if (more) place(1 - side);
        if (!more || (k + kStep) % kDepth == 0) {
            const bool first = k + kStep <= kDepth;
            float* to = sums + (top + down) * n + left + across;
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                if (top + down + i % 4 + i / 4 * 64 < n_rows) {
#pragma unroll
                    for (int j = 0; j < 8; ++j)
                        if (left + across + j % 4 + j / 4 * 64 < n) {
                            float& sum = to[j % 4 + j / 4 * 64];
                            sum = first ? part[i][j] : sum + part[i][j];
                        }
                }
#pragma unroll
                for (int j = 0; j < 8; ++j) part[i][j] = 0;
                to += i == 3 ? 61 * n : n;
            }
        }
        __syncthreads();
    }
}
