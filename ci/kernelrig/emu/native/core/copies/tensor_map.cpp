#include "copies/tensor_map.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace emu {
namespace {

constexpr char TILED[] = "tiledmap", IM2COL[] = "im2colmp";
// In the order of their numbers in cuda.h.
constexpr int ELEMENT_BYTES[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2};
constexpr int SWIZZLES[] = {0, 32, 64, 128};  // of the modes that PTX has
constexpr int ATOMS[] = {16, 32, 32, 64};
constexpr int OFFSET_BITS[] = {0, 0, 0, 16, 8, 5};  // of im2col, by rank
constexpr uint8_t NAN_FILL[] = {0xF7, 0x7F};
constexpr int64_t PATTERN = 1024;  // bytes after which every swizzle repeats

template <class T> T at(const uint8_t* image, int offset) {
  T value;
  std::memcpy(&value, image + offset, sizeof value);
  return value;
}

constexpr std::array<uint32_t, 256> crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; byte++) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; bit++)
      value = value >> 1 ^ (value & 1 ? 0xEDB88320u : 0);
    table[byte] = value;
  }
  return table;
}

uint32_t crc32(const uint8_t* data, int size) {
  static constexpr std::array<uint32_t, 256> TABLE = crc_table();
  uint32_t value = ~0u;
  for (int n = 0; n < size; n++)
    value = value >> 8 ^ TABLE[(value ^ data[n]) & 0xFF];
  return ~value;
}

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }
int64_t ceil_div(int64_t a, int64_t b) { return -floor_div(-a, b); }

// Calls `each(position in the box, flat position)` for each row of a clip, slowest dimension first.
template <class Each> void each_row(const TensorMap& map, const Clip& clip, Each each) {
  if (map.im2col) {
    const int64_t low = clip.low[0] * map.element_bytes;
    for (const Pixel& pixel : clip.pixels)
      each(pixel.number * map.row_bytes + low, pixel.flat);
    return;
  }
  int64_t box_pitch[RANKS], pitch[RANKS], in_box = clip.low[0] * map.element_bytes;
  int64_t size = map.row_bytes;
  for (int d = 1; d < map.rank; d++) {
    box_pitch[d] = size;
    pitch[d] = map.pitches[d] * map.steps[d];
    in_box += clip.low[d] * size;
    size *= map.counts[d];
  }
  int64_t index[RANKS] = {}, flat = clip.start;
  for (;;) {
    each(in_box, flat);
    int d = 1;
    for (; d < map.rank; d++) {
      in_box += box_pitch[d];
      flat += pitch[d];
      if (++index[d] < clip.shape[d])
        break;
      in_box -= box_pitch[d] * clip.shape[d];
      flat -= pitch[d] * clip.shape[d];
      index[d] = 0;
    }
    if (d >= map.rank)
      return;
  }
}

// Calls `each(offset in the box, flat position)` for each chunk of a swizzled box.
template <class Each> void each_chunk(const TensorMap& map, int64_t flat, Each each) {
  const int64_t start = flat % PATTERN, base = flat - start, bits = map.swizzle - map.atom;
  const int shift = map.atom == 16 ? 3 : map.atom == 32 ? 2 : 1;
  int64_t offset = 0;
  for (int64_t row = start; offset < map.box_bytes; row += map.swizzle)
    for (int64_t byte = 0; byte < map.row_bytes; byte += CHUNK, offset += CHUNK) {
      const int64_t address = row + byte;
      each(offset, base + (address ^ (address >> shift & bits)));
    }
}

// Copy a chunk whose place in shared memory is that byte.
void copy_chunk(const TensorMap& map, int64_t place, const uint8_t* from, uint8_t* to) {
  const int other = map.flips && place & LINE ? CHUNK / 2 : 0;
  std::memcpy(to, from + other, CHUNK / 2);
  std::memcpy(to + CHUNK / 2, from + CHUNK / 2 - other, CHUNK / 2);
}

}  // namespace

bool decode(const uint8_t* image, TensorMap& into) {
  into = TensorMap{};
  into.im2col = !std::memcmp(image, IM2COL, 8);
  if ((!into.im2col && std::memcmp(image, TILED, 8)) ||
      at<uint32_t>(image, 124) != crc32(image, 124))
    return false;
  const int dtype = image[8], rank = image[9], swizzle = image[10], atoms = image[14];
  if (dtype >= int(std::size(ELEMENT_BYTES)) || rank < (into.im2col ? 3 : 1) || rank > RANKS ||
      swizzle >= int(std::size(SWIZZLES)) || atoms >= int(std::size(ATOMS)) ||
      (atoms && SWIZZLES[swizzle] != 128) || image[11] > 2 || image[12] > 3 || image[13] > 1)
    return false;
  into.rank = rank;
  into.element_bytes = ELEMENT_BYTES[dtype];
  into.swizzle = SWIZZLES[swizzle];
  into.atom = ATOMS[atoms];
  into.flips = atoms == 2;
  into.interleaved = image[11] != 0;
  into.nan = image[13] == 1;
  into.address = at<int64_t>(image, 16);
  for (int d = 0; d < rank; d++) {
    into.dims[d] = int64_t(at<uint32_t>(image, 24 + 4 * d)) + 1;
    into.pitches[d] = d ? at<int64_t>(image, 48 + 8 * (d - 1)) : into.element_bytes;
    into.steps[d] = d ? image[(into.im2col ? 96 : 90) + d] : 1;
    if (!into.steps[d] || into.pitches[d] < 0 || into.pitches[d] >> 40)
      return false;
  }
  for (int d = 0; into.im2col && d < rank - 2; d++) {
    into.lower[d] = at<int16_t>(image, 84 + 2 * d);
    into.last[d] = into.dims[1 + d] - 1 + at<int16_t>(image, 90 + 2 * d);
  }
  into.box_rank = into.im2col ? 2 : rank;
  into.box_bytes = into.element_bytes;
  for (int d = 0; d < into.box_rank; d++) {
    const int64_t box = at<uint16_t>(image, 80 + 2 * d);
    if (!box)
      return false;
    into.counts[d] = into.im2col ? box : ceil_div(box, into.steps[d]);
    into.box_bytes *= into.counts[d];
    if (into.box_bytes >> 24)  // no shared memory holds it
      return false;
  }
  into.row_bytes = into.counts[0] * into.element_bytes;
  const int64_t pitch = into.swizzle ? into.swizzle : into.row_bytes;
  into.shared_bytes = into.box_bytes / into.row_bytes * pitch;
  into.dense = pitch == into.row_bytes;
  return into.row_bytes % CHUNK == 0 && into.row_bytes <= pitch && into.address >= 0;
}

namespace {

// The pixels of a column that lie in the tensor, and its channels.
bool clip_column(const TensorMap& map, const int32_t* corner, const int32_t* offsets,
                 int64_t base, Clip& into) {
  const int images = map.rank - 1;
  int64_t at[RANKS], first = 0;
  for (int d = 1; d < map.rank; d++)
    at[d] = corner[d];
  into.low[0] = std::max<int64_t>(0, -int64_t(corner[0]));
  into.shape[0] =
      std::max<int64_t>(0, std::min(map.counts[0], map.dims[0] - corner[0]) - into.low[0]);
  into.low[1] = 0;
  into.pixels.clear();
  for (int64_t number = 0; number < map.counts[1] && into.shape[0]; number++) {
    __int128 flat = base + (corner[0] + into.low[0]) * map.pitches[0];
    bool inside = true;
    for (int d = 1; d < map.rank; d++) {
      const int64_t read = at[d] + (d < images ? offsets[d - 1] : 0);
      inside &= read >= 0 && read < map.dims[d];
      flat += __int128(read) * map.pitches[d];
    }
    if (inside) {
      if (flat != int64_t(flat))
        return false;
      into.pixels.push_back({number, int64_t(flat)});
      first = into.pixels.size() == 1 ? int64_t(flat) : std::min(first, int64_t(flat));
    }
    int d = 1;
    for (; d < images; d++) {
      at[d] += map.steps[d];
      if (at[d] <= map.last[d - 1])
        break;
      at[d] = map.lower[d - 1];
    }
    at[images] += d == images ? map.steps[images] : 0;
  }
  into.shape[1] = int64_t(into.pixels.size());
  into.start = first;
  into.empty = into.pixels.empty();
  return true;
}

}  // namespace

bool is_taken(const TensorMap& map, const int32_t* corner, const int32_t* offsets, bool write) {
  if (int64_t(corner[0]) * map.element_bytes % CHUNK)
    return false;
  for (int d = 0; d < map.rank; d++)
    if (write && corner[d] < 0)
      return false;
  for (int d = 0; map.im2col && d < map.rank - 2; d++)
    if (corner[1 + d] < map.lower[d] || corner[1 + d] > map.last[d] ||
        offsets[d] >> OFFSET_BITS[map.rank] ||
        (write && (map.lower[d] < 0 || map.last[d] >= map.dims[1 + d])))
      return false;
  return true;
}

bool clip(const TensorMap& map, const int32_t* corner, const int32_t* offsets, int64_t base,
          Clip& into) {
  if (map.im2col)
    return clip_column(map, corner, offsets, base, into);
  __int128 start = base;
  into.empty = false;
  for (int d = 0; d < map.rank; d++) {
    const int64_t first = std::max<int64_t>(0, -floor_div(corner[d], map.steps[d]));
    const int64_t last = std::min(map.counts[d], ceil_div(map.dims[d] - corner[d], map.steps[d]));
    into.low[d] = first;
    into.shape[d] = std::max<int64_t>(last - first, 0);
    into.empty |= !into.shape[d];
    start += (__int128(corner[d]) + __int128(first) * map.steps[d]) * map.pitches[d];
  }
  into.start = int64_t(start);
  return into.empty || start == into.start;
}

int64_t extent(const TensorMap& map, const Clip& clip) {
  int64_t size = clip.shape[0] * map.element_bytes;
  if (map.im2col) {
    int64_t last = clip.start;
    for (const Pixel& pixel : clip.pixels)
      last = std::max(last, pixel.flat);
    return last - clip.start + size;
  }
  for (int d = 1; d < map.rank; d++)
    size += (clip.shape[d] - 1) * map.pitches[d] * map.steps[d];
  return size;
}

void rows(const TensorMap& map, const Clip& clip, std::vector<int64_t>& starts, int64_t& size) {
  size = clip.shape[0] * map.element_bytes;
  starts.clear();
  each_row(map, clip, [&](int64_t, int64_t flat) { starts.push_back(flat); });
}

void load(const TensorMap& map, const Clip& clip, const uint8_t* memory, uint8_t* box) {
  bool whole = !clip.empty;
  for (int d = 0; d < map.box_rank; d++)
    whole &= clip.shape[d] == map.counts[d];
  if (!whole && map.nan)
    for (int64_t n = 0; n < map.box_bytes; n++)
      box[n] = NAN_FILL[n & 1];
  else if (!whole)
    std::memset(box, 0, size_t(map.box_bytes));
  if (clip.empty)
    return;
  const size_t size = size_t(clip.shape[0] * map.element_bytes);
  each_row(map, clip,
           [&](int64_t in_box, int64_t flat) { std::memcpy(box + in_box, memory + flat, size); });
}

void store(const TensorMap& map, const Clip& clip, const uint8_t* box, uint8_t* memory,
           uint8_t* written) {
  if (clip.empty)
    return;
  const size_t size = size_t(clip.shape[0] * map.element_bytes);
  each_row(map, clip, [&](int64_t in_box, int64_t flat) {
    std::memcpy(memory + flat, box + in_box, size);
    std::memset(written + flat, 1, size);
  });
}

void put(const TensorMap& map, int64_t flat, const uint8_t* box, uint8_t* shared,
         uint8_t* written) {
  if (map.dense)
    std::memset(written + flat, 1, size_t(map.box_bytes));
  if (!map.swizzle) {
    std::memcpy(shared + flat, box, size_t(map.box_bytes));
    return;
  }
  each_chunk(map, flat, [&](int64_t offset, int64_t place) {
    copy_chunk(map, place, box + offset, shared + place);
    if (!map.dense)
      std::memset(written + place, 1, CHUNK);
  });
}

void take(const TensorMap& map, int64_t flat, const uint8_t* shared, uint8_t* box) {
  if (!map.swizzle) {
    std::memcpy(box, shared + flat, size_t(map.box_bytes));
    return;
  }
  each_chunk(map, flat, [&](int64_t offset, int64_t place) {
    copy_chunk(map, place, shared + place, box + offset);
  });
}

void moved(const TensorMap& map, const Clip& clip, int64_t flat, std::vector<uint8_t>& into) {
  std::vector<uint8_t> box(size_t(map.box_bytes));
  const size_t size = size_t(clip.shape[0] * map.element_bytes);
  if (!clip.empty)
    each_row(map, clip, [&](int64_t in_box, int64_t) { std::memset(&box[size_t(in_box)], 1, size); });
  const int64_t start = flat % PATTERN;
  std::vector<uint8_t> shared(size_t(start + map.shared_bytes)), marks(shared.size());
  put(map, start, box.data(), shared.data(), marks.data());
  into.assign(shared.begin() + start, shared.end());
}

void places(const TensorMap& map, int64_t flat, std::vector<int64_t>& starts, int64_t& size) {
  starts.clear();
  if (!map.swizzle || map.dense) {
    starts.push_back(flat);
    size = map.box_bytes;
    return;
  }
  size = CHUNK;
  each_chunk(map, flat, [&](int64_t, int64_t place) { starts.push_back(place); });
}

const TensorMap* Maps::find(const uint8_t* image) {
  const uint32_t checksum = at<uint32_t>(image, 124);
  const auto range = known.equal_range(checksum);
  for (auto one = range.first; one != range.second; ++one)
    if (!std::memcmp(one->second.image, image, MAP_BYTES))
      return one->second.is_map ? &one->second.map : nullptr;
  if (known.size() >= 4096)  // bytes that are no map may be anything
    return nullptr;
  Known made;
  std::memcpy(made.image, image, MAP_BYTES);
  made.is_map = decode(image, made.map);
  const Known& kept = known.emplace(checksum, made)->second;
  return kept.is_map ? &kept.map : nullptr;
}

}  // namespace emu

extern "C" {

// One copy for a test: a box at `corner` of the tensor at flat byte `base` to shared memory at
// `at`, and from there into `out`; -1 for no map. `offsets` are of im2col. The bytes of the box are
// returned.
int64_t core_copy_box(const uint8_t* image, const int32_t* corner, const int32_t* offsets,
                      int64_t base, const uint8_t* memory, int64_t at, uint8_t* shared, uint8_t* shared_written,
                      uint8_t* out, uint8_t* out_written) {
  using namespace emu;
  Maps maps;
  const TensorMap* map = maps.find(image);
  Clip part;
  if (!map || !clip(*map, corner, offsets, base, part))
    return -1;
  std::vector<uint8_t> box(size_t(map->box_bytes)), back(size_t(map->box_bytes));
  load(*map, part, memory, box.data());
  put(*map, at, box.data(), shared, shared_written);
  take(*map, at, shared, back.data());
  store(*map, part, back.data(), out, out_written);
  return map->box_bytes;
}

// The rows of that box in the tensor, or its places in shared memory, for a test: how many.
int64_t core_box_places(const uint8_t* image, const int32_t* corner, const int32_t* offsets,
                        int64_t base, int64_t at, int in_shared, int64_t* starts, int64_t* size) {
  using namespace emu;
  Maps maps;
  const TensorMap* map = maps.find(image);
  Clip part;
  if (!map || !clip(*map, corner, offsets, base, part))
    return -1;
  std::vector<int64_t> found;
  if (in_shared)
    places(*map, at, found, *size);
  else if (!part.empty)
    rows(*map, part, found, *size);
  std::copy(found.begin(), found.end(), starts);
  return int64_t(found.size());
}
}
