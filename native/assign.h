// Assignment of codes: the codewords of one codebook at a time, or exactly over pairs of codebooks.
//
// The order of every float32 operation is fixed and the same as in kernels/reference.py, so every instruction set
// gives the same codes. Included only by level.cpp.
#pragma once

#include "kernels.h"
#include "vector.h"

namespace {

using supquant::AssignProblem;

// One row of the problem while its codes are searched.
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
        if (p_.pairwise) {
            for (int round = 0; round < p_.max_sweeps; ++round) {
                descend();
                if (!sweep_pairs()) break;
            }
        } else {
            descend();
        }
        keep_start_unless_lower();
    }

  private:
    // e = sum_{a != b} product[a c_a, b c_b]
    double interaction(const uint8_t* codes) const { return 2.0 * sum_of_pairs(p_.product, codes); }

    double sum_of_pairs(const float* table, const uint8_t* codes) const {
        double sum = 0;
        for (int a = 0; a < M_; ++a) {
            const float* row = table + (size_t(a) * K_ + codes[a]) * width_;
            for (int b = a + 1; b < M_; ++b) sum += row[size_t(b) * K_ + codes[b]];
        }
        return sum;
    }

    double cost(const uint8_t* codes) const {
        double unary = 0;
        for (int m = 0; m < M_; ++m) unary += unary_[size_t(m) * K_ + codes[m]];
        const double off = interaction(codes) - p_.eps;
        return unary + 2.0 * sum_of_pairs(p_.cross, codes) + double(p_.mu) * off * off;
    }

    // Rounding of float32 sums may have let a move through that gains nothing: compare the ends in float64.
    void keep_start_unless_lower() {
        bool changed = false;
        for (int m = 0; m < M_; ++m) changed |= codes_[m] != start_[m];
        if (!changed || cost(codes_) < cost(start_)) return;
        for (int m = 0; m < M_; ++m) codes_[m] = start_[m];
    }

    // Visits the codebooks in turn until every one has been seen since the last change.
    void descend() {
        double e = interaction(codes_);
        int quiet = 0;
        for (int sweep = 0; sweep < p_.max_sweeps; ++sweep)
            for (int m = 0; m < M_; ++m) {
                quiet = improve(m, e) ? 1 : quiet + 1;
                if (quiet == M_) return;
            }
    }

    // The best codeword of codebook m given the others; e is kept up to date.
    bool improve(int m, double& e) {
        refresh(m);
        const float* unary = unary_ + size_t(m) * K_;
        const float* cross = sums_[m].cross;
        const float* product = sums_[m].product;
        const int current = codes_[m];
        const float shift = float(e - 2.0 * product[current] - p_.eps);
        const float mu = p_.mu;
        alignas(64) float costs[supquant::kMaxCodewords];
        Lowest lowest;
        for_lanes(K_, [&](auto lane, int k) {
            using V = decltype(lane);
            const V c = load<V>(cross + k), p = load<V>(product + k);
            const V q = (p + p) + shift;
            const V cost = (load<V>(unary + k) + (c + c)) + (mu * q) * q;
            store(costs + k, cost);
            lowest.take(cost);
        });
        const float best = lowest.value();
        if (costs[current] == best) return false;
        const int winner = first_equal(costs, K_, best, current);
        if (winner == current) return false;
        e += 2.0 * (double(product[winner]) - double(product[current]));
        codes_[m] = uint8_t(winner);
        return true;
    }

    // Brings the sums of codebook m up to date: what the other codebooks' codewords add to each of its own. Memory
    // traffic is what the search costs, so where few codewords changed since the last visit only those are exchanged.
    void refresh(int m) {
        Sums& sums = sums_[m];
        int changed[supquant::kMaxCodebooks];
        int n_changed = 0;
        for (int b = 0; b < M_; ++b)
            if (b != m && sums.codes[b] != codes_[b]) changed[n_changed++] = b;
        if (!sums.known || 2 * n_changed >= M_ - 1) {
            add_others(m, m, sums.cross, sums.product);
        } else {
            for (int i = 0; i < n_changed; ++i) {
                const int b = changed[i];
                exchange(column(p_.cross, b, sums.codes[b], m), column(p_.cross, b, codes_[b], m), sums.cross);
                exchange(column(p_.product, b, sums.codes[b], m), column(p_.product, b, codes_[b], m), sums.product);
            }
        }
        for (int b = 0; b < M_; ++b) sums.codes[b] = codes_[b];
        sums.known = true;
    }

    // Row k of codebook b, cut to the columns of codebook m.
    const float* column(const float* table, int b, int k, int m) const {
        return table + (size_t(b) * K_ + k) * width_ + size_t(m) * K_;
    }

    void exchange(const float* before, const float* after, float* sums) const {
        for_lanes(K_, [&](auto lane, int k) {
            using V = decltype(lane);
            store(sums + k, V(load<V>(sums + k) + (load<V>(after + k) - load<V>(before + k))));
        });
    }

    // Sums the columns of m over the current codewords of all codebooks but m and skip.
    void add_others(int m, int skip, float* cross, float* product) const {
        add_rows_of(p_.cross, m, skip, cross);
        add_rows_of(p_.product, m, skip, product);
    }

    // The rows lie a power of two apart and compete for the same few cache sets, so each is read a run of whole cache
    // lines at a time while the sums stay in registers.
    void add_rows_of(const float* table, int m, int skip, float* sums) const {
        const float* rows[supquant::kMaxCodebooks];
        int count = 0;
        for (int b = 0; b < M_; ++b)
            if (b != m && b != skip) rows[count++] = column(table, b, codes_[b], m);
        constexpr int kRun = kLanes == 1 ? 8 : 64 / kLanes;
        int k = 0;
        for (; k + kRun * kLanes <= K_; k += kRun * kLanes) {
            Vec run[kRun];
            for (int u = 0; u < kRun; ++u) run[u] = load<Vec>(rows[0] + k + u * kLanes);
            for (int i = 1; i < count; ++i)
                for (int u = 0; u < kRun; ++u) run[u] += load<Vec>(rows[i] + k + u * kLanes);
            for (int u = 0; u < kRun; ++u) store(sums + k + u * kLanes, run[u]);
        }
        for (; k < K_; ++k) {
            float sum = rows[0][k];
            for (int i = 1; i < count; ++i) sum += rows[i][k];
            sums[k] = sum;
        }
    }

    // One exact move over every pair of codebooks.
    bool sweep_pairs() {
        double e = interaction(codes_);
        bool changed = false;
        for (int a = 0; a < M_; ++a)
            for (int b = a + 1; b < M_; ++b) changed |= improve_pair(a, b, e);
        return changed;
    }

    // All K*K codewords of codebooks a and b given the others; e is kept up to date.
    bool improve_pair(int a, int b, double& e) {
        alignas(64) float unary_a[supquant::kMaxCodewords], product_a[supquant::kMaxCodewords];
        alignas(64) float unary_b[supquant::kMaxCodewords], product_b[supquant::kMaxCodewords];
        one_of_pair(a, b, unary_a, product_a);
        one_of_pair(b, a, unary_b, product_b);
        const float* cross = p_.cross + size_t(a) * K_ * width_ + size_t(b) * K_;      // (K, K), rows width_ apart
        const float* product = p_.product + size_t(a) * K_ * width_ + size_t(b) * K_;
        const int current_a = codes_[a], current_b = codes_[b];

        const auto e_of_pair = [&](int j, int k) {
            return double(product_a[j]) + double(product_b[k]) + 2.0 * product[j * width_ + k];
        };
        const double e_rest = e - e_of_pair(current_a, current_b);
        const float shift = float(e_rest - p_.eps);
        const float mu = p_.mu;

        alignas(64) float costs[supquant::kMaxCodewords] = {};
        const auto costs_of = [&](int j) {   // of all k; returns the lowest
            const float base = shift + product_a[j];
            const float* c_row = cross + j * width_;
            const float* p_row = product + j * width_;
            Lowest lowest;
            for_lanes(K_, [&](auto lane, int k) {
                using V = decltype(lane);
                const V c = load<V>(c_row + k), p = load<V>(p_row + k);
                const V q = (load<V>(product_b + k) + (p + p)) + base;
                const V cost = ((load<V>(unary_b + k) + (c + c)) + (mu * q) * q) + unary_a[j];
                store(costs + k, cost);
                lowest.take(cost);
            });
            return lowest.value();
        };

        costs_of(current_a);
        const float cost_now = costs[current_b];
        float best = __builtin_inff();
        int winner_a = current_a;
        for (int j = 0; j < K_; ++j) {
            const float lowest = costs_of(j);
            if (lowest < best) best = lowest, winner_a = j;
        }
        if (!(best < cost_now)) return false;
        costs_of(winner_a);
        const int winner_b = first_equal(costs, K_, best, current_b);
        e = e_rest + e_of_pair(winner_a, winner_b);
        codes_[a] = uint8_t(winner_a);
        codes_[b] = uint8_t(winner_b);
        return true;
    }

    // Costs and products of codebook m with all but itself and its partner.
    void one_of_pair(int m, int partner, float* unary, float* product) const {
        add_others(m, partner, unary, product);
        const float* given = unary_ + size_t(m) * K_;
        for_lanes(K_, [&](auto lane, int k) {
            using V = decltype(lane);
            const V c = load<V>(unary + k), p = load<V>(product + k);
            store(unary + k, V(load<V>(given + k) + (c + c)));
            store(product + k, V(p + p));
        });
    }

    // For each codeword of one codebook, the sums over the others' codewords when it was last visited.
    struct Sums {
        alignas(64) float cross[supquant::kMaxCodewords];
        alignas(64) float product[supquant::kMaxCodewords];
        uint8_t codes[supquant::kMaxCodebooks];
        bool known;
    };

    const AssignProblem& p_;
    const int M_, K_;
    const size_t width_;
    const float* unary_;     // (M, K) of this row
    const uint8_t* start_;   // (M,)
    uint8_t* codes_;         // (M,)
    Sums sums_[supquant::kMaxCodebooks];
};

// The codebooks in turn, each codeword the best given those already chosen, without the mu term.
void greedy(const float* unary, const float* cross, int M, int K, size_t begin, size_t end, uint8_t* codes) {
    const size_t width = size_t(M) * K;
    alignas(64) float costs[supquant::kMaxCodewords];
    for (size_t i = begin; i < end; ++i) {
        const float* chosen[supquant::kMaxCodebooks];   // rows of cross
        for (int m = 0; m < M; ++m) {
            const float* own = unary + i * width + size_t(m) * K;
            Lowest lowest;
            for_lanes(K, [&](auto lane, int k) {
                using V = decltype(lane);
                V sum = V();
                for (int b = 0; b < m; ++b) sum += load<V>(chosen[b] + size_t(m) * K + k);
                const V cost = load<V>(own + k) + (sum + sum);
                store(costs + k, cost);
                lowest.take(cost);
            });
            const int winner = first_equal(costs, K, lowest.value(), 0);
            codes[i * M + m] = uint8_t(winner);
            chosen[m] = cross + (size_t(m) * K + winner) * width;
        }
    }
}

void fold_pair_table(const AssignProblem& p, float* table) {
    const int K = p.n_codewords, stride = supquant::padded(K);
    const size_t width = 2 * size_t(K);
    for (int j = 0; j < K; ++j) {
        const float* cross = p.cross + j * width + K;
        const float* product = p.product + j * width + K;
        float* out = table + size_t(j) * stride;
        for (int k = 0; k < K; ++k) {
            const float q = (product[k] + product[k]) - p.eps;
            out[k] = (cross[k] + cross[k]) + (p.mu * q) * q;
        }
        float least = out[0];
        for (int k = 1; k < K; ++k) least = out[k] < least ? out[k] : least;
        for (int k = K; k < stride; ++k) out[k] = __builtin_inff();
        table[size_t(K) * stride + j] = least;
    }
}

// Exact search over all pairs (j, k) of unary[0, j] + unary[1, k] + table[j, k], a few rows together so that each
// piece of the table is loaded once for all of them. Only minima are kept; the winner's place is found afterwards.
// A j is passed over where no k can be as low as the pair found first: rounding keeps the order of sums, so the bound
// (least unary[1] + least of table[j]) + unary[0, j] is never above the sum of any k.
template <int kRows>
void assign_two(const AssignProblem& p, size_t row) {
    const int K = p.n_codewords, stride = supquant::padded(K);
    alignas(64) float second[kRows][supquant::kMaxCodewords];   // unary of codebook 1, padded
    Vec totals[kRows][supquant::kMaxCodewords];                 // lane-wise minima over k, for each j
    Vec best[kRows];
    const float* least_of_table = p.pair_table + size_t(K) * stride;   // (K,)
    float bounds[kRows][supquant::kMaxCodewords], found[kRows];
    for (int r = 0; r < kRows; ++r) {
        const float* first = p.unary + (row + r) * 2 * K;
        const float* unary = first + K;
        float least = unary[0];
        for (int k = 0; k < K; ++k) {
            second[r][k] = unary[k];
            least = unary[k] < least ? unary[k] : least;
        }
        for (int k = K; k < stride; ++k) second[r][k] = 0;
        best[r] = Vec() + __builtin_inff();
        int likely = 0;
        for (int j = 0; j < K; ++j) {
            bounds[r][j] = (least + least_of_table[j]) + first[j];
            if (bounds[r][j] < bounds[r][likely]) likely = j;
        }
        const float* table = p.pair_table + size_t(likely) * stride;
        Vec low = Vec() + __builtin_inff();
        for (int k = 0; k < stride; k += kLanes) low = lower(load<Vec>(second[r] + k) + load<Vec>(table + k), low);
        found[r] = lowest_lane(low + first[likely]);
    }
    for (int j = 0; j < K; ++j) {
        bool possible = false;
        for (int r = 0; r < kRows; ++r) possible |= bounds[r][j] <= found[r];
        if (!possible) {
            for (int r = 0; r < kRows; ++r) totals[r][j] = Vec() + __builtin_inff();
            continue;
        }
        const float* table = p.pair_table + size_t(j) * stride;
        Vec low[kRows];
        for (int r = 0; r < kRows; ++r) low[r] = Vec() + __builtin_inff();
        for (int k = 0; k < stride; k += kLanes) {
            const Vec t = load<Vec>(table + k);
            for (int r = 0; r < kRows; ++r) low[r] = lower(load<Vec>(second[r] + k) + t, low[r]);
        }
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
        while (j < K && lowest_lane(totals[r][j]) != lowest) ++j;
        for (int k = 0; j < K && k < K; ++k)
            if (total(j, k) == lowest) {
                codes[0] = uint8_t(j);
                codes[1] = uint8_t(k);
                break;
            }
    }
}

void assign_one(const AssignProblem& p, size_t row) {
    const int K = p.n_codewords;
    const float* unary = p.unary + row * K;
    Lowest lowest;
    for_lanes(K, [&](auto lane, int k) { lowest.take(load<decltype(lane)>(unary + k)); });
    const int current = p.start[row];
    const float best = lowest.value();
    p.codes[row] = uint8_t(unary[current] == best ? current : first_equal(unary, K, best, current));
}

void assign(const AssignProblem& p, size_t begin, size_t end) {
    if (p.n_codebooks == 1) {
        for (size_t i = begin; i < end; ++i) assign_one(p, i);
    } else if (p.n_codebooks == 2) {
        size_t i = begin;
        for (; i + 4 <= end; i += 4) assign_two<4>(p, i);
        for (; i < end; ++i) assign_two<1>(p, i);
    } else {
        for (size_t i = begin; i < end; ++i) RowSearch(p, i).search();
    }
}

}  // namespace
