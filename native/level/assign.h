// The search for codes of low cost: exact for one or two codebooks, one codebook at a time for more. AssignProblem has
// the cost.
//
// The order of all float32 operations is fixed and the same as in kernels/reference.py, so every level finds the same
// codes.
#pragma once

#include "kernels.h"
#include "vector.h"

namespace {

using supquant::AssignProblem;

// The search for one row, for three codebooks or more. If kPlain, mu is 0, and products are not summed.
template <bool kPlain>
class RowSearch {
  public:
    RowSearch(const AssignProblem& problem, size_t row)
        : p_(problem),
          M_(problem.n_codebooks),
          K_(problem.n_codewords),
          width_(size_t(M_) * K_),
          unary_(problem.unary + row * width_),
          start_(problem.start + row * M_),
          codes_(problem.codes + row * M_) {
        for (int m = 0; m < M_; ++m) {
            codes_[m] = start_[m];
            sums_[m].known = false;
        }
    }

    void search() {
        descend();
        keep_start_unless_lower();
    }

  private:
    // Returns e = sum_{a != b} product[a c_a, b c_b] of a code.
    double interaction(const uint8_t* codes) const { return 2.0 * sum_of_pairs(p_.product, codes); }

    // Returns the sum of table[a c_a, b c_b] over a < b.
    double sum_of_pairs(const float* table, const uint8_t* codes) const {
        double sum = 0;
        for (int a = 0; a < M_; ++a) {
            const float* row = table + (size_t(a) * K_ + codes[a]) * width_;
            for (int b = a + 1; b < M_; ++b) sum += row[size_t(b) * K_ + codes[b]];
        }
        return sum;
    }

    // Returns the cost of a code in float64.
    double cost(const uint8_t* codes) const {
        double unary = 0;
        for (int m = 0; m < M_; ++m) unary += unary_[size_t(m) * K_ + codes[m]];
        const double plain = unary + 2.0 * sum_of_pairs(p_.cross, codes);
        if constexpr (kPlain) return plain;
        const double off = interaction(codes) - p_.eps;
        return plain + double(p_.mu) * off * off;
    }

    // Goes back to the start unless the float64 cost is lower now. Float32 sums are rounded, so a move may have gained
    // nothing.
    void keep_start_unless_lower() {
        bool changed = false;
        for (int m = 0; m < M_; ++m) changed |= codes_[m] != start_[m];
        if (!changed || cost(codes_) < cost(start_)) return;
        for (int m = 0; m < M_; ++m) codes_[m] = start_[m];
    }

    // Visits the codebooks in turn until the codeword of every codebook is the best one given the others. `quiet`
    // counts the codebooks of which this is known: the last one that changed, and those visited after it.
    void descend() {
        double e = kPlain ? 0 : interaction(codes_);
        int quiet = 0;
        for (int sweep = 0; sweep < p_.max_sweeps; ++sweep)
            for (int m = 0; m < M_; ++m) {
                quiet = improve(m, e) ? 1 : quiet + 1;
                if (quiet == M_) return;
            }
    }

    // Takes the best codeword of codebook m, given those of the other codebooks. Returns whether the codeword changed,
    // and keeps e up to date. The cost of codeword k, up to a constant, is
    //   unary[k] + 2 cross[k] + mu (2 product[k] + shift)^2
    // where cross[k] and product[k] are summed over the other codebooks, and shift is e - eps without codebook m. The
    // last term is left out if mu is 0.
    bool improve(int m, double& e) {
        refresh(m);
        const float* unary = unary_ + size_t(m) * K_;
        const float* cross = sums_[m].cross;
        const float* product = sums_[m].product;
        const int current = codes_[m];
        const float shift = kPlain ? 0 : float(e - 2.0 * product[current] - p_.eps);
        const float mu = p_.mu;
        alignas(64) float costs[supquant::kMaxCodewords];
        Lowest lowest;
        for_lanes(K_, [&](auto lane, int k) {
            using V = decltype(lane);
            const V c = load<V>(cross + k);
            V cost = load<V>(unary + k) + (c + c);
            if constexpr (!kPlain) {
                const V p = load<V>(product + k), q = (p + p) + shift;
                cost += (mu * q) * q;
            }
            store(costs + k, cost);
            lowest.take(cost);
        });
        const float best = lowest.value();
        if (costs[current] == best) return false;
        const int winner = first_lowest(costs, K_, best, current);
        if (winner == current) return false;
        if constexpr (!kPlain) e += 2.0 * (double(product[winner]) - double(product[current]));
        codes_[m] = uint8_t(winner);
        prefetch(m, winner);
        return true;
    }

    // Brings the sums of codebook m up to date. Reading the tables takes most of the time. So if less than half of the
    // other codewords changed since the last visit, only these are exchanged.
    void refresh(int m) {
        Sums& sums = sums_[m];
        int changed[supquant::kMaxCodebooks];
        int n_changed = 0;
        for (int b = 0; b < M_; ++b)
            if (b != m && sums.codes[b] != codes_[b]) changed[n_changed++] = b;
        if (!sums.known || 2 * n_changed >= M_ - 1) {
            add_others(p_.cross, m, sums.cross);
            if constexpr (!kPlain) add_others(p_.product, m, sums.product);
        } else {
            for (int i = 0; i < n_changed; ++i) {
                const int b = changed[i];
                exchange(column(p_.cross, b, sums.codes[b], m), column(p_.cross, b, codes_[b], m), sums.cross);
                if constexpr (!kPlain)
                    exchange(column(p_.product, b, sums.codes[b], m), column(p_.product, b, codes_[b], m),
                             sums.product);
            }
        }
        for (int b = 0; b < M_; ++b) sums.codes[b] = codes_[b];
        sums.known = true;
    }

    // Asks for the row of codeword k of codebook b, which the sums of the other codebooks soon read.
    void prefetch(int b, int k) const {
        const float* row = p_.cross + (size_t(b) * K_ + k) * width_;
        for (size_t j = 0; j < width_; j += 16) __builtin_prefetch(row + j);
    }

    // Returns the row of codeword k of codebook b, cut to the columns of codebook m: (K,).
    const float* column(const float* table, int b, int k, int m) const {
        return table + (size_t(b) * K_ + k) * width_ + size_t(m) * K_;
    }

    // sums[k] += after[k] - before[k]
    void exchange(const float* before, const float* after, float* sums) const {
        for_lanes(K_, [&](auto lane, int k) {
            using V = decltype(lane);
            store(sums + k, V(load<V>(sums + k) + (load<V>(after + k) - load<V>(before + k))));
        });
    }

    // Sums the rows of the current codewords of all codebooks but m: sums[k] = sum_{b != m} table[b c_b, m k].
    void add_others(const float* table, int m, float* sums) const {
        const float* rows[supquant::kMaxCodebooks];
        int count = 0;
        for (int b = 0; b < M_; ++b)
            if (b != m) rows[count++] = column(table, b, codes_[b], m);
        sum_of_rows([&](int b) { return rows[b]; }, count, K_, sums);
    }

    // For each codeword of one codebook, the sums over the codewords of the other codebooks at the last visit.
    struct Sums {
        alignas(64) float cross[supquant::kMaxCodewords];
        alignas(64) float product[supquant::kMaxCodewords];
        uint8_t codes[supquant::kMaxCodebooks];  // the codes at the last visit
        bool known;                              // false before the first visit
    };

    const AssignProblem& p_;
    const int M_, K_;
    const size_t width_;
    const float* unary_;                  // (M, K) of this row
    const uint8_t* start_;                // (M,)
    uint8_t* codes_;                      // (M,)
    Sums sums_[supquant::kMaxCodebooks];  // (M,)
};

// The table has K rows of padded(K) entries. The lowest entries of the rows follow it.
void fold_pair_table(const AssignProblem& p, float* table) {
    const int K = p.n_codewords, stride = supquant::padded(K);
    const size_t width = 2 * size_t(K);
    for (int j = 0; j < K; ++j) {
        const float* cross = p.cross + j * width + K;
        const float* product = p.product + j * width + K;
        float* out = table + size_t(j) * stride;
        Lowest least;
        for_lanes(K, [&](auto lane, int k) {
            using V = decltype(lane);
            const V c = load<V>(cross + k), b = load<V>(product + k), q = (b + b) - p.eps;
            const V entry = (c + c) + (p.mu * q) * q;
            store(out + k, entry);
            least.take(entry);
        });
        for (int k = K; k < stride; ++k) out[k] = __builtin_inff();
        table[size_t(K) * stride + j] = least.value();
    }
}

// Exact search over all pairs for kRows rows of a problem with two codebooks. The plain loop for one row is:
//   for (j = 0; j < K; ++j)
//       for (k = 0; k < K; ++k) cost(j, k) = (unary[1 k] + table[j, k]) + unary[0 j]
// and the pair of least cost wins: the start if its cost is the least, else the first.
//
// Several rows are searched together, so that a piece of the table is loaded once for all of them. The loop keeps only
// the lowest cost of each j; the place of the winner is found afterwards. A j is skipped if none of its pairs can be as
// low as a pair that is known. That pair is the best one of the j with the lowest bound, where the bound of j is
// (lowest unary[1 k] + lowest table[j, k]) + unary[0 j]. Rounding keeps the order of sums, so no cost of j is below its
// bound.
template <int kRows>
void assign_two(const AssignProblem& p, size_t row) {
    const int K = p.n_codewords, stride = supquant::padded(K);
    alignas(64) float second[kRows][supquant::kMaxCodewords];         // unary[1 k], padded with zeros
    Vec totals[kRows][supquant::kMaxCodewords];                       // for each j, the lowest cost in each lane of k
    Vec best[kRows];                                                  // the lowest cost in each lane, over all j
    const float* least_of_table = p.pair_table + size_t(K) * stride;  // (K,) the lowest table[j, k] of each j
    float bounds[kRows][supquant::kMaxCodewords];                     // the bound of each j
    float found[kRows];                                               // the lowest cost of the j with the lowest bound
    for (int r = 0; r < kRows; ++r) {
        const float* first = p.unary + (row + r) * 2 * K;
        const float* unary = first + K;
        Lowest least, least_bound;
        for_lanes(K, [&](auto lane, int k) {
            const auto value = load<decltype(lane)>(unary + k);
            store(second[r] + k, value);
            least.take(value);
        });
        for (int k = K; k < stride; ++k) second[r][k] = 0;
        best[r] = Vec() + __builtin_inff();
        const float lowest = least.value();
        for_lanes(K, [&](auto lane, int j) {
            using V = decltype(lane);
            const V bound = (lowest + load<V>(least_of_table + j)) + load<V>(first + j);
            store(bounds[r] + j, bound);
            least_bound.take(bound);
        });
        const int likely = first_lowest(bounds[r], K, least_bound.value(), 0);
        const float* table = p.pair_table + size_t(likely) * stride;
        Vec low = Vec() + __builtin_inff();
        for (int k = 0; k < stride; k += kLanes) low = lower(load<Vec>(second[r] + k) + load<Vec>(table + k), low);
        found[r] = lowest_lane(low + first[likely]);
    }
    for (int j = 0; j < K; ++j) {
        bool possible = false;
SUPQUANT_UNROLL
        for (int r = 0; r < kRows; ++r) possible |= bounds[r][j] <= found[r];
        if (!possible) {
SUPQUANT_UNROLL
            for (int r = 0; r < kRows; ++r) totals[r][j] = Vec() + __builtin_inff();
            continue;
        }
        const float* table = p.pair_table + size_t(j) * stride;
        Vec low[kRows];
SUPQUANT_UNROLL
        for (int r = 0; r < kRows; ++r) low[r] = Vec() + __builtin_inff();
        for (int k = 0; k < stride; k += kLanes) {
            const Vec t = load<Vec>(table + k);
SUPQUANT_UNROLL
            for (int r = 0; r < kRows; ++r) low[r] = lower(load<Vec>(second[r] + k) + t, low[r]);
        }
SUPQUANT_UNROLL
        for (int r = 0; r < kRows; ++r) {
            totals[r][j] = low[r] + p.unary[(row + r) * 2 * K + j];
            best[r] = lower(totals[r][j], best[r]);
        }
    }
    for (int r = 0; r < kRows; ++r) {
        const float* first = p.unary + (row + r) * 2 * K;
        const uint8_t* start = p.start + (row + r) * 2;
        uint8_t* codes = p.codes + (row + r) * 2;
        codes[0] = start[0];
        codes[1] = start[1];
        const float lowest = lowest_lane(best[r]);
        const auto total = [&](int j, int k) {
            return (second[r][k] + p.pair_table[size_t(j) * stride + k]) + first[j];
        };
        if (total(start[0], start[1]) == lowest) continue;
        int j = 0;
        while (j < K && !lanes_within(totals[r][j], lowest)) ++j;
        for (int k = 0; j < K && k < K; ++k)
            if (total(j, k) == lowest) {
                codes[0] = uint8_t(j);
                codes[1] = uint8_t(k);
                break;
            }
    }
}

// One codebook: the codeword of the lowest unary cost, the start among equal ones, else the first.
void assign_one(const AssignProblem& p, size_t row) {
    const int K = p.n_codewords;
    const float* unary = p.unary + row * K;
    Lowest lowest;
    for_lanes(K, [&](auto lane, int k) { lowest.take(load<decltype(lane)>(unary + k)); });
    const int current = p.start[row];
    const float best = lowest.value();
    p.codes[row] = uint8_t(unary[current] == best ? current : first_lowest(unary, K, best, current));
}

void assign(const AssignProblem& p, size_t begin, size_t end) {
    if (p.n_codebooks == 1) {
        for (size_t i = begin; i < end; ++i) assign_one(p, i);
    } else if (p.n_codebooks == 2) {
        size_t i = begin;
        for (; i + 4 <= end; i += 4) assign_two<4>(p, i);
        for (; i < end; ++i) assign_two<1>(p, i);
    } else {
        for (size_t i = begin; i < end; ++i) {
            if (p.mu == 0)
                RowSearch<true>(p, i).search();
            else
                RowSearch<false>(p, i).search();
        }
    }
}

}  // namespace
