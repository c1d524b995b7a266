// Prints a digest of what every kernel of every level that runs here answers to the same numbers, one per line:
//   level kernel digest
// With SUPQUANT_ONLY_PORTABLE there is one level, which every machine has.
// test_elsewhere.py compiles it for other machines. It needs no C++ library: zig would first have to compile one for each machine.
#include <stdio.h>
#include <stdlib.h>

#include <initializer_list>

#include "kernels.h"
#include "system.h"

namespace supquant {
extern const KernelTable kernels_portable, kernels_neon, kernels_avx2, kernels_avx512bw, kernels_avx512;
}  // namespace supquant

namespace {

using namespace supquant;

uint64_t state = 1;
uint64_t draw() {  // xorshift
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

// Arrays of the same numbers everywhere. They are never freed.
template <class Number>
Number* zeros(size_t count) {
    return static_cast<Number*>(calloc(count, sizeof(Number)));
}
template <class Number>
Number* whole(size_t count, uint64_t below) {
    Number* numbers = zeros<Number>(count);
    for (size_t i = 0; i < count; ++i) numbers[i] = Number(draw() % below);
    return numbers;
}
template <class Number>
Number* real(size_t count, double low, double high) {
    Number* numbers = zeros<Number>(count);
    for (size_t i = 0; i < count; ++i) numbers[i] = Number(low + (high - low) * double(draw() >> 40) / (1 << 24));
    return numbers;
}
float* symmetric(size_t width) {
    float* matrix = real<float>(width * width, -1, 1);
    for (size_t i = 0; i < width; ++i)
        for (size_t j = 0; j < i; ++j) matrix[i * width + j] = matrix[j * width + i];
    return matrix;
}

// FNV-1a of what a kernel wrote. No destructor prints it: unwinding would need the C++ library.
class Digest {
  public:
    Digest(const char* level, const char* kernel) : level_(level), kernel_(kernel) {}
    void print() const { printf("%s %s %016llx\n", level_, kernel_, static_cast<unsigned long long>(value_)); }
    template <class Number>
    void add(const Number* numbers, size_t count) {
        const auto* bytes = reinterpret_cast<const unsigned char*>(numbers);
        for (size_t i = 0; i < count * sizeof(Number); ++i) value_ = (value_ ^ bytes[i]) * 1099511628211u;
    }

  private:
    const char *level_, *kernel_;
    uint64_t value_ = 14695981039346656037u;
};

// Sizes with tails: neither rows nor columns are whole vectors.
constexpr size_t kRows = 131, kColumns = 53;
constexpr int kSizes[][2] = {{1, 255}, {2, 256}, {2, 17}, {3, 37}, {8, 16}};  // M and K

void assignments(const KernelTable& kernels) {
    Digest fold(kernels.name, "fold_pair_table"), assign(kernels.name, "assign"), beam(kernels.name, "beam");
    for (const auto [M, K] : kSizes) {
        const size_t width = size_t(M) * K;
        const float *unary = real<float>(kRows * width, -1, 1), *cross = symmetric(width), *product = symmetric(width);
        const uint8_t* start = whole<uint8_t>(kRows * M, K);
        uint8_t* codes = zeros<uint8_t>(kRows * M);
        float* pairs = zeros<float>(size_t(K) * (padded(K) + 1));
        AssignProblem problem{unary, cross, product, nullptr, start, codes, M, K, 0.5f, 0.25f, 20};
        if (M == 2) {
            kernels.fold_pair_table(problem, pairs);
            fold.add(pairs, size_t(K) * (padded(K) + 1));
            problem.pair_table = pairs;
        }
        kernels.assign(problem, 0, kRows);
        assign.add(codes, kRows * M);
        for (const int beam_width : {1, 5, 64}) {
            kernels.beam(unary, cross, M, K, beam_width, 0, kRows, codes);
            beam.add(codes, kRows * M);
        }
    }
    for (const Digest& digest : {fold, assign, beam}) digest.print();
}

void sums(const KernelTable& kernels) {
    Digest code_sums(kernels.name, "code_sums"), pair_block(kernels.name, "pair_block"),
        interaction(kernels.name, "interaction"), table_sums(kernels.name, "table_sums"),
        decode_float(kernels.name, "decode_float"), decode_double(kernels.name, "decode_double");
    for (const auto [M, K] : kSizes) {
        const size_t width = size_t(M) * K;
        const uint8_t* codes = whole<uint8_t>(kRows * M, K);
        uint32_t *rows = zeros<uint32_t>(kRows), *starts = zeros<uint32_t>(K + 1);
        for (int k = 0, next = 0; k < K; ++k) {
            for (size_t i = 0; i < kRows; ++i)
                if (codes[i * M] == k) rows[next++] = uint32_t(i);
            starts[k + 1] = uint32_t(next);
        }
        double* of_codes = real<double>(K * kColumns, -1, 1);
        kernels.code_sums(rows, starts, real<float>(kRows * kSumColumns, -1, 1), K, kColumns, kColumns, of_codes);
        code_sums.add(of_codes, K * kColumns);

        double *block = zeros<double>(K * K), *e = zeros<double>(kRows);
        kernels.pair_block(codes, real<double>(kRows, -1, 1), kRows, M, 0, M - 1, K, K, block);
        pair_block.add(block, K * K);
        double* gram = zeros<double>(width * width);
        const float* symmetric_gram = symmetric(width);
        for (size_t i = 0; i < width * width; ++i) gram[i] = symmetric_gram[i];
        uint64_t* first = zeros<uint64_t>(M + 1);
        for (int m = 0; m <= M; ++m) first[m] = size_t(m) * K;
        kernels.interaction(codes, gram, M, first, 0, kRows, e);
        interaction.add(e, kRows);

        float* out = zeros<float>(kRows * kColumns);
        kernels.table_sums(codes, symmetric_gram, M, K, 0, kRows, out);
        table_sums.add(out, kRows);
        kernels.decode_float(codes, real<float>(width * kColumns, -1, 1), M, K, kColumns, 0, kRows, out);
        decode_float.add(out, kRows * kColumns);
        double* doubles = zeros<double>(kRows * kColumns);
        kernels.decode_double(codes, real<double>(width * kColumns, -1, 1), M, K, kColumns, 0, kRows, doubles);
        decode_double.add(doubles, kRows * kColumns);
    }
    for (const Digest& digest : {code_sums, pair_block, interaction, table_sums, decode_float, decode_double}) digest.print();
}

void scans(const KernelTable& kernels) {
    Digest by_tables(kernels.name, "mark_by_tables"), list_marked(kernels.name, "list_marked"),
        row_sums(kernels.name, "row_sums"), by_bits(kernels.name, "mark_by_bits"), mark_many(kernels.name, "mark_many"),
        block_sums(kernels.name, "block_sums");
    constexpr int kBlocks = 20, kQueries = 64;
    for (const auto [M, K] : kSizes) {
        const size_t entries = size_t(M) * kMaxCodewords;
        const uint8_t* codes = whole<uint8_t>(size_t(kBlocks) * M * kBlockRows, K);
        const uint32_t* numbers = whole<uint32_t>(kScanBlocks, kBlocks);
        const BlockList blocks{codes, numbers, kScanBlocks, M};
        const uint8_t *table = whole<uint8_t>(entries, 200), *query = whole<uint8_t>(M, 256);
        uint64_t* marks = zeros<uint64_t>(kScanBlocks);
        uint32_t* rows = zeros<uint32_t>(kListedRows);
        for (const bool is_coarse : {false, true})
            for (const int limit : {0, 40, 90, 254}) {
                kernels.mark_by_tables(blocks, table, is_coarse, uint8_t(limit), marks);
                by_tables.add(marks, kScanBlocks);
            }
        for (const int limit : {0, M, 3 * M, 4 * M}) {
            kernels.mark_by_bits(blocks, query, uint8_t(limit), marks);
            by_bits.add(marks, kScanBlocks);
        }
        const size_t count = kernels.list_marked(blocks, marks, rows);
        list_marked.add(&count, 1);
        list_marked.add(rows, count);
        const float* floats = real<float>(size_t(M) * K, -1, 1);
        float* sums = zeros<float>(kScanBlocks * kBlockRows);
        kernels.row_sums(blocks, rows, count, floats, K, sums);
        row_sums.add(sums, count);
        kernels.block_sums(blocks, floats, K, -0.25f, sums, marks);
        block_sums.add(sums, kScanBlocks * kBlockRows);
        block_sums.add(marks, kScanBlocks);

        // Levels differ in how many queries they take together.
        const uint8_t *tables = whole<uint8_t>(entries * kQueries, 120), *limits = whole<uint8_t>(kQueries, 150);
        bool* passed = zeros<bool>(size_t(kQueries) * kBlocks * kBlockRows);
        const size_t together = size_t(kernels.query_lanes);
        uint8_t *interleaved = zeros<uint8_t>(entries * together), *own = zeros<uint8_t>(together);
        uint32_t* found = zeros<uint32_t>(kScanBlocks * kBlockRows + 1);
        uint64_t* lanes = zeros<uint64_t>(kScanBlocks * kBlockRows + 1);
        for (size_t first = 0; first < kQueries; first += together) {
            for (size_t j = 0; j < together; ++j) {
                own[j] = limits[first + j];
                for (size_t i = 0; i < entries; ++i) interleaved[i * together + j] = tables[i * kQueries + first + j];
            }
            const size_t n = kernels.mark_many(blocks, interleaved, own, found, lanes);
            for (size_t i = 0; i < n; ++i)
                for (size_t j = 0; j < together; ++j)
                    passed[(first + j) * kBlocks * kBlockRows + found[i]] |= (lanes[i] >> j & 1) != 0;
        }
        mark_many.add(passed, size_t(kQueries) * kBlocks * kBlockRows);
    }
    for (const Digest& digest : {by_tables, list_marked, row_sums, by_bits, mark_many, block_sums}) digest.print();
}

void matrices(const KernelTable& kernels) {
    Digest products(kernels.name, "products"), gaussian(kernels.name, "gaussian"),
        exponentials(kernels.name, "counted_exponentials"), byte_dots(kernels.name, "byte_dots"),
        half_dots(kernels.name, "half_dots"), count_products(kernels.name, "count_products"),
        count_slopes(kernels.name, "count_slopes");
    constexpr size_t kDeep = 300, kWide = 80;  // more than one step of depth, more than one panel
    constexpr size_t kLabels = 7;
    // Halves of all magnitudes, also subnormal ones: below infinity, and either sign.
    uint16_t* halves = whole<uint16_t>(kDeep * kWide, 0x7c00);
    for (size_t i = 0; i < kDeep * kWide; i += 3) halves[i] |= 0x8000;
    const float *x = real<float>(kRows * kDeep, -1, 1), *floats = real<float>(kDeep * kWide, -1, 1);
    float* out = zeros<float>(kRows * kWide);
    for (const Packed& y : {Packed{floats, nullptr, kWide - 3, kDeep}, Packed{nullptr, halves, kWide - 3, kDeep}}) {
        kernels.products(x, kRows, y, 0, panels_of(y.n), out, kWide);
        products.add(out, kRows * kWide);
    }
    float *values = real<float>(kWide, -3, 90), *exponents = real<float>(kDeep / 16 * 16, -30, 1);
    kernels.gaussian(values, real<float>(kWide, 0, 200), kWide, 1.5f, -0.75f);
    gaussian.add(values, kWide);
    constexpr size_t d = kDeep / 16 * 16;
    uint16_t* counts = zeros<uint16_t>(d);
    kernels.counted_exponentials(exponents, d, counts);
    exponentials.add(counts, d);

    const auto* bytes = reinterpret_cast<const int8_t*>(whole<uint8_t>(kRows * kDeep, 256));
    uint16_t* rows_of_halves = whole<uint16_t>(kRows * kDeep, 0x7c00);
    const int64_t *rows = whole<int64_t>(kRows, kRows), *asking = whole<int64_t>(kRows, 5);
    for (const size_t t : {1, 2})
        for (const size_t depth : {size_t(48), kDeep}) {
            const RowDots dots{rows, asking, real<float>(5 * t * depth, -1, 1), t, depth};
            kernels.byte_dots(bytes, dots, 0, kRows, out);
            byte_dots.add(out, kRows * t);
            kernels.half_dots(rows_of_halves, dots, 0, kRows, out);
            half_dots.add(out, kRows * t);
        }

    const uint16_t* features = whole<uint16_t>(kRows * d, (1 << 15) + 1);
    const float *weights = real<float>(kLabels * d, -1e-5, 1e-5), *targets = real<float>(kRows * kLabels, 0, 1);
    kernels.count_products(features, kRows, d, weights, kLabels, out, kLabels);
    count_products.add(out, kRows * kLabels);
    for (const bool several : {false, true}) {
        float* slopes = zeros<float>(kLabels * d);
        kernels.count_slopes(features, kRows, d, weights, targets, kLabels, several, slopes);
        count_slopes.add(slopes, kLabels * d);
    }
    for (const Digest& digest : {products, gaussian, exponentials, byte_dots, half_dots, count_products, count_slopes}) digest.print();
}

void trees(const KernelTable& kernels) {
    Digest tree_sums(kernels.name, "tree_sums"), best_split(kernels.name, "best_split");
    constexpr size_t kGroups = 3, kTrees = 4, kDepth = 3, kNodes = (1 << kDepth) - 1;
    constexpr size_t kNodesOfAll = kGroups * kTrees * kNodes, kLeavesOfAll = kGroups * kTrees * (kNodes + 1);
    const TreeEnsemble ensemble{whole<int32_t>(kNodesOfAll, kColumns), real<float>(kNodesOfAll, -1, 1),
                                real<float>(kLeavesOfAll, -1, 1), kGroups, kTrees, kDepth, kColumns};
    float* sums = zeros<float>(kRows * kGroups);
    kernels.tree_sums(ensemble, real<float>(kRows * kColumns, -1, 1), 0, kRows, sums);
    tree_sums.add(sums, kRows * kGroups);
    int32_t* features = zeros<int32_t>(kColumns);
    for (size_t j = 0; j < kColumns; ++j) features[j] = int32_t(j);
    const SplitProblem problem{whole<uint8_t>(kColumns * kRows, 30), kRows, whole<uint32_t>(kRows, kRows),
                               real<double>(kRows, -1, 1), kRows};
    Split best;
    kernels.best_split(problem, features, 0, kColumns, &best);
    best_split.add(&best.score, 1);
    best_split.add(&best.place, 1);
    best_split.add(&best.bin, 1);
    for (const Digest& digest : {tree_sums, best_split}) digest.print();
}

void answers(const KernelTable& kernels) {
    state = 88172645463325252u;
    assignments(kernels);
    sums(kernels);
    scans(kernels);
    matrices(kernels);
    trees(kernels);
}

}  // namespace

int main() {
    answers(kernels_portable);
#if defined(SUPQUANT_ONLY_PORTABLE)
#elif defined(__aarch64__)
    answers(kernels_neon);
#elif defined(__x86_64__)
    const Processor here;
    if (here.avx2) answers(kernels_avx2);
    if (here.avx512bw) answers(kernels_avx512bw);
    if (here.avx512vbmi) {
        KernelTable whole = kernels_avx512bw;
        whole.name = kernels_avx512.name;
        whole.mark_by_tables = kernels_avx512.mark_by_tables;
        answers(whole);
    }
#endif
}
