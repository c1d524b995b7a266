#include "meaning.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "dispatch.h"
#include "operations.h"
#include "thread_pool.h"

namespace supquant {
namespace {

constexpr float kMostProbability = 1 - 0x1p-20f;  // with a greater one, one label would outweigh all others

constexpr double kLeastShare = 1e-28;  // of the likeliest label; smaller ones are zero, as processors are slow with subnormals

// Returns -log(1 - p), the weight of one of several labels.
double label_weight(float p) { return -std::log1p(-double(std::min(p, kMostProbability))); }

double sigmoid(double logit) { return 1 / (1 + std::exp(-logit)); }

size_t padded_width(const Packed& y) { return groups_of(y.n) * kGroup; }

// Memory of one thread. It grows to what the largest call needs and is used again.
class Scratch {
  public:
    void start(size_t floats) {
        if (memory_.size() < floats) memory_.resize(floats);
        used_ = 0;
    }
    float* take(size_t floats) {
        float* taken = memory_.data() + used_;
        used_ += floats;
        return taken;
    }

  private:
    std::vector<float> memory_;
    size_t used_ = 0;
};

// The features of a few rows.
class Block {
  public:
    Block(const Meaning& meaning, const float* x, size_t rows, bool of_items, float* features)
        : m_(meaning), x_(x), rows_(rows), of_items_(of_items), features_(features), kernels_(active_kernels()) {}

    void compute() {
        const size_t p = m_.n_inputs(), h = m_.has_kernel ? padded_width(m_.anchors) : 0;
        const size_t outputs = padded_width(m_.weights), place = padded_width(m_.metric);
        const size_t likeness = padded_width(m_.likeness);
        const size_t clusters = m_.n_clusterings ? padded_width(m_.centres) : 0;
        const size_t powers = m_.n_clusterings ? m_.centres.n : 0;
        thread_local Scratch scratch;
        scratch.start(rows_ * (2 * p + h + outputs + 2 * place + m_.metric.n + m_.L + clusters + powers + likeness));
        units_ = scratch.take(rows_ * p);
        centred_ = scratch.take(rows_ * p);
        phi_ = scratch.take(rows_ * h);
        outputs_ = scratch.take(rows_ * outputs);
        place_ = scratch.take(rows_ * place);
        cosine_ = scratch.take(rows_ * place);
        turned_ = scratch.take(rows_ * m_.metric.n);
        labels_ = scratch.take(rows_ * m_.L);
        clusters_ = scratch.take(rows_ * clusters);
        powers_ = scratch.take(rows_ * powers);
        likeness_ = scratch.take(rows_ * likeness);

        if (m_.has_kernel) multiply(x_, m_.anchors, phi_);
        for (size_t i = 0; i < rows_; ++i) take_vector(i, h);
        multiply(m_.has_kernel ? phi_ : x_, m_.weights, outputs_);
        multiply(centred_, m_.metric, place_);
        if (!of_items_) multiply(units_, m_.cosine, cosine_);
        for (size_t i = 0; i < rows_; ++i) turn(place_ + i * place, turned_ + i * m_.metric.n);
        if (m_.n_clusterings) multiply(turned_, m_.centres, clusters_);
        for (size_t i = 0; i < rows_; ++i) take_outputs(i, outputs_ + i * outputs, clusters_ + i * clusters, powers_ + i * powers);
        if (m_.likeness.n) multiply(powers_, m_.likeness, likeness_);
        for (size_t i = 0; i < rows_; ++i) {
            float* alike = features_ + i * m_.n_features() + m_.r + 1;
            float* z = std::copy_n(likeness_ + i * likeness, m_.likeness.n, alike);
            float* c = std::copy_n(place_ + i * place, m_.metric.n, z);
            if (of_items_)
                std::fill_n(c, m_.metric.n, 0.0f);
            else
                std::copy_n(cosine_ + i * place, m_.metric.n, c);
        }
    }

  private:
    void multiply(const float* rows, const Packed& y, float* sums) const {
        kernels_.products(rows, rows_, y, 0, panels_of(y.n), sums, padded_width(y));
    }

    // Scales and centres one vector, and turns its products with anchors into kernel features.
    void take_vector(size_t i, size_t h) const {
        const size_t p = m_.n_inputs();
        const float* x = x_ + i * p;
        const double squares = squared_length(x, p);
        const double length = squares > 0 ? std::sqrt(squares) : 1;
        for (size_t k = 0; k < p; ++k) {
            units_[i * p + k] = float(x[k] / length);
            centred_[i * p + k] = units_[i * p + k] - m_.mean[k];
        }
        if (!m_.has_kernel) return;
        float* phi = phi_ + i * h;
        gaussian_row(phi, m_.norms, h, squares, m_.scale);
        // The next product takes rows without padding.
        if (h != m_.anchors.n) std::copy_n(phi, m_.anchors.n, phi_ + i * m_.anchors.n);
    }

    // Copies a position without padding, and divides it by its length if it is to be compared with centres.
    void turn(const float* place, float* turned) const {
        const double squares = m_.n_clusterings ? squared_length(place, m_.metric.n) : 0;
        const double length = squares > 0 ? std::sqrt(squares) : 1;
        for (size_t k = 0; k < m_.metric.n; ++k) turned[k] = float(place[k] / length);
    }

    // Turns the logits and the products with centres of one row into s, u and powers.
    void take_outputs(size_t i, float* outputs, float* clusters, float* powers) const {
        const size_t L = m_.L;
        for (size_t j = 0; j < L; ++j) outputs[j] += m_.shifts[j];
        float* p = labels_ + i * L;
        double evidence = 0, u = 1;
        if (m_.multilabel) {
            double weights = 0;
            for (size_t j = 0; j < L; ++j) {
                p[j] = float(sigmoid(outputs[j]));
                weights += label_weight(p[j]);
            }
            u = std::exp(-weights);
        } else {
            const double highest = *std::max_element(outputs, outputs + L);
            double sum = 0;
            for (size_t j = 0; j < L; ++j) {
                const double share = std::exp(outputs[j] - highest);
                p[j] = share < kLeastShare ? 0 : float(share);
                sum += share;
            }
            for (size_t j = 0; j < L; ++j) p[j] = float(p[j] / sum);
            evidence = highest + std::log(sum);
        }
        float* s = features_ + i * m_.n_features();
        spell(p, s);
        const double ratio = m_.n_clusterings ? take_memberships(i, clusters, powers) : 0;
        if (!m_.multilabel)
            u = sigmoid(m_.novelty[2] + m_.novelty[0] * evidence + m_.novelty[1] * ratio);
        s[m_.r] = float(u);
    }

    // Turns products with centres into powers of memberships (w,); returns the log of how much more often rows without
    // labels are members.
    double take_memberships(size_t i, float* clusters, float* powers) const {
        const float* turned = turned_ + i * m_.metric.n;
        gaussian_row(clusters, m_.cluster_norms, padded_width(m_.centres), squared_length(turned, m_.metric.n),
                     m_.cluster_scale);
        double ratio = 0;
        size_t first = 0;
        for (size_t r = 0; r < m_.n_clusterings; ++r) {
            const size_t end = size_t(m_.cluster_ends[r]);
            double sum = 0;
            for (size_t j = first; j < end; ++j) sum += clusters[j];
            const double divisor = sum > 0 ? sum : 1;
            for (size_t j = first; j < end; ++j) {
                const float membership = float(clusters[j] / divisor), root = std::sqrt(membership);
                ratio += double(membership) * m_.cluster_ratios[j];
                powers[j] = root * std::sqrt(root);
            }
            first = end;
        }
        return ratio;
    }

    // The mean (r,) of the vectors of labels, weighted by their probabilities p (L,).
    void spell(const float* p, float* s) const {
        if (m_.t == 1) {
            std::copy_n(p, m_.r, s);
            return;
        }
        std::fill_n(s, m_.r, 0.0f);
        const float share = 1.0f / float(m_.t);
        for (size_t j = 0; j < m_.L; ++j)
            for (size_t word = 0; word < m_.t; ++word) s[m_.words[j * m_.t + word]] += p[j] * share;
    }

    const Meaning& m_;
    const float* const x_;
    const size_t rows_;
    const bool of_items_;
    float* const features_;
    const KernelTable& kernels_;
    float *units_, *centred_, *phi_, *outputs_, *place_, *cosine_, *turned_, *labels_, *clusters_, *powers_, *likeness_;
};

}  // namespace

void meaning_features(const Meaning& meaning, const float* x, size_t n, bool of_items, float* features, int n_threads) {
    const size_t p = meaning.n_inputs(), rows = product_rows(n, n_threads);
    parallel_for((n + rows - 1) / rows, n_threads, [&](size_t task, int) {
        const size_t first = task * rows;
        Block(meaning, x + first * p, std::min(rows, n - first), of_items,
              features + first * meaning.n_features())
            .compute();
    });
}

void query_vectors(const QueryRule& rule, const float* features, size_t n, float* vectors) {
    const size_t r = rule.r, f = rule.f, g = rule.g;
    const double most = std::log1p(1 / rule.least);
    for (size_t i = 0; i < n; ++i) {
        const float *s = features + i * (r + 1 + f + 2 * g), *alike = s + r + 1, *z = alike + f, *c = z + g;
        float *v = vectors + i * rule.width(), *near = v + r + f;
        if (rule.by_position) {
            double own = 0;
            for (size_t j = 0; j < g; ++j) own += double(c[j]) * z[j];
            std::fill_n(v, r, rule.level * float(own));
            std::fill_n(v + r, f, 0.0f);
            std::copy_n(c, g, near);
            continue;
        }
        const float u = s[r], known = 1 - u, t = float(rule.t);
        double total = 0;
        for (size_t j = 0; j < r; ++j) total += s[j];
        total = std::max(total, 1e-30);
        for (size_t j = 0; j < r; ++j) {
            double weight = s[j];
            if (rule.multilabel)
                weight = label_weight(std::min(t * s[j], 1.0f));
            else if (rule.t > 1)
                weight = total * (std::log1p(s[j] / total * (t / rule.least)) / most);
            v[j] = known * float(weight) - rule.apart * u;
        }
        for (size_t j = 0; j < f; ++j) v[r + j] = u * alike[j];
        const float position = rule.position * u;
        for (size_t j = 0; j < g; ++j) near[j] = position * z[j] + rule.cosine * c[j];
    }
}

bool query_tables(const QueryMap& map, const float* x, size_t n, const float* given, float* tables, int64_t* groups,
                  int n_threads) {
    // The square of every finite float is finite in float64.
    if (!std::isfinite(squared_length(x, n * map.meaning->n_inputs()))) return false;
    const Meaning& meaning = *map.meaning;
    const size_t p = meaning.n_inputs(), width = meaning.n_features(), D = map.codewords.d;
    const size_t blocks = (n + kProductRows - 1) / kProductRows;
    parallel_for(blocks, n_threads, [&](size_t task, int) {
        const size_t first = task * kProductRows, rows = std::min(kProductRows, n - first);
        thread_local Scratch scratch;
        scratch.start(rows * (width + D));
        float *features = scratch.take(rows * width), *vectors = scratch.take(rows * D);
        Block(meaning, x + first * p, rows, false, features).compute();
        for (size_t i = 0; i < rows; ++i) {
            float& u = features[i * width + meaning.r];
            if (given) u = given[first + i];
            groups[first + i] = std::upper_bound(map.bins, map.bins + map.n_bins, u) - map.bins;
        }
        query_vectors(map.rule, features, rows, vectors);
        // Threads share the codewords if there is only one block of queries.
        products(vectors, rows, map.codewords, tables + first * map.codewords.n, blocks > 1 ? 1 : n_threads);
    });
    return true;
}

}  // namespace supquant
