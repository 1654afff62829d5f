#include "tuning.h"
#include "../knobs.h"
#include "../store/database.h"
#include "../store/places.h"

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

float distance(const std::array<float, kTuningAxes>& a, const std::array<float, kTuningAxes>& b) {
  float sum = 0;
  for (size_t axis = 0; axis < kTuningAxes; ++axis)
    sum += std::fabs(a[axis] - b[axis]);
  return sum;
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
  cells_ = std::make_unique<std::atomic<Few>[]>(cells);
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

TuningTable::Few TuningTable::nearest_to(const Place& place) const {
  Few few = {};
  std::array<float, std::tuple_size_v<Few>> distances;
  distances.fill(std::numeric_limits<float>::infinity());
  for (size_t i = 0; i < rows_.size(); ++i) {
    const float mine = distance(place.octaves, places_[i].octaves);
    const size_t at =
        static_cast<size_t>(std::ranges::upper_bound(distances, mine) - distances.begin());
    if (at == few.size())
      continue;
    std::shift_right(few.begin() + at, few.end(), 1);
    std::shift_right(distances.begin() + at, distances.end(), 1);
    few[at] = static_cast<uint16_t>(i + 1);
    distances[at] = mine;
  }
  return few;
}

const TuningRow* TuningTable::find(const TuningSizes& sizes) const {
  if (rows_.empty())
    return nullptr;
  const Place place = place_of(sizes);
  Place middle;
  std::atomic<Few>& cell = cells_[cell_of(place, &middle)];
  Few few = cell.load(std::memory_order_relaxed);
  if (few[0] == 0) {
    few = nearest_to(middle);
    cell.store(few, std::memory_order_relaxed);
  }
  size_t best = few[0] - size_t{1};
  for (const uint16_t number : few) {
    if (number == 0)
      break;
    const size_t i = number - size_t{1};
    const float mine = distance(place.octaves, places_[i].octaves);
    const float least = distance(place.octaves, places_[best].octaves);
    if (mine < least || (mine == least && i < best))
      best = i;
  }
  return &rows_[best];
}

} // namespace aot
