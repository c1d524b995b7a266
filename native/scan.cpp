#include "scan.h"

#include <algorithm>
#include <functional>
#include <memory>

#include "cells.h"
#include "search.h"
#include "search_group.h"
#include "thread_pool.h"

namespace supquant {
namespace {

// Threads share the rows of a query in pieces. A piece has at least so many blocks.
constexpr size_t kTaskBlocks = 1024;

// A query first searches its most promising cells, for the work of reading one code in kFirst and enough rows for a
// good cut. If the cells that may hold answers then have more than one code in kWorth, it searches all blocks instead.
// With enough queries, all blocks are searched for several of them together. That takes a full group one time in kGain of a
// scan for each query. So of several queries only those go on at once whose cells have at most one code in kSure.
constexpr size_t kFirst = 256, kWorth = 3, kSure = 16, kGain = 6;

// Searches the most promising cells of one query, and then all others that may hold an answer, and returns 0. If these have
// more than `most` codes in all, it leaves them and returns about how many they have.
size_t search_cells(const ScanSpace& space, int M, Search& search, size_t most) {
    const size_t rows = 2 * search.answers().warm_up();
    if (rows > most) return space.n;
    CellReader reader(space, M, search.bounds());
    search.run(reader, [&] { return reader.work() >= rows + space.n / kFirst; });
    const size_t left = reader.left(search.answers().cut());
    if (left > most) return left;
    search.run(reader, [] { return false; });
    return 0;
}

// Returns the queries that take the least time in all if each of them searches its own cells, by the numbers of codes that
// are left in these; the others search all blocks together, in groups of `width`. A query with nothing left is neither.
std::vector<size_t> choose_alone(const std::vector<size_t>& left, size_t n, size_t width, size_t group_from) {
    std::vector<size_t> alone;
    size_t together = 0;
    for (size_t query = 0; query < left.size(); ++query) {
        if (left[query] > n / kWorth)
            ++together;
        else if (left[query])
            alone.push_back(query);
    }
    std::sort(alone.begin(), alone.end(), [&](size_t a, size_t b) { return left[a] < left[b]; });
    const auto blocks = [&](size_t count) {  // the time of searching all blocks for so many queries, in codes
        if (count < group_from) return double(count) * n;
        return double((count + width - 1) / width) * width / kGain * n;
    };
    double own = 0, best = 0;
    for (const size_t query : alone) own += double(left[query]);
    best = own + blocks(together);
    size_t kept = alone.size();
    for (size_t count = alone.size(); count-- > 0;) {
        own -= double(left[alone[count]]);
        const double time = own + blocks(together + alone.size() - count);
        if (time < best) {
            best = time;
            kept = count;
        }
    }
    alone.resize(kept);
    return alone;
}

// Searches all rows for every query. make(query, cut) returns empty answers for a query; a finite cut is one that the
// sums of enough rows are known to be below. Returns parts[query][piece]: the keys that were found for the query in
// each piece of the rows.
std::vector<std::vector<std::vector<Key>>> search_all(const ScanSpace& space, const ScanQueries& queries, bool prune,
                                                      int n_threads,
                                                      const std::function<Answers(size_t, float)>& make) {
    const KernelTable& kernels = active_kernels();
    std::vector<std::vector<std::vector<Key>>> parts(queries.count);
    std::vector<float> cuts(queries.count, std::numeric_limits<float>::infinity());
    if (space.cells && prune) {
        const size_t group_from = size_t(kernels.group_from);
        std::vector<size_t> left(queries.count);  // codes in the cells that each query has not searched yet
        const auto search_own = [&](size_t query, size_t most) {
            Search search(space, queries, query, prune, make(query, cuts[query]));
            left[query] = search_cells(space, queries.M, search, most);
            if (left[query])
                cuts[query] = search.answers().cut();
            else
                parts[query].push_back(std::move(search.answers().keys()));
        };
        const size_t most = space.n / (queries.count >= group_from ? kSure : kWorth);
        parallel_for(queries.count, n_threads, [&](size_t query, int) { search_own(query, most); });
        const std::vector<size_t> alone = choose_alone(left, space.n, size_t(kernels.query_lanes), group_from);
        parallel_for(alone.size(), n_threads, [&](size_t i, int) { search_own(alone[i], space.n); });
    }
    std::vector<size_t> open;  // queries that have to be searched in all blocks
    for (size_t query = 0; query < queries.count; ++query)
        if (parts[query].empty()) open.push_back(query);

    const size_t blocks = (space.n + kBlockRows - 1) / kBlockRows;
    const size_t width = prune && open.size() >= size_t(kernels.group_from) ? kernels.query_lanes : 1;
    const size_t n_groups = (open.size() + width - 1) / width;
    size_t pieces = 1;
    if (n_groups && n_groups < size_t(n_threads)) {
        pieces = (n_threads + n_groups - 1) / n_groups;
        pieces = std::max<size_t>(1, std::min(pieces, blocks / kTaskBlocks));
    }
    for (const size_t query : open) parts[query].resize(pieces);
    parallel_for(n_groups * pieces, n_threads, [&](size_t task, int) {
        const size_t group = task / pieces, piece = task % pieces;
        const size_t begin = blocks * piece / pieces, end = blocks * (piece + 1) / pieces;
        const size_t first = group * width, last = std::min(first + width, open.size());
        Group::Searches searches;
        for (size_t i = first; i < last; ++i)
            searches.push_back(std::make_unique<Search>(space, queries, open[i], prune,
                                                                 make(open[i], cuts[open[i]])));
        if (searches.size() >= size_t(kernels.group_from) && width > 1)
            Group(space, queries.M, searches).run(begin, end);
        else
            for (auto& search : searches) search->run(begin, end);
        for (size_t i = first; i < last; ++i)
            parts[open[i]][piece] = std::move(searches[i - first]->answers().keys());
    });
    return parts;
}

// Returns the keys of all pieces.
std::vector<Key> merged(std::vector<std::vector<Key>>& parts) {
    std::vector<Key> all = std::move(parts[0]);
    for (size_t piece = 1; piece < parts.size(); ++piece)
        all.insert(all.end(), parts[piece].begin(), parts[piece].end());
    return all;
}

}  // namespace

size_t first_unbounded(const ScanQueries& queries, double limit) {
    const size_t size = size_t(queries.M) * queries.K;
    for (size_t query = 0; query < queries.count; ++query) {
        double sum = 0;
        for (int m = 0; m < queries.M; ++m) {
            const Range range = range_of(queries.tables + query * size + size_t(m) * queries.K, queries.K);
            sum += range.has_nan ? limit : std::max(std::fabs(range.low), std::fabs(range.high));
        }
        if (!(sum < limit)) return query;
    }
    return queries.count;
}

size_t scan(const ScanSpace& space, const ScanQueries& queries, size_t k, bool prune, float* sums, int64_t* rows,
            int n_threads) {
    const bool ascending = !space.members && !space.eligible;
    auto parts = search_all(space, queries, prune, n_threads,
                            [&](size_t, float cut) { return Answers(k, ascending, cut); });
    std::vector<size_t> found(queries.count, 0);
    parallel_for(queries.count, n_threads, [&](size_t query, int) {
        std::vector<Key> keys = merged(parts[query]);
        if (keys.size() > k) {
            std::nth_element(keys.begin(), keys.begin() + k, keys.end());
            keys.resize(k);
        }
        std::sort(keys.begin(), keys.end());
        found[query] = keys.size();
        for (size_t i = 0; i < keys.size(); ++i) {
            sums[query * k + i] = sum_of(keys[i]);
            rows[query * k + i] = row_of(keys[i]);
        }
    });
    return found.empty() ? 0 : found[0];
}

void scan_within(const ScanSpace& space, const ScanQueries& queries, const float* limits,
                 std::vector<std::vector<uint64_t>>& answers, int n_threads) {
    auto parts = search_all(space, queries, true, n_threads, [&](size_t query, float) { return Answers(limits[query]); });
    answers.resize(queries.count);
    parallel_for(queries.count, n_threads, [&](size_t query, int) {
        answers[query] = merged(parts[query]);
        std::sort(answers[query].begin(), answers[query].end());
    });
}

}  // namespace supquant
