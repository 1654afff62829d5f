// The tuning database: which plan was fastest on a problem near this one.
#ifndef AOTATTN_TUNING_TUNING_H
#define AOTATTN_TUNING_TUNING_H

#include "../log.h"
#include "../status.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

namespace aot {

inline constexpr int64_t kTuningVersion = 1; // PRAGMA user_version
inline constexpr size_t kTuningAxes = 3;     // seqlen_q, seqlen_k, batch_heads

using TuningSizes = std::array<int64_t, kTuningAxes>;

struct TuningRow {
  int64_t compute_units;
  TuningSizes sizes;
  std::string plan; // "backend/kernel/config"
  std::string provenance, device, revision;
  std::string time, runner_up, runner_up_time; // microseconds; "" where not measured
  size_t plan_index = 0; // among the functional's plans, once somebody has looked
};

// AOT_NO_STORE, AOT_BAD_STORE or AOT_STORE_MISMATCH if it is no tuning database that this library
// can read.
Status check_tuning_database(const std::string& path);

// The rows of a functional from the first of the databases that has some, in key order: the one set
// by the program
// (`chosen`, may be empty), AOTATTN_TUNING_DB, the installed one. One that cannot be read goes to
// `notices`.
std::vector<TuningRow> read_tuning(const std::string& chosen, const std::string& op,
                                   const std::string& arch, const std::string& features,
                                   Notices* notices);

// Finds the row nearest to a problem, the sum over the sizes of |log2 difference|, in constant
// time: a table over half-octave bins keeps the few rows that can be nearest to a problem in the
// bin, found when it is first asked for; the exact sizes then decide among them. Only a bin with
// more such rows than a cell holds, which takes several rows a bin, has all rows looked at. Any
// number of threads.
class TuningTable {
public:
  // `rows` of a functional; of them those whose compute_units is nearest count (ties: smaller).
  TuningTable(const std::vector<TuningRow>& rows, int64_t compute_units);

  // Null if there are no rows. Ties: first in key order.
  const TuningRow* find(const TuningSizes& sizes) const;

private:
  struct Place {
    std::array<float, kTuningAxes> octaves; // log2 of the sizes
    std::array<int32_t, kTuningAxes> bins;
  };
  static constexpr size_t kCellRows = 31;
  struct alignas(64) Cell {                // whoever fills it writes the same
    std::atomic<uint16_t> count{0};        // 0: not yet asked for
    std::atomic<uint16_t> rows[kCellRows]; // in key order
  };
  static constexpr uint16_t kTooMany = UINT16_MAX;
  static Place place_of(const TuningSizes& sizes);
  // The cell of the place's bins, and the middle of these bins.
  size_t cell_of(const Place& place, Place* middle) const;
  void fill(const Place& middle, Cell* cell) const;

  std::vector<TuningRow> rows_;
  std::vector<Place> places_;                              // of the rows
  std::array<int32_t, kTuningAxes> low_ = {}, count_ = {}; // bins that rows span
  std::unique_ptr<Cell[]> cells_;
};

} // namespace aot

#endif
