// Vectors to features of meaning and position, and features to the vectors of queries. model/feature_map.py and
// model/vectors.py compute the same in NumPy and say what the parts are.
#pragma once

#include "kernels.h"

namespace supquant {

// The fitted map. Letters: p numbers in a vector, h kernel features, L labels of t words in r columns, w memberships in
// clusterings, f numbers in a likeness and g in a position.
struct Meaning {
    bool has_kernel;
    Packed anchors;       // (h, p); unused without a kernel, and then h = p
    const float* norms;   // (h,) filled up to groups with zeros: squared lengths of the anchors
    float scale;          // -1 / (2 sigma^2)
    Packed weights;       // (L, h) of the logits
    const float* shifts;  // (L,) their intercepts
    const float* mean;    // (p,)
    Packed metric;        // (g, p)
    Packed cosine;        // (g, p)
    Packed likeness;      // (f, w); f and w are 0 without clusterings
    Packed centres;       // (w, g); unused without clusterings
    float cluster_scale;
    const float* cluster_norms;    // (w,) filled up to groups with zeros: squared lengths of the centres
    const float* cluster_ratios;   // (w,)
    const int64_t* cluster_ends;   // (n_clusterings,) the column after the last one of each clustering
    size_t n_clusterings;
    const float* novelty;          // (3,)
    const int32_t* words;          // (L, t)
    size_t L, t, r;
    bool multilabel;

    size_t n_inputs() const { return metric.d; }
    size_t n_position() const { return metric.n; }
    size_t n_features() const { return r + 1 + likeness.n + 2 * n_position(); }
};

// features (n, r + 1 + f + 2 g) of vectors x (n, p). If they are those of items, c is zero: only queries need it.
void meaning_features(const Meaning& meaning, const float* x, size_t n, bool of_items, float* features, int n_threads);

// How features become vectors of queries.
struct QueryRule {
    size_t r, f, g, t;
    bool by_position;  // whether items are ranked by position alone; then nothing below counts but `level`
    bool multilabel;
    double least;            // probability of a word from which on it counts
    float position, cosine;  // weights of positions and of cosines
    float apart;             // what a query that is surely new takes off the columns of words
    float level;             // these columns by position alone, over the product of z and c

    size_t width() const { return r + f + g; }
};

// vectors (n, r + f + g) of queries with features (n, r + 1 + f + 2 g).
void query_vectors(const QueryRule& rule, const float* features, size_t n, float* vectors);

// Vectors to look-up tables in one piece. `codewords` (M K, r + f + g) are the negative ones.
struct QueryMap {
    const Meaning* meaning;
    QueryRule rule;
    Packed codewords;
    const float* bins;  // (n_bins,) ascending bounds between groups of queries by their novelty
    size_t n_bins;
};

// tables (n, codewords.n) of queries x (n, p), and the number of the group (n,) that each of them belongs to. `given`
// (n,) replaces the novelty that is predicted, unless it is null. Returns false if a number of x is not finite.
bool query_tables(const QueryMap& map, const float* x, size_t n, const float* given, float* tables, int64_t* groups,
                  int n_threads);

}  // namespace supquant
