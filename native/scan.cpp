#include "scan.h"

#include <algorithm>
#include <bit>
#include <memory>

#include "answers.h"
#include "block_reader.h"
#include "bounds.h"
#include "choice.h"
#include "dispatch.h"
#include "thread_pool.h"

namespace supquant {
namespace {

// Threads share the rows of a query in pieces. A piece has at least so many blocks.
constexpr size_t kTaskBlocks = 1024;

// A table of bytes is made anew when the cut has fallen so far that the limit is below so many of its 254 steps.
constexpr int kRefit = 160;

// The search of one query. Answers is TopK or Within.
template <class Answers>
class Search {
  public:
    Search(const ScanSpace& space, const ScanQueries& queries, size_t query, bool prune, Answers answers)
        : space_(space),
          M_(queries.M),
          K_(queries.K),
          bits_(queries.bits ? queries.bits + query * M_ : nullptr),
          bounds_(queries.tables + query * M_ * K_, M_, K_),
          choice_(best_way(prune)),
          answers_(std::move(answers)) {}

    Answers& answers() { return answers_; }
    const Answers& answers() const { return answers_; }
    const Bounds& bounds() const { return bounds_; }

    // Whether there is a cut, and enough rows were added up for bytes to rule out most of the others.
    bool warm() const { return has_cut() && summed_ >= answers_.warm_up(); }
    bool has_cut() const { return answers_.cut() < std::numeric_limits<float>::infinity(); }

    // Whether no row can be below the cut.
    bool finished() const { return has_cut() && !(bounds_.reach(answers_.cut()) > 0); }

    // Takes all rows of a code whose sum is below the cut.
    void take(uint32_t code, float sum) {
        if (!space_.starts) {
            answers_.take(make_key(sum, code));
            return;
        }
        size_t left = answers_.most();
        for (uint32_t i = space_.starts[code]; left && i < space_.starts[code + 1]; ++i) {
            const uint32_t row = space_.members[i];
            if (space_.eligible && !(space_.eligible[row / kBlockRows] >> (row % kBlockRows) & 1)) continue;
            if (!answers_.take(make_key(sum, row))) return;
            --left;
        }
        answers_.tighten();  // one code may have brought k rows
    }

    // Adds up the table at one code in float32. Takes the code if the sum is below the cut.
    void consider(uint32_t code) {
        const uint8_t* codes = at(code);
        const float* table = bounds_.table();
        float sum = table[codes[0]];
        for (int m = 1; m < M_; ++m) sum += table[m * K_ + codes[m * kBlockRows]];
        if (sum < answers_.cut()) take(code, sum);
    }

    // Considers the rows that the reader listed one by one. Every byte of a code lies in a cache line of its own, so
    // codes are prefetched.
    void consider_rows(const BlockReader& reader) {
        constexpr int kAhead = 4;  // rows between a prefetch and the sum
        for (const uint32_t* row = reader.rows_begin(); row != reader.rows_end(); ++row) {
            if (row + kAhead < reader.rows_end())
                for (int m = 0; m < M_; ++m) __builtin_prefetch(at(row[kAhead]) + m * kBlockRows);
            consider(*row);
        }
    }

    // Adds up all rows of the listed blocks in float32 and takes those below the cut.
    void sum_blocks(const BlockReader& reader) {
        const BlockList& blocks = reader.list();
        active_kernels().block_sums(blocks, bounds_.table(), K_, answers_.cut(), sums_, marks_);
        summed_ += size_t(blocks.count) * kBlockRows;
        for_marked(reader, [&](uint32_t code, size_t place) { take(code, sums_[place]); });
    }

    // Searches the blocks begin .. end.
    void run(size_t begin, size_t end) {
        BlockReader reader(space_, M_, begin, end);
        while (!reader.done() && !finished()) {
            const BlockList& blocks = reader.read();
            consider_rows(reader);
            if (!warm() || choice_.way() == Choice::kFloat) {
                sum_blocks(reader);
                if (warm()) choice_.saw(0, 0);
            } else {
                mark(blocks);
                const size_t rows = size_t(blocks.count) * kBlockRows, passed = marked(blocks);
                if (many(passed, rows))
                    sum_blocks(reader);
                else
                    for_marked(reader, [&](uint32_t code, size_t) { consider(code); });
                choice_.saw(rows, passed);
            }
            answers_.tighten();
        }
    }

  private:
    Choice::Way best_way(bool prune) const {
        const KernelTable& kernels = active_kernels();
        if (!prune || (!bits_ && !kernels.fast_lookup)) return Choice::kFloat;
        return !bits_ && kernels.start_coarse ? Choice::kCoarse : Choice::kFine;
    }

    // The first byte of a code; the byte of codebook m is m * kBlockRows further.
    const uint8_t* at(uint32_t code) const {
        return space_.blocks + size_t(code / kBlockRows) * M_ * kBlockRows + code % kBlockRows;
    }

    // Marks in marks_ the codes of the listed blocks that may be below the cut.
    void mark(const BlockList& blocks) {
        const float cut = answers_.cut();
        if (bits_) return mark_bits(blocks, std::ceil(cut) - 1);
        if (fine_.empty() || bounds_.limit(cut, reach_) < kRefit) {
            reach_ = bounds_.reach(cut);
            fine_.assign(size_t(M_) * kMaxCodewords, 255);
            bounds_.fill(reach_, fine_.data(), 1);
            coarse_.clear();
        }
        const bool coarse = choice_.way() == Choice::kCoarse;
        if (coarse && coarse_.empty()) {  // entry k / 2 is the lower one of codewords k and k + 1, k even
            coarse_.assign(size_t(M_) * kMaxCodewords, 255);
            for (int m = 0; m < M_; ++m)
                for (int k = 0; k < kMaxCodewords / 2; ++k) {
                    const uint8_t* pair = &fine_[m * kMaxCodewords + 2 * k];
                    coarse_[m * kMaxCodewords + k] = std::min(pair[0], pair[1]);
                }
        }
        active_kernels().mark_by_tables(blocks, coarse ? coarse_.data() : fine_.data(), coarse,
                                        uint8_t(bounds_.limit(cut, reach_)), marks_);
    }

    // Marks the codes that differ from the query in at most `most` bits. Sums of bytes saturate at 255, so from there
    // on all codes are marked.
    void mark_bits(const BlockList& blocks, float most) {
        if (most >= 255)
            std::fill_n(marks_, blocks.count, ~uint64_t(0));
        else if (most < 0)
            std::fill_n(marks_, blocks.count, uint64_t(0));
        else
            active_kernels().mark_by_bits(blocks, bits_, uint8_t(most), marks_);
    }

    // Returns the number of marked codes.
    size_t marked(const BlockList& blocks) const {
        size_t count = 0;
        for (int b = 0; b < blocks.count; ++b) count += std::popcount(marks_[b]);
        return count;
    }

    // Calls use(code, place in sums_) for the marked codes that exist and are eligible.
    template <class Use>
    void for_marked(const BlockReader& reader, Use use) {
        const BlockList& blocks = reader.list();
        for (int b = 0; b < blocks.count; ++b) {
            if (!marks_[b]) continue;
            uint64_t marks = marks_[b] & reader.allowed(blocks.numbers[b]);
            for (; marks; marks &= marks - 1) {
                const int i = std::countr_zero(marks);
                use(blocks.numbers[b] * kBlockRows + i, size_t(b) * kBlockRows + i);
            }
        }
    }

    const ScanSpace& space_;
    const int M_, K_;
    const uint8_t* bits_;
    Bounds bounds_;
    Choice choice_;
    Answers answers_;
    std::vector<uint8_t> fine_, coarse_;    // (M, 256) tables of bytes, empty until they are needed
    double reach_ = 0;                      // the reach for which they were made
    size_t summed_ = 0;                     // rows that were added up in whole blocks
    uint64_t marks_[kScanBlocks];           // bit i of marks_[b]: row i of the b-th listed block
    float sums_[kScanBlocks * kBlockRows];  // of the rows of the listed blocks
};

// The searches of several queries over the same rows. Their tables of bytes are interleaved: a vector holds one entry
// of each query.
template <class Answers>
class Group {
  public:
    using Searches = std::vector<std::unique_ptr<Search<Answers>>>;

    Group(const ScanSpace& space, int M, Searches& searches) : space_(space), M_(M), searches_(searches) {}

    // Searches the blocks begin .. end for all queries.
    void run(size_t begin, size_t end) {
        const KernelTable& kernels = active_kernels();
        BlockReader reader(space_, M_, begin, end);
        while (!reader.done() && !all_warm()) {
            reader.read();
            for (auto& search : searches_) {
                search->consider_rows(reader);
                search->sum_blocks(reader);
                search->answers().tighten();
            }
        }
        int crowded = 0;
        size_t separate = kSeparateBlocks;
        while (!reader.done()) {
            const BlockList& blocks = reader.read();
            for (auto& search : searches_) search->consider_rows(reader);
            fit();
            const size_t found = kernels.mark_many(blocks, table_.data(), limits_, rows_, lanes_);
            size_t passed = 0;
            for (size_t i = 0; i < found; ++i) passed += std::popcount(lanes_[i]);
            if (many(passed, size_t(blocks.count) * kBlockRows * searches_.size())) {
                for (auto& search : searches_) search->sum_blocks(reader);
                ++crowded;
            } else {
                consider_found(reader, found);
                crowded = 0;
            }
            for (auto& search : searches_) search->answers().tighten();
            if (crowded == kCrowdedLists) {  // bytes rule out too few rows
                const size_t from = reader.next(), to = std::min(end, from + separate);
                for (auto& search : searches_) search->run(from, to);
                reader.skip_to(to);
                --crowded;
                separate *= 4;
            }
        }
    }

  private:
    // Lets each query consider the rows that passed its limit.
    void consider_found(const BlockReader& reader, size_t found) {
        for (size_t i = 0; i < found; ++i) {
            if (!(reader.allowed(rows_[i] / kBlockRows) >> (rows_[i] % kBlockRows) & 1)) continue;
            for (uint64_t left = lanes_[i]; left; left &= left - 1)
                searches_[std::countr_zero(left)]->consider(rows_[i]);
        }
    }

    bool all_warm() const {
        return std::all_of(searches_.begin(), searches_.end(), [](auto& search) { return search->warm(); });
    }

    // Brings the limits up to date, and the tables of queries whose cut has fallen far.
    void fit() {
        const size_t width = active_kernels().query_lanes;
        if (table_.empty()) {
            table_.assign(size_t(M_) * kMaxCodewords * width, 255);
            std::fill_n(limits_, kMaxLanes, 0);
            reach_.assign(searches_.size(), 0);
        }
        for (size_t lane = 0; lane < searches_.size(); ++lane) {
            const Search<Answers>& search = *searches_[lane];
            const float cut = search.answers().cut();
            if (search.finished()) {  // entries of 255 let no row pass
                if (reach_[lane] == kNone) continue;
                for (size_t entry = 0; entry < size_t(M_) * kMaxCodewords; ++entry) table_[entry * width + lane] = 255;
                limits_[lane] = 0;
                reach_[lane] = kNone;
                continue;
            }
            if (reach_[lane] == 0 || search.bounds().limit(cut, reach_[lane]) < kRefit) {
                reach_[lane] = search.bounds().reach(cut);
                search.bounds().fill(reach_[lane], &table_[lane], width);
            }
            limits_[lane] = uint8_t(search.bounds().limit(cut, reach_[lane]));
        }
    }

    static constexpr double kNone = -1;  // the reach of a lane whose search is finished

    // If too many rows pass in kCrowdedLists lists of blocks, one after the other, each query is searched on its own
    // for the next kSeparateBlocks blocks. The next time it is four times as many.
    static constexpr int kCrowdedLists = 4;
    static constexpr size_t kSeparateBlocks = 8 * kScanBlocks;

    const ScanSpace& space_;
    const int M_;
    Searches& searches_;
    std::vector<uint8_t> table_;                // (M, 256, query_lanes)
    uint8_t limits_[kMaxLanes];                 // (query_lanes,)
    uint32_t rows_[kScanBlocks * kBlockRows];   // rows that passed at least one limit
    uint64_t lanes_[kScanBlocks * kBlockRows];  // bit j: the row passed the limit of query j
    std::vector<double> reach_;                 // the reach for which the table of each lane was made; 0 before
};

// Searches all rows for every query. make(query) returns empty answers for a query. Returns parts[query][piece]: the
// keys that were found for the query in each piece of the rows.
template <class Answers, class Make>
std::vector<std::vector<std::vector<Key>>> search_all(const ScanSpace& space, const ScanQueries& queries, bool prune,
                                                      int n_threads, Make make) {
    const KernelTable& kernels = active_kernels();
    const size_t blocks = (space.n + kBlockRows - 1) / kBlockRows;
    const size_t width = prune && queries.count >= size_t(kernels.group_from) ? kernels.query_lanes : 1;
    const size_t n_groups = (queries.count + width - 1) / width;
    size_t pieces = 1;
    if (n_groups && n_groups < size_t(n_threads)) {
        pieces = (n_threads + n_groups - 1) / n_groups;
        pieces = std::max<size_t>(1, std::min(pieces, blocks / kTaskBlocks));
    }
    std::vector<std::vector<std::vector<Key>>> parts(queries.count, std::vector<std::vector<Key>>(pieces));
    parallel_for(n_groups * pieces, n_threads, [&](size_t task, int) {
        const size_t group = task / pieces, piece = task % pieces;
        const size_t begin = blocks * piece / pieces, end = blocks * (piece + 1) / pieces;
        const size_t first = group * width, last = std::min(first + width, queries.count);
        typename Group<Answers>::Searches searches;
        for (size_t query = first; query < last; ++query)
            searches.push_back(std::make_unique<Search<Answers>>(space, queries, query, prune, make(query)));
        if (searches.size() >= size_t(kernels.group_from) && width > 1)
            Group<Answers>(space, queries.M, searches).run(begin, end);
        else
            for (auto& search : searches) search->run(begin, end);
        for (size_t query = first; query < last; ++query)
            parts[query][piece] = std::move(searches[query - first]->answers().keys());
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
            const float* entries = queries.tables + query * size + size_t(m) * queries.K;
            float largest = 0;
            bool is_number = true;
            for (int k = 0; k < queries.K; ++k) {
                const float magnitude = std::fabs(entries[k]);
                largest = std::max(largest, magnitude);
                is_number &= magnitude == magnitude;
            }
            sum += is_number ? largest : limit;
        }
        if (!(sum < limit)) return query;
    }
    return queries.count;
}

size_t scan(const ScanSpace& space, const ScanQueries& queries, size_t k, bool prune, float* sums, int64_t* rows,
            int n_threads) {
    const bool ascending = !space.starts && !space.eligible;
    auto parts = search_all<TopK>(space, queries, prune, n_threads, [&](size_t) { return TopK(k, ascending); });
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
    auto parts =
        search_all<Within>(space, queries, true, n_threads, [&](size_t query) { return Within(limits[query]); });
    answers.resize(queries.count);
    parallel_for(queries.count, n_threads, [&](size_t query, int) {
        answers[query] = merged(parts[query]);
        std::sort(answers[query].begin(), answers[query].end());
    });
}

}  // namespace supquant
