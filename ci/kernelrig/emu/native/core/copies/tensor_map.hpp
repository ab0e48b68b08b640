// Tensor maps and their boxes: kernelrig.emu.tensor.tensor_map, and the parts of tensor_copy that
// move bytes.
//
// How it works. A map is decoded once from its 128 bytes (`Maps`). A box at some coordinates is a
// `Clip`: what of it lies in the tensor. The box of a map of im2col is a column: its rows are the
// pixels that the map walks through (tensor.im2col_map). `load` makes a whole box of bytes, those out of bounds
// filled in; `store` writes what is in bounds. In shared memory a box lies in chunks of 16 bytes,
// which the swizzle permutes by their absolute address.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace emu {

constexpr int MAP_BYTES = 128;
constexpr int CHUNK = 16;
constexpr int64_t LINE = 128;  // bytes whose chunks a swizzle permutes alike
constexpr int RANKS = 5;
constexpr int CORNERS = 3;  // dimensions of the largest bounding box

struct TensorMap {
  int rank;
  int element_bytes;
  int swizzle;  // bytes of the row that it permutes, 0 for none
  int atom;     // bytes that it keeps together
  bool flips;   // the halves of each chunk change places in odd lines
  bool interleaved;
  bool im2col;
  bool nan;  // what is out of bounds is NaN, not zero
  int64_t address;
  // By dimension, the fastest first: elements of the tensor, bytes from one to the next, elements
  // from one of a box to its next, elements of a box.
  // Of im2col the elements of a box are channels and pixels, and the bounding box of the second
  // dimension on goes from `lower` to `last`.
  int64_t dims[RANKS], pitches[RANKS], steps[RANKS], counts[RANKS];
  int box_rank;  // dimensions of a box
  int64_t lower[CORNERS], last[CORNERS];
  int64_t box_bytes, row_bytes, shared_bytes;
  bool dense;  // a box leaves nothing out of the shared memory that it needs

  // tensor.swizzle.Swizzle.number.
  int swizzle_number() const { return (swizzle ? swizzle : 16) | atom << 8 | flips << 16; }
};

// A pixel of a column: its place in it, and the flat byte of its first channel.
struct Pixel {
  int64_t number, flat;
};

// A part of a box: from element `low`, `shape` elements. `start` is the flat byte of its first. Of a
// column `shape` has the channels and how many pixels, which are `pixels`.
struct Clip {
  int64_t low[RANKS], shape[RANKS];
  int64_t start;
  bool empty;
  std::vector<Pixel> pixels;
};

// Decode 128 bytes; false where they are no map, or one that only Python looks at.
bool decode(const uint8_t* image, TensorMap& into);

// Whether hardware takes a copy that starts there.
bool is_taken(const TensorMap& map, const int32_t* corner, const int32_t* offsets, bool write);

// What of the box at those coordinates lies in the tensor, which begins at the flat byte `base`;
// `offsets` are of im2col. False where its position is no number of 64 bits.
bool clip(const TensorMap& map, const int32_t* corner, const int32_t* offsets, int64_t base,
          Clip& into);

// The bytes from the first to the last of a clip that is not empty.
int64_t extent(const TensorMap& map, const Clip& clip);

// The flat byte of each row of a clip that is not empty, and how many bytes a row has.
void rows(const TensorMap& map, const Clip& clip, std::vector<int64_t>& starts, int64_t& size);

// Make the box; `rows` are those of the clip.
void load(const TensorMap& map, const Clip& clip, const uint8_t* memory, uint8_t* box);

// Write what is in bounds of a box, and mark it written.
void store(const TensorMap& map, const Clip& clip, const uint8_t* box, uint8_t* memory,
           uint8_t* written);

// A box in shared memory at the flat byte `at`, a multiple of 128.
void put(const TensorMap& map, int64_t at, const uint8_t* box, uint8_t* shared, uint8_t* written);
void take(const TensorMap& map, int64_t at, const uint8_t* shared, uint8_t* box);

// Where its bytes lie: the starts of chunks, or one start of all.
void places(const TensorMap& map, int64_t at, std::vector<int64_t>& starts, int64_t& size);

// Which bytes of a box in shared memory a store moves, from `at` on: the clip's.
void moved(const TensorMap& map, const Clip& clip, int64_t at, std::vector<uint8_t>& into);

// Maps by their bytes.
class Maps {
public:
  // The map that those bytes are, null for none. It stays where it is.
  const TensorMap* find(const uint8_t* image);

private:
  struct Known {
    uint8_t image[MAP_BYTES];
    TensorMap map;
    bool is_map;
  };
  std::unordered_multimap<uint32_t, Known> known;  // by checksum
};

}  // namespace emu
