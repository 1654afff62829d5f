#include "tuning.h"
#include "../knobs.h"
#include "../store/database.h"
#include "../store/places.h"
#include "../text.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>

namespace aot {
namespace {

constexpr size_t kMaxRows = UINT16_MAX - 1;

Status open_checked(const std::string& path, Database* database) {
  int64_t version = 0;
  bool has_rows = false;
  AOT_TRY(database->open(path));
  AOT_TRY(database->user_version(&version));
  AOT_TRY(database->has_table("choice", &has_rows));
  if (!has_rows)
    return fail(AOT_BAD_STORE, "%s is no tuning database: it has no table choice", path.c_str());
  if (version != kTuningVersion)
    return fail(AOT_STORE_MISMATCH, "%s has tuning schema version %lld, this library reads %lld",
                path.c_str(), static_cast<long long>(version),
                static_cast<long long>(kTuningVersion));
  return {};
}

Status read_rows(const std::string& path, const std::string& op, const std::string& arch,
                 const std::string& features, std::vector<TuningRow>* result) {
  Database database;
  Rows rows;
  AOT_TRY(open_checked(path, &database));
  AOT_TRY(database.query(
      "SELECT compute_units, seqlen_q, seqlen_k, batch_heads, backend || '/' || kernel || '/' || "
      "config, provenance, device, revision, time_us, runner_up, runner_up_time_us FROM choice "
      "WHERE operator = ? AND arch = ? AND features = ? "
      "ORDER BY compute_units, seqlen_q, seqlen_k, batch_heads",
      {op, arch, features}, &rows));
  for (;;) {
    bool more = false;
    AOT_TRY(rows.next(&more));
    if (!more)
      return {};
    result->push_back({rows.integer(0),
                       {rows.integer(1), rows.integer(2), rows.integer(3)},
                       rows.text(4),
                       rows.text(5),
                       rows.text(6),
                       rows.text(7),
                       rows.text(8),
                       rows.text(9),
                       rows.text(10)});
  }
}

using Octaves = std::array<float, kTuningAxes>;

float distance(const Octaves& a, const Octaves& b) {
  float sum = 0;
  for (size_t axis = 0; axis < kTuningAxes; ++axis)
    sum += std::fabs(a[axis] - b[axis]);
  return sum;
}

// Is row `a` nearer than row `b` to every place of the bins around `middle`? The difference of the
// two distances is monotone along each axis, so the bins' ends decide.
bool always_nearer(const Octaves& a, const Octaves& b, const Octaves& middle) {
  constexpr float kHalfBin = 0.25f, kRounding = 1e-3f;
  float most = 0; // by which `a` is further
  for (size_t axis = 0; axis < kTuningAxes; ++axis) {
    const auto further = [&](float place) {
      return std::fabs(place - a[axis]) - std::fabs(place - b[axis]);
    };
    most += std::max(further(middle[axis] - kHalfBin), further(middle[axis] + kHalfBin));
  }
  return most < -kRounding;
}

} // namespace

Status check_tuning_database(const std::string& path) {
  Database database;
  return open_checked(path, &database);
}

std::vector<TuningRow> read_tuning(const std::string& chosen, const std::string& op,
                                   const std::string& arch, const std::string& features,
                                   Notices* notices) {
  std::vector<TuningRow> rows;
  const auto read = [&](const std::string& path) {
    rows.clear();
    if (const Status status = read_rows(path, op, arch, features, &rows); !status.ok()) {
      rows.clear();
      notices->add(Level::kWarning, "tuning database ignored: " + status.message());
    }
    return !rows.empty();
  };
  for (const std::string& path : {chosen, knobs::tuning_db()})
    if (!path.empty() && read(path))
      return rows;
  const std::vector<std::string> paths = store_paths("tuning.db");
  for (const std::string& path : paths)
    if (std::error_code error; std::filesystem::exists(path, error)) {
      read(path);
      return rows;
    }
  notices->add(Level::kWarning,
               "no tuning database, default order of plans; looked for " + join(paths));
  return rows;
}

TuningTable::TuningTable(const std::vector<TuningRow>& rows, int64_t compute_units) {
  const auto away = [&](const TuningRow& row) {
    return std::abs(row.compute_units - compute_units);
  };
  if (rows.empty())
    return;
  // in key order, so of two that are equally near the smaller is met first
  const int64_t nearest = std::ranges::min_element(rows, {}, away)->compute_units;
  for (const TuningRow& row : rows)
    if (row.compute_units == nearest && rows_.size() < kMaxRows)
      rows_.push_back(row);
  for (const TuningRow& row : rows_)
    places_.push_back(place_of(row.sizes));
  size_t cells = 1;
  for (size_t axis = 0; axis < kTuningAxes; ++axis) {
    const auto [low, high] =
        std::ranges::minmax(places_, {}, [axis](const Place& place) { return place.bins[axis]; });
    low_[axis] = low.bins[axis];
    count_[axis] = high.bins[axis] - low.bins[axis] + 1;
    cells *= static_cast<size_t>(count_[axis]);
  }
  cells_ = std::make_unique<Cell[]>(cells);
}

TuningTable::Place TuningTable::place_of(const TuningSizes& sizes) {
  Place place;
  for (size_t axis = 0; axis < kTuningAxes; ++axis) {
    const int64_t size = std::clamp<int64_t>(sizes[axis], 1, UINT32_MAX);
    place.octaves[axis] = std::log2(static_cast<float>(size));
    place.bins[axis] = static_cast<int32_t>(2 * place.octaves[axis] + 0.5f);
  }
  return place;
}

// Beyond the rows' bins every row is further by the same: the bin at the edge serves.
size_t TuningTable::cell_of(const Place& place, Place* middle) const {
  size_t cell = 0;
  for (size_t axis = 0; axis < kTuningAxes; ++axis) {
    const int32_t bin = std::clamp(place.bins[axis] - low_[axis], 0, count_[axis] - 1);
    cell = cell * static_cast<size_t>(count_[axis]) + static_cast<size_t>(bin);
    middle->octaves[axis] = 0.5f * static_cast<float>(low_[axis] + bin);
  }
  return cell;
}

// Keeps the rows that no other is always nearer than.
void TuningTable::fill(const Place& middle, Cell* cell) const {
  std::array<uint16_t, kCellRows> kept;
  auto end = kept.begin();
  const auto nearer = [&](size_t a, size_t b) {
    return always_nearer(places_[a].octaves, places_[b].octaves, middle.octaves);
  };
  for (size_t i = 0; i < rows_.size(); ++i) {
    if (std::any_of(kept.begin(), end, [&](size_t k) { return nearer(k, i); }))
      continue;
    end = std::remove_if(kept.begin(), end, [&](size_t k) { return nearer(i, k); });
    if (end == kept.end()) {
      cell->count.store(kTooMany, std::memory_order_release);
      return;
    }
    *end++ = static_cast<uint16_t>(i);
  }
  for (auto k = kept.begin(); k != end; ++k)
    cell->rows[k - kept.begin()].store(*k, std::memory_order_relaxed);
  cell->count.store(static_cast<uint16_t>(end - kept.begin()), std::memory_order_release);
}

const TuningRow* TuningTable::find(const TuningSizes& sizes) const {
  if (rows_.empty())
    return nullptr;
  const Place place = place_of(sizes);
  Place middle;
  Cell& cell = cells_[cell_of(place, &middle)];
  if (cell.count.load(std::memory_order_acquire) == 0) [[unlikely]]
    fill(middle, &cell);
  const uint16_t count = cell.count.load(std::memory_order_acquire);
  const bool all = count == kTooMany;
  const size_t end = all ? rows_.size() : count;
  size_t best = 0;
  float least = std::numeric_limits<float>::infinity();
  for (size_t k = 0; k < end; ++k) { // in key order
    const size_t i = all ? k : cell.rows[k].load(std::memory_order_relaxed);
    const float mine = distance(place.octaves, places_[i].octaves);
    if (mine < least) {
      best = i;
      least = mine;
    }
  }
  return &rows_[best];
}

} // namespace aot
